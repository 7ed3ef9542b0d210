"""Find the nodes and the running pods that a selector matches.

A requirement is checked once per distinct value of a node label, and a pod selector once per namespace and label set.
Results are cached until nodes or pods change, so that pods of one template share them.

Rule: results equal those of checking every node and pod one by one.
"""

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from extender.core.snapshot.arrays import BoolArray, IntArray, RowSet
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.affinity import PodSelector
from extender.k8s.objects import Labels, LabelsKey, Pod, labels_key
from extender.k8s.selectors import FieldRequirement, LabelMatcher, NodeMatcher, NodeTerm, Requirement
from extender.utilities.groups import remove_member

MAX_REQUIREMENTS_ONE_BY_ONE = 64
"""Selectors with more requirements than this in total are matched by a SelectorTable instead of one by one."""

Signature = tuple[int, ...]
"""Indexes of the posting lists for a label set: label sets with equal signatures match the same selectors."""

_Rows = npt.NDArray[np.int32]

# --- nodes ----------------------------------------------------------------------------------------------------------


@derived_by("nodes")
def nodes_matching(snapshot: Snapshot, matcher: NodeMatcher) -> BoolArray:
    """Return [node]: whether the node matches the pod's nodeSelector and required node affinity."""
    found = nodes_with_labels(snapshot, matcher.selector)
    if matcher.terms is not None:
        found &= nodes_in_any_term(snapshot, matcher.terms)
    return found


def nodes_in_any_term(snapshot: Snapshot, terms: Iterable[NodeTerm]) -> BoolArray:
    """Return [node]: whether the node matches at least one of the terms."""
    found = np.zeros(len(snapshot.nodes), np.bool_)
    for term in terms:
        found |= nodes_in_term(snapshot, term)
    return found


def nodes_in_term(snapshot: Snapshot, term: NodeTerm) -> BoolArray:
    """Return [node]: whether the node matches every requirement of the term."""
    return _all_hold(snapshot, (*term.labels, *term.fields))


def nodes_meeting(snapshot: Snapshot, wanted: Requirement | FieldRequirement) -> BoolArray:
    """Return [node]: whether the node meets the requirement."""
    if isinstance(wanted, Requirement):
        return snapshot.label(wanted.key).holds(wanted)
    # An unknown field has the value "", as upstream.
    named = np.full(len(snapshot.nodes), wanted.key != "metadata.name" and not wanted.value)
    if wanted.key == "metadata.name" and wanted.value in snapshot.node_row:
        named[snapshot.node_row[wanted.value]] = True
    return ~named if wanted.negated else named


def nodes_with_labels(snapshot: Snapshot, matcher: LabelMatcher) -> BoolArray:
    """Return [node]: whether the node's labels match the selector."""
    if matcher.is_nothing:
        return np.zeros(len(snapshot.nodes), np.bool_)
    return _all_hold(snapshot, matcher.requirements)


def _all_hold(snapshot: Snapshot, requirements: Iterable[Requirement | FieldRequirement]) -> BoolArray:
    found = np.ones(len(snapshot.nodes), np.bool_)
    for requirement in requirements:
        found &= nodes_meeting(snapshot, requirement)
    return found


# --- many selectors --------------------------------------------------------------------------------------------------


class Postings:
    """Lists of numbers by key, as slices of one array: millions of small lists would take too much memory."""

    __slots__ = ("_keys", "_number_of", "_numbers", "_offsets")

    def __init__(self) -> None:
        self._number_of: dict[Hashable, int] = {}
        self._keys, self._numbers = array("i"), array("i")
        self._offsets: tuple[_Rows, npt.NDArray[np.int64]] | None = None

    def add(self, key: Hashable, number: int) -> None:
        self._keys.append(self._number_of.setdefault(key, len(self._number_of)))
        self._numbers.append(number)
        self._offsets = None

    def find(self, key: Hashable) -> int | None:
        """Return the index of the key's list; None if the key has no list."""
        return self._number_of.get(key)

    def lists(self, indices: Iterable[int]) -> _Rows:
        """Return the concatenated contents of the lists with these indexes."""
        if self._offsets is None:
            keys = np.array(self._keys, np.int32)
            in_order = np.array(self._numbers, np.int32)[np.argsort(keys, kind="stable")]
            counts = np.bincount(keys, minlength=len(self._number_of))
            self._offsets = in_order, np.concatenate(([0], np.cumsum(counts)))
        numbers, offsets = self._offsets
        found = [numbers[offsets[index] : offsets[index + 1]] for index in indices]
        return np.concatenate(found) if found else numbers[:0]


class SelectorTable:
    """Label selectors, one per row, that are matched with a label set all at once.

    Each label is looked up in the posting lists of requirements that it meets or breaks. So the time depends on the
    labels and the requirements that name them, not on the other selectors.
    """

    def __init__(self, selectors: Iterable[LabelMatcher] = ()) -> None:
        self._needed = array("i")
        """[selector]: number of its requirements that only a label can meet; -1 if it matches nothing."""
        self._postings = Postings()
        """(label key, value), or (label key, None) for any value -> rows whose requirement the label meets, and ~row
        for rows whose requirement it breaks."""
        for selector in selectors:
            self.add(selector)

    def add(self, selector: LabelMatcher) -> None:
        """Append a selector."""
        row, needed = len(self._needed), -1 if selector.is_nothing else 0
        for one in () if selector.is_nothing else selector.requirements:
            is_positive = one.operator in ("In", "Exists")
            needed += is_positive
            for value in one.values or (None,):
                self._postings.add((one.key, value), row if is_positive else ~row)
        self._needed.append(needed)

    def signature(self, labels: Mapping[str, str]) -> Signature:
        """Return the indexes of the posting lists for these labels."""
        find = self._postings.find
        found = (find(key) for one in labels.items() for key in (one, (one[0], None)))
        return tuple([index for index in found if index is not None])

    def matching(self, signature: Signature) -> BoolArray:
        """Return [selector]: whether it matches label sets with this signature."""
        needed = np.asarray(self._needed)
        matches: BoolArray = needed == 0
        if signature:
            touched = self._postings.lists(signature)
            met = touched[touched >= 0]
            matches[met] = np.bincount(met, minlength=len(needed))[met] == needed[met]
            matches[~touched[touched < 0]] = False
        return matches


