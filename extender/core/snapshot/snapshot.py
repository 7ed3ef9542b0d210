"""The cluster that a decision reads: nodes and running pods in rows, with numpy columns over both.

Counterpart of kube-scheduler's backend/cache Snapshot; `pod_table` and `layout` hold what upstream keeps in one
NodeInfo per node. The owner changes it object by object (`put`, `remove`) and then updates the arrays of the changed
nodes (`refresh_layout`). Modules keep their own data beside it: results that are computed again once something that
they read has changed (`derived`, `derived_by`), and indexes, which follow every change (`Index`).

Rule: it changes between decisions and never during one; changes and decisions belong to one thread.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from extender.core.snapshot import derived
from extender.core.snapshot.arrays import BoolArray, Encoded, IntArray, LabelColumn, PodAmounts
from extender.core.snapshot.derived import Aspect
from extender.core.snapshot.event_handler import SnapshotEventHandler
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.pod_table import PodPart, PodsWithoutRow, PodTable, changed_parts, identity, is_finished
from extender.k8s.kinds import KIND_LOAD_ORDER, KINDS, ClusterObjects, Key, ObjectTables, key_of
from extender.k8s.objects import Labels, Node, Pod, PodDisruptionBudget, Value
from extender.k8s.requests import allocatable

_LAYOUT_PARTS: frozenset[PodPart] = frozenset({"spec", "status"})
"""Parts of a pod that decide its row's values and its rank on its node."""

_NODE_ASPECTS: tuple[Aspect, ...] = ("nodes", "taints", "allocatable", "images")

Observer = Callable[[str, Key, Value | None], None]
"""Called after every change with the kind, the key, and the object, or None if it was removed."""

T = TypeVar("T")
I = TypeVar("I", bound="Index")  # noqa: E741


