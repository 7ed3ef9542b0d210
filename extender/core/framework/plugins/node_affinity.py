"""NodeAffinity: nodeSelector and required node affinity must match; the weights of matching preferred terms are summed.

Mirrors pkg/scheduler/framework/plugins/nodeaffinity (v1.36).
"""

import numpy as np

from extender.core.framework.filter_checks import StaticCheck
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import PreFilterResult
from extender.core.snapshot.arrays import IntArray, NodeRows
from extender.core.snapshot.selector_index import nodes_in_term, nodes_matching
from extender.k8s.selectors import SelectorError, compile_node_selector, compile_preferred_terms, required_node_affinity

NAME = "NodeAffinity"
REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ADDED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Return the node names that the required terms allow; all nodes if a term names no nodes.

    Rejects the pod if no term allows a node, that is, if the names within each term exclude one another.
    """
    affinity, names = context.pod.spec.affinity, set[str]()
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    terms = (required.node_selector_terms or []) if required else []
    for term in terms:
        fields = [one for one in term.match_fields or () if one.key == "metadata.name" and one.operator == "In"]
        if not fields:
            return PreFilterResult()
        # Requirements of a term are ANDed, terms are ORed.
        names |= set.intersection(*(set(field.values or ()) for field in fields))
    if not terms:
        return PreFilterResult()
    if not names:
        return PreFilterResult.rejecting(NAME, REASON_CONFLICT)
    return PreFilterResult(node_names=frozenset(names))


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return a check for the profile's addedAffinity and one for the pod's own affinity, where present."""
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
    """Return [row]: sum of the weights of the matching preferred terms; None (Skip) without preferred terms."""
    affinity = context.pod.spec.affinity
    own = (affinity.node_affinity.preferred if affinity and affinity.node_affinity else None) or None
    added = (context.profile.added_affinity.preferred if context.profile.added_affinity else None) or None
    if own is None and added is None:
        return None
    try:
        preferred = compile_preferred_terms([*(own or ()), *(added or ())])
    except SelectorError:
        return None  # divergence: kube-scheduler fails such a pod in PreScore; here the plugin is skipped
    scores = np.zeros(len(context.snapshot.nodes), np.int64)
    for weight, term in preferred:
        scores += weight * nodes_in_term(context.snapshot, term)
    return scores[rows]
