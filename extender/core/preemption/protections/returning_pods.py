"""Find the pods that would come back to their node: evicting them frees nothing for long.

A pod of a workload comes back if its nodeSelector, its required node affinity and the volumes of its claims leave only
the node on which it runs; or if another pod of the workload is about to run on that node: it is nominated to it, or
bound to it and not started yet. A pod without a controller is not recreated.

Rule: taints and room are not looked at; they keep pods away for a time only.
"""

from collections import defaultdict
from typing import Any

import msgspec
import numpy as np

from extender.core.framework.constraint import SchedulingContext
from extender.core.framework.plugins.volume_matching import affinity_matches
from extender.core.framework.plugins.volume_restrictions import ClaimUserIndex
from extender.core.snapshot.arrays import BoolArray, grown
from extender.core.snapshot.derived import derived
from extender.core.snapshot.selector_index import nodes_matching
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.core.snapshot.volume_index import storage
from extender.core.snapshot.workloads import NO_GROUP, WorkloadIndex
from extender.k8s.objects import Pod
from extender.k8s.selectors import required_node_affinity
from extender.k8s.storage.volumes import claim_uses
from extender.k8s.workloads import is_recreated, workload_of

_ENCODER = msgspec.msgpack.Encoder()
_MAX_KEPT_MASKS = 64


