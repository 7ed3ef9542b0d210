"""InterPodAffinity: required and preferred pod affinity and anti-affinity, the incoming pod's and existing pods' to it.

Each term is a column that counts the matching pods in a node's topology domain. A pod counts in its own domain only, so
removing pods from one node changes the columns of that domain only.

Mirrors pkg/scheduler/framework/plugins/interpodaffinity (v1.36).

Rule: a node fits if, per topology key, its domain has a match for every affinity term and none for any anti-affinity
term, in both directions.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import msgspec
import numpy as np

from extender.core.framework.constraint import CodeArray, ConflictConstraint, Constraint, NodeRows, SchedulingContext
from extender.core.framework.plugins.normalize import MAX_NODE_SCORE
from extender.core.framework.status import Code, PreFilterResult
from extender.core.snapshot.arrays import BoolArray, IntArray, PodAmounts, RowSet
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.selector_index import pods_matching
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.affinity import AffinityTerm, PodSelector, merge_namespaces, preferred_terms, required_terms
from extender.k8s.labels import LabelsKey, labels_key
from extender.k8s.objects import Pod
from extender.k8s.selectors import SelectorError

NAME = "InterPodAffinity"
REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_NO_MATCH = -1
"""Headroom of an affinity column without a match: headroom = matches - 1, because one match is required."""


# --- terms ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Terms:
    """Compiled pod affinity and anti-affinity terms of one pod."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    """Preferred terms of both kinds; anti-affinity terms have negative weights."""


def _incoming_terms(context: SchedulingContext) -> _Terms:
    """Return the incoming pod's terms; namespaces that their namespaceSelectors match are added to the named ones.

    SelectorError if a term does not parse.
    """
    pod, namespaces = context.pod, context.snapshot.namespace_labels
    affinity = pod.spec.affinity
    if affinity is None:
        return _Terms()

    def merged(terms: Iterable[AffinityTerm]) -> tuple[AffinityTerm, ...]:
        return tuple(merge_namespaces(term, namespaces) for term in terms)

    return _Terms(
        merged(required_terms(pod, affinity.pod_affinity)),
        merged(required_terms(pod, affinity.pod_anti_affinity)),
        merged(preferred_terms(pod, affinity.pod_affinity, 1) + preferred_terms(pod, affinity.pod_anti_affinity, -1)),
    )


def _existing_terms(pod: Pod) -> _Terms:
    """Return the terms of an existing pod; a list that has a term that does not parse counts as empty."""
    affinity = pod.spec.affinity
    if affinity is None:
        return _Terms()
    return _Terms(
        _or_empty(required_terms, pod, affinity.pod_affinity),
        _or_empty(required_terms, pod, affinity.pod_anti_affinity),
        _or_empty(preferred_terms, pod, affinity.pod_affinity, 1)
        + _or_empty(preferred_terms, pod, affinity.pod_anti_affinity, -1),
    )


def _or_empty(parse: Callable[..., tuple[AffinityTerm, ...]], *arguments: object) -> tuple[AffinityTerm, ...]:
    """Return the parsed terms; an existing pod with terms that do not parse must not fail the incoming pod."""
    try:
        return parse(*arguments)
    except SelectorError:
        return ()


class _TermOwners(RowSet):
    """Running pods of one namespace that have the same affinity spec, hence the same terms."""

    __slots__ = ("namespaces", "terms")

    def __init__(self, terms: _Terms) -> None:
        super().__init__()
        self.terms = terms
        selectors = [term.pods for term in (*terms.affinity, *terms.anti_affinity, *terms.preferred)]
        self.namespaces: frozenset[str | None] = frozenset((None,))
        """Namespaces whose pods the terms can match; None: any, because of a namespaceSelector."""
        if all(one.namespace_selector.is_nothing for one in selectors):
            self.namespaces = frozenset(name for one in selectors for name in one.namespaces)


class TermOwnerIndex(Index):
    """Running pods that have pod affinity or anti-affinity terms, grouped by equal terms.

    Upstream: NodeInfo.PodsWithAffinity and PodsWithRequiredAntiAffinity.
    """

    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._by_key: dict[tuple[str, bytes], _TermOwners] = {}
        self._by_namespace: dict[str | None, dict[tuple[str, bytes], _TermOwners]] = {}
        """Namespace whose pods the terms can match (None: any) -> the same entries."""

    def pod_added(self, row: int, pod: Pod) -> None:
        key = _owners_key(pod)
        if key is None:
            return
        owners = self._by_key.get(key)
        if owners is None:
            owners = self._by_key[key] = _TermOwners(_existing_terms(pod))
            for namespace in owners.namespaces:
                self._by_namespace.setdefault(namespace, {})[key] = owners
        owners.add(row)

    def pod_removed(self, row: int, pod: Pod) -> None:
        key = _owners_key(pod)
        if key is None:
            return
        owners = self._by_key[key]
        owners.remove(row)
        if not owners.members:
            del self._by_key[key]
            for namespace in owners.namespaces:
                del self._by_namespace[namespace][key]
                if not self._by_namespace[namespace]:
                    del self._by_namespace[namespace]

    def owners_for(self, namespace: str | None) -> Iterable[_TermOwners]:
        """Return the owners whose terms can match a pod of this namespace; None: of any namespace."""
        names = dict.fromkeys((namespace, None))
        return chain.from_iterable(self._by_namespace.get(name, {}).values() for name in names)


def _owners_key(pod: Pod) -> tuple[str, bytes] | None:
    """Return a key that is equal for pods with equal terms; None for a pod without terms."""
    affinity = pod.spec.affinity
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return None
    return pod.metadata.namespace, msgspec.json.encode(affinity)


def uses_namespace_selector(context: SchedulingContext) -> bool:
    """Return whether a term of the incoming pod or of a running pod has a namespaceSelector."""
    affinity = context.pod.spec.affinity
    sides = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    terms = [term for side in sides if side for term in side.required or ()]
    terms += [one.pod_affinity_term for side in sides if side for one in side.preferred or ()]
    own = any(term.namespace_selector is not None for term in terms)
    return own or any(True for _ in context.snapshot.index(TermOwnerIndex).owners_for(None))


# --- matches per topology domain ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _DomainMatches:
    """Matches of some pods, summed per domain of one topology key."""

    matches: IntArray
    """[node]: sum over the node's domain; 0 without the topology key."""
    by_pod: PodAmounts
    """Amount of each pod that runs on a node with the topology key."""
    has_key: BoolArray
    """[node]: True if the node has the topology key."""


