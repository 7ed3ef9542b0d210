"""InterPodAffinity: required affinity and anti-affinity, the incoming pod's own and, towards it, that of others.

Each topology key is a column that counts the matching pods in a node's domain; a pod adds to its own domain only.
Preferred terms are not scored yet.

Mirrors pkg/scheduler/framework/plugins/interpodaffinity/filtering.go (v1.36).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import msgspec
import numpy as np

from extender.core.checks import CodeArray, Constraint, Incoming, Rows
from extender.core.plugins.prefilter import PreFilter
from extender.core.snapshot import BoolArray, Encoded, IntArray, PodGroupKey, Snapshot, encode
from extender.core.verdict import Code, Verdict
from extender.k8s.affinity import AffinityTerm, merge_namespaces, required_terms
from extender.k8s.objects import Labels, Pod
from extender.k8s.selectors import SelectorError

NAME = "InterPodAffinity"
REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_NO_MATCH = -1
"""Room of a column that wants one match and has none."""


# --- terms --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OwnTerms:
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]


def _own_terms(incoming: Incoming) -> _OwnTerms:
    """SelectorError if a term does not parse."""
    pod, namespaces = incoming.pod, incoming.snapshot.namespace_labels
    affinity = pod.spec.affinity
    if affinity is None:
        return _OwnTerms((), ())
    return _OwnTerms(
        tuple(merge_namespaces(term, namespaces) for term in required_terms(pod, affinity.pod_affinity)),
        tuple(merge_namespaces(term, namespaces) for term in required_terms(pod, affinity.pod_anti_affinity)),
    )


def _anti_affinity_of(pod: Pod) -> tuple[AffinityTerm, ...]:
    """Required anti-affinity of a pod that is there already; terms that do not parse count for nothing."""
    try:
        return required_terms(pod, pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None)
    except SelectorError:
        return ()


@dataclass(frozen=True, slots=True)
class _Guarded:
    """Running pods with required anti-affinity."""

    pods: IntArray
    terms: Encoded
    """[place in pods] -> tuple of AffinityTerm."""


def _guarded(snapshot: Snapshot) -> _Guarded:
    rows, owners = [], []
    for row, pod in enumerate(snapshot.pods):
        affinity = pod.spec.affinity
        if affinity and affinity.pod_anti_affinity and affinity.pod_anti_affinity.required:
            rows.append(row)
            owners.append(pod)
    coded = encode(owners, key=lambda pod: (pod.metadata.namespace, msgspec.json.encode(pod.spec.affinity)))
    return _Guarded(np.array(rows, np.int64), Encoded(coded.codes, tuple(map(_anti_affinity_of, coded.values))))


# --- columns ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """Of one topology key."""

    matches: IntArray
    """[1, node]: in the node's domain."""
    demand: IntArray
    """[k, 1, node]."""
    nominated: IntArray
    """[1, node]."""
    has_key: BoolArray
    """[node]."""


def _column(incoming: Incoming, key: str, matches: tuple[IntArray, IntArray], of_nominees: Sequence[int]) -> _Column:
    """`matches`: (pod rows, how many terms of that key each matches)."""
    snapshot = incoming.snapshot
    domains = snapshot.label(key)
    has_key = domains.lift(lambda value: value is not None)
    pods, amounts = matches
    placed = has_key[snapshot.pod_node[pods]]
    pods, amounts = pods[placed], amounts[placed]
    nodes = snapshot.pod_node[pods]
    totals = np.zeros(len(domains.values), np.int64)
    np.add.at(totals, domains.codes[nodes], amounts)
    near = np.where(has_key, totals[domains.codes], 0)[np.newaxis]
    nominated = np.zeros_like(near)
    for node, amount in zip(incoming.nominee_nodes, of_nominees, strict=True):
        nominated[0, node] += amount * has_key[node]
    return _Column(near, snapshot.layout.place(pods, nodes, amounts), nominated, has_key)


def _count_matches(snapshot: Snapshot, count: Callable[[PodGroupKey], int]) -> tuple[IntArray, IntArray]:
    """(pod rows, count) of the pods for which `count` is not zero."""
    counts = snapshot.pod_groups.lift_int(count)
    pods = np.flatnonzero(counts)
    return pods, counts[pods]


# --- constraints --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AntiAffinity(Constraint):
    """No match in the node's domain, for every topology key: room is minus the matches."""

    reason: str

    def reasons(self, room: IntArray, row: int) -> tuple[str, ...]:
        return (self.reason,) if (room[:, row] < 0).any() else ()


@dataclass(frozen=True, slots=True)
class Affinity(Constraint):
    """A match in the node's domain for every topology key, or the first pod of a series: room is the matches less one.

    The last column counts the matches in the whole cluster: if there are none, and the incoming pod matches its own
    terms, any node that has the keys will do.
    """

    has_keys: BoolArray
    """[node]."""
    matches_itself: bool

    def fits(self, room: IntArray) -> BoolArray:
        near: BoolArray = np.logical_and.reduce(room[:-1] >= 0, axis=0)
        if self.matches_itself:
            near |= room[-1] == _NO_MATCH
        return near & self.has_keys

    def fits_beside(self, room: IntArray, demand: IntArray) -> BoolArray:
        return self.fits(room - demand)

    def codes(self, room: IntArray) -> CodeArray:
        return np.where(self.fits(room), np.uint8(Code.SUCCESS), np.uint8(Code.UNRESOLVABLE))

    def reasons(self, room: IntArray, row: int) -> tuple[str, ...]:
        return () if self.fits(room)[row] else (REASON_AFFINITY,)

    def at(self, rows: Rows) -> Self:
        return replace(Constraint.at(self, rows), has_keys=self.has_keys[rows])


