"""Facts about the node itself: cordon, name, taints, labels, declared features.

NodeUnschedulable, NodeName, TaintToleration, NodeAffinity and NodeDeclaredFeatures.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from heapq import nsmallest
from itertools import chain
from typing import Literal

import numpy as np
from msgspec.structs import replace

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins.node_declared_features import declared_features, required_features
from extender.core.snapshot.selector_index import nodes_in_any_term, nodes_matching, nodes_meeting
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import ObjectMeta, Taint, Toleration
from extender.k8s.selectors import (
    HARD_EFFECTS,
    FieldRequirement,
    NodeMatcher,
    Requirement,
    compile_node_selector,
    required_node_affinity,
    tolerates,
)
from extender.report.facts.schema import (
    MAX_LISTED,
    AnyFact,
    DeclaredFeatureFact,
    FactsOf,
    NodeNameFact,
    NodeRequirementFact,
    TaintFact,
    UnschedulableFact,
)

MAX_REQUIREMENTS = 3
"""Maximum number of requirements of a term that facts name."""

_NAME_FIELD = "metadata.name"


def cordon_facts(_evaluation: Evaluation) -> FactsOf:
    """Say that the node is cordoned: the plugin has no other reason."""
    return lambda _row: (UnschedulableFact(),)


def node_name_facts(evaluation: Evaluation) -> FactsOf:
    """Name the node that the pod asks for."""
    wanted, row_of = evaluation.context.pod.spec.node_name, evaluation.context.snapshot.node_row
    fact = NodeNameFact(name=wanted, exists=wanted in row_of)
    return lambda row: [fact] if wanted and row != row_of.get(wanted) else []


def taint_facts(evaluation: Evaluation) -> FactsOf:
    """Name every taint that the pod does not tolerate; kube-scheduler's reason names the first one, or none."""
    context, taints = evaluation.context, evaluation.context.snapshot.taints
    compares = context.features.taint_toleration_comparison_operators
    # A pod may have thousands of tolerations: only those of the taint's key, or of any key, are compared with it.
    tolerations = defaultdict[str, dict[Toleration, None]](dict)
    for one in context.pod.spec.tolerations or ():
        tolerations[one.key][one] = None

    def is_tolerated(taint: Taint) -> bool:
        found = chain(tolerations.get("", ()), tolerations.get(taint.key, ()))
        return any(tolerates(one, taint, compares=compares) for one in found)

    @cache
    def of_list(code: int) -> list[TaintFact]:
        return [
            TaintFact(key=taint.key, value=taint.value, effect=taint.effect)
            for taint in taints.values[code]
            if taint.effect in HARD_EFFECTS and not is_tolerated(taint)
        ]

    return lambda row: of_list(int(taints.codes[row]))


def declared_feature_facts(evaluation: Evaluation) -> FactsOf:
    """Name the features that the pod needs and the node does not declare."""
    context = evaluation.context
    declared = declared_features(context.snapshot)

    def fact(name: str) -> DeclaredFeatureFact:
        return DeclaredFeatureFact(feature=name, declaring=int(declared.map_bool(lambda own: name in own).sum()))

    facts = {name: fact(name) for name in sorted(required_features(context.pod, context.features))}
    return lambda row: [fact for name, fact in facts.items() if name not in declared.values[declared.codes[row]]]


# --- labels -----------------------------------------------------------------------------------------------------------

Source = Literal["nodeSelector", "nodeAffinity", "addedAffinity"]


def node_affinity_facts(evaluation: Evaluation) -> FactsOf:
    """Name the requirements that the node fails: of addedAffinity if it fails that one, as the plugin does."""
    context, added = evaluation.context, evaluation.context.profile.added_affinity
    snapshot, own = context.snapshot, required_node_affinity(context.pod)
    matchers: list[tuple[Source, NodeMatcher]] = [] if own is None else [("nodeAffinity", own)]
    if added is not None and added.required is not None:
        matchers.insert(0, ("addedAffinity", compile_node_selector(added.required)))
    found = [(~nodes_matching(snapshot, matcher), _failures(snapshot, source, matcher)) for source, matcher in matchers]

    def facts(row: int) -> Sequence[AnyFact]:
        return next((failures(row) for rejected, failures in found if rejected[row]), ())

    return facts


def _failures(snapshot: Snapshot, source: Source, matcher: NodeMatcher) -> FactsOf:
    """Return the requirements that a node fails, of a matcher that rejects it."""
    of_selector = _requirements(snapshot, "nodeSelector", matcher.selector.requirements)
    terms = matcher.terms or ()
    fails_terms = ~nodes_in_any_term(snapshot, terms)
    of_terms = [
        _requirements(snapshot, source, (*term.labels, *term.fields), number, len(terms))
        for number, term in enumerate(terms[:MAX_LISTED], 1)
    ]

    def facts(row: int) -> Sequence[AnyFact]:
        if matcher.terms is None or not fails_terms[row]:
            return of_selector(row)
        found = [fact for failures in (of_selector, *of_terms) for fact in failures(row)]
        return found if terms else [*found, NodeRequirementFact(source=source)]

    return facts


def _requirements(
    snapshot: Snapshot,
    source: Source,
    requirements: Sequence[Requirement | FieldRequirement],
    term: int = 0,
    terms: int = 0,
) -> FactsOf:
    """Return the first requirements that a node fails, of a nodeSelector or of a term of node affinity."""
    size = len(snapshot.nodes)
    # [k, node]: index of the k-th requirement that the node fails; -1 if it fails fewer.
    failed, counts = np.full((MAX_REQUIREMENTS, size), -1, np.int64), np.zeros(size, np.int64)
    for index, one in enumerate(requirements):
        rows = np.flatnonzero(~nodes_meeting(snapshot, one) & (counts < MAX_REQUIREMENTS))
        failed[counts[rows], rows] = index
        counts[rows] += 1

    @cache
    def without_label(index: int) -> NodeRequirementFact:
        one, values = requirements[index], dict[str, int]()
        if isinstance(one, Requirement):
            column = snapshot.label(one.key)
            counts_of = Counter(dict(zip(column.values, np.bincount(column.codes).tolist(), strict=True)))
            counts_of.pop(None, None)
            values = dict(nsmallest(MAX_LISTED, counts_of.items(), key=lambda item: (-item[1], item[0])))
        return NodeRequirementFact(
            source=source,
            term=term,
            terms=terms,
            requirement=str(one),
            key=one.key,
            meeting=int(nodes_meeting(snapshot, one).sum()),
            values=values,
        )

    def fact(index: int, node: ObjectMeta) -> NodeRequirementFact:
        key = requirements[index].key
        value = node.name if key == _NAME_FIELD else (node.labels or {}).get(key)
        return without_label(index) if value is None else replace(without_label(index), value=value)

    return lambda row: [fact(index, snapshot.nodes[row].metadata) for index in failed[:, row].tolist() if index >= 0]
