"""Which nodes and which running pods a selector means.

Nodes are asked label by label, each distinct value once; pods once per namespace and label set. What was found is
remembered in the snapshot, so that pods made from one template ask once.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from extender.core.snapshot import BoolArray, IntArray, Snapshot
from extender.k8s.affinity import PodSelector
from extender.k8s.selectors import FieldRequirement, LabelMatcher, NodeMatcher, NodeTerm

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
    found = np.ones(len(snapshot.nodes), np.bool_)
    for requirement in term.labels:
        found &= snapshot.label(requirement.key).holds(requirement)
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
    found = np.full(len(snapshot.nodes), not matcher.is_nothing, np.bool_)
    for requirement in matcher.requirements:
        found &= snapshot.label(requirement.key).holds(requirement)
    return found


# --- running pods ---------------------------------------------------------------------------------------------------


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
    chosen = snapshot.pod_groups.lift(
        lambda group: all(one.matches(group.namespace, group.labels, None) for one in selectors)
    )
    rows = np.flatnonzero(chosen)
    nodes = snapshot.pod_node[rows]
    lasting = np.bincount(nodes[~snapshot.terminating[rows]], minlength=len(snapshot.nodes))
    return Pods(rows, nodes, lasting)