class ReturningPodIndex(Index):
    """Running pods that only one node takes, and those that are about to start."""

    reads = ("claims", "volumes")
    pod_parts = frozenset({"spec", "owners", "annotations", "status"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._claims = snapshot.index(ClaimUserIndex)
        self._choosy: dict[int, None] = {}
        """Pods that a controller recreates and whose specs leave out nodes, but for those that name their node."""
        self._pinned: BoolArray = np.zeros(64, np.bool_)
        """[pod]: True if its own node alone takes it."""
        self._to_decide: dict[int, None] = {}
        """Those of `_choosy` for which `_pinned` is to be decided."""
        self._decided_for: object = None
        self.starting: dict[int, None] = {}
        """Pods that a controller recreates and that are bound and not started yet."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._pinned = grown(self._pinned, row, 0)
        if not is_recreated(pod):
            return
        if _named_nodes(pod) == {pod.spec.node_name}:  # as the DaemonSet controller has it
            self._pinned[row] = True
        elif _is_choosy(pod):
            self._choosy[row] = self._to_decide[row] = None
        if pod.status.phase == "Pending" and pod.status.start_time is None:
            self.starting[row] = None

    def pod_removed(self, row: int, _pod: Pod) -> None:
        self._pinned[row] = False
        for rows in (self._choosy, self._to_decide, self.starting):
            rows.pop(row, None)

    def object_changed(self, field: str, before: Any, after: Any) -> None:
        """Decide again on the pods that use the claim, or the claim that the volume is reserved for."""
        changed = after or before
        claim = changed.metadata if field == "claims" else changed.spec.claim_ref
        rows = self._choosy if claim is None else self._claims.users.get(claim.name, ())
        self._to_decide.update((row, None) for row in rows if row in self._choosy)

    def pinned(self, size: int) -> BoolArray:
        """Return [pod]: whether its own node alone takes its replacement, of the first `size` rows."""
        current = _nodes(self.snapshot)
        if self._decided_for is not current:
            self._decided_for = current
            self._to_decide = self._choosy.copy()
        takers: dict[object, BoolArray] = {}
        for row in self._to_decide:
            self._pinned[row] = _is_pinned(
                self.snapshot, self.snapshot.pods[row], int(self.snapshot.pod_node[row]), takers
            )
        self._to_decide = {}
        self._pinned = grown(self._pinned, size - 1, 0)
        return self._pinned[:size]


def returning_pods(context: SchedulingContext, size: int) -> BoolArray:
    """Return [pod]: whether it would come back to its node, of the first `size` rows."""
    snapshot = context.snapshot
    returning, workloads = snapshot.index(ReturningPodIndex).pinned(size).copy(), snapshot.index(WorkloadIndex)
    for (number, node), arriving in _arrivals(snapshot).items():
        pods = snapshot.layout.pod[:, node]
        pods = pods[(pods >= 0) & (workloads.of_pod[pods] == number)]
        own = [snapshot.running_row(pod) for pod in arriving if pod.metadata.uid != context.pod.metadata.uid]
        if len(own) == 1:  # it does not protect itself
            pods = pods[pods != (-1 if own[0] is None else own[0])]
        returning[pods if own else pods[:0]] = True
    return returning


def why_it_returns(context: SchedulingContext, pod: Pod) -> str | None:
    """Return why the pod would come back to its node; None: it would not, or it does not run."""
    snapshot = context.snapshot
    row = snapshot.running_row(pod)
    if row is None:
        return None
    if snapshot.index(ReturningPodIndex).pinned(row + 1)[row]:
        return f"its replacement can only run on node {pod.spec.node_name}"
    place = int(snapshot.index(WorkloadIndex).of_pod[row]), int(snapshot.pod_node[row])
    for other in _arrivals(snapshot).get(place, ()):
        if other.metadata.uid != context.pod.metadata.uid and snapshot.running_row(other) != row:
            return f"{other.key} of the same workload is about to run on node {pod.spec.node_name}"
    return None


@derived("any")
def _arrivals(snapshot: Snapshot) -> dict[tuple[int, int], list[Pod]]:
    """Return (workload number, node row) -> pods that are about to run on the node beside others of their workload."""
    workloads, found = snapshot.index(WorkloadIndex), defaultdict[tuple[int, int], list[Pod]](list)
    for row in snapshot.index(ReturningPodIndex).starting:
        found[int(workloads.of_pod[row]), int(snapshot.pod_node[row])].append(snapshot.pods[row])
    for pod in snapshot.nominees:
        number = workloads.number_of(workload_of(pod)) if is_recreated(pod) else NO_GROUP
        if number != NO_GROUP:
            found[number, snapshot.node_row[pod.status.nominated_node_name]].append(pod)
    return found


def _is_choosy(pod: Pod) -> bool:
    """Return whether the pod's spec may leave out nodes."""
    affinity = pod.spec.affinity
    is_required = affinity is not None and affinity.node_affinity is not None
    return bool(pod.spec.node_selector) or is_required or any(True for _ in claim_uses(pod))


def _is_pinned(snapshot: Snapshot, pod: Pod, node: int, takers: dict[object, BoolArray]) -> bool:
    """Return whether the pod's own node is the only one that its spec and its volumes leave.

    `takers`: what spec or volume -> [node]: whether it takes the pod, of the pods that are decided on together.
    """
    masks = []
    if len(takers) >= _MAX_KEPT_MASKS:
        takers.clear()
    # Pods of a template share these parts.
    of_spec = id(pod.spec.node_selector), id(pod.spec.affinity)
    required = None if of_spec in takers else required_node_affinity(pod)
    if required is not None:
        takers[of_spec] = nodes_matching(snapshot, required)
    if of_spec in takers:
        masks.append(takers[of_spec])
    for use in claim_uses(pod):
        claim = storage(snapshot).claim(pod, use.name) if not use.is_ephemeral else None
        volume = storage(snapshot).volume(claim.spec.volume_name) if claim is not None else None
        affinity = volume.spec.node_affinity if volume is not None else None
        if affinity is not None:
            of_volume = _ENCODER.encode(affinity)
            if of_volume not in takers:
                takers[of_volume] = affinity_matches(snapshot, affinity)
            masks.append(takers[of_volume])
    if not masks or not all(mask[node] for mask in masks):
        return False
    taken: BoolArray = masks[0] if len(masks) == 1 else np.logical_and.reduce(masks)
    return int(np.count_nonzero(taken)) == 1


def _named_nodes(pod: Pod) -> set[str]:
    """Return the nodes that the required node affinity names in its only term; empty if it does not name them so."""
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None
    terms = (required.node_selector_terms or []) if required is not None else []
    fields = (terms[0].match_fields or []) if len(terms) == 1 else []
    named = [set(one.values or ()) for one in fields if one.key == "metadata.name" and one.operator == "In"]
    return set.intersection(*named) if named else set()


@derived("nodes")
def _nodes(_snapshot: Snapshot) -> object:
    """Return a value that is another one once nodes came or went, or a label of one changed."""
    return object()
