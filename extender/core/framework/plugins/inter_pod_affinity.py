"""InterPodAffinity: required and preferred affinity and anti-affinity, the incoming pod's own and that of others to it.

Each term is a column that counts the matching pods in a node's domain; a pod adds to its own domain only.

Mirrors pkg/scheduler/framework/plugins/interpodaffinity (v1.36).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import msgspec
import numpy as np

from extender.core.framework.constraint import CodeArray, ConflictConstraint, Constraint, NodeRows, SchedulingContext
from extender.core.framework.plugins.normalize import MAX_NODE_SCORE
from extender.core.framework.plugins.prefilter import PreFilterResult
from extender.core.framework.status import Code
from extender.core.snapshot.arrays import BoolArray, IntArray, PodAmounts, RowSet
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.index import Index
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.selector_index import pods_matching
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.affinity import AffinityTerm, PodSelector, merge_namespaces, preferred_terms, required_terms
from extender.k8s.labels import LabelsKey, labels_key
from extender.k8s.objects import Pod
from extender.k8s.selectors import SelectorError

NAME = "InterPodAffinity"
REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_NO_MATCH = -1
"""Room of a column that wants one match and has none."""


# --- terms ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Terms:
    """What one pod wants of others."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    """Of both kinds; anti-affinity weighs less than nothing."""


def _own_terms(context: SchedulingContext) -> _Terms:
    """SelectorError if a term does not parse."""
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


def _terms_of(pod: Pod) -> _Terms:
    """Of a pod that is there already; a list with a term that does not parse counts for nothing."""
    affinity = pod.spec.affinity
    if affinity is None:
        return _Terms()
    attract, repel = affinity.pod_affinity, affinity.pod_anti_affinity
    return _Terms(
        _parsed(lambda: required_terms(pod, attract)),
        _parsed(lambda: required_terms(pod, repel)),
        _parsed(lambda: preferred_terms(pod, attract, 1)) + _parsed(lambda: preferred_terms(pod, repel, -1)),
    )


def _parsed(read: Callable[[], tuple[AffinityTerm, ...]]) -> tuple[AffinityTerm, ...]:
    try:
        return read()
    except SelectorError:
        return ()


class _Owning(RowSet):
    """Running pods of one namespace that have the same terms."""

    __slots__ = ("namespaces", "terms")

    def __init__(self, terms: _Terms) -> None:
        super().__init__()
        self.terms = terms
        self.namespaces = _only_in(terms)
        """Where its terms may mean anybody; None: anywhere."""


class Owners(Index):
    """Running pods that have terms."""

    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._alike: dict[tuple[str, bytes], _Owning] = {}
        self._naming: dict[str, dict[int, _Owning]] = {}
        self.selecting: dict[int, _Owning] = {}
        """Those whose terms may mean pods of any namespace, by `id`."""

    def pod_added(self, row: int, pod: Pod) -> None:
        key = _owning_key(pod)
        if key is None:
            return
        owning = self._alike.get(key)
        if owning is None:
            owning = self._alike[key] = _Owning(_terms_of(pod))
            for holders in self._holders(owning):
                holders[id(owning)] = owning
        owning.add(row)

    def pod_removed(self, row: int, pod: Pod) -> None:
        key = _owning_key(pod)
        if key is None:
            return
        owning = self._alike[key]
        owning.remove(row)
        if not owning.members:
            del self._alike[key]
            for holders in self._holders(owning):
                del holders[id(owning)]
            for namespace in owning.namespaces or ():
                if not self._naming[namespace]:
                    del self._naming[namespace]

    def _holders(self, owning: _Owning) -> list[dict[int, _Owning]]:
        if owning.namespaces is None:
            return [self.selecting]
        return [self._naming.setdefault(namespace, {}) for namespace in owning.namespaces]

    def towards(self, namespace: str) -> Iterator[_Owning]:
        """Those whose terms may mean a pod of that namespace."""
        yield from self._naming.get(namespace, {}).values()
        yield from self.selecting.values()


def _owning_key(pod: Pod) -> tuple[str, bytes] | None:
    """The same for pods whose terms mean the same; None for a pod that has none."""
    affinity = pod.spec.affinity
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return None
    return pod.metadata.namespace, msgspec.json.encode(affinity)


def _only_in(terms: _Terms) -> frozenset[str] | None:
    selectors = [term.pods for term in (*terms.affinity, *terms.anti_affinity, *terms.preferred)]
    if not all(one.namespace_selector.is_nothing for one in selectors):
        return None
    return frozenset(name for one in selectors for name in one.namespaces)


def uses_namespace_selector(context: SchedulingContext) -> bool:
    """May any term, the pod's own or a running pod's, choose namespaces by their labels?"""
    affinity = context.pod.spec.affinity
    sides = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    terms = [term for side in sides if side for term in side.required or ()]
    terms += [one.pod_affinity_term for side in sides if side for one in side.preferred or ()]
    own = any(term.namespace_selector is not None for term in terms)
    return own or bool(context.snapshot.index(Owners).selecting)


# --- matches in a node's domain -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Near:
    """What some pods add up to in a node's domain of one topology key."""

    matches: IntArray
    """[node]."""
    by: PodAmounts
    """Those on a node that has the key."""
    has_key: BoolArray
    """[node]."""


