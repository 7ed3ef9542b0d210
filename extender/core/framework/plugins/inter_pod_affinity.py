"""InterPodAffinity: pod affinity and anti-affinity of the incoming pod, and of existing pods towards it.

Each term is a column that counts the matching pods in a node's topology domain.

Mirrors pkg/scheduler/framework/plugins/interpodaffinity (v1.36).

Rule: a node fits if, per topology key, its domain has a match for every affinity term and none for any anti-affinity
term, in both directions.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from extender.core.framework.filter_checks import Check, ConflictConstraint, Constraint, StaticCheck
from extender.core.framework.plugins.shared.normalize import MAX_NODE_SCORE
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code, PreFilterResult, Status
from extender.core.snapshot.affinity_terms import (
    FewTerms,
    ManyTerms,
    PodTerms,
    TargetPod,
    TermOwnerIndex,
    TermSet,
    are_many,
)
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows, PodAmounts
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.pod_table import identity
from extender.core.snapshot.selector_index import LabelGroups, pods_matching
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.affinity import (
    AffinityTerm,
    PodSelector,
    merge_namespaces,
    preferred_terms,
    raw_terms,
    required_terms,
)
from extender.k8s.objects import Labels, LabelsKey, Pod, PodAffinity, PodAffinityTerm, labels_key
from extender.k8s.selectors import SelectorError

NAME = "InterPodAffinity"
REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_NO_MATCH = -1
"""Headroom of an affinity column without a match: headroom = matches - 1, as one match is required."""


# --- terms ----------------------------------------------------------------------------------------------------------


def _own_terms(context: SchedulingContext, *lists: Iterator[AffinityTerm]) -> TermSet:
    """Compile the given terms of the incoming pod; raises SelectorError if a term does not parse."""
    snapshot, terms = context.snapshot, chain.from_iterable(lists)
    if are_many(context.pod.spec.affinity):
        return ManyTerms(terms, snapshot.node_label_keys)
    # As upstream, add the namespaces that a namespaceSelector matches to the named ones; ManyTerms matches it itself.
    keeps_selector = snapshot.features.negative_namespace_selector_matches_all
    return FewTerms(merge_namespaces(term, snapshot.namespace_labels, keeps_selector=keeps_selector) for term in terms)


def _sides(pod: Pod) -> tuple[PodAffinity | None, PodAffinity | None]:
    affinity = pod.spec.affinity
    return (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else (None, None)


def uses_namespace_selector(context: SchedulingContext) -> bool:
    """Return whether a term of the incoming pod or of a running pod has a namespaceSelector."""
    own = any(term.namespace_selector is not None for term in raw_terms(context.pod.spec.affinity))
    return own or context.snapshot.index(TermOwnerIndex).has_namespace_selectors


# --- matches per topology domain ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DomainMatches:
    """Matches with running pods, summed per domain of one topology key (upstream: topologyToMatchedTermCount)."""

    topology_key: str
    matches: IntArray
    """[node]: sum over the node's domain; 0 if the node lacks the topology key."""
    by_pod: PodAmounts
    """Matches of each pod that runs on a node with the topology key."""
    has_key: BoolArray
    """[node]: True if the node has the topology key."""


def _domain_matches(snapshot: Snapshot, key: str, rows: IntArray, amounts: IntArray) -> DomainMatches:
    """Sum the `amounts` of the pods `rows` per domain of the topology key."""
    column = snapshot.label(key)
    placed = column.present[snapshot.pod_node[rows]]
    rows, amounts = rows[placed], amounts[placed]
    nodes = snapshot.pod_node[rows]
    totals = column.sums(nodes, amounts)
    matches = np.where(column.present, totals[column.codes], 0)
    return DomainMatches(key, matches, PodAmounts(rows, nodes, amounts), column.present)


