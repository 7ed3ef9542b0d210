"""Say why an assigned pod is where it is, by the nodes judged as if it had none yet.

Rule: nothing is judged here.
"""

from collections.abc import Sequence

from extender.k8s.objects import Pod
from extender.k8s.workloads import is_mirror
from extender.report.pod_schema import NodeDiagnosis, Placement, PluginStatus

MAX_RUNNERS_UP = 3
"""Other nodes that are compared with the pod's own."""


def placement_of(pod: Pod, nodes: Sequence[NodeDiagnosis]) -> Placement:
    """Return how the pod's node compares with the others."""
    own = next((one for one in nodes if one.name == pod.spec.node_name), None)
    others = [one for one in nodes if one.scores is not None and one is not own]
    others.sort(key=lambda one: (-_total(one), one.name))
    return Placement(
        node=pod.spec.node_name,
        status=None if own is None else PluginStatus(code=own.code, plugin=own.plugin, reasons=own.reasons),
        scores=None if own is None else own.scores,
        runners_up=[one.name for one in others[:MAX_RUNNERS_UP]],
        is_static=is_mirror(pod),
    )


def placement_sentence(pod: Pod, placement: Placement, nodes: Sequence[NodeDiagnosis], *, has_profile: bool) -> str:
    """Return the sentence about an assigned pod; without a profile it was not judged."""
    here, status = f"{pod.key} is on {placement.node}", placement.status
    if placement.is_static:
        return f"{here}: its kubelet runs it as a static pod, and kube-scheduler did not place it"
    if not has_profile:
        return f'{here}; no profile has its schedulerName "{pod.spec.scheduler_name}": another scheduler placed it'
    if status is None:
        return f"{here}, a node that the cluster does not have any more"
    if status.code != "Success":
        why = ", ".join(status.reasons)
        return f"{here}, where it would not fit any more: {why}; kube-scheduler does not move a pod for that"
    return f"{here}, {_rank(placement, nodes)}"


def _rank(placement: Placement, nodes: Sequence[NodeDiagnosis]) -> str:
    feasible, own = sum(one.code == "Success" for one in nodes), placement.scores
    if len(nodes) == 1:
        return "the only node of the cluster"
    if feasible == 1:
        return f"the only one of {len(nodes)} nodes on which it fits"
    if own is None:  # a score plugin fails
        return f"one of {feasible} nodes on which it fits"
    best = next(one for one in nodes if one.name == placement.runners_up[0])
    others = f"of {feasible} nodes on which it fits now"
    if own.rank > 1:
        ahead = f"{best.name} would score {_total(best)} now, and {placement.node} {own.total}"
        return f"number {own.rank} {others}: {ahead}; kube-scheduler does not move a pod for that"
    if _total(best) == own.total:
        return f"which has the highest score {others}, {own.total}, as {best.name} has"
    return f"which has the highest score {others}: {own.total}, before {best.name} with {_total(best)}"


def _total(node: NodeDiagnosis) -> int:
    return 0 if node.scores is None else node.scores.total