def _domain_matches(snapshot: Snapshot, key: str, rows: IntArray, amounts: IntArray) -> _DomainMatches:
    """Sum the pods `rows` with their `amounts` per domain of the topology key."""
    column = snapshot.label(key)
    placed = column.present[snapshot.pod_node[rows]]
    rows, amounts = rows[placed], amounts[placed]
    nodes = snapshot.pod_node[rows]
    totals = column.sums(nodes, amounts)
    matches = np.where(column.present, totals[column.codes], 0)
    return _DomainMatches(matches, PodAmounts(rows, nodes, amounts), column.present)


@derived_by("nodes", "pods", "pod_labels")
def _selected_matches(snapshot: Snapshot, query: tuple[str, tuple[PodSelector, ...]]) -> _DomainMatches:
    """Count the pods that all selectors match, per domain. `query`: topology key, selectors."""
    key, selectors = query
    rows = pods_matching(snapshot, *selectors).rows
    return _domain_matches(snapshot, key, rows, np.ones(len(rows), np.int64))


_TargetPod = tuple[str, LabelsKey]
"""Namespace and labels of a pod, which is all that other pods' terms read: equal ones share derived values."""


def _target(pod: Pod) -> _TargetPod:
    return pod.metadata.namespace, labels_key(pod.metadata.labels)


def _term_predicate(snapshot: Snapshot, target: _TargetPod) -> Callable[[AffinityTerm], bool]:
    """Return a predicate: an existing pod's term matches a pod of this target."""
    namespace, labels = target[0], dict(target[1])
    of_namespace = snapshot.namespace_labels.get(namespace, {})
    return lambda term: term.pods.matches(namespace, labels, of_namespace)


@derived_by("nodes", "pods", "namespaces")
def _running_anti_affinity(snapshot: Snapshot, target: _TargetPod) -> dict[str, _DomainMatches]:
    """Return topology key -> running pods whose required anti-affinity terms match a pod of this target."""
    return _owner_matches(snapshot, target, lambda terms: [(term, 1) for term in terms.anti_affinity])