@derived_by("nodes", "pods", "pod_labels")
def _selected_matches(snapshot: Snapshot, query: tuple[str, tuple[PodSelector, ...]]) -> DomainMatches:
    """Count per domain the pods that all selectors match; `query`: (topology key, selectors)."""
    key, selectors = query
    rows = pods_matching(snapshot, *selectors).rows
    return _domain_matches(snapshot, key, rows, np.ones(len(rows), np.int64))


def _matches_by_key(
    snapshot: Snapshot, found: Iterable[tuple[IntArray, Mapping[str, int]]]
) -> dict[str, DomainMatches]:
    """Return topology key -> matches; `found`: pod rows, with topology key -> amount of each of these pods."""
    parts = defaultdict[str, list[tuple[IntArray, int]]](list)
    for rows, weights in found:
        for key, weight in weights.items():
            parts[key].append((rows, weight))
    matches = {}
    for key, of_key in parts.items():
        rows = np.concatenate([rows for rows, _ in of_key])
        amounts = np.repeat([weight for _, weight in of_key], [len(rows) for rows, _ in of_key])
        matches[key] = _domain_matches(snapshot, key, rows, amounts)
    return matches


# --- the incoming pod's terms ---------------------------------------------------------------------------------------


def _own_target(snapshot: Snapshot, namespace: str, labels: Labels | None) -> TargetPod:
    """Return the target for the incoming pod's terms: a pod with this namespace and labels."""
    # Quirk since v1.34 (see `merge_namespaces`): a namespaceSelector that matches the empty label set, as NotIn does,
    # matches every namespace.
    own = snapshot.namespace_labels.get(namespace, {})
    matched = (own, {}) if snapshot.features.negative_namespace_selector_matches_all else (own,)
    return TargetPod(namespace, labels or {}, matched)


def _label_groups(snapshot: Snapshot) -> Iterator[tuple[IntArray, TargetPod]]:
    """Yield the rows of running pods, grouped by namespace and labels, with the target for each group."""
    for group in snapshot.index(LabelGroups).in_namespaces(None):
        yield group.rows, _own_target(snapshot, group.namespace, group.labels)


def _own_matches(snapshot: Snapshot, terms: TermSet) -> list[tuple[int, DomainMatches]]:
    """Return (weight, matches) of the incoming pod's terms: one entry per term or, for ManyTerms, per topology key."""
    if isinstance(terms, FewTerms):
        return [(term.weight, _selected_matches(snapshot, (term.topology_key, (term.pods,)))) for term in terms.terms]
    keys = snapshot.node_label_keys
    found = ((rows, terms.weights_for(target, keys)) for rows, target in _label_groups(snapshot))
    return [(1, matches) for matches in _matches_by_key(snapshot, found).values()]


# --- existing pods' terms -------------------------------------------------------------------------------------------

_TargetKey = tuple[str, LabelsKey]
"""Namespace and labels of a pod, all that other pods' terms read of it: pods with equal keys share derived values."""


def _target_key(pod: Pod) -> _TargetKey:
    return pod.metadata.namespace, labels_key(pod.metadata.labels)


def _target(snapshot: Snapshot, key: _TargetKey) -> TargetPod:
    return TargetPod(key[0], dict(key[1]), (snapshot.namespace_labels.get(key[0], {}),))


def _existing_matches(
    snapshot: Snapshot, target: TargetPod, weights_of: Callable[[PodTerms], Mapping[str, int]]
) -> dict[str, DomainMatches]:
    """Return topology key -> running pods with terms for the target; `weights_of`: terms -> topology key -> weight."""
    owners, keys = snapshot.index(TermOwnerIndex).owners_for(target), snapshot.node_label_keys
    return _matches_by_key(snapshot, ((one.rows, weights_of(one.terms.on(keys))) for one in owners))