class Snapshot:
    """Nodes, running pods and everything else that decisions read. A node's row is its place in `nodes`."""

    def __init__(self) -> None:
        self.objects = ObjectTables()
        """Every object by kind and key, pods that are not running included."""
        self._unreadable_tables: frozenset[str] = frozenset()
        self.changes = 0
        """Number of changes so far, of objects and of the set of unreadable kinds."""
        self.pod_table = PodTable()
        self.layout = NodeLayout(self.pod_table.importance)
        """Pods by node and rank, in kube-scheduler's order of importance."""
        self.nodes: list[Node] = []
        self.node_names: list[str] = []
        self._frozen_node_names: tuple[str, ...] | None = None
        self.node_row: dict[str, int] = {}
        self.node_order: dict[str, int] = {}
        """Node name -> place in listing order."""
        self.observer: Observer | None = None
        self.node_resources: list[dict[str, int]] = []
        """[node]: allocatable amounts by resource name, in the scheduler's units."""
        self.base_resources: list[tuple[int, ...]] = []
        """[node]: allocatable amounts of BASE_RESOURCES."""
        self._touched: set[int] = set()
        self._without_row = PodsWithoutRow()
        self._next_order = 0
        self._indexes: dict[tuple[Hashable, ...], SnapshotEventHandler] = {}
        self._following: dict[str, list[SnapshotEventHandler]] = defaultdict(list)
        self._following_parts: dict[frozenset[PodPart], list[SnapshotEventHandler]] = {}
        self._versions: dict[str, int] = defaultdict(int)
        self._memo: dict[Callable[..., Any], dict[Any, tuple[tuple[int, ...], Any]]] = defaultdict(dict)

    @classmethod
    def build(cls, objects: ClusterObjects) -> "Snapshot":
        """Return a snapshot of these objects, arrays included; raises ValueError if one of them cannot be read."""
        snapshot = cls()
        snapshot.unreadable_tables = frozenset(objects.unreadable_tables)
        for kind in KIND_LOAD_ORDER:
            for one in getattr(objects, KINDS[kind].field):
                snapshot.put(kind, one)
        snapshot.refresh_layout()
        return snapshot

    def frozen(self) -> ClusterObjects:
        """Return all objects as an immutable value, from which `build` makes an equal snapshot."""
        return msgspec.structs.replace(self.objects.frozen(), unreadable_tables=tuple(sorted(self.unreadable_tables)))

    @property
    def unreadable_tables(self) -> frozenset[str]:
        """Fields of ObjectTables whose kinds the service may not read (RBAC)."""
        return self._unreadable_tables

    @unreadable_tables.setter
    def unreadable_tables(self, fields: frozenset[str]) -> None:
        self._unreadable_tables = fields
        self.changes += 1

    # --- changes ----------------------------------------------------------------------------------------------

    def put(self, kind: str, one: Value) -> None:
        """Add or update an object; raises ValueError, and changes nothing, if it cannot be read."""
        self.changes += 1
        if isinstance(one, Pod):
            self._put_pod(one)
        elif isinstance(one, Node):
            self._put_node(one)
        else:
            table, key = self.objects.of(kind), key_of(kind, one)
            before, table[key] = table.get(key), one
            if before is None or not derived.differs_in_version_only(before, one):
                self._notify(KINDS[kind].field, before, one)
        if self.observer is not None:
            self.observer(kind, key_of(kind, one), one)

    def remove(self, kind: str, key: Key) -> None:
        """Delete an object; raises KeyError if it is unknown."""
        self.changes += 1
        before = self.objects.of(kind).pop(key)
        if isinstance(before, Pod):
            self._withdraw(key, before)
        elif isinstance(before, Node):
            self._remove_node(before)
        else:
            self._notify(KINDS[kind].field, before, None)
        if self.observer is not None:
            self.observer(kind, key, None)

    def refresh_layout(self, max_nodes: int | None = None) -> bool:
        """Lay out the changed nodes, at most `max_nodes` of them; return whether all are laid out now.

        Decisions need all of them. Counterpart of cache.UpdateSnapshot (v1.36), which also copies changed nodes only.
        """
        nodes = sorted(self._touched)[:max_nodes]
        if not nodes and self.layout.pod.shape[1] == len(self.nodes):
            return True
        deepest = max((len(self.pod_table.on_node[node]) for node in self._touched), default=1)
        self.layout.resize(max(deepest, 1), len(self.nodes), len(self.pod_table.node))
        self.layout.lay_out(nodes, [self.pod_table.on_node[node].values() for node in nodes], self.pod_table)
        self._touched.difference_update(nodes)
        return not self._touched

    def dismantle(self) -> Iterator[None]:
        """Free everything in steps, once no reader is left: freeing it all at once would stall the thread."""
        tables = [getattr(self.objects, of_kind.field) for of_kind in KINDS.values()]
        holders = (*self._indexes.values(), self.pod_table, self._without_row, self)
        for one in (*tables, *(value for holder in holders for value in vars(holder).values())):
            while isinstance(one, (dict, list, set)) and one:
                _free_some(one)
                yield

    def _notify(self, field: str, before: Value | None, after: Value | None) -> None:
        self._versions[field] += 1
        for index in self._following[field]:
            index.object_changed(field, before, after)

    # --- changes of pods --------------------------------------------------------------------------------------

    def _put_pod(self, pod: Pod) -> None:
        key, table = key_of("Pod", pod), self.objects.pods
        before = table.get(key)
        same = before is not None and identity(before) == identity(pod)
        if before is not None and same and self._update_in_place(key, before, pod):
            return
        if not same and identity(pod) in self.pod_table.row_of:
            raise ValueError(f"has the same UID as pod {self.pod_table.pods[self.pod_table.row_of[identity(pod)]].key}")
        self.pod_table.validate(pod)
        order = self._next_order
        if before is None or not same:
            self._next_order += 1
        if before is not None:
            withdrawn = self._withdraw(key, before)
            order = withdrawn if same else order
        if not same:
            table.pop(key, None)  # a new pod of the same name goes to the end of the list
        table[key] = pod
        self._admit(key, pod, order)

    def _update_in_place(self, key: Key, before: Pod, pod: Pod) -> bool:
        """Update a pod that stays on its node, or stays without one; return False, changing nothing, if it moves."""
        parts = changed_parts(before, pod)
        if key not in self._without_row.orders:
            if parts and (is_finished(pod) or pod.spec.node_name != before.spec.node_name):
                return False
            self._update_running(self.pod_table.row_of[identity(pod)], before, pod, parts)
        elif parts:
            return False
        elif key in self._without_row.nominated:
            self._without_row.nominated[key] = pod
        self.objects.pods[key] = pod
        return True

    def _update_running(self, row: int, before: Pod, pod: Pod, parts: frozenset[PodPart]) -> None:
        """Update a running pod; its node is laid out again only if importance or amounts changed."""
        if parts.isdisjoint(_LAYOUT_PARTS):
            self.pod_table.pods[row] = pod
        else:
            if self.pod_table.change(row, pod):
                self._touched.add(int(self.pod_table.node[row]))
            self._versions["pods"] += 1
        if "labels" in parts:
            self._versions["pod_labels"] += 1
        for index in self._indexes_reading(parts):
            index.pod_changed(row, before, pod, parts)

    def _indexes_reading(self, parts: frozenset[PodPart]) -> list[SnapshotEventHandler]:
        """Return the indexes that read one of these parts of pods."""
        found = self._following_parts.get(parts)
        if found is None:
            found = [index for index in self._following["pods"] if not parts.isdisjoint(index.pod_parts)]
            self._following_parts[parts] = found
        return found

    def _admit(self, key: Key, pod: Pod, order: int) -> None:
        """Put a pod into the row of a known node, or else among the pods without a row."""
        node = self.node_row.get(pod.spec.node_name)
        if node is not None and not is_finished(pod):
            self._add_to_node(pod, node, order)
        else:
            self._without_row.add(key, pod, order)

    def _withdraw(self, key: Key, pod: Pod) -> int:
        """Undo `_admit`; return the pod's place in listing order."""
        order = self._without_row.remove(key, pod)
        return self._remove_from_node(self.pod_table.row_of[identity(pod)]) if order is None else order

    def _add_to_node(self, pod: Pod, node: int, order: int) -> None:
        row = self.pod_table.add(pod, node, order)
        self._touched.add(node)
        self._versions["pods"] += 1
        for index in self._following["pods"]:
            index.pod_added(row, pod)

    def _remove_from_node(self, row: int) -> int:
        # Indexes are called while the row still holds the pod: they read its node and its columns.
        pod, order = self.pod_table.pods[row], int(self.pod_table.order[row])
        for index in self._following["pods"]:
            index.pod_removed(row, pod)
        self._touched.add(int(self.pod_table.node[row]))
        self._versions["pods"] += 1
        self.pod_table.remove(row)
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
            self.nodes[row], self.node_resources[row] = node, resources
            self.base_resources[row] = derived.base_amounts(resources)
            for aspect in derived.changed_aspects(before, node):
                self._versions[aspect] += 1
        self._notify_of_node(before, node)

    def _add_node(self, node: Node, resources: dict[str, int]) -> None:
        name, row = node.metadata.name, len(self.nodes)
        self.nodes.append(node)
        self.node_names.append(name)
        self.node_resources.append(resources)
        self.base_resources.append(derived.base_amounts(resources))
        self.node_row[name] = row
        self.node_order[name] = self._next_order
        self._next_order += 1
        self.pod_table.add_node()
        self._node_rows_changed(row)
        for key, order in self._without_row.take_pods_of(name):
            self._add_to_node(self.objects.pods[key], row, order)

    def _remove_node(self, node: Node) -> None:
        """Remove a node; the last node takes its row, so that rows stay contiguous."""
        name = node.metadata.name
        row, last = self.node_row.pop(name), len(self.nodes) - 1
        del self.node_order[name]
        for pod, order in self._remove_all_from_node(row):
            self._without_row.add(key_of("Pod", pod), pod, order)
        moving = self._remove_all_from_node(last) if last != row else []
        for column in (self.nodes, self.node_names, self.node_resources, self.base_resources):
            _replace_by_last(cast(list[Any], column), row)
        self.pod_table.remove_last_node()
        if last != row:
            self.node_row[self.node_names[row]] = row
        self._touched.discard(last)
        self._node_rows_changed(row if last != row else None)
        for pod, order in moving:
            self._add_to_node(pod, row, order)
        self._notify_of_node(node, None)

    def _remove_all_from_node(self, node: int) -> list[tuple[Pod, int]]:
        """Remove the pods of a node; return them with their places in listing order."""
        rows = list(self.pod_table.on_node[node].values())
        return [(self.pod_table.pods[row], self._remove_from_node(row)) for row in rows]

    def _node_rows_changed(self, row: int | None) -> None:
        self._frozen_node_names = None
        if row is not None:
            self._touched.add(row)
        for aspect in (*_NODE_ASPECTS, "pods"):
            self._versions[aspect] += 1

    def _notify_of_node(self, before: Node | None, after: Node | None) -> None:
        for index in self._following["nodes"]:
            index.object_changed("nodes", before, after)

    # --- derived data -----------------------------------------------------------------------------------------

    def index(self, kind: type[I], *arguments: Hashable) -> I:
        """Return the index of that class and constructor arguments; the first call builds it.

        An index that its constructor requests receives callbacks before it does.
        """
        key: tuple[Hashable, ...] = cast(Hashable, kind), *arguments
        found = self._indexes.get(key)
        if found is None:
            found = kind(self, *arguments)
            for field in kind.reads:
                for one in getattr(self.objects, field).values():
                    found.object_changed(field, None, one)
                self._following[field].append(found)
            if kind.pod_added is not SnapshotEventHandler.pod_added:
                for row, pod in self.running_pods():
                    found.pod_added(row, pod)
                self._following["pods"].append(found)
                self._following_parts.clear()
            self._indexes[key] = found
        return cast(I, found)

    def memoized(self, build: Callable[..., T], reads: tuple[Aspect, ...], key: Any, max_entries: int) -> T:
        """Return `build(snapshot, key)`, computed again once one of `reads` has changed.

        At most `max_entries` results of one function are kept; the oldest is dropped first.
        """
        versions = tuple([self._versions[aspect] for aspect in reads])
        cache = self._memo[build]
        known = cache.get(key)
        if known is not None and known[0] == versions:
            return cast(T, known[1])
        built = build(self) if key is None else build(self, key)
        cache.pop(key, None)
        if len(cache) >= max_entries:
            cache.pop(next(iter(cache)))
        cache[key] = versions, built
        return built

    # --- nodes ------------------------------------------------------------------------------------------------

    @property
    def allocatable(self) -> IntArray:
        """[resource, node]: allocatable amounts of BASE_RESOURCES."""
        return derived.allocatable_column(self)

    def scalar_allocatable(self, resource: str) -> IntArray:
        """Return [node]: allocatable amount of an extended resource, 0 where a node does not have it."""
        return derived.scalar_allocatable_column(self, resource)

    def label(self, key: str) -> LabelColumn:
        """Return [node]: value of one label."""
        return derived.label_column(self, key)

    @property
    def taints(self) -> Encoded:
        """[node]: list of taints."""
        return derived.taint_column(self)

    @property
    def unschedulable(self) -> BoolArray:
        """[node]: spec.unschedulable, which `kubectl cordon` sets."""
        return derived.unschedulable_column(self)

    @property
    def declared_features(self) -> Encoded:
        """[node]: set of status.declaredFeatures."""
        return derived.feature_column(self)

    @property
    def frozen_node_names(self) -> tuple[str, ...]:
        """`node_names` as a tuple: the same object until a node is added or removed."""
        if self._frozen_node_names is None:
            self._frozen_node_names = tuple(self.node_names)
        return self._frozen_node_names

    @property
    def name_order(self) -> IntArray:
        """[node]: place of its name among all names in alphabetical order, which is the last tie-breaker."""
        return derived.name_order_column(self)

    @property
    def namespace_labels(self) -> Mapping[str, Labels]:
        """Namespace -> its labels."""
        return derived.labels_by_namespace(self)

    @property
    def budgets(self) -> tuple[PodDisruptionBudget, ...]:
        """All PodDisruptionBudgets in listing order."""
        return derived.disruption_budgets(self)

    # --- pods -------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> list[Pod]:
        """[pod]: the pods of the pod table."""
        return self.pod_table.pods

    @property
    def pod_node(self) -> IntArray:
        """[pod]: node row."""
        return self.pod_table.node

    @property
    def used(self) -> IntArray:
        """[resource, node]: requests of the running pods (NodeInfo.Requested)."""
        return self.layout.used

    @property
    def nominees(self) -> Iterator[Pod]:
        """Pending pods that are nominated to a known node (backend/queue/nominator.go, v1.36)."""
        nominated = self._without_row.nominated.values()
        return (pod for pod in nominated if pod.status.nominated_node_name in self.node_row)

    def running_pods(self) -> Iterator[tuple[int, Pod]]:
        """Yield every running pod with its row."""
        return ((row, self.pod_table.pods[row]) for row in self.pod_table.row_of.values())

    def running_row(self, pod: Pod) -> int | None:
        """Return the pod's row; None if it is not running."""
        return self.pod_table.row_of.get(identity(pod))

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the running pods of one node, most important first."""
        column = self.layout.pod[:, self.node_row[node]].tolist()
        return tuple(self.pods[row] for row in column if row >= 0)

    def pod_amounts(self, of_pods: Mapping[int, int]) -> PodAmounts:
        """Return a sparse column from a mapping of pod row -> amount."""
        rows = np.fromiter(of_pods, np.int64, len(of_pods))
        return PodAmounts(rows, self.pod_node[rows], np.fromiter(of_pods.values(), np.int64, len(of_pods)))

    def scalar_demand(self, resource: str) -> PodAmounts:
        """Return the amounts that running pods request of an extended resource."""
        return self.pod_amounts(self.pod_table.scalar_requests.get(resource, {}))

    def scalar_used(self, resource: str) -> IntArray:
        """Return [node]: requests of the running pods for an extended resource."""
        return self.scalar_demand(resource).per_node(len(self.nodes))


def _free_some(container: dict[Any, Any] | list[Any] | set[Any]) -> None:
    if isinstance(container, list):
        del container[-_FREED_PER_STEP:]
        return
    for _ in range(min(_FREED_PER_STEP, len(container))):
        container.popitem() if isinstance(container, dict) else container.pop()


_FREED_PER_STEP = 1000
"""Entries of one container that `dismantle` frees before it yields."""


def _replace_by_last(column: list[Any], row: int) -> None:
    column[row] = column[-1]
    column.pop()


class Index(SnapshotEventHandler):
    """Base of all indexes, which `Snapshot.index` creates; the constructor leaves it empty, callbacks fill it."""

    def __init__(self, snapshot: Snapshot) -> None:
        # A weak reference avoids a cycle: a snapshot that was replaced is freed with its last reader, not when the
        # cycle collector runs.
        self.snapshot: Snapshot = weakref.proxy(snapshot)
