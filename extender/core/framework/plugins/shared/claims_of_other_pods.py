"""Fail on nodes where a pod uses a claim that was created for another pod's generic ephemeral volume.

The volume limit plugins read the claims of all pods on a node, and end the scheduling cycle if a pod uses such a
claim: one created by hand, or for an earlier pod, under the name that the pod's own claim would have.

Mirrors ephemeral.VolumeIsForPod in pkg/scheduler/framework/plugins/nodevolumelimits (v1.36).
"""

from dataclasses import dataclass

import numpy as np

from extender.core.framework.filter_checks import ColumnwiseConstraint, StaticCheck
from extender.core.framework.plugins.shared.attached_volumes import AttachedVolumeIndex
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code, Status, filter_error
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import not_found, storage
from extender.k8s.objects import Pod
from extender.k8s.storage.volumes import claim_uses, is_for_pod, not_for_pod_message


def unusable_claim(context: SchedulingContext, plugin: str) -> StaticCheck | None:
    """Return a check if a claim of the incoming pod is unusable; VolumeBinding, if enabled, rejects the pod first."""
    pod = context.pod
    for use in claim_uses(pod):
        claim = storage(context.snapshot).claim(pod, use.name)
        if claim is None:
            missing = not_found("persistentvolumeclaim", use.name)
            reason = f"looking up PVC {pod.metadata.namespace}/{use.name}: {missing}"
            return StaticCheck.on_all_nodes(context, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, plugin, (reason,)))
        if use.is_ephemeral and not is_for_pod(claim, pod):
            return StaticCheck.on_all_nodes(context, filter_error(plugin, not_for_pod_message(claim, pod)))
    return None


@dataclass(frozen=True)
class _OtherPodsClaims(ColumnwiseConstraint):
    """A constraint with one column: minus the number of the node's pods that use another pod's claim."""

    errors: tuple[str, ...]
    first: IntArray
    """[node]: index in `errors` of the error that the first such pod causes."""
    lasting: IntArray
    """[node]: the same for the first such pod that the incoming pod cannot evict; `first` if it can evict all."""

    code = Code.ERROR

    def reason_keys(self, headroom: IntArray, rows: NodeRows) -> IntArray:
        has_all = headroom[0, rows] <= self.headroom[0, rows]
        return np.where(has_all, self.first[rows], self.lasting[rows])

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        (key,) = self.reason_keys(headroom, np.array([row])).tolist()
        return (self.errors[key],) if headroom[0, row] < 0 else ()


def other_pods_claims(context: SchedulingContext, plugin: str, nodes: BoolArray) -> tuple[_OtherPodsClaims, ...]:
    """Return a constraint that fails on the `nodes` [node] where a pod uses another pod's claim; usually none."""
    snapshot = context.snapshot
    rows = [row for row in sorted(snapshot.index(AttachedVolumeIndex).others_claims) if nodes[snapshot.pod_node[row]]]
    nominees = [pod for pod in context.nominees if _error(snapshot, pod, plugin)]
    if not rows and not nominees:
        return ()
    errors: dict[str, int] = {"": 0}
    first, lasting = np.zeros((2, len(snapshot.nodes)), np.int64)
    placed = [(int(snapshot.pod_node[row]), snapshot.pods[row]) for row in rows]
    for node, pod in placed + [(snapshot.node_row[pod.status.nominated_node_name], pod) for pod in nominees]:
        number = errors.setdefault(_error(snapshot, pod, plugin), len(errors))
        first[node] = first[node] or number
        if pod.priority >= context.pod.priority:
            lasting[node] = lasting[node] or number
    demand = snapshot.pod_amounts(dict.fromkeys(rows, 1))
    return (
        _OtherPodsClaims(
            plugin,
            -demand.per_node(len(snapshot.nodes))[np.newaxis],
            RankedDemand(context.layout, (demand,)),
            context.nominated_demand(1, lambda pod, node: [int(bool(nodes[node]) and pod in nominees)]),
            tuple(errors),
            first,
            np.where(lasting == 0, first, lasting),
        ),
    )


def _error(snapshot: Snapshot, pod: Pod, plugin: str) -> str:
    """Return the error that the pod's first use of another pod's claim causes; "" if it uses none."""
    for use in claim_uses(pod):
        claim = storage(snapshot).claim(pod, use.name) if use.is_ephemeral else None
        if claim is not None and not is_for_pod(claim, pod):
            return filter_error(plugin, not_for_pod_message(claim, pod)).message
    return ""