@derived_by("nodes", "pods", "namespaces")
def _running_anti_affinity(snapshot: Snapshot, key: _TargetKey) -> dict[str, DomainMatches]:
    """Return topology key -> running pods with required anti-affinity terms that match a pod with this key."""
    target, keys = _target(snapshot, key), snapshot.node_label_keys
    return _existing_matches(snapshot, target, lambda terms: terms.anti_affinity.weights_for(target, keys))


@derived_by("nodes", "pods", "namespaces")
def _running_preferences(snapshot: Snapshot, query: tuple[_TargetKey, int]) -> dict[str, DomainMatches]:
    """Return topology key -> running pods with preferred terms that match a pod with this key, by weight.

    `query`: (key of the pod, weight of a required affinity term: hardPodAffinityWeight, 0 to ignore these terms).
    """
    target, hard_weight, keys = _target(snapshot, query[0]), query[1], snapshot.node_label_keys

    def weights_of(terms: PodTerms) -> Mapping[str, int]:
        weights = Counter(terms.preferred.weights_for(target, keys))
        for key, weight in terms.affinity.weights_for(target, keys).items() if hard_weight else ():
            weights[key] += hard_weight * weight
        return weights

    return _existing_matches(snapshot, target, weights_of)


# --- constraints ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AffinityConstraint(Constraint):
    """The incoming pod's required affinity: every topology key needs a match in the node's domain.

    headroom = matches - 1; the last column counts the matches in the whole cluster.
    """

    has_keys: BoolArray
    """[node]: True if the node has all topology keys of the terms."""
    matches_itself: bool

    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def fits(self, headroom: IntArray) -> BoolArray:
        fits: BoolArray = np.logical_and.reduce(headroom[:-1] >= 0, axis=0)
        if self.matches_itself:
            # The first pod of a series needs no match while the cluster has none.
            fits |= headroom[-1] == _NO_MATCH
        return fits & self.has_keys

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        return () if self.fits(headroom)[row] else (REASON_AFFINITY,)


def _conflicts(
    context: SchedulingContext,
    columns: Sequence[DomainMatches],
    weights_for: Callable[[Pod], Mapping[str, int]],
    reason: str,
) -> ConflictConstraint:
    """Return a constraint that rejects nodes with a match in any column.

    `weights_for`: nominated pod -> topology key -> weight of its matches.
    """
    snapshot = context.snapshot
    # Matches are never negative, so the sum of the columns is 0 exactly where every column is 0.
    matches = sum((column.matches for column in columns), np.zeros(len(snapshot.nodes), np.int64))

    def demand_of(nominee: Pod, node: int) -> int:
        return sum(weight for key, weight in weights_for(nominee).items() if snapshot.label(key).present[node])

    demand = PodAmounts.sum([column.by_pod for column in columns])
    return ConflictConstraint.of(context, NAME, reason, demand, demand_of, -matches)


def _incoming_affinity(context: SchedulingContext, required: Sequence[PodAffinityTerm], terms: TermSet) -> Check:
    """Return the check of the incoming pod's required affinity; an existing pod counts if all terms match it."""
    snapshot, keys = context.snapshot, dict.fromkeys(term.topology_key for term in required)
    if not keys.keys() <= snapshot.node_label_keys:
        rejection = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NAME, (REASON_AFFINITY,))
        return StaticCheck.on_all_nodes(context, rejection)
    # 1. One column per topology key: the pods that all terms match.
    if isinstance(terms, FewTerms):
        selectors = tuple(term.pods for term in terms.terms)
        columns = [_selected_matches(snapshot, (key, selectors)) for key in keys]
        rows = pods_matching(snapshot, *selectors).rows
    else:
        matching = [rows for rows, target in _label_groups(snapshot) if terms.all_match(target)]
        rows = np.concatenate([np.empty(0, np.int64), *matching])
        columns = [_domain_matches(snapshot, key, rows, np.ones(len(rows), np.int64)) for key in keys]
    # 2. The last column counts the matches in all domains of all topology keys: 0 if the cluster has no matching pod.
    nodes = snapshot.pod_node[rows]
    amounts = np.stack([column.has_key[nodes] for column in columns]).sum(axis=0, dtype=np.int64)
    matches = [column.matches for column in columns] + [np.full(len(snapshot.nodes), amounts.sum())]
    by_pod = [column.by_pod for column in columns] + [PodAmounts(rows, nodes, amounts)]
    # A matching pod adds headroom, so its demand is negative: removing it may make the node unfit.
    demand = tuple(replace(column, amounts=-column.amounts) for column in by_pod)

    def matches_all(pod: Pod) -> bool:
        return terms.all_match(_own_target(snapshot, pod.metadata.namespace, pod.metadata.labels))

    def demand_of(nominee: Pod, node: int) -> list[int]:
        counts = matches_all(nominee)
        own = [-int(counts and column.has_key[node]) for column in columns]
        return [*own, sum(own)]

    return AffinityConstraint(
        NAME,
        np.stack(matches) + _NO_MATCH,
        RankedDemand(context.layout, demand),
        context.nominated_demand(len(columns) + 1, demand_of),
        np.logical_and.reduce([column.has_key for column in columns]),
        matches_all(context.pod),
    )