def _stack(incoming: Incoming, columns: list[_Column]) -> tuple[IntArray, IntArray, IntArray | None]:
    """(matches, demand, nominated) of several columns."""
    matches = np.concatenate([column.matches for column in columns])
    demand = np.concatenate([column.demand for column in columns], axis=1)
    nominated = np.concatenate([column.nominated for column in columns]) if incoming.nominees else None
    return matches, demand, nominated


def _anti_affinity(incoming: Incoming, columns: list[_Column], reason: str) -> AntiAffinity:
    matches, demand, nominated = _stack(incoming, columns)
    return AntiAffinity(NAME, -matches, demand, nominated, reason)


def _own_anti_affinity(incoming: Incoming, terms: tuple[AffinityTerm, ...]) -> list[_Column]:
    """Pods that match the incoming pod's anti-affinity terms."""
    columns = []
    for key in dict.fromkeys(term.topology_key for term in terms):
        of_key = [term for term in terms if term.topology_key == key]

        def count(pod: PodGroupKey, of_key: list[AffinityTerm] = of_key) -> int:
            return sum(term.matches(pod.namespace, pod.labels, None) for term in of_key)

        nominees = [count(_group(pod)) for pod in incoming.nominees]
        columns.append(_column(incoming, key, _count_matches(incoming.snapshot, count), nominees))
    return columns


def _own_affinity(incoming: Incoming, terms: tuple[AffinityTerm, ...]) -> Affinity:
    """Pods that match all of the incoming pod's affinity terms."""

    def match(pod: PodGroupKey) -> bool:
        return all(term.matches(pod.namespace, pod.labels, None) for term in terms)

    pods, _ = _count_matches(incoming.snapshot, match)
    keys = [term.topology_key for term in terms]
    columns = []
    for key in dict.fromkeys(keys):
        weight = keys.count(key)
        nominees = [weight * match(_group(pod)) for pod in incoming.nominees]
        columns.append(_column(incoming, key, (pods, np.full(len(pods), weight)), nominees))
    everywhere = _Column(
        matches=np.full_like(columns[0].matches, _in_any_domain(incoming.snapshot, columns, pods, keys)),
        demand=np.add.reduce([column.demand for column in columns]),
        nominated=np.add.reduce([column.nominated for column in columns]),
        has_key=columns[0].has_key,
    )
    matches, demand, nominated = _stack(incoming, [*columns, everywhere])
    has_keys = np.logical_and.reduce([column.has_key for column in columns])
    itself = match(_group(incoming.pod))
    # Every matching pod that is there makes room: it takes less than nothing.
    nominated = None if nominated is None else -nominated
    return Affinity(NAME, matches + _NO_MATCH, -demand, nominated, has_keys, itself)


def _in_any_domain(snapshot: Snapshot, columns: list[_Column], pods: IntArray, keys: list[str]) -> int:
    """Matches over all domains of all keys: zero means that the cluster holds none."""
    return sum(
        int(column.has_key[snapshot.pod_node[pods]].sum()) * keys.count(key)
        for key, column in zip(dict.fromkeys(keys), columns, strict=True)
    )


def _towards_incoming(incoming: Incoming) -> tuple[list[_Column], bool]:
    """Columns of other pods' anti-affinity to the incoming pod; and whether a running pod's counts anywhere."""
    snapshot, pod = incoming.snapshot, incoming.pod
    labels = snapshot.namespace_labels.get(pod.metadata.namespace, {})

    def keys_of(terms: tuple[AffinityTerm, ...]) -> list[str]:
        own: Labels = pod.metadata.labels or {}
        return [term.topology_key for term in terms if term.matches(pod.metadata.namespace, own, labels)]

    guarded = snapshot.memo(_guarded)
    running = [keys_of(terms) for terms in guarded.terms.values]
    nominees = [keys_of(_anti_affinity_of(nominee)) for nominee in incoming.nominees]
    columns = []
    for key in dict.fromkeys(key for keys in running + nominees for key in keys):
        counts = np.array([keys.count(key) for keys in running], np.int64)[guarded.terms.codes]
        matching = np.flatnonzero(counts)
        matches = (guarded.pods[matching], counts[matching])
        columns.append(_column(incoming, key, matches, [keys.count(key) for keys in nominees]))
    return columns, any(bool(column.matches.any()) for column in columns)


def _group(pod: Pod) -> PodGroupKey:
    return PodGroupKey(pod.metadata.namespace, pod.metadata.labels or {})


def prefilter(incoming: Incoming) -> PreFilter:
    """A rejection if a term of the incoming pod does not parse."""
    try:
        _own_terms(incoming)
    except SelectorError as error:
        return PreFilter(rejection=Verdict(Code.UNRESOLVABLE, NAME, (f"parsing pod: {error}",)))
    return PreFilter()


def filter(incoming: Incoming) -> tuple[Constraint, ...]:
    """Up to three constraints, in the order in which upstream asks them.

    Quirk: with no term of its own and no running pod's term against it, the plugin is skipped, and a nominated
    pod's anti-affinity is not seen either.
    """
    own = _own_terms(incoming)
    existing, seen = _towards_incoming(incoming)
    if not (seen or own.affinity or own.anti_affinity):
        return ()
    constraints: list[Constraint] = []
    if own.affinity:
        constraints.append(_own_affinity(incoming, own.affinity))
    if own.anti_affinity:
        columns = _own_anti_affinity(incoming, own.anti_affinity)
        constraints.append(_anti_affinity(incoming, columns, REASON_ANTI_AFFINITY))
    if existing:
        constraints.append(_anti_affinity(incoming, existing, REASON_EXISTING))
    return tuple(constraints)
