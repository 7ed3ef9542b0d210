"""The cluster at one moment as columns: nodes lie side by side, a node's pods from the most to the least important.

Names of axes used everywhere in `core`: `node` is a row of `Snapshot.nodes` (N of them), `pod` a row of
`Snapshot.pods` (P, running pods only, in listing order), `k` a pod's rank by importance on its node (K, the
longest list), `resource` a column of BASE_RESOURCES.

Rule: a snapshot never changes. What depends on nothing but the snapshot is computed once, here, and cached.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt

from extender.k8s.kinds import ClusterObjects
from extender.k8s.labels import labels_key
from extender.k8s.objects import Labels, Node, Pod, PodDisruptionBudget
from extender.k8s.requests import Usage, allocatable, running_usage
from extender.k8s.selectors import Requirement

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

BASE_RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage")
"""Columns that every node and pod has: millicores, bytes, pods, bytes; the one that few ask for comes last."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

LARGEST = 2**55
"""Amounts beyond this (36 PB, 36 Tcores) count as this much: sums over a node's pods stay within int64."""

NEVER = np.iinfo(np.int64).max
"""Start time of a pod that has none: later than any."""

_REMEMBERED = 128
"""For how many keys `Snapshot.memo_by` remembers what a function made of them."""

_ABSENT = object()