def _incoming_anti_affinity(context: SchedulingContext, terms: TermSet) -> ConflictConstraint:
    snapshot, keys = context.snapshot, context.snapshot.node_label_keys
    columns = [matches for _, matches in _own_matches(snapshot, terms)]

    def weights_for(nominee: Pod) -> Mapping[str, int]:
        return terms.weights_for(_own_target(snapshot, nominee.metadata.namespace, nominee.metadata.labels), keys)

    return _conflicts(context, columns, weights_for, REASON_ANTI_AFFINITY)


def _existing_anti_affinity(context: SchedulingContext) -> tuple[ConflictConstraint | None, bool]:
    """Return the constraint of running and nominated pods' required anti-affinity to the incoming pod.

    The flag reports whether a running pod on a node with the topology key has such anti-affinity.
    """
    snapshot, keys = context.snapshot, context.snapshot.node_label_keys
    key = _target_key(context.pod)
    columns, target = list(_running_anti_affinity(snapshot, key).values()), _target(snapshot, key)
    index = snapshot.index(TermOwnerIndex)
    of_nominees = {
        identity(nominee): index.terms_of_nominee(nominee).on(keys).anti_affinity.weights_for(target, keys)
        for nominee in context.nominees
    }
    if not columns and not any(of_nominees.values()):
        return None, False
    has_running = any(bool(len(column.by_pod.pods)) for column in columns)
    return _conflicts(context, columns, lambda nominee: of_nominees[identity(nominee)], REASON_EXISTING), has_running


# --- explanations ---------------------------------------------------------------------------------------------------


def own_affinity_terms(context: SchedulingContext) -> Iterator[AffinityTerm]:
    """Yield the incoming pod's required affinity terms, with the namespaces that they name."""
    return required_terms(context.pod.metadata.namespace, _sides(context.pod)[0])


def own_anti_affinity_matches(context: SchedulingContext) -> Iterator[tuple[AffinityTerm | None, str, IntArray]]:
    """Yield (term, topology key, rows of the running pods that it matches) of the incoming pod's anti-affinity.

    Terms that are matched together are one entry per topology key, without a term.
    """
    repels, namespace = _sides(context.pod)[1], context.pod.metadata.namespace
    if repels is not None and repels.required:
        terms = _own_terms(context, required_terms(namespace, repels))
        shown = list(required_terms(namespace, repels)) if isinstance(terms, FewTerms) else None
        for place, (_, matches) in enumerate(_own_matches(context.snapshot, terms)):
            yield None if shown is None else shown[place], matches.topology_key, matches.by_pod.pods


