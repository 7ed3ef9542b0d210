"""The cluster as decisions read it: nodes and running pods in rows, with columns over both.

Its owner changes it object by object (`put`, `remove`) and then has the nodes that were touched laid out anew
(`settle`). What modules make of it is remembered until something that it was read from changes (`derived`,
`derived_by`), or is an `Index`, which follows object by object.

Rule: it changes between decisions and never during one; changes and decisions belong to one thread.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import wraps
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args

import msgspec
import numpy as np

from extender.core.snapshot.arrays import (
    BASE_RESOURCES,
    BoolArray,
    Encoded,
    IntArray,
    LabelColumn,
    PodAmounts,
    bounded,
    encode,
)
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.pod_table import PodPart, PodTable, differences, identity, is_finished
from extender.k8s.kinds import KINDS, ClusterObjects, Key, ObjectTables, key_of
from extender.k8s.objects import Labels, Node, Pod, PodDisruptionBudget, Value
from extender.k8s.requests import allocatable

Aspect = Literal[
    "nodes",
    "taints",
    "allocatable",
    "images",
    "pods",
    "pod_labels",
    "budgets",
    "namespaces",
    "priority_classes",
    "services",
    "replication_controllers",
    "replica_sets",
    "stateful_sets",
    "claims",
    "volumes",
    "storage_classes",
    "csi_nodes",
    "csi_drivers",
    "csi_storage_capacities",
    "volume_attachments",
    "device_classes",
    "pod_groups",
    "coscheduling_groups",
]
"""What changes by itself. `nodes`: which there are, their labels and features; `taints`: with unschedulable; `pods`:
which run where, their specs and statuses; `pod_labels`: those of pods that go on running; the others are kinds of
objects, as fields of ObjectTables."""

BUILDING_ORDER = (*(kind for kind in KINDS if kind != "Pod"), "Pod")
"""Of kinds, when a whole cluster is put in: last what everything else says something about."""

_LAID_OUT: frozenset[PodPart] = frozenset({"spec", "status"})
"""Parts of a pod that its row and its place among its node's pods are made of."""

_OF_NODES: tuple[Aspect, ...] = ("nodes", "taints", "allocatable", "images")