def _owner_matches(
    snapshot: Snapshot, target: _TargetPod, weighted_terms: Callable[[_Terms], list[tuple[AffinityTerm, int]]]
) -> dict[str, _DomainMatches]:
    """Return topology key -> running pods with matching terms, each counted by the sum of these terms' weights.

    `weighted_terms`: terms of a pod -> those to consider, with their weights.
    """
    matches, weights = _term_predicate(snapshot, target), defaultdict(list)
    for owners in snapshot.index(TermOwnerIndex).owners_for(target[0]):
        weight_per_key = Counter[str]()
        for term, weight in weighted_terms(owners.terms):
            if matches(term):
                weight_per_key[term.topology_key] += weight
        for key, weight in weight_per_key.items():
            weights[key].append((owners.rows, weight))
    found = {}
    for key, parts in weights.items():
        rows = np.concatenate([rows for rows, _ in parts])
        amounts = np.repeat([weight for _, weight in parts], [len(rows) for rows, _ in parts])
        found[key] = _domain_matches(snapshot, key, rows, amounts)
    return found


# --- constraints ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AffinityConstraint(Constraint):
    """The incoming pod's required affinity: every topology key needs a match in the node's domain.

    headroom = matches - 1; the last column counts the matches in the whole cluster. Upstream's special case for the
    first pod of a series: if the cluster has no match and the incoming pod matches its own terms, every node with all
    topology keys fits.
    """

    has_keys: BoolArray
    """[node]: True if the node has all topology keys of the terms."""
    matches_itself: bool

    def fits(self, headroom: IntArray) -> BoolArray:
        fits: BoolArray = np.logical_and.reduce(headroom[:-1] >= 0, axis=0)
        if self.matches_itself:
            fits |= headroom[-1] == _NO_MATCH
        return fits & self.has_keys

    def codes(self, headroom: IntArray) -> CodeArray:
        return np.where(self.fits(headroom), np.uint8(Code.SUCCESS), np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        return () if self.fits(headroom)[row] else (REASON_AFFINITY,)


def _nominated(
    context: SchedulingContext, columns: Sequence[_DomainMatches], demand_of: Callable[[Pod], Sequence[int]]
) -> IntArray | None:
    """Return [column, node]: summed demand of the nominated pods on nodes that have the column's topology key."""
    demand = context.nominated_demand(len(columns), lambda pod, _node: demand_of(pod))
    return None if demand is None else demand * np.stack([column.has_key for column in columns])


def _anti_affinity(
    context: SchedulingContext,
    columns: Sequence[_DomainMatches],
    demand_of: Callable[[Pod], Sequence[int]],
    reason: str,
) -> ConflictConstraint:
    """Return a constraint that rejects nodes with a match in any column."""
    demand = RankedDemand(context.layout, tuple(column.by_pod for column in columns))
    headroom = -np.stack([column.matches for column in columns])
    return ConflictConstraint(NAME, headroom, demand, _nominated(context, columns, demand_of), reason)


def _term_matches(term: AffinityTerm, pod: Pod) -> bool:
    """Return whether a term of the incoming pod matches `pod`.

    No namespace labels are passed: the namespaces that the selector matches are part of the term (`_incoming_terms`).
    """
    return term.pods.matches(pod.metadata.namespace, pod.metadata.labels or {}, None)


def _incoming_affinity(context: SchedulingContext, terms: tuple[AffinityTerm, ...]) -> AffinityConstraint:
    """Return the constraint of the incoming pod's required affinity; a pod counts if it matches all terms."""
    snapshot, selectors = context.snapshot, tuple(term.pods for term in terms)
    keys = dict.fromkeys(term.topology_key for term in terms)
    columns = [_selected_matches(snapshot, (key, selectors)) for key in keys]
    # The last column counts the matches in all domains of all topology keys: 0 if the cluster has no matching pod.
    pods = pods_matching(snapshot, *selectors)
    amounts = np.stack([column.has_key[pods.nodes] for column in columns]).sum(axis=0, dtype=np.int64)
    matches = [column.matches for column in columns] + [np.full(len(snapshot.nodes), amounts.sum())]
    by_pod = [column.by_pod for column in columns] + [PodAmounts(pods.rows, pods.nodes, amounts)]
    # A matching pod adds headroom, so its demand is negative: removing it may make the node unfit.
    demand = tuple(replace(column, amounts=-column.amounts) for column in by_pod)
    nominated = _nominated(
        context, columns, lambda pod: [all(_term_matches(term, pod) for term in terms)] * len(columns)
    )
    if nominated is not None:
        nominated = -np.vstack((nominated, nominated.sum(axis=0)))
    return AffinityConstraint(
        NAME,
        np.stack(matches) + _NO_MATCH,
        RankedDemand(context.layout, demand),
        nominated,
        np.logical_and.reduce([column.has_key for column in columns]),
        all(_term_matches(term, context.pod) for term in terms),
    )


def _existing_anti_affinity(context: SchedulingContext) -> tuple[ConflictConstraint | None, bool]:
    """Return the constraint of running and nominated pods' required anti-affinity to the incoming pod.

    The flag says whether a running pod has such anti-affinity on a node with the topology key.
    """
    snapshot, target = context.snapshot, _target(context.pod)
    running = _running_anti_affinity(snapshot, target)
    matches = _term_predicate(snapshot, target)

    def keys_of(nominee: Pod) -> list[str]:
        return [term.topology_key for term in _existing_terms(nominee).anti_affinity if matches(term)]

    keys = dict.fromkeys([*running, *(key for pod in context.nominees for key in keys_of(pod))])
    if not keys:
        return None, False
    no_pods = np.empty(0, np.int64)
    columns = [running.get(key) or _domain_matches(snapshot, key, no_pods, no_pods) for key in keys]
    has_running = any(bool(len(column.by_pod.pods)) for column in columns)
    constraint = _anti_affinity(context, columns, lambda pod: list(map(keys_of(pod).count, keys)), REASON_EXISTING)
    return constraint, has_running


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if one of its terms does not parse."""
    try:
        _incoming_terms(context)
    except SelectorError as error:
        return PreFilterResult.rejecting(NAME, f"parsing pod: {error}")
    return PreFilterResult()


def filter(context: SchedulingContext) -> tuple[Constraint, ...]:
    """Return up to three constraints, in upstream's order: affinity, anti-affinity, existing pods' anti-affinity.

    Quirk: upstream skips the plugin if the incoming pod has no required terms and no running pod has anti-affinity
    to it; then a nominated pod's anti-affinity is ignored, too.
    """
    own = _incoming_terms(context)
    existing, has_running = _existing_anti_affinity(context)
    if not (has_running or own.affinity or own.anti_affinity):
        return ()
    constraints: list[Constraint] = []
    if own.affinity:
        constraints.append(_incoming_affinity(context, own.affinity))
    if own.anti_affinity:
        columns = [_selected_matches(context.snapshot, (term.topology_key, (term.pods,))) for term in own.anti_affinity]
        constraints.append(
            _anti_affinity(
                context,
                columns,
                lambda pod: [_term_matches(term, pod) for term in own.anti_affinity],
                REASON_ANTI_AFFINITY,
            )
        )
    if existing is not None:
        constraints.append(existing)
    return tuple(constraints)


# --- score ----------------------------------------------------------------------------------------------------------


@derived_by("nodes", "pods", "namespaces")
def _running_preferences(snapshot: Snapshot, query: tuple[_TargetPod, int]) -> dict[str, _DomainMatches]:
    """Return topology key -> running pods whose preferred terms match a pod of this target, by weight.

    `query`: the target, and the weight of a required affinity term (hardPodAffinityWeight; 0: not counted).
    """
    target, hard_weight = query

    def weighted_terms(terms: _Terms) -> list[tuple[AffinityTerm, int]]:
        hard = [(term, hard_weight) for term in terms.affinity] if hard_weight else []
        return hard + [(term, term.weight) for term in terms.preferred]

    return _owner_matches(snapshot, target, weighted_terms)


def score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """Return [row]: 0-100 by the weights of the matching preferred terms; None (Skip) if no term matches a pod.

    The score counts the incoming pod's terms that existing pods match, and existing pods' terms that it matches.
    """
    snapshot, profile = context.snapshot, context.profile
    try:
        own = _incoming_terms(context).preferred
    except SelectorError:
        return None  # kube-scheduler fails such a pod in PreFilter; reached only if the filter plugin is disabled
    if profile.ignore_preferred_terms_of_existing_pods and not own:
        return None
    total, has_matches = np.zeros(len(snapshot.nodes), np.int64), False
    for term in own:
        column = _selected_matches(snapshot, (term.topology_key, (term.pods,)))
        total += term.weight * column.matches
        has_matches |= bool(len(column.by_pod.pods))
    query = (_target(context.pod), profile.hard_pod_affinity_weight)
    for column in _running_preferences(snapshot, query).values():
        total += column.matches
        has_matches |= bool(len(column.by_pod.pods))
    return _normalized(total[rows]) if has_matches else None


def _normalized(scores: IntArray) -> IntArray:
    """Return [row]: 0-100, scaled between the lowest and the highest raw score."""
    # score = 100 * (raw - min) / (max - min), truncated; 0 everywhere if max = min. Raw scores may be negative.
    lowest, highest = int(scores.min()), int(scores.max())
    if lowest == highest:
        return np.zeros(len(scores), np.int64)
    return (MAX_NODE_SCORE * ((scores - lowest) / (highest - lowest))).astype(np.int64)
