"""NodeAffinity: nodeSelector and required node affinity must match; preferred terms add up.

Mirrors pkg/scheduler/framework/plugins/nodeaffinity (v1.36).
"""

from collections.abc import Iterable

import numpy as np

from extender.core.checks import Incoming, Rows, StaticCheck
from extender.core.plugins.normalize import normalize
from extender.core.plugins.prefilter import PreFilter
from extender.core.snapshot import IntArray, Snapshot
from extender.core.verdict import Code, Verdict
from extender.k8s.objects import NodeSelector, NodeSelectorTerm
from extender.k8s.selectors import SelectorError, compile_node_selector, preferred_score, required_node_affinity

NAME = "NodeAffinity"
REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ADDED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


def _required(incoming: Incoming) -> NodeSelector | None:
    affinity = incoming.pod.spec.affinity
    return affinity.node_affinity.required if affinity and affinity.node_affinity else None


def _terms(selector: NodeSelector | None) -> list[NodeSelectorTerm]:
    return (selector.node_selector_terms or []) if selector else []


def prefilter(incoming: Incoming) -> PreFilter:
    """The only nodes that can match, if every term names nodes; a rejection if the terms name none in common."""
    names: set[str] = set()
    for term in _terms(_required(incoming)):
        named = _named_nodes(term)
        if named is None:
            return PreFilter()
        names |= named
    if not _terms(_required(incoming)):
        return PreFilter()
    if not names:
        return PreFilter(rejection=Verdict(Code.UNRESOLVABLE, NAME, (REASON_CONFLICT,)))
    return PreFilter(nodes=frozenset(names))


def _named_nodes(term: NodeSelectorTerm) -> set[str] | None:
    """The nodes that a term's metadata.name requirements leave; None if it has none."""
    named = [
        set(field.values or ())
        for field in term.match_fields or ()
        if field.key == "metadata.name" and field.operator == "In"
    ]
    return set.intersection(*named) if named else None


class _Groups:
    """Nodes that look the same to some selector terms: each is asked of once."""

    def __init__(self, snapshot: Snapshot, terms: Iterable[NodeSelectorTerm], keys: Iterable[str] = ()) -> None:
        terms = list(terms)
        wanted = dict.fromkeys([*keys, *(e.key for term in terms for e in term.match_expressions or ())])
        columns = [snapshot.label(key) for key in wanted]
        if any(term.match_fields for term in terms):
            group = np.arange(len(snapshot.nodes))
        else:
            group = np.zeros(len(snapshot.nodes), np.int64)
            for column in columns:
                group = np.unique(group * len(column.values) + column.codes, return_inverse=True)[1]
        _, self.first, self.group = np.unique(group, return_index=True, return_inverse=True)
        self.snapshot = snapshot

    def examples(self) -> Iterable[tuple[dict[str, str], str]]:
        """(labels, name) of the first node of each group."""
        for row in self.first:
            yield self.snapshot.nodes[row].metadata.labels or {}, self.snapshot.node_names[row]


def filter(incoming: Incoming) -> tuple[StaticCheck, ...]:
    """The profile's added affinity and the pod's own, each a check of its own."""
    checks = []
    added = incoming.profile.added_affinity
    if added is not None and added.required is not None:
        matcher = compile_node_selector(added.required)
        groups = _Groups(incoming.snapshot, _terms(added.required))
        rejected = [not matcher.matches(labels, name) for labels, name in groups.examples()]
        checks.append(StaticCheck(NAME, np.array(rejected, np.bool_)[groups.group], REASON_ADDED))
    own = required_node_affinity(incoming.pod)
    if own is not None:
        groups = _Groups(incoming.snapshot, _terms(_required(incoming)), incoming.pod.spec.node_selector or ())
        rejected = [not own.matches(labels, name) for labels, name in groups.examples()]
        checks.append(StaticCheck(NAME, np.array(rejected, np.bool_)[groups.group], REASON))
    return tuple(checks)


def score(incoming: Incoming, rows: Rows) -> IntArray | None:
    """[row] 0-100 by the weights of the matching preferred terms; None (skipped) if there are no terms."""
    affinity = incoming.pod.spec.affinity
    own = (affinity.node_affinity.preferred if affinity and affinity.node_affinity else None) or None
    added = (incoming.profile.added_affinity.preferred if incoming.profile.added_affinity else None) or None
    if own is None and added is None:
        return None
    terms = [*(own or ()), *(added or ())]
    try:
        scorer = preferred_score(terms)
    except SelectorError:
        return None  # kube-scheduler fails such a pod in PreScore; we leave the plugin out
    groups = _Groups(incoming.snapshot, [term.preference for term in terms])
    scores = np.array([scorer.score(labels, name) for labels, name in groups.examples()], np.int64)
    return normalize(scores[groups.group][rows])