def _near(snapshot: Snapshot, key: str, rows: IntArray, amounts: IntArray) -> _Near:
    column = snapshot.label(key)
    placed = column.present[snapshot.pod_node[rows]]
    rows, amounts = rows[placed], amounts[placed]
    nodes = snapshot.pod_node[rows]
    totals = column.sums(nodes, amounts)
    matches = np.where(column.present, totals[column.codes], 0)
    return _Near(matches, PodAmounts(rows, nodes, amounts), column.present)


@derived_by("nodes", "pods", "pod_labels")
def _near_selected(snapshot: Snapshot, asked: tuple[str, tuple[PodSelector, ...]]) -> _Near:
    """Pods that all selectors mean, by topology key."""
    key, selectors = asked
    rows = pods_matching(snapshot, *selectors).rows
    return _near(snapshot, key, rows, np.ones(len(rows), np.int64))


@dataclass(frozen=True, slots=True)
class _Group:
    """What terms of other pods look at in the incoming pod."""

    namespace: str
    labels: LabelsKey

    @classmethod
    def of(cls, pod: Pod) -> Self:
        return cls(pod.metadata.namespace, labels_key(pod.metadata.labels))


def _chosen(snapshot: Snapshot, group: _Group) -> Callable[[AffinityTerm], bool]:
    """Does another pod's term mean a pod of this group?"""
    labels, by_namespace = dict(group.labels), snapshot.namespace_labels.get(group.namespace, {})
    return lambda term: term.pods.matches(group.namespace, labels, by_namespace)


@derived_by("nodes", "pods", "namespaces")
def _repelling(snapshot: Snapshot, group: _Group) -> dict[str, _Near]:
    """Topology key -> running pods with required anti-affinity to such a pod."""
    return _owners_near(snapshot, group, lambda terms: [(term, 1) for term in terms.anti_affinity])


def _owners_near(
    snapshot: Snapshot, group: _Group, weighed: Callable[[_Terms], list[tuple[AffinityTerm, int]]]
) -> dict[str, _Near]:
    """Topology key -> running pods with `weighed` terms that mean such a pod, by the sum of the weights."""
    means, weights = _chosen(snapshot, group), defaultdict(list)
    for owning in snapshot.index(Owners).towards(group.namespace):
        of_key: dict[str, int] = {}
        for term, weight in weighed(owning.terms):
            if means(term):
                of_key[term.topology_key] = of_key.get(term.topology_key, 0) + weight
        for key, weight in of_key.items():
            weights[key].append((owning.rows, weight))
    found = {}
    for key, parts in weights.items():
        rows = np.concatenate([rows for rows, _ in parts])
        amounts = np.repeat([weight for _, weight in parts], [len(rows) for rows, _ in parts])
        found[key] = _near(snapshot, key, rows, amounts)
    return found