_FRACTION = re.compile(r"\.\d+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


def columns(array: npt.NDArray[Any], rows: IntArray) -> npt.NDArray[Any]:
    """Some of the columns of the last axis, in ascending order; the array itself, not a copy, if these are all."""
    return array if len(rows) == array.shape[-1] else array[..., rows]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A dictionary-encoded column: `values[codes[row]]` is what stands in `row`."""

    codes: npt.NDArray[np.int32]
    values: tuple[Any, ...]

    def lift(self, check: Callable[[Any], bool]) -> BoolArray:
        """`check` asked once per distinct value -> bool[row]."""
        return np.fromiter(map(check, self.values), np.bool_, len(self.values))[self.codes]

    def lift_int(self, count: Callable[[Any], int]) -> IntArray:
        """`count` asked once per distinct value -> int64[row]."""
        return np.fromiter(map(count, self.values), np.int64, len(self.values))[self.codes]


@dataclass(frozen=True, slots=True)
class LabelColumn(Encoded):
    """The nodes' values of one label; None where a node does not carry it."""

    code_of: Mapping[str | None, int]
    present: BoolArray
    """[node]: does it carry the label?"""

    @classmethod
    def of(cls, values: Sequence[str | None]) -> "LabelColumn":
        encoded = encode(values)
        code_of = {value: code for code, value in enumerate(encoded.values)}
        return cls(encoded.codes, encoded.values, code_of, encoded.codes != code_of.get(None, -1))

    def sums(self, nodes: IntArray, amounts: IntArray) -> IntArray:
        """[value]: the amounts added up over the nodes that have it; `nodes` may name one more than once."""
        sums = np.zeros(len(self.values), np.int64)
        np.add.at(sums, self.codes[nodes], amounts)
        return sums

    def holds(self, wanted: Requirement) -> BoolArray:
        """[node]: does the label satisfy the requirement?"""
        if wanted.operator == "In":
            codes = [self.code_of[value] for value in wanted.values if value in self.code_of]
            holds = np.zeros(len(self.codes), np.bool_)
            for code in codes:
                holds |= self.codes == code
            return holds
        return self.lift(wanted.holds)


def encode(values: Sequence[Any], key: Callable[[Any], Any] = lambda value: value) -> Encoded:
    """Dictionary-encode `values`; two are the same if `key` gives the same."""
    index: dict[Any, int] = {}
    distinct: list[Any] = []
    codes = np.empty(len(values), np.int32)
    for row, value in enumerate(values):
        identity = key(value)
        code = index.get(identity)
        if code is None:
            code = index[identity] = len(distinct)
            distinct.append(value)
        codes[row] = code
    return Encoded(codes, tuple(distinct))


@dataclass(frozen=True, slots=True)
class PodGroupKey:
    """What selectors look at in a pod: pods that share it match alike."""

    namespace: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class Layout:
    """A node's running pods by importance: rank 0 is the pod that a preemption takes last.

    Importance: higher priority, then earlier start, then listing order (scheduler util.MoreImportantPod, v1.36).
    """

    pod: npt.NDArray[np.int32]
    """[k, node] -> pod row, -1 where the node has fewer pods."""
    rank: npt.NDArray[np.int32]
    """[pod] -> k."""
    priority: IntArray
    """[k, node], NEVER where there is no pod (so that it is never lower than a preemptor's)."""
    demand: IntArray
    """[k, resource, node]."""
    taken: IntArray
    """[k, resource, node]: sum of the demands of ranks < k; k runs to K inclusive."""


@dataclass(frozen=True, slots=True)
class PodAmounts:
    """One column: how much some running pods take; all others take nothing."""

    pods: IntArray
    """Pod rows, each at most once."""
    nodes: IntArray
    """[place in pods] -> node row."""
    amounts: IntArray

    def without(self, pods: Sequence[int]) -> "PodAmounts":
        """The column, some pods left out."""
        kept = ~np.isin(self.pods, pods)
        return PodAmounts(self.pods[kept], self.nodes[kept], self.amounts[kept])

    def per_node(self, size: int) -> IntArray:
        """[node] sums, of so many nodes."""
        totals = np.zeros(size, np.int64)
        np.add.at(totals, self.nodes, self.amounts)
        return totals


@dataclass(frozen=True, slots=True)
class Placed:
    """Columns of amounts that are laid out by rank and node only where a dry run asks for it."""

    layout: Layout
    columns: tuple[PodAmounts, ...]
    rows: IntArray | None = None
    """Which nodes; None: all."""

    def at(self, rows: IntArray) -> "Placed":
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def laid_out(self) -> IntArray:
        """[k, column, node]."""
        depth, size = self.layout.pod.shape
        places = np.arange(size)
        if self.rows is not None:
            places = np.full(size, -1)
            size = len(self.rows)
            places[self.rows] = np.arange(size)
        laid_out = np.zeros((depth, len(self.columns), size), np.int64)
        for number, column in enumerate(self.columns):
            place = places[column.nodes]
            here = place >= 0
            laid_out[self.layout.rank[column.pods[here]], number, place[here]] = column.amounts[here]
        return laid_out


class Snapshot:
    """An immutable view of the cluster. Build with `Snapshot.build`; a node's row is its place in `nodes`."""

    def __init__(self, objects: ClusterObjects) -> None:
        self.objects = objects
        self._memo: dict[Callable[[Snapshot], Any], Any] = {}
        self._memo_by: dict[Callable[[Snapshot, Any], Any], dict[Any, Any]] = {}
        self.nodes: tuple[Node, ...] = objects.nodes
        self.node_names: tuple[str, ...] = tuple(node.metadata.name for node in self.nodes)
        self.node_row: dict[str, int] = {name: row for row, name in enumerate(self.node_names)}
        self.budgets: tuple[PodDisruptionBudget, ...] = objects.budgets
        self.pods: tuple[Pod, ...] = tuple(filter(self._is_running, objects.pods))
        self.pod_node = np.fromiter(
            (self.node_row[pod.spec.node_name] for pod in self.pods), np.int64, count=len(self.pods)
        )
        self.usage: tuple[Usage, ...] = tuple(map(running_usage, self.pods))
        self.nominees: tuple[Pod, ...] = tuple(filter(self._is_nominee, objects.pods))

    @classmethod
    def build(cls, objects: ClusterObjects) -> "Snapshot":
        """Read the objects once; raises QuantityError if a quantity does not parse."""
        snapshot = cls(objects)
        # What every request needs is computed before the snapshot is handed out; the rest on first use.
        _ = snapshot.layout, snapshot.allocatable, snapshot.used
        return snapshot

    def _is_running(self, pod: Pod) -> bool:
        """Assigned to a known node and not finished; terminating pods do count."""
        return pod.spec.node_name in self.node_row and pod.status.phase not in _TERMINAL_PHASES

    def _is_nominee(self, pod: Pod) -> bool:
        """Waiting with a room reserved on a known node (backend/queue/nominator.go, v1.36)."""
        return (
            not pod.spec.node_name
            and pod.status.nominated_node_name in self.node_row
            and pod.status.phase not in _TERMINAL_PHASES
        )

    def memo(self, build: "Callable[[Snapshot], T]") -> T:
        """`build(self)`, computed once per snapshot: for what other modules derive from it alone."""
        if build not in self._memo:
            self._memo[build] = build(self)
        return cast(T, self._memo[build])

    def memo_by(self, build: "Callable[[Snapshot, K], T]", key: K) -> T:
        """`build(self, key)`, remembered for the last so many keys of the same function."""
        cache = self._memo_by.setdefault(build, {})
        built = cache.get(key, _ABSENT)
        if built is _ABSENT:
            built = build(self, key)
            if len(cache) >= _REMEMBERED:
                cache.pop(next(iter(cache)), None)
            cache[key] = built
        return cast(T, built)

    # --- nodes ------------------------------------------------------------------------------------------------

    @cached_property
    def _node_resources(self) -> tuple[dict[str, int], ...]:
        return tuple(allocatable(node.status.allocatable) for node in self.nodes)

    @cached_property
    def allocatable(self) -> IntArray:
        """[resource, node]."""
        rows = [[bounded(own.get(name, 0)) for name in BASE_RESOURCES] for own in self._node_resources]
        return np.array(rows, np.int64).reshape(len(self.nodes), len(BASE_RESOURCES)).T.copy()

    def scalar_allocatable(self, resource: str) -> IntArray:
        """[node] of an extended resource; 0 where a node does not have it."""
        return self.memo_by(_scalar_allocatable, resource)

    def label(self, key: str) -> LabelColumn:
        """The nodes' values of one label."""
        return self.memo_by(_label_column, key)

    @cached_property
    def taints(self) -> Encoded:
        return encode([node.spec.taints or [] for node in self.nodes], key=msgspec.json.encode)

    @cached_property
    def unschedulable(self) -> BoolArray:
        return np.fromiter((node.spec.unschedulable for node in self.nodes), np.bool_, len(self.nodes))

    @cached_property
    def declared_features(self) -> Encoded:
        return encode([frozenset(node.status.declared_features or ()) for node in self.nodes])

    @cached_property
    def name_order(self) -> IntArray:
        """[node] -> place among all names in alphabetical order: the last tie-breaker."""
        order = np.empty(len(self.nodes), np.int64)
        order[np.array(sorted(range(len(self.nodes)), key=self.node_names.__getitem__), np.int64)] = np.arange(
            len(self.nodes)
        )
        return order

    @cached_property
    def namespace_labels(self) -> Mapping[str, Labels]:
        return {namespace.metadata.name: namespace.metadata.labels or {} for namespace in self.objects.namespaces}

    # --- running pods -----------------------------------------------------------------------------------------

    @cached_property
    def priority(self) -> IntArray:
        return np.fromiter((pod.priority for pod in self.pods), np.int64, len(self.pods))

    @cached_property
    def start(self) -> IntArray:
        """[pod] -> start time in nanoseconds since 1970, NEVER if it has none."""
        return np.fromiter((start_time(pod) for pod in self.pods), np.int64, len(self.pods))

    @cached_property
    def terminating(self) -> BoolArray:
        """[pod]."""
        leaving = (pod.metadata.deletion_timestamp is not None for pod in self.pods)
        return np.fromiter(leaving, np.bool_, len(self.pods))

    @cached_property
    def demand(self) -> IntArray:
        """[pod, resource]."""
        rows = [[bounded((u.requests | {"pods": 1}).get(name, 0)) for name in BASE_RESOURCES] for u in self.usage]
        return np.array(rows, np.int64).reshape(len(self.pods), len(BASE_RESOURCES))

    @cached_property
    def used(self) -> IntArray:
        """[resource, node]: what the running pods request."""
        used: IntArray = self.layout.taken[-1]
        return used

    @cached_property
    def non_zero_used(self) -> IntArray:
        """[2, node]: cpu and memory with a default for containers that request none; scoring uses it."""
        used = np.zeros((2, len(self.nodes)), np.int64)
        for node, usage in zip(self.pod_node.tolist(), self.usage, strict=True):
            used[0, node] += bounded(usage.non_zero_cpu)
            used[1, node] += bounded(usage.non_zero_memory)
        return used

    def amounts(self, of_pods: Mapping[int, int]) -> PodAmounts:
        """A column from pod row -> amount."""
        rows = np.fromiter(of_pods, np.int64, len(of_pods))
        return PodAmounts(rows, self.pod_node[rows], np.fromiter(of_pods.values(), np.int64, len(of_pods)))

    def scalar_demand(self, resource: str) -> PodAmounts:
        """Of the pods that request an extended resource."""
        return self.memo_by(_scalar_demand, resource)

    def scalar_used(self, resource: str) -> IntArray:
        """[node]."""
        return self.scalar_demand(resource).per_node(len(self.nodes))

    @cached_property
    def pod_groups(self) -> Encoded:
        """[pod] -> PodGroupKey: a selector is asked once per namespace and label set."""
        keys = [PodGroupKey(pod.metadata.namespace, pod.metadata.labels or {}) for pod in self.pods]
        return encode(keys, key=lambda key: (key.namespace, labels_key(key.labels)))

    @cached_property
    def layout(self) -> Layout:
        order = np.lexsort((self.start, -self.priority, self.pod_node))
        nodes = self.pod_node[order]
        counts = np.bincount(nodes, minlength=len(self.nodes))
        firsts = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else counts
        ranks = np.arange(len(order)) - firsts[nodes]
        depth = int(counts.max(initial=1))  # never empty, so that reductions over it are defined
        pod = np.full((depth, len(self.nodes)), -1, np.int32)
        pod[ranks, nodes] = order
        rank = np.empty(len(self.pods), np.int32)
        rank[order] = ranks
        priority = np.full(pod.shape, NEVER, np.int64)
        priority[ranks, nodes] = self.priority[order]
        demand = np.zeros((depth, len(BASE_RESOURCES), len(self.nodes)), np.int64)
        demand[ranks, :, nodes] = self.demand[order]
        taken = np.zeros((depth + 1, *demand.shape[1:]), np.int64)
        np.cumsum(demand, axis=0, out=taken[1:])
        return Layout(pod, rank, priority, demand, taken)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """The running pods of one node, most important first."""
        column = self.layout.pod[:, self.node_row[node]].tolist()
        return tuple(self.pods[row] for row in column if row >= 0)

    @cached_property
    def uids(self) -> tuple[frozenset[str], ...]:
        """[node]: the UIDs of its running pods."""
        uids: list[set[str]] = [set() for _ in self.nodes]
        for node, pod in zip(self.pod_node.tolist(), self.pods, strict=True):
            uids[node].add(pod.metadata.uid)
        return tuple(map(frozenset, uids))


def _label_column(snapshot: Snapshot, key: str) -> LabelColumn:
    return LabelColumn.of([(node.metadata.labels or {}).get(key) for node in snapshot.nodes])


def _scalar_allocatable(snapshot: Snapshot, resource: str) -> IntArray:
    amounts = (bounded(own.get(resource, 0)) for own in snapshot._node_resources)
    return np.fromiter(amounts, np.int64, len(snapshot.nodes))


def _scalar_demand(snapshot: Snapshot, resource: str) -> PodAmounts:
    asking = enumerate(usage.requests for usage in snapshot.usage)
    return snapshot.amounts({row: bounded(asked[resource]) for row, asked in asking if resource in asked})


def bounded(amount: int) -> int:
    """An amount as a column holds it."""
    return min(max(amount, -LARGEST), LARGEST)


def start_time(pod: Pod) -> int:
    """Nanoseconds since 1970, NEVER if the pod has not started.

    Raises ValueError if the text is no time with a zone, or not one of the years 1678 to 2262 that nanoseconds reach.
    """
    text = pod.status.start_time
    if not text:
        return int(NEVER)
    try:
        started = datetime.fromisoformat(_FRACTION.sub("", text))
    except ValueError:
        started = None
    if started is None or started.tzinfo is None or not 1678 <= started.year < 2262:
        raise ValueError(f"expected a time such as 2026-01-31T08:00:00Z, got {text[:40]!r}")
    since = started - _EPOCH
    fraction = _FRACTION.search(text)
    nanoseconds = int(fraction[0][1:10].ljust(9, "0")) if fraction else 0
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + nanoseconds
