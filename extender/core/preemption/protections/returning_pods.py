"""Find the pods that would come back to their node: evicting them frees nothing for long.

A pod of a workload comes back if its nodeSelector, its required node affinity and the volumes of its claims leave only
the node on which it runs; or if another pod of the workload is about to run on that node: it is nominated to it, or
bound to it and not started yet. A pod without a controller is not recreated.

Rule: taints and room are not looked at; they keep pods away for a time only.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from extender.core.framework.constraint import SchedulingContext
from extender.core.framework.plugins.shared.volume_matching import compile_volume_affinity
from extender.core.framework.plugins.volume_restrictions import ClaimUserIndex
from extender.core.snapshot.arrays import BoolArray, grown
from extender.core.snapshot.derived import derived
from extender.core.snapshot.selector_index import nodes_matching
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.core.snapshot.volume_index import storage
from extender.core.snapshot.workloads import NO_GROUP, WorkloadIndex
from extender.k8s.kinds import Key
from extender.k8s.objects import Node, Pod
from extender.k8s.selectors import NodeMatcher, Requirement, required_node_affinity
from extender.k8s.storage.volumes import claim_uses
from extender.k8s.workloads import is_recreated, workload_of

_Watched = str | tuple[str, str] | None
"""Change after which pods are decided on again: of the node of that name, of one that has the label, or of any."""


@dataclass(eq=False, slots=True)
class _Group:
    """Running pods whose specs and volumes leave the same nodes."""

    matchers: tuple[NodeMatcher, ...]
    """All of them match these nodes."""
    rows: dict[int, None] = field(default_factory=dict)
    only_node: str | None = None
    """Name of the only node that is left; None: there are more, or none."""
    watched: Sequence[_Watched] = ()


class ReturningPodIndex(Index):
    """Running pods that only one node takes, and those that are about to start.

    Pods are decided on by groups, and a group again where a change of a node may concern it: two nodes that take its
    pods show that it is not bound to one, so that it follows these, or else the labels that every such node has.
    """

    reads = ("claims", "volumes", "nodes")
    pod_parts = frozenset({"spec", "owners", "annotations", "status"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._users = snapshot.index(ClaimUserIndex)
        self._claims_of: defaultdict[str, set[Key]] = defaultdict(set)
        """Name of a volume -> claims that name it."""
        self._choosy: dict[int, _Group | None] = {}
        """Pods that a controller recreates and whose specs leave out nodes, but for those that name their node."""
        self._without_group: dict[int, None] = {}
        """Those of `_choosy` whose group is to be found."""
        self._groups: dict[tuple[NodeMatcher, ...], _Group] = {}
        self._watching: defaultdict[_Watched, dict[_Group, None]] = defaultdict(dict)
        self._undecided: dict[_Group, None] = {}
        self._pinned: BoolArray = np.zeros(64, np.bool_)
        """[pod]: True if its own node alone takes it."""
        self.starting: dict[int, None] = {}
        """Pods that a controller recreates and that are bound and not started yet."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._pinned = grown(self._pinned, row, 0)
        if not is_recreated(pod):
            return
        if _named_nodes(pod) == {pod.spec.node_name}:  # as the DaemonSet controller has it
            self._pinned[row] = True
        elif _is_choosy(pod):
            self._choosy[row] = self._without_group[row] = None
        if pod.status.phase == "Pending" and pod.status.start_time is None:
            self.starting[row] = None

    def pod_removed(self, row: int, _pod: Pod) -> None:
        self._leave_group(row)
        for rows in (self._choosy, self._without_group, self.starting):
            rows.pop(row, None)

    def object_changed(self, field: str, before: Any, after: Any) -> None:
        changed = after or before
        if field == "nodes":
            self._node_changed(changed, before, after)
        elif field == "volumes":
            for claim in self._claims_of.get(changed.metadata.name, ()):
                self._claim_changed(claim)
        else:
            claim = changed.metadata.namespace, changed.metadata.name
            if before is not None:
                named = self._claims_of[before.spec.volume_name]
                named.discard(claim)
                if not named:
                    del self._claims_of[before.spec.volume_name]
            if after is not None:
                self._claims_of[after.spec.volume_name].add(claim)
            self._claim_changed(claim)

    def _claim_changed(self, claim: Key) -> None:
        for row in self._users.users.get(claim[1], ()):
            if row in self._choosy:
                self._leave_group(row)
                self._without_group[row] = None

    def _node_changed(self, node: Node, before: Node | None, after: Node | None) -> None:
        old, new = ((one.metadata.labels or {}) if one is not None else None for one in (before, after))
        if old != new:  # a heartbeat changes no label
            for watched in (node.metadata.name, None, *(new or {}).items()):
                self._undecided.update(self._watching.get(watched, {}))

    def settled(self) -> None:
        """Find the groups of new pods, and decide on groups that are new or that a change of a node may concern."""
        groups: dict[object, _Group] = {}
        for row in self._without_group:
            spec = self.snapshot.pods[row].spec
            # Pods of a template share these parts.
            template = row if spec.volumes else (id(spec.node_selector), id(spec.affinity))
            if template not in groups:
                groups[template] = self._group_of(self.snapshot.pods[row])
            group = self._choosy[row] = groups[template]
            group.rows[row] = None
            self._pinned[row] = spec.node_name == group.only_node
        self._without_group.clear()
        for group in self._undecided:
            self._decide(group)
        self._undecided.clear()

    def _group_of(self, pod: Pod) -> _Group:
        matchers = tuple(_matchers(self.snapshot, pod))
        if matchers not in self._groups:
            group = self._groups[matchers] = _Group(matchers)
            self._undecided[group] = None
        return self._groups[matchers]

    def _decide(self, group: _Group) -> None:
        masks = [nodes_matching(self.snapshot, matcher) for matcher in group.matchers]
        takers = np.flatnonzero(np.logical_and.reduce(masks))[:2].tolist() if masks else []
        names = [self.snapshot.node_names[row] for row in takers]
        self._unwatch(group)
        group.watched = names if len(names) == 2 or not masks else (*names, *_labels(self.snapshot, group.matchers))
        for watched in group.watched:
            self._watching[watched][group] = None
        only_node = names[0] if len(names) == 1 else None
        if only_node != group.only_node:
            group.only_node = only_node
            for row in group.rows:
                self._pinned[row] = self.snapshot.pods[row].spec.node_name == only_node

    def _leave_group(self, row: int) -> None:
        self._pinned[row] = False
        group = self._choosy.get(row)
        if group is not None:
            self._choosy[row] = None
            del group.rows[row]
            if not group.rows:
                self._unwatch(group)
                self._undecided.pop(group, None)
                del self._groups[group.matchers]

    def _unwatch(self, group: _Group) -> None:
        for watched in group.watched:
            self._watching[watched].pop(group, None)
            if not self._watching[watched]:
                del self._watching[watched]

    def pinned(self, size: int) -> BoolArray:
        """Return [pod]: whether its own node alone takes its replacement, of the first `size` rows."""
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
    others = (
        other.key
        for other in _arrivals(snapshot).get(place, ())
        if other.metadata.uid != context.pod.metadata.uid and snapshot.running_row(other) != row
    )
    first = min(others, default=None)  # whichever came first: a replay may not know
    return None if first is None else f"{first} of the same workload is about to run on node {pod.spec.node_name}"


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