def existing_anti_affinity_owners(context: SchedulingContext) -> Iterator[tuple[AffinityTerm | None, str, IntArray]]:
    """Yield (term, topology key, rows of the running pods that have it) of anti-affinity that matches the pod.

    Terms that are matched together are one entry per topology key, without a term.
    """
    snapshot, keys = context.snapshot, context.snapshot.node_label_keys
    target = _target(snapshot, _target_key(context.pod))
    for owners in snapshot.index(TermOwnerIndex).owners_for(target):
        terms = owners.terms.on(keys).anti_affinity
        if isinstance(terms, FewTerms):
            for term in terms.terms:
                if term.topology_key in keys and target.is_matched_by(term):
                    yield term, term.topology_key, owners.rows
        else:
            for key in terms.weights_for(target, keys):
                yield None, key, owners.rows


# --- filter ---------------------------------------------------------------------------------------------------------


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if one of its terms does not parse."""
    namespace = context.pod.metadata.namespace
    try:
        for side in _sides(context.pod):
            for _ in chain(required_terms(namespace, side), preferred_terms(namespace, side, 1)):
                pass
    except SelectorError as error:
        return PreFilterResult.rejecting(NAME, f"parsing pod: {error}")
    return PreFilterResult()


def filter(context: SchedulingContext) -> tuple[Check, ...]:
    """Return up to three checks, in upstream's order."""
    namespace, (attracts, repels) = context.pod.metadata.namespace, _sides(context.pod)
    existing, has_running = _existing_anti_affinity(context)
    checks: list[Check] = []
    # 1. satisfyPodAffinity
    if attracts is not None and attracts.required:
        terms = _own_terms(context, required_terms(namespace, attracts))
        checks.append(_incoming_affinity(context, attracts.required, terms))
    # 2. satisfyPodAntiAffinity
    if repels is not None and repels.required:
        checks.append(_incoming_anti_affinity(context, _own_terms(context, required_terms(namespace, repels))))
    # Quirk: upstream skips the plugin if the incoming pod has no required terms and no running pod has anti-affinity
    # to it; a nominated pod's anti-affinity is then ignored, too.
    if not (has_running or checks):
        return ()
    # 3. satisfyExistingPodsAntiAffinity
    if existing is not None:
        checks.append(existing)
    return tuple(checks)


# --- score ----------------------------------------------------------------------------------------------------------


def score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """Return [row]: sum of the weights of the matching preferred terms; None (Skip) if no term matches a pod."""
    snapshot, profile, namespace = context.snapshot, context.profile, context.pod.metadata.namespace
    # 1. Existing pods that the incoming pod's terms match.
    attracts, repels = _sides(context.pod)
    try:
        lists = preferred_terms(namespace, attracts, 1), preferred_terms(namespace, repels, -1)
        own = _own_matches(snapshot, _own_terms(context, *lists))
    except SelectorError:
        return None  # kube-scheduler fails such a pod in PreFilter; reached only if the filter plugin is disabled
    has_own = any(side is not None and side.preferred for side in (attracts, repels))
    if profile.ignore_preferred_terms_of_existing_pods and not has_own:
        return None
    # 2. Existing pods whose terms match the incoming pod.
    query = (_target_key(context.pod), profile.hard_pod_affinity_weight)
    existing = _running_preferences(snapshot, query).values()
    total, has_matches = np.zeros(len(snapshot.nodes), np.int64), False
    for weight, column in (*own, *((1, column) for column in existing)):
        total += weight * column.matches
        has_matches |= bool(len(column.by_pod.pods))
    return total[rows] if has_matches else None


def normalize_score(scores: IntArray) -> IntArray:
    """Return [row]: 0-100, scaled between the lowest and the highest raw score."""
    # score = 100 * (raw - min) / (max - min), truncated; 0 everywhere if max = min. Raw scores may be negative.
    lowest, highest = int(scores.min()), int(scores.max())
    if lowest == highest:
        return np.zeros(len(scores), np.int64)
    return (MAX_NODE_SCORE * ((scores - lowest) / (highest - lowest))).astype(np.int64)