# --- running pods ---------------------------------------------------------------------------------------------------


class KeyIndex(Index, ABC):
    """Running pods by keys in their specs, such as host ports; one subclass per kind of key."""

    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.users: dict[Any, Counter[int]] = {}
        """Key -> pod row -> number of times that the pod has the key."""

    @abstractmethod
    def keys_of(self, pod: Pod) -> Iterable[Hashable]:
        """Return the keys of a pod."""

    def pod_added(self, row: int, pod: Pod) -> None:
        for key in self.keys_of(pod):
            self.key_added(key, row)

    def key_added(self, key: Any, row: int) -> None:
        self.users.setdefault(key, Counter())[row] += 1

    def pod_removed(self, row: int, pod: Pod) -> None:
        for key in set(self.keys_of(pod)):
            remove_member(self.users, key, row)


class LabelGroup(RowSet):
    """Running pods of one namespace that have the same labels: a selector matches all of them or none."""

    __slots__ = ("key", "labels", "namespace", "selected_by")

    def __init__(self, namespace: str, labels: Labels, key: LabelsKey) -> None:
        super().__init__()
        self.namespace = namespace
        self.labels = labels
        self.key = key
        self.selected_by: dict[Hashable, frozenset[int]] = {}
        """Meaning of empty selectors -> rows of budgets that select the group; written by `preemption.pdb.index`."""


NO_GROUP = LabelGroup("", {}, labels_key({}))
"""Placeholder in free rows."""


class LabelGroups(Index):
    """Label groups of the running pods, by namespace and by pod."""

    pod_parts = frozenset({"labels"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.by_namespace: dict[str, dict[LabelsKey, LabelGroup]] = {}
        self.of_pod: list[LabelGroup] = []
        """[pod]: its group, NO_GROUP where a row is free."""
        # Pods of one template share their labels (`cluster.watch.decode` interns them), so most groups are found
        # without a key of all labels. A group holds its labels, so their id is not reused.
        self._by_identity: dict[tuple[str, int], LabelGroup] = {}
        """(namespace, `id()` of the group's labels) -> group."""

    def pod_added(self, row: int, pod: Pod) -> None:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels or {}
        group = self._by_identity.get((namespace, id(labels)))
        if group is None:
            here, key = self.by_namespace.setdefault(namespace, {}), labels_key(labels)
            group = here.get(key)
            if group is None:
                group = here[key] = self._by_identity[namespace, id(labels)] = LabelGroup(namespace, labels, key)
        group.add(row)
        if row >= len(self.of_pod):
            self.of_pod += [NO_GROUP] * (row + 1 - len(self.of_pod))
        self.of_pod[row] = group

    def pod_removed(self, row: int, _pod: Pod) -> None:
        group, self.of_pod[row] = self.of_pod[row], NO_GROUP
        group.remove(row)
        if not group.members:
            del self._by_identity[group.namespace, id(group.labels)]
            remove_member(self.by_namespace, group.namespace, group.key)

    def in_namespaces(self, names: frozenset[str] | None) -> Iterator[LabelGroup]:
        """Yield the groups of these namespaces; None for all namespaces."""
        for name in self.by_namespace if names is None else names:
            yield from self.by_namespace.get(name, {}).values()


@dataclass(frozen=True, slots=True)
class MatchingPods:
    """Running pods that a selector matches."""

    rows: IntArray
    """Pod rows, ascending."""
    nodes: IntArray
    """[index in rows]: node row."""
    non_terminating: IntArray
    """[node]: number of these pods that are not terminating."""


def pods_matching(snapshot: Snapshot, *selectors: PodSelector) -> MatchingPods:
    """Return the running pods that all selectors match; namespaceSelectors are matched without namespace labels."""
    return _pods_matching(snapshot, selectors)


@derived_by("pods", "pod_labels")
def _pods_matching(snapshot: Snapshot, selectors: tuple[PodSelector, ...]) -> MatchingPods:
    naming = [one.namespaces for one in selectors if not one.namespace_selector.matches(None)]
    groups = snapshot.index(LabelGroups).in_namespaces(frozenset.intersection(*naming) if naming else None)
    found = [group.rows for group in _groups_matching(groups, [one.selector for one in selectors])]
    rows = np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)
    nodes = snapshot.pod_node[rows]
    non_terminating = np.bincount(nodes[~snapshot.pod_table.terminating[rows]], minlength=len(snapshot.nodes))
    return MatchingPods(rows, nodes, non_terminating)


def _groups_matching(groups: Iterable[LabelGroup], selectors: Sequence[LabelMatcher]) -> Iterator[LabelGroup]:
    """Yield the groups whose labels all selectors match."""
    if sum(len(one.requirements) for one in selectors) <= MAX_REQUIREMENTS_ONE_BY_ONE:
        yield from (group for group in groups if all(one.matches(group.labels) for one in selectors))
        return
    # Groups with the same signature are matched once: the selectors cannot tell their labels apart.
    table, matches = SelectorTable(selectors), dict[Signature, bool]()
    for group in groups:
        signature = table.signature(group.labels)
        if signature not in matches:
            matches[signature] = bool(table.matching(signature).all())
        if matches[signature]:
            yield group