# --- constraints ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Affinity(Constraint):
    """A match in the node's domain for every topology key, or the first pod of a series: room is the matches less one.

    The last column counts the matches in the whole cluster: if there are none, and the incoming pod matches its own
    terms, any node that has the keys will do.
    """

    has_keys: BoolArray
    """[node]."""
    matches_itself: bool

    def fits(self, headroom: IntArray) -> BoolArray:
        near: BoolArray = np.logical_and.reduce(headroom[:-1] >= 0, axis=0)
        if self.matches_itself:
            near |= headroom[-1] == _NO_MATCH
        return near & self.has_keys

    def codes(self, headroom: IntArray) -> CodeArray:
        return np.where(self.fits(headroom), np.uint8(Code.SUCCESS), np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        return () if self.fits(headroom)[row] else (REASON_AFFINITY,)

    def at(self, rows: NodeRows) -> Self:
        return replace(super().at(rows), has_keys=self.has_keys[rows])


def _nominated(
    context: SchedulingContext, near: Sequence[_Near], takes: Callable[[Pod], Sequence[int]]
) -> IntArray | None:
    """[column, node] what each nominee `takes` in each column, where its node has the key."""
    return context.nominated_demand(
        len(near),
        lambda pod, node: [amount * column.has_key[node] for column, amount in zip(near, takes(pod), strict=True)],
    )


def _anti_affinity(
    context: SchedulingContext, near: Sequence[_Near], of_nominee: Callable[[Pod], Sequence[int]], reason: str
) -> ConflictConstraint:
    takes = RankedDemand(context.layout, tuple(column.by for column in near))
    headroom = -np.stack([column.matches for column in near])
    return ConflictConstraint(NAME, headroom, takes, _nominated(context, near, of_nominee), reason)


def _means(term: AffinityTerm, pod: Pod) -> bool:
    """A term of the incoming pod; it sees no namespace labels."""
    return term.pods.matches(pod.metadata.namespace, pod.metadata.labels or {}, None)


def _own_anti_affinity(context: SchedulingContext, terms: tuple[AffinityTerm, ...]) -> ConflictConstraint:
    """Pods that match the incoming pod's anti-affinity terms."""
    snapshot = context.snapshot
    near = [_near_selected(snapshot, (term.topology_key, (term.pods,))) for term in terms]
    return _anti_affinity(context, near, lambda pod: [_means(term, pod) for term in terms], REASON_ANTI_AFFINITY)


def _own_affinity(context: SchedulingContext, terms: tuple[AffinityTerm, ...]) -> Affinity:
    """Pods that match all of the incoming pod's affinity terms."""
    snapshot, selectors = context.snapshot, tuple(term.pods for term in terms)
    keys = dict.fromkeys(term.topology_key for term in terms)
    near = [_near_selected(snapshot, (key, selectors)) for key in keys]
    everywhere = _everywhere(snapshot, selectors, near)
    # Every matching pod that is there makes room: it takes less than nothing.
    takes = [replace(column.by, amounts=-column.by.amounts) for column in (*near, everywhere)]
    nominated = _nominated(context, near, lambda pod: [all(_means(term, pod) for term in terms)] * len(near))
    if nominated is not None:
        nominated = -np.vstack((nominated, nominated.sum(axis=0)))
    return Affinity(
        NAME,
        np.stack([column.matches for column in (*near, everywhere)]) + _NO_MATCH,
        RankedDemand(context.layout, tuple(takes)),
        nominated,
        np.logical_and.reduce([column.has_key for column in near]),
        all(_means(term, context.pod) for term in terms),
    )


def _everywhere(snapshot: Snapshot, selectors: tuple[PodSelector, ...], near: Sequence[_Near]) -> _Near:
    """Matches over all domains of all keys: none means that the cluster holds none."""
    pods = pods_matching(snapshot, *selectors)
    amounts = np.zeros(len(pods.rows), np.int64)
    for column in near:
        amounts += column.has_key[pods.nodes]
    matches = np.full(len(snapshot.nodes), amounts.sum())
    return _Near(matches, PodAmounts(pods.rows, pods.nodes, amounts), near[0].has_key)


def _towards_incoming(context: SchedulingContext) -> tuple[ConflictConstraint | None, bool]:
    """Other pods' anti-affinity to the incoming pod; and whether a running pod's counts anywhere."""
    snapshot, group = context.snapshot, _Group.of(context.pod)
    running = _repelling(snapshot, group)
    means = _chosen(snapshot, group)

    def keys_of(nominee: Pod) -> list[str]:
        return [term.topology_key for term in _terms_of(nominee).anti_affinity if means(term)]

    keys = dict.fromkeys([*running, *(key for pod in context.nominees for key in keys_of(pod))])
    if not keys:
        return None, False
    nobody = np.empty(0, np.int64)
    near = [running.get(key) or _near(snapshot, key, nobody, nobody) for key in keys]
    seen = any(bool(len(column.by.pods)) for column in near)
    constraint = _anti_affinity(context, near, lambda pod: list(map(keys_of(pod).count, keys)), REASON_EXISTING)
    return constraint, seen


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """A rejection if a term of the incoming pod does not parse."""
    try:
        _own_terms(context)
    except SelectorError as error:
        return PreFilterResult.rejecting(NAME, f"parsing pod: {error}")
    return PreFilterResult()


def filter(context: SchedulingContext) -> tuple[Constraint, ...]:
    """Up to three constraints, in the order in which upstream asks them.

    Quirk: with no term of its own and no running pod's term against it, the plugin is skipped, and a nominated
    pod's anti-affinity is not seen either.
    """
    own = _own_terms(context)
    existing, seen = _towards_incoming(context)
    if not (seen or own.affinity or own.anti_affinity):
        return ()
    constraints: list[Constraint] = []
    if own.affinity:
        constraints.append(_own_affinity(context, own.affinity))
    if own.anti_affinity:
        constraints.append(_own_anti_affinity(context, own.anti_affinity))
    if existing is not None:
        constraints.append(existing)
    return tuple(constraints)


# --- score ----------------------------------------------------------------------------------------------------------


@derived_by("nodes", "pods", "namespaces")
def _preferring(snapshot: Snapshot, asked: tuple[_Group, int]) -> dict[str, _Near]:
    """Topology key -> running pods that would have such a pod near or far; required affinity has the given weight."""
    group, hard_weight = asked

    def weighed(terms: _Terms) -> list[tuple[AffinityTerm, int]]:
        hard = [(term, hard_weight) for term in terms.affinity] if hard_weight else []
        return hard + [(term, term.weight) for term in terms.preferred]

    return _owners_near(snapshot, group, weighed)


def score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """[row] 0-100 by the weights of preferred terms, from the worst row to the best; None if none matches anybody."""
    snapshot, profile = context.snapshot, context.profile
    try:
        own = _own_terms(context).preferred
    except SelectorError:
        return None  # kube-scheduler fails such a pod in PreFilter; only without that filter we come here
    if profile.ignore_preferred_terms_of_existing_pods and not own:
        return None
    total, seen = np.zeros(len(snapshot.nodes), np.int64), False
    for term in own:
        near = _near_selected(snapshot, (term.topology_key, (term.pods,)))
        total += term.weight * near.matches
        seen |= bool(len(near.by.pods))
    asked = (_Group.of(context.pod), profile.hard_pod_affinity_weight)
    for near in _preferring(snapshot, asked).values():
        total += near.matches
        seen |= bool(len(near.by.pods))
    return _from_worst_to_best(total[rows]) if seen else None


def _from_worst_to_best(scores: IntArray) -> IntArray:
    lowest, highest = int(scores.min()), int(scores.max())
    if lowest == highest:
        return np.zeros(len(scores), np.int64)
    return (MAX_NODE_SCORE * ((scores - lowest) / (highest - lowest))).astype(np.int64)
