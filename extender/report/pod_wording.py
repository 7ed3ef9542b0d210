"""Say in one plain sentence what kube-scheduler would decide about a pod, and why.

Rule: words only; kube-scheduler's own message stands beside the sentence.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from extender.cluster.list.pod_history import PreemptedBy
from extender.core.preemption.eligibility import PREEMPTION_POLICY_NEVER, TERMINATING_POD_ON_NOMINATED_NODE
from extender.core.scheduling_cycle.schedule_one import Cycle
from extender.k8s.objects import Pod
from extender.k8s.workloads import is_mirror
from extender.report.pod_schema import NodeDiagnosis, Placement, PluginStatus, PodState, PreemptionOutcome
from extender.report.wording import NOT_TRIED, REJECTED_BY
from extender.utilities.text import join_counts, join_names, pluralize

MAX_LISTED = 3
"""Pods or nodes that a sentence names."""

MAX_PHRASES = 6
"""Reasons that a sentence lists."""

_INSUFFICIENT = "Insufficient "


def phrase_of(code: str, plugin: str, reasons: Iterable[str]) -> str:
    """Return what is said of a node with this status, to stand behind a number of nodes."""
    message = ", ".join(reasons)
    if code == "Error":
        return f"on which a plugin fails ({message})"
    if plugin == "NodeResourcesFit":
        short = [one.removeprefix(_INSUFFICIENT) for one in reasons if one.startswith(_INSUFFICIENT)]
        if short:
            return f"with too little {' and '.join(short)}"
        return "that run as many pods as they may" if "Too many pods" in reasons else f"with {message}"
    return REJECTED_BY.get(plugin, f"rejected by {plugin} ({message})")


def reason_phrases(nodes: Iterable[NodeDiagnosis]) -> str:
    """Render `5 with too little cpu, 1 cordoned`, the most common reason first."""
    counts = Counter(phrase_of(one.code, one.plugin, tuple(one.reasons)) for one in nodes if one.code != "Success")
    return join_counts(sorted(counts.items(), key=lambda item: (-item[1], item[0])), MAX_PHRASES)


def fits_sentence(cycle: Cycle, total: int) -> str:
    """Return the sentence about a pod that fits."""
    pod, ties = cycle.pod.key, 1 if cycle.score is None else cycle.score.tied
    where = f"{pod} fits on {cycle.feasible} of {pluralize(total, 'node')}"
    if cycle.pod.status.nominated_node_name == cycle.node:
        return f"{pod} fits on {cycle.node}, to which it is nominated"
    if cycle.feasible == 1:
        return f"{where}: {cycle.node}"
    tied = f", one of {ties} with the highest score" if ties > 1 else ", which has the highest score"
    return f"{where}; kube-scheduler would bind it to {cycle.node}{tied}"


def rejected_sentence(cycle: Cycle, nodes: list[NodeDiagnosis], prefilter: str, preemption: PreemptionOutcome) -> str:
    """Return the sentence about a pod that fits on no node; `prefilter`: the message that rejects it everywhere."""
    pod = cycle.pod.key
    if not nodes:
        return f"{pod} fits nowhere: the cluster has no nodes"
    if cycle.post_filter is None:
        return f"{pod} is not scheduled: {cycle.message}"
    where = f"{pod} fits on none of {len(nodes)} nodes: {prefilter or reason_phrases(nodes)}"
    if len(nodes) == 1:
        where = f"{pod} does not fit on {nodes[0].name}: {prefilter or ', '.join(nodes[0].reasons)}"
    return f"{where}; {_preemption_clause(cycle.pod, preemption)}"


def _preemption_clause(pod: Pod, found: PreemptionOutcome) -> str:
    if found.node is not None:
        victims = [victim.pod for victim in found.victims]
        broken = f" ({found.num_pdb_violations} against a disruption budget)" if found.num_pdb_violations else ""
        return f"evicting {join_names(victims, MAX_LISTED)} from {found.node}{broken} would make room"
    if found.vetoed is not None:
        return f"your policies allow no eviction for it ({found.vetoed})"
    if PREEMPTION_POLICY_NEVER in found.message:
        return "it may not evict others (preemptionPolicy: Never)"
    if TERMINATING_POD_ON_NOMINATED_NODE in found.message:
        return f"it waits until the pods evicted for it on {pod.status.nominated_node_name} are gone"
    return "no eviction would make room"


def not_tried_sentence(state: PodState, pod: str, message: str) -> str:
    """Return the sentence about a pod that kube-scheduler does not try."""
    return NOT_TRIED[state].format(pod=pod, message=message)


def evicted_sentence(pod: str, by: PreemptedBy) -> str:
    """Return the sentence about a pod that was evicted: which pod took its place, and where that one is now."""
    where = f" on {by.node}" if by.node else ""
    if by.preemptor is None:
        return f"{pod} was preempted{where}: {by.message}"
    if not by.preemptor_exists:
        return f"{pod} was preempted{where} by {by.preemptor}, which does not exist any more"
    now = "is waiting"
    if by.preemptor_node:
        now = f"is {'on' if by.is_running else 'nominated to'} {by.preemptor_node}"
    return f"{pod} was preempted{where} by {by.preemptor}, which {now}"


# --- a pod that has its node -----------------------------------------------------------------------------------------

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
