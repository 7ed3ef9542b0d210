"""Which nodes and which running pods a selector means.

Nodes are asked label by label, each distinct value once; pods once per namespace and label set. What was found is
remembered in the snapshot, so that pods made from one template ask once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from extender.core.snapshot import BoolArray, IntArray, PodGroupKey, Snapshot
from extender.k8s.affinity import PodSelector
from extender.k8s.selectors import FieldRequirement, LabelMatcher, NodeMatcher, NodeTerm, Requirement

# --- nodes ----------------------------------------------------------------------------------------------------------


def nodes_matching(snapshot: Snapshot, matcher: NodeMatcher) -> BoolArray:
    """[node]: may a pod with this nodeSelector and required node affinity use it?"""
    return snapshot.memo_by(_nodes_matching, matcher)


def _nodes_matching(snapshot: Snapshot, matcher: NodeMatcher) -> BoolArray:
    found = nodes_with_labels(snapshot, matcher.selector)
    if matcher.terms is not None:
        found &= nodes_in_any_term(snapshot, matcher.terms)
    return found


def nodes_in_any_term(snapshot: Snapshot, terms: Iterable[NodeTerm]) -> BoolArray:
    """[node]."""
    found = np.zeros(len(snapshot.nodes), np.bool_)
    for term in terms:
        found |= nodes_in_term(snapshot, term)
    return found


def nodes_in_term(snapshot: Snapshot, term: NodeTerm) -> BoolArray:
    """[node]: does every requirement of the term hold?"""
    found = _all_hold(snapshot, term.labels)
    for field in term.fields:
        found &= _nodes_with_field(snapshot, field)
    return found


def _nodes_with_field(snapshot: Snapshot, field: FieldRequirement) -> BoolArray:
    named = np.zeros(len(snapshot.nodes), np.bool_)
    if field.key == "metadata.name":
        if field.value in snapshot.node_row:
            named[snapshot.node_row[field.value]] = True
    elif not field.value:
        named[:] = True  # a field that does not exist is the empty text
    return ~named if field.negated else named


def nodes_with_labels(snapshot: Snapshot, matcher: LabelMatcher) -> BoolArray:
    """[node]: do its labels satisfy the selector?"""
    if matcher.is_nothing:
        return np.zeros(len(snapshot.nodes), np.bool_)
    return _all_hold(snapshot, matcher.requirements)


def _all_hold(snapshot: Snapshot, requirements: Iterable[Requirement]) -> BoolArray:
    found = np.ones(len(snapshot.nodes), np.bool_)
    for requirement in requirements:
        found &= snapshot.label(requirement.key).holds(requirement)
    return found


# --- running pods ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodGroups:
    """Running pods by namespace and label set."""

    of_namespace: Mapping[str, Sequence[tuple[PodGroupKey, IntArray]]]
    """Namespace -> its groups, each with its pod rows."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """Take it from `snapshot.memo`."""
        coded = snapshot.pod_groups
        order = np.argsort(coded.codes, kind="stable")
        ends = np.cumsum(np.bincount(coded.codes, minlength=len(coded.values))).tolist()
        of_namespace: dict[str, list[tuple[PodGroupKey, IntArray]]] = defaultdict(list)
        for group, start, end in zip(coded.values, [0, *ends], ends, strict=False):
            of_namespace[group.namespace].append((group, order[start:end]))
        return cls(of_namespace)

    def in_namespaces(self, names: frozenset[str] | None) -> Iterator[tuple[PodGroupKey, IntArray]]:
        """Of these namespaces; None: of all."""
        for name in self.of_namespace if names is None else names:
            yield from self.of_namespace.get(name, ())


def _only_namespaces(selectors: Iterable[PodSelector]) -> frozenset[str] | None:
    """Where all of the selectors may mean anybody at all; None: anywhere."""
    naming = [one.namespaces for one in selectors if not one.namespace_selector.matches(None)]
    return frozenset.intersection(*naming) if naming else None


@dataclass(frozen=True, slots=True)
class Pods:
    """Some running pods."""

    rows: IntArray
    nodes: IntArray
    """[place in rows] -> node row."""
    lasting: IntArray
    """[node]: how many of them are not terminating."""


def pods_matching(snapshot: Snapshot, *selectors: PodSelector) -> Pods:
    """The running pods that all selectors mean; namespaceSelectors see no namespace labels here."""
    return snapshot.memo_by(_pods_matching, selectors)


def _pods_matching(snapshot: Snapshot, selectors: tuple[PodSelector, ...]) -> Pods:
    groups = snapshot.memo(PodGroups.of)
    found = [
        rows
        for group, rows in groups.in_namespaces(_only_namespaces(selectors))
        if all(one.matches(group.namespace, group.labels, None) for one in selectors)
    ]
    rows = np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)
    nodes = snapshot.pod_node[rows]
    lasting = np.bincount(nodes[~snapshot.terminating[rows]], minlength=len(snapshot.nodes))
    return Pods(rows, nodes, lasting)