Observer = Callable[[str, Key, Value | None], None]
"""Told of every change once it is made: kind, key, and the object, or None if it went."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
I = TypeVar("I", bound="Index")  # noqa: E741


class Index:
    """Something that is kept up to date with every change; take it from `Snapshot.index`. It starts empty."""

    reads: ClassVar[tuple[str, ...]] = ()
    """Fields of ObjectTables whose objects it follows; `pods` are not among them."""

    looks_at: ClassVar[frozenset[PodPart]] = frozenset(get_args(PodPart))
    """Parts of a running pod: a change of others is none to it."""

    def __init__(self, snapshot: "Snapshot") -> None:
        # No cycle: a snapshot that another one replaces is to be gone with its last reader, not when cycles are sought.
        self.snapshot: Snapshot = weakref.proxy(snapshot)

    def pod_added(self, row: int, pod: Pod) -> None:
        """A pod runs in this row from now on."""

    def pod_removed(self, row: int, pod: Pod) -> None:
        """This pod is about to leave its row, or its node to change rows."""

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        """The pod of this row is in another state now, on the node that it was on; `parts` of it are others."""
        self.pod_removed(row, before)
        self.pod_added(row, after)

    def object_changed(self, field: str, before: Any, after: Any) -> None:
        """An object of the tables came (no `before`), changed or went (no `after`)."""


class Snapshot:
    """Nodes, running pods and everything else that decisions read. A node's row is its place in `nodes`."""

    def __init__(self) -> None:
        self.objects = ObjectTables()
        """Every object by kind and key, also the pods that do not run."""
        self._unread: frozenset[str] = frozenset()
        self.changes = 0
        """How often an object came, changed or went, or other kinds may be read."""
        self.running = PodTable()
        self.layout = NodeLayout(self.running.importance)
        """In kube-scheduler's order of importance."""
        self.nodes: list[Node] = []
        self.node_names: list[str] = []
        self._fixed_names: tuple[str, ...] | None = None
        self.node_row: dict[str, int] = {}
        self.node_order: dict[str, int] = {}
        """Node name -> place in listing order."""
        self.observer: Observer | None = None
        self._resources: list[dict[str, int]] = []
        self._base: list[tuple[int, ...]] = []
        self._touched: set[int] = set()
        self._orders: dict[Key, int] = {}
        self._came = 0
        self._nominees: dict[Key, Pod] = {}
        self._homeless: dict[str, set[Key]] = defaultdict(set)
        self._indexes: dict[tuple[Hashable, ...], Index] = {}
        self._following: dict[str, list[Index]] = defaultdict(list)
        self._looking_at: dict[frozenset[PodPart], list[Index]] = {}
        self._versions: dict[str, int] = defaultdict(int)
        self._memo: dict[Callable[..., Any], dict[Any, tuple[tuple[int, ...], Any]]] = defaultdict(dict)

    @classmethod
    def build(cls, objects: ClusterObjects) -> "Snapshot":
        """A snapshot of these objects, settled; raises ValueError if one of them cannot be read."""
        snapshot = cls()
        snapshot.unread = frozenset(objects.unread)
        for kind in BUILDING_ORDER:
            for one in getattr(objects, KINDS[kind].field):
                snapshot.put(kind, one)
        snapshot.settle()
        return snapshot

    def frozen(self) -> ClusterObjects:
        """What is there now."""
        return msgspec.structs.replace(self.objects.frozen(), unread=tuple(sorted(self.unread)))

    @property
    def unread(self) -> frozenset[str]:
        """Fields of ObjectTables about which nothing is known, because they may not be read."""
        return self._unread

    @unread.setter
    def unread(self, fields: frozenset[str]) -> None:
        self._unread = fields
        self.changes += 1

    # --- changes ----------------------------------------------------------------------------------------------

    def put(self, kind: str, one: Value) -> None:
        """An object came or changed; ValueError, and nothing changes, if it cannot be read."""
        self.changes += 1
        if isinstance(one, Pod):
            self._put_pod(one)
        elif isinstance(one, Node):
            self._put_node(one)
        else:
            table, key = self.objects.of(kind), key_of(kind, one)
            before, table[key] = table.get(key), one
            if before is None or not _alike(before, one):
                self._changed(KINDS[kind].field, before, one)
        if self.observer is not None:
            self.observer(kind, key_of(kind, one), one)

    def remove(self, kind: str, key: Key) -> None:
        """An object went; KeyError if it was not there."""
        self.changes += 1
        before = self.objects.of(kind).pop(key)
        if isinstance(before, Pod):
            self._withdraw(key, before)
        elif isinstance(before, Node):
            self._remove_node(before)
        else:
            self._changed(KINDS[kind].field, before, None)
        if self.observer is not None:
            self.observer(kind, key, None)

    def settle(self, at_most: int | None = None) -> bool:
        """Lay out the nodes that changes touched, or some of them -> whether all are laid out now.

        Decisions need all of them.
        """
        nodes = sorted(self._touched)[:at_most]
        if not nodes and self.layout.pod.shape[1] == len(self.nodes):
            return True
        deepest = max((len(self.running.on_node[node]) for node in self._touched), default=1)
        self.layout.resize(max(deepest, 1), len(self.nodes), len(self.running.node))
        self.layout.lay_out(nodes, [self.running.on_node[node].values() for node in nodes], self.running)
        self._touched.difference_update(nodes)
        return not self._touched

    def dismantle(self) -> Iterator[None]:
        """Let go of everything in steps, when nobody reads it any more: to free it all at once holds everybody up."""
        tables = [getattr(self.objects, of_kind.field) for of_kind in KINDS.values()]
        holders = (*self._indexes.values(), self.running, self)
        for one in (*tables, *(value for holder in holders for value in vars(holder).values())):
            while isinstance(one, (dict, list, set)) and one:
                _take_some(one)
                yield

    def _changed(self, field: str, before: Value | None, after: Value | None) -> None:
        self._versions[field] += 1
        for index in self._following[field]:
            index.object_changed(field, before, after)

    # --- changes of pods --------------------------------------------------------------------------------------

    def _put_pod(self, pod: Pod) -> None:
        key, table = key_of("Pod", pod), self.objects.pods
        before = table.get(key)
        same = before is not None and identity(before) == identity(pod)
        if before is not None and same and self._change(key, before, pod):
            return
        if not same and identity(pod) in self.running.row_of:
            raise ValueError(f"has the same UID as pod {self.running.pods[self.running.row_of[identity(pod)]].key}")
        self.running.check(pod)
        order = self._came
        if before is None or not same:
            self._came += 1
        if before is not None:
            withdrawn = self._withdraw(key, before)
            order = withdrawn if same else order
        if not same:
            table.pop(key, None)  # another pod of the same name stands at the end of the list
        table[key] = pod
        self._admit(key, pod, order)

    def _change(self, key: Key, before: Pod, pod: Pod) -> bool:
        """The pod is in another state -> whether that was all: it went on running, or waiting, where it was."""
        parts = differences(before, pod)
        if key not in self._orders:
            if parts and (is_finished(pod) or pod.spec.node_name != before.spec.node_name):
                return False
            self._go_on(self.running.row_of[identity(pod)], before, pod, parts)
        elif parts:
            return False
        elif key in self._nominees:
            self._nominees[key] = pod
        self.objects.pods[key] = pod
        return True

    def _go_on(self, row: int, before: Pod, pod: Pod, parts: frozenset[PodPart]) -> None:
        """A running pod changed in these parts. Its node is laid out anew only if its pods may stand otherwise."""
        if parts.isdisjoint(_LAID_OUT):
            self.running.pods[row] = pod
        else:
            if self.running.change(row, pod):
                self._touched.add(int(self.running.node[row]))
            self._versions["pods"] += 1
        if "labels" in parts:
            self._versions["pod_labels"] += 1
        for index in self._concerned(parts):
            index.pod_changed(row, before, pod, parts)

    def _concerned(self, parts: frozenset[PodPart]) -> list[Index]:
        """The indexes that look at one of these parts of pods."""
        found = self._looking_at.get(parts)
        if found is None:
            found = [index for index in self._following["pods"] if not parts.isdisjoint(index.looks_at)]
            self._looking_at[parts] = found
        return found

    def _admit(self, key: Key, pod: Pod, order: int) -> None:
        node = self.node_row.get(pod.spec.node_name)
        if node is not None and not is_finished(pod):
            self._start(pod, node, order)
            return
        self._orders[key] = order
        if is_finished(pod):
            return
        if pod.spec.node_name:
            self._homeless[pod.spec.node_name].add(key)
        elif pod.status.nominated_node_name:
            self._nominees[key] = pod

    def _withdraw(self, key: Key, pod: Pod) -> int:
        """The contrary of `_admit` -> the pod's place in listing order."""
        order = self._orders.pop(key, None)
        if order is None:
            return self._stop(self.running.row_of[identity(pod)])
        self._nominees.pop(key, None)
        waiting = self._homeless.get(pod.spec.node_name)
        if waiting is not None:
            waiting.discard(key)
            if not waiting:
                del self._homeless[pod.spec.node_name]
        return order

    def _start(self, pod: Pod, node: int, order: int) -> None:
        row = self.running.add(pod, node, order)
        self._touched.add(node)
        self._versions["pods"] += 1
        for index in self._following["pods"]:
            index.pod_added(row, pod)

    def _stop(self, row: int) -> int:
        pod, order = self.running.pods[row], int(self.running.order[row])
        for index in self._following["pods"]:
            index.pod_removed(row, pod)
        self._touched.add(int(self.running.node[row]))
        self._versions["pods"] += 1
        self.running.remove(row)
        return order

    # --- changes of nodes -------------------------------------------------------------------------------------

    def _put_node(self, node: Node) -> None:
        name, resources = node.metadata.name, allocatable(node.status.allocatable)
        before = self.objects.nodes.get(("", name))
        self.objects.nodes["", name] = node
        if before is None:
            self._add_node(node, resources)
        else:
            row = self.node_row[name]
            self.nodes[row], self._resources[row], self._base[row] = node, resources, _base(resources)
            for aspect in _differences(before, node):
                self._versions[aspect] += 1
        self._follow_node(before, node)

    def _add_node(self, node: Node, resources: dict[str, int]) -> None:
        name, row = node.metadata.name, len(self.nodes)
        self.nodes.append(node)
        self.node_names.append(name)
        self._resources.append(resources)
        self._base.append(_base(resources))
        self.node_row[name] = row
        self.node_order[name] = self._came
        self._came += 1
        self.running.add_node()
        self._nodes_moved(row)
        for key in sorted(self._homeless.pop(name, ()), key=self._orders.__getitem__):
            self._start(self.objects.pods[key], row, self._orders.pop(key))

    def _remove_node(self, node: Node) -> None:
        """The last node takes the row of the one that went."""
        name = node.metadata.name
        row, last = self.node_row.pop(name), len(self.nodes) - 1
        del self.node_order[name]
        for pod, order in self._stop_all(row):
            self._orders[key_of("Pod", pod)] = order
            self._homeless[name].add(key_of("Pod", pod))
        moving = self._stop_all(last) if last != row else []
        _take_out(self.nodes, row)
        _take_out(self.node_names, row)
        _take_out(self._resources, row)
        _take_out(self._base, row)
        self.running.remove_last_node()
        if last != row:
            self.node_row[self.node_names[row]] = row
        self._touched.discard(last)
        self._nodes_moved(row if last != row else None)
        for pod, order in moving:
            self._start(pod, row, order)
        self._follow_node(node, None)

    def _stop_all(self, node: int) -> list[tuple[Pod, int]]:
        """The pods of a node, with their places in listing order, none of which runs any more."""
        return [(self.running.pods[row], self._stop(row)) for row in list(self.running.on_node[node].values())]

    def _nodes_moved(self, row: int | None) -> None:
        self._fixed_names = None
        if row is not None:
            self._touched.add(row)
        for aspect in (*_OF_NODES, "pods"):
            self._versions[aspect] += 1

    def _follow_node(self, before: Node | None, after: Node | None) -> None:
        for index in self._following["nodes"]:
            index.object_changed("nodes", before, after)

    # --- what is made of it -----------------------------------------------------------------------------------

    def index(self, kind: type[I], *of: Hashable) -> I:
        """The index of that class (and of what else its constructor takes), built at the first call.

        It follows after the indexes that its constructor asks for.
        """
        key: tuple[Hashable, ...] = cast(Hashable, kind), *of
        found = self._indexes.get(key)
        if found is None:
            found = kind(self, *of)
            for field in kind.reads:
                for one in getattr(self.objects, field).values():
                    found.object_changed(field, None, one)
                self._following[field].append(found)
            if kind.pod_added is not Index.pod_added:
                for row, pod in self.running_pods():
                    found.pod_added(row, pod)
                self._following["pods"].append(found)
                self._looking_at.clear()
            self._indexes[key] = found
        return cast(I, found)

    def remembered(self, build: Callable[..., T], reads: tuple[Aspect, ...], key: Any, at_most: int) -> T:
        """What `build` made of the snapshot and the key, unless one of `reads` has changed since."""
        versions = tuple([self._versions[aspect] for aspect in reads])
        cache = self._memo[build]
        known = cache.get(key)
        if known is not None and known[0] == versions:
            return cast(T, known[1])
        built = build(self) if key is None else build(self, key)
        cache.pop(key, None)
        if len(cache) >= at_most:
            cache.pop(next(iter(cache)))
        cache[key] = versions, built
        return built

    # --- nodes ------------------------------------------------------------------------------------------------

    @property
    def allocatable(self) -> IntArray:
        """[resource, node]."""
        return _allocatable(self)

    def scalar_allocatable(self, resource: str) -> IntArray:
        """[node] of an extended resource; 0 where a node does not have it."""
        return _scalar_allocatable(self, resource)

    def label(self, key: str) -> LabelColumn:
        """The nodes' values of one label."""
        return _label_column(self, key)

    @property
    def taints(self) -> Encoded:
        return _taints(self)

    @property
    def unschedulable(self) -> BoolArray:
        return _unschedulable(self)

    @property
    def declared_features(self) -> Encoded:
        return _declared_features(self)

    @property
    def fixed_names(self) -> tuple[str, ...]:
        """`node_names` as they are now: the same object until a node comes or goes."""
        if self._fixed_names is None:
            self._fixed_names = tuple(self.node_names)
        return self._fixed_names

    @property
    def name_order(self) -> IntArray:
        """[node] -> place among all names in alphabetical order: the last tie-breaker."""
        return _name_order(self)

    @property
    def namespace_labels(self) -> Mapping[str, Labels]:
        return _namespace_labels(self)

    @property
    def budgets(self) -> tuple[PodDisruptionBudget, ...]:
        return _budgets(self)

    # --- pods -------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> list[Pod]:
        """[pod]: see RunningPods."""
        return self.running.pods

    @property
    def pod_node(self) -> IntArray:
        """[pod] -> node row."""
        return self.running.node

    @property
    def used(self) -> IntArray:
        """[resource, node]: what the running pods request."""
        return self.layout.used

    @property
    def nominees(self) -> Iterator[Pod]:
        """Pods that wait with a room reserved on a known node (backend/queue/nominator.go, v1.36)."""
        return (pod for pod in self._nominees.values() if pod.status.nominated_node_name in self.node_row)

    def running_pods(self) -> Iterator[tuple[int, Pod]]:
        """Every running pod with its row."""
        return ((row, self.running.pods[row]) for row in self.running.row_of.values())

    def running_row(self, pod: Pod) -> int | None:
        """None if it does not run."""
        return self.running.row_of.get(identity(pod))

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """The running pods of one node, most important first."""
        column = self.layout.pod[:, self.node_row[node]].tolist()
        return tuple(self.pods[row] for row in column if row >= 0)

    def amounts(self, of_pods: Mapping[int, int]) -> PodAmounts:
        """A column from pod row -> amount."""
        rows = np.fromiter(of_pods, np.int64, len(of_pods))
        return PodAmounts(rows, self.pod_node[rows], np.fromiter(of_pods.values(), np.int64, len(of_pods)))

    def scalar_demand(self, resource: str) -> PodAmounts:
        """Of the pods that request an extended resource."""
        return self.amounts(self.running.asking.get(resource, {}))

    def scalar_used(self, resource: str) -> IntArray:
        """[node]."""
        return self.scalar_demand(resource).per_node(len(self.nodes))