def _matchers(snapshot: Snapshot, pod: Pod) -> Iterator[NodeMatcher]:
    """Yield what must match the nodes that the pod's spec and its volumes leave."""
    required = required_node_affinity(pod)
    if required is not None:
        yield required
    for use in claim_uses(pod):
        claim = storage(snapshot).claim(pod, use.name) if not use.is_ephemeral else None
        volume = storage(snapshot).volume(claim.spec.volume_name) if claim is not None else None
        affinity = volume.spec.node_affinity if volume is not None else None
        if affinity is not None:
            yield compile_volume_affinity(affinity)


def _labels(snapshot: Snapshot, matchers: Sequence[NodeMatcher]) -> list[tuple[str, str] | None]:
    """Return labels such that every node that all `matchers` match has one of them, as rare ones as possible.

    None stands for any labels, where the matchers ask for no values.
    """
    rarest, least = list[tuple[str, str] | None]([None]), len(snapshot.nodes) + 1
    for matcher in matchers:
        for terms in ([matcher.selector.requirements], [term.labels for term in matcher.terms or ()]):
            asked = [[one for one in term if one.operator == "In"] for term in terms]
            if asked and all(asked):
                chosen = [min(term, key=lambda one: _nodes_with(snapshot, one)) for term in asked]
                nodes = sum(_nodes_with(snapshot, one) for one in chosen)
                if nodes < least:
                    rarest, least = [(one.key, value) for one in chosen for value in one.values], nodes
    return rarest


def _nodes_with(snapshot: Snapshot, one: Requirement) -> int:
    return int(np.count_nonzero(snapshot.label(one.key).holds(one)))


def _named_nodes(pod: Pod) -> set[str]:
    """Return the nodes that the required node affinity names in its only term; empty if it does not name them so."""
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None
    terms = (required.node_selector_terms or []) if required is not None else []
    fields = (terms[0].match_fields or []) if len(terms) == 1 else []
    named = [set(one.values or ()) for one in fields if one.key == "metadata.name" and one.operator == "In"]
    return set.intersection(*named) if named else set()
