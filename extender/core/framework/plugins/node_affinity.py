"""NodeAffinity: nodeSelector and required node affinity must match; preferred terms add up.

Mirrors pkg/scheduler/framework/plugins/nodeaffinity (v1.36).
"""

import numpy as np

from extender.core.framework.constraint import NodeRows, SchedulingContext, StaticCheck
from extender.core.framework.plugins.normalize import normalize
from extender.core.framework.plugins.prefilter import PreFilterResult
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.selector_index import nodes_in_term, nodes_matching
from extender.k8s.objects import NodeSelector, NodeSelectorTerm
from extender.k8s.selectors import SelectorError, compile_node_selector, preferred_score, required_node_affinity

NAME = "NodeAffinity"
REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ADDED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


def _required_terms(context: SchedulingContext) -> list[NodeSelectorTerm]:
    affinity = context.pod.spec.affinity
    required: NodeSelector | None = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    return (required.node_selector_terms or []) if required else []


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """The only nodes that can match, if every term names nodes; a rejection if the terms name none in common."""
    terms = _required_terms(context)
    names: set[str] = set()
    for term in terms:
        named = _named_nodes(term)
        if named is None:
            return PreFilterResult()
        names |= named
    if not terms:
        return PreFilterResult()
    if not names:
        return PreFilterResult.rejecting(NAME, REASON_CONFLICT)
    return PreFilterResult(node_names=frozenset(names))


def _named_nodes(term: NodeSelectorTerm) -> set[str] | None:
    """The nodes that a term's metadata.name requirements leave; None if it has none."""
    named = [
        set(field.values or ())
        for field in term.match_fields or ()
        if field.key == "metadata.name" and field.operator == "In"
    ]
    return set.intersection(*named) if named else None


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """The profile's added affinity and the pod's own, each a check of its own."""
    checks = []
    added = context.profile.added_affinity
    if added is not None and added.required is not None:
        matching = nodes_matching(context.snapshot, compile_node_selector(added.required))
        checks.append(StaticCheck(NAME, ~matching, (REASON_ADDED,)))
    own = required_node_affinity(context.pod)
    if own is not None:
        checks.append(StaticCheck(NAME, ~nodes_matching(context.snapshot, own), (REASON,)))
    return tuple(checks)


def score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """[row] 0-100 by the weights of the matching preferred terms; None (skipped) if there are no terms."""
    affinity = context.pod.spec.affinity
    own = (affinity.node_affinity.preferred if affinity and affinity.node_affinity else None) or None
    added = (context.profile.added_affinity.preferred if context.profile.added_affinity else None) or None
    if own is None and added is None:
        return None
    try:
        preferred = preferred_score([*(own or ()), *(added or ())])
    except SelectorError:
        return None  # kube-scheduler fails such a pod in PreScore; we leave the plugin out
    scores = np.zeros(len(context.snapshot.nodes), np.int64)
    for weight, term in preferred.terms:
        scores += weight * nodes_in_term(context.snapshot, term)
    return normalize(scores[rows])