# --- deriving ---------------------------------------------------------------------------------------------------------


def derived(*reads: Aspect) -> Callable[[Callable[[Snapshot], T]], Callable[[Snapshot], T]]:
    """Make a function of a snapshot remember its result until one of `reads`, all that it looks at, changes."""

    def decorate(build: Callable[[Snapshot], T]) -> Callable[[Snapshot], T]:
        return wraps(build)(lambda snapshot: snapshot.remembered(build, reads, None, 1))

    return decorate


def derived_by(
    *reads: Aspect, at_most: int = 128
) -> Callable[[Callable[[Snapshot, K], T]], Callable[[Snapshot, K], T]]:
    """The same for a function that also takes a key; results for the last `at_most` keys are remembered."""

    def decorate(build: Callable[[Snapshot, K], T]) -> Callable[[Snapshot, K], T]:
        return wraps(build)(lambda snapshot, key: snapshot.remembered(build, reads, key, at_most))

    return decorate


@derived("allocatable")
def _allocatable(snapshot: Snapshot) -> IntArray:
    return np.array(snapshot._base, np.int64).reshape(len(snapshot.nodes), len(BASE_RESOURCES)).T.copy()


def _base(resources: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(bounded(resources.get(name, 0)) for name in BASE_RESOURCES)


@derived_by("allocatable")
def _scalar_allocatable(snapshot: Snapshot, resource: str) -> IntArray:
    amounts = (bounded(own.get(resource, 0)) for own in snapshot._resources)
    return np.fromiter(amounts, np.int64, len(snapshot.nodes))


@derived_by("nodes")
def _label_column(snapshot: Snapshot, key: str) -> LabelColumn:
    return LabelColumn.of([(node.metadata.labels or {}).get(key) for node in snapshot.nodes])


@derived("taints")
def _taints(snapshot: Snapshot) -> Encoded:
    of_node = [node.spec.taints or [] for node in snapshot.nodes]
    return encode(of_node, key=lambda taints: tuple((taint.key, taint.value, taint.effect) for taint in taints))


@derived("taints")
def _unschedulable(snapshot: Snapshot) -> BoolArray:
    return np.fromiter((node.spec.unschedulable for node in snapshot.nodes), np.bool_, len(snapshot.nodes))


@derived("nodes")
def _declared_features(snapshot: Snapshot) -> Encoded:
    return encode([frozenset(node.status.declared_features or ()) for node in snapshot.nodes])


@derived("nodes")
def _name_order(snapshot: Snapshot) -> IntArray:
    order = np.empty(len(snapshot.nodes), np.int64)
    order[np.array(sorted(range(len(order)), key=snapshot.node_names.__getitem__), np.int64)] = np.arange(len(order))
    return order


@derived("namespaces")
def _namespace_labels(snapshot: Snapshot) -> Mapping[str, Labels]:
    return {one.metadata.name: one.metadata.labels or {} for one in snapshot.objects.namespaces.values()}


@derived("budgets")
def _budgets(snapshot: Snapshot) -> tuple[PodDisruptionBudget, ...]:
    return tuple(snapshot.objects.budgets.values())


def _take_some(container: dict[Any, Any] | list[Any] | set[Any]) -> None:
    if isinstance(container, list):
        del container[-1000:]
        return
    for _ in range(min(1000, len(container))):
        container.popitem() if isinstance(container, dict) else container.pop()


def _take_out(column: list[T], row: int) -> None:
    """The last one takes its place."""
    column[row] = column[-1]
    column.pop()


def _alike(before: Value, after: Value) -> bool:
    """Is all the same but the version?"""
    fields = [field for field in before.__struct_fields__ if field != "metadata"]
    a, b = before.metadata, after.metadata  # type: ignore[attr-defined]
    return (
        all(getattr(before, field) == getattr(after, field) for field in fields)
        and (a.uid, a.labels, a.annotations, a.owner_references) == (b.uid, b.labels, b.annotations, b.owner_references)
        and a.deletion_timestamp == b.deletion_timestamp
        and a.generation == b.generation
    )


def _differences(before: Node, after: Node) -> Iterator[Aspect]:
    """What of a node changed that decisions read."""
    if (before.metadata.labels, before.status.declared_features) != (
        after.metadata.labels,
        after.status.declared_features,
    ):
        yield "nodes"
    if before.spec != after.spec:
        yield "taints"
    if before.status.allocatable != after.status.allocatable:
        yield "allocatable"
    if before.status.images != after.status.images:
        yield "images"
