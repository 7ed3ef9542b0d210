"""Facts about pod affinity and anti-affinity (InterPodAffinity)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal, NamedTuple, Self

import numpy as np
from msgspec.structs import replace

from extender.core.evaluation import Evaluation
from extender.core.framework.filter_checks import ConflictConstraint
from extender.core.framework.plugins.inter_pod_affinity import (
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
    REASON_EXISTING,
    AffinityConstraint,
    existing_anti_affinity_owners,
    own_affinity_terms,
    own_anti_affinity_matches,
)
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.arrays import IntArray, LabelColumn, PodAmounts
from extender.k8s.affinity import AffinityTerm
from extender.k8s.selectors import SelectorError
from extender.report.facts.collected import MAX_COLLECTED, first_domains, first_pods, limited
from extender.report.facts.schema import MAX_LISTED, AnyFact, DomainCount, FactsOf, PodAffinityFact
from extender.utilities.text import join_names


def pod_affinity_facts(evaluation: Evaluation) -> FactsOf:
    """Name the term that rejects the node, and the pods that match it or have it.

    Of several rules only the first, which the reason is about.
    """
    run, context = evaluation.filter, evaluation.context

    @cache
    def of_reason(reason: str) -> FactsOf:
        if reason == REASON_ANTI_AFFINITY:
            return _exclusions(context, "antiAffinity", own_anti_affinity_matches(context))
        if reason == REASON_EXISTING:
            return _exclusions(context, "existingAntiAffinity", existing_anti_affinity_owners(context))
        return _attractions(evaluation)

    def facts(row: int) -> Sequence[AnyFact]:
        check = run.checks[run.rejected_by[row] // 2]
        reason = check.reason if isinstance(check, ConflictConstraint) else REASON_AFFINITY
        return of_reason(reason)(row)

    return facts


def _exclusions(
    context: SchedulingContext,
    rule: Literal["antiAffinity", "existingAntiAffinity"],
    terms: Iterable[tuple[AffinityTerm | None, str, IntArray]],
) -> FactsOf:
    """Return the facts about nodes in a domain with these pods; `terms`: (term, topology key, pod rows)."""
    snapshot = context.snapshot
    # 1. Topology key -> (selector and namespaces of a term, pods in a domain, their domains).
    found = defaultdict[str, list[tuple[tuple[str, str], IntArray, IntArray]]](list)
    for term, key, rows in terms:
        column, nodes = snapshot.label(key), snapshot.pod_node[rows]
        placed = column.present[nodes]
        owner = context.pod if rule == "antiAffinity" or not len(rows) else snapshot.pods[rows[0]]
        text = ("", "") if term is None else (str(term.pods.selector), _namespaces(term, owner.metadata.namespace))
        found[key].append((text, rows[placed], column.codes[nodes[placed]].astype(np.int64)))
    exclusions = {key: _Exclusions.of(snapshot.label(key), found[key]) for key in sorted(found)}

    # 2. The facts of a domain, and their number: a pod may have thousands of terms.
    @cache
    def of_domain(key: str, code: int) -> tuple[list[PodAffinityFact], int]:
        one = exclusions[key]
        begin, end = np.searchsorted(one.codes, (code, code + 1)).tolist()
        distinct, first, counts = np.unique(one.terms[begin:end], return_index=True, return_counts=True)
        facts = []
        for place, start, count in zip(
            *(part[:MAX_COLLECTED].tolist() for part in (distinct, first, counts)), strict=True
        ):
            selector, namespaces = one.texts[place]
            rows = one.pods[begin + start : begin + start + count].tolist()
            facts.append(
                PodAffinityFact(
                    rule=rule,
                    topology_key=key,
                    selector=selector,
                    namespaces=namespaces,
                    domain=one.column.values[code],
                    pods=first_pods(snapshot.pods[row] for row in rows),
                    count=count,
                )
            )
        return facts, len(distinct)

    def facts(row: int) -> Sequence[AnyFact]:
        domains = [of_domain(key, int(one.column.codes[row])) for key, one in exclusions.items()]
        return limited([fact for first, _ in domains for fact in first], sum(total for _, total in domains))

    return facts


class _Exclusions(NamedTuple):
    """Pods that keep others out of their domains of one topology key, sorted by domain, then by term."""

    column: LabelColumn
    texts: list[tuple[str, str]]
    """[term]: selector and namespaces, sorted."""
    pods: IntArray
    codes: IntArray
    """[pod]: code of the domain."""
    terms: IntArray
    """[pod]: index into `texts`."""

    @classmethod
    def of(cls, column: LabelColumn, found: list[tuple[tuple[str, str], IntArray, IntArray]]) -> Self:
        """Sort what was found; `found`: (selector and namespaces, pod rows, codes of their domains)."""
        texts = sorted({text for text, _, _ in found})
        place_of = {text: place for place, text in enumerate(texts)}
        pods, codes = (np.concatenate([one[part] for one in found]) for part in (1, 2))
        terms = np.repeat([place_of[text] for text, _, _ in found], [len(rows) for _, rows, _ in found])
        order = np.lexsort((terms, codes))
        return cls(column, texts, pods[order], codes[order], terms[order])


def _attractions(evaluation: Evaluation) -> FactsOf:
    """Return the facts about nodes that lack a match of the pod's own required affinity in one of its domains."""
    context, run = evaluation.context, evaluation.filter
    snapshot, own = context.snapshot, context.pod.metadata.namespace
    # 1. The terms: a pod counts only if all of them match it. A pod may have thousands.
    try:
        terms = list(own_affinity_terms(context))
    except SelectorError:  # the reason says which selector
        return lambda _row: ()
    keys = list(dict.fromkeys(term.topology_key for term in terms))
    selectors = list(dict.fromkeys(str(term.pods.selector) for term in terms))
    namespaces = dict.fromkeys(_namespaces(term, own) for term in terms[:MAX_LISTED])
    common = PodAffinityFact(
        rule="affinity",
        topology_key="",
        selector=join_names(selectors, MAX_LISTED),
        namespaces=join_names([one for one in namespaces if one], MAX_LISTED),
    )
    # 2. Without the constraint, a topology key is one that no node has: all nodes have the same facts.
    constraint = run.only_check(AffinityConstraint)
    if constraint is None:
        missing = [key for key in keys if key not in snapshot.node_label_keys]
        unlabelled = [replace(common, topology_key=key) for key in missing[:MAX_COLLECTED]]
        everywhere = limited(unlabelled, len(missing))
        return lambda _row: everywhere
    # 3. Matching pods per domain.
    check, found = constraint[0], []
    for place, key in enumerate(keys):
        column, matching = snapshot.label(key), check.ranked_demand.columns[place]
        assert isinstance(matching, PodAmounts)
        codes = column.codes[matching.nodes]
        counts = np.bincount(codes, minlength=len(column.values))
        most = first_domains(column.values, -counts, np.flatnonzero(counts))
        domains = tuple(DomainCount(domain=column.values[one], pods=int(counts[one])) for one in most)
        found.append((column, counts, replace(common, topology_key=key, count=len(codes), domains=domains)))
    # The first pod of a series needs no match, only the labels.
    needs_match = not check.matches_itself or any(fact.count for _, _, fact in found)

    @cache
    def of_domain(place: int, code: int) -> PodAffinityFact:
        column, _, fact = found[place]
        return replace(fact, domain=column.values[code])

    def facts(row: int) -> Sequence[AnyFact]:
        failing = [
            (place, int(column.codes[row]))
            for place, (column, counts, _) in enumerate(found)
            if not counts[column.codes[row]] and (needs_match or not column.present[row])
        ]
        return limited([of_domain(*one) for one in failing[:MAX_COLLECTED]], len(failing))

    return facts


def _namespaces(term: AffinityTerm, own: str) -> str:
    """Return the namespaces of a term in words; "" for only that of the pod which has the term."""
    selector, names = term.pods.namespace_selector, sorted(term.pods.namespaces)
    if selector.is_empty:
        return "all"
    selected = [] if selector.is_nothing else [f"those with {selector}"]
    return "" if names == [own] and not selected else join_names([*names, *selected], MAX_LISTED)
