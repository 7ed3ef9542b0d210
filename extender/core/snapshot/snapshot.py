"""The cluster that a decision reads: nodes and running pods in rows, with numpy columns over both.

Counterpart of kube-scheduler's backend/cache Snapshot; `pod_table` and `layout` hold the data of upstream's
NodeInfos. A change has two steps:

1. `put`, `remove` or `put_all` update the tables and call the indexes, object by object.
2. `refresh_layout` updates the arrays of the nodes that have changed.

Other modules derive data from it with an `Index` or a derived value; `core.snapshot.derived` explains both.

Rule: a snapshot changes between decisions, never during one; all changes and decisions run on one thread.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar, Final, TypeVar, cast, get_args

import msgspec
import numpy as np

from extender.core.snapshot.arrays import IntArray, PodAmounts
from extender.core.snapshot.derived import NodeVersions, derived
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.node_table import NodeTable
from extender.core.snapshot.pod_table import (
    NewPod,
    PodPart,
    PodResources,
    PodsWithoutRow,
    PodTable,
    changed_parts,
    identity,
    is_finished,
    start_time,
)
from extender.k8s.kinds import KIND_LOAD_ORDER, KINDS, ClusterObjects, Key, ObjectTables, key_of
from extender.k8s.objects import Labels, Node, Object, Pod
from extender.k8s.version.features import DEFAULT_FEATURES, Features

Observer = Callable[[str, Key, Object | None], None]
"""Called after every change with the kind, the key, and the object, or None if it was removed."""

OnSkipped = Callable[[str, ValueError], None]
"""Called with the kind and the error of an object that is skipped because it cannot be read."""

OBJECTS_PER_STEP = 50
"""Number of objects other than pods to put, or of nodes to lay out, in one step of a long operation."""

PODS_PER_STEP = 100
"""Number of pods to put in one step."""

_FREED_PER_STEP = 1000
"""Number of entries of one container that `dismantle` frees before it yields."""

I = TypeVar("I", bound="Index")  # noqa: E741


class Snapshot(NodeTable):
    """Nodes, running pods and everything else that decisions read."""

    def __init__(self, features: Features = DEFAULT_FEATURES) -> None:
        super().__init__()
        self.features: Final = features
        """Features of the kube-scheduler that this snapshot serves; the requests of a pod depend on them, too."""
        self.objects = ObjectTables()
        """Every object by kind and key, including pods that are not running."""
        self._unreadable_tables: frozenset[str] = frozenset()
        self.pod_table = PodTable(features)
        self.pods = self.pod_table.pods
        """[pod]: the pod, NO_POD where a row is free."""
        self.layout = NodeLayout(self.pod_table.importance)
        """Pods by node and rank, in kube-scheduler's order of importance."""
        self.node_versions = NodeVersions()
        """[node]: version of the amounts and the order of its pods."""
        self.observer: Observer | None = None
        self._touched: set[int] = set()
        """Rows of the nodes to lay out."""
        self._without_row = PodsWithoutRow()
        self._next_order = 0
        self._indexes: dict[tuple[Hashable, ...], Index] = {}
        self._following: dict[str, list[Index]] = defaultdict(list)
        self._following_parts: dict[frozenset[PodPart], list[Index]] = {}

    @classmethod
    def build(cls, objects: ClusterObjects, features: Features = DEFAULT_FEATURES) -> "Snapshot":
        """Return a snapshot of these objects, with its arrays laid out; raises ValueError if one cannot be read."""
        snapshot = cls(features)
        snapshot.unreadable_tables = frozenset(objects.unreadable_tables)
        for kind in KIND_LOAD_ORDER:
            for _ in snapshot.put_all(kind, getattr(objects, KINDS[kind].field)):
                pass
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
        self._versions["any"] += 1

    # --- changes ----------------------------------------------------------------------------------------------

    def put(self, kind: str, one: Object) -> None:
        """Add or update an object; raises ValueError, and changes nothing, if it cannot be read."""
        self._versions["any"] += 1
        key = key_of(kind, one)
        if isinstance(one, Pod):
            self._put_pod(key, self.objects.pods.get(key), one)
        elif isinstance(one, Node):
            self._put_node(one)
        else:
            table, field = self.objects.of(kind), KINDS[kind].field
            before, table[key] = table.get(key), one
            if before is None or not _differs_in_version_only(before, one):
                self._versions[field] += 1
                self._notify(field, before, one)
        if self.observer is not None:
            self.observer(kind, key, one)

    def put_all(self, kind: str, objects: Sequence[Object], on_skipped: OnSkipped | None = None) -> Iterator[None]:
        """Put the objects in steps; many new pods are added together, which is faster.

        Raises ValueError for an object that cannot be read if `on_skipped` is None.
        """
        resources_of = self.pod_table.resources_of_many()
        step = PODS_PER_STEP if kind == "Pod" else OBJECTS_PER_STEP
        for start in range(0, len(objects), step):
            some = objects[start : start + step]
            if kind != "Pod" or not self._put_new_pods(cast(Sequence[Pod], some), resources_of, on_skipped):
                for one in some:
                    try:
                        self.put(kind, one)
                    except ValueError as error:
                        if on_skipped is None:
                            raise
                        on_skipped(kind, error)
            yield

    def remove(self, kind: str, key: Key) -> None:
        """Delete an object; raises KeyError if it is unknown."""
        self._versions["any"] += 1
        before = self.objects.of(kind).pop(key)
        if isinstance(before, Pod):
            self._remove_pod(key, before)
        elif isinstance(before, Node):
            self._remove_node(before)
        else:
            self._versions[KINDS[kind].field] += 1
            self._notify(KINDS[kind].field, before, None)
        if self.observer is not None:
            self.observer(kind, key, None)

    def refresh_layout(self, max_nodes: int | None = None) -> bool:
        """Lay out the changed nodes, at most `max_nodes`; return whether all are laid out, which decisions require.

        Counterpart of cache.UpdateSnapshot (v1.36), which also copies changed nodes only.
        """
        nodes = sorted(islice(self._touched, max_nodes))
        self.layout.lay_out(nodes, len(self.nodes), self.pod_table)
        if nodes:
            self.node_versions.changed_together(np.array(nodes, np.int64))
        self._touched.difference_update(nodes)
        if self._touched:
            return False
        self._touched.clear()  # difference_update keeps the set's capacity, over which every later loop would run
        for index in self._following["settled"]:
            index.settled()
        return True

    @contextmanager
    def with_nodes(self, nodes: Collection[Node]) -> Iterator[None]:
        """Put these nodes into the cluster inside the `with` block, replacing nodes with the same names.

        Pods bound to these nodes run there meanwhile. Afterwards everything is as before: derived values are still
        valid, and the observer has not been called. Raises ValueError if a node cannot be read.
        """
        cached = {node.metadata.name: self.objects.nodes.get(("", node.metadata.name)) for node in nodes}
        order, observer, node_versions = self._next_order, self.observer, self.node_versions
        self.observer, self.node_versions = None, node_versions.copy()
        with self._derived_values_restored():
            try:
                self._versions["any"] += 1  # values that change in place (the last filter run) must stay untouched
                for node in nodes:
                    # The thread of a watch must not mistake UID and resourceVersion for the API server's.
                    metadata = msgspec.structs.replace(node.metadata, uid="", resource_version="")
                    self.put("Node", msgspec.structs.replace(node, metadata=metadata))
                self.refresh_layout()
                yield
            finally:
                for name, before in reversed(cached.items()):  # in this order no other node changes its row
                    if before is not None:
                        self.put("Node", before)
                    elif name in self.node_row:
                        self.remove("Node", ("", name))
                self.refresh_layout()
                self._next_order, self.observer, self.node_versions = order, observer, node_versions

    def dismantle(self) -> Iterator[None]:
        """Free everything in steps, once no reader is left: freeing it all at once would stall the thread."""
        tables = [getattr(self.objects, of_kind.field) for of_kind in KINDS.values()]
        holders = (*self._indexes.values(), self.pod_table, self._without_row, self)
        for one in (*tables, *(value for holder in holders for value in vars(holder).values())):
            while isinstance(one, (dict, list, set)) and one:
                if isinstance(one, list):
                    del one[-_FREED_PER_STEP:]
                else:
                    for _ in range(min(_FREED_PER_STEP, len(one))):
                        one.popitem() if isinstance(one, dict) else one.pop()
                yield

    # --- changes of pods --------------------------------------------------------------------------------------

    def _put_pod(self, key: Key, before: Pod | None, pod: Pod) -> None:
        """Add a pod, or replace `before`, the state of the pod with this key."""
        # 1. Update in place a pod that does not move.
        same = before is not None and identity(before) == identity(pod)
        if before is not None and same and self._update_in_place(key, before, pod):
            return
        # 2. Reject a pod that cannot be read, before anything changes.
        has_row = same and key not in self._without_row.orders
        if not has_row and identity(pod) in self.pod_table.row_of:
            raise ValueError(f"has the same UID as pod {self.pods[self.pod_table.row_of[identity(pod)]].key}")
        self.pod_table.validate(pod)
        # 3. Remove the old state. A different pod with the same name goes to the end of the list.
        order = self._remove_pod(key, before) if before is not None else 0
        if not same:
            self.objects.pods.pop(key, None)
            order = self._next_order
            self._next_order += 1
        # 4. Add the new state.
        self.objects.pods[key] = pod
        node = self.node_row.get(pod.spec.node_name)
        if node is not None and not is_finished(pod):
            self._add_to_node(pod, node, order)
        else:
            self._without_row.add(key, pod, order)

    def _put_new_pods(
        self, pods: Sequence[Pod], resources_of: Callable[[Pod], PodResources], on_skipped: OnSkipped | None
    ) -> bool:
        """Add pods if their names and UIDs are unique and not yet in use; return False, changing nothing, otherwise."""
        keys, uids = [key_of("Pod", pod) for pod in pods], set(map(identity, pods))
        table, row_of = self.objects.pods, self.pod_table.row_of
        if not len(set(keys)) == len(uids) == len(pods):
            return False
        if not (table.keys().isdisjoint(keys) and row_of.keys().isdisjoint(uids)):
            return False
        # 1. Read all pods: a ValueError must come before the first change of the columns.
        added: list[tuple[Key, Pod]] = []
        running: list[NewPod] = []
        for key, pod in zip(keys, pods, strict=True):
            try:
                resources, started = resources_of(pod), start_time(pod)
            except ValueError as error:
                if on_skipped is None:
                    raise
                on_skipped("Pod", error)
                continue
            node, order = self.node_row.get(pod.spec.node_name), self._next_order + len(added)
            added.append((key, pod))
            if node is None or is_finished(pod):
                self._without_row.add(key, pod, order)
            else:
                running.append((pod, node, order, resources, started))
        # 2. Fill the tables, and call each index once.
        table.update(added)
        self._next_order += len(added)
        self._versions["any"] += 1
        if running:
            self._versions["pods"] += 1
            rows, with_rows = self.pod_table.add_all(running), [pod for pod, *_ in running]
            self._touched.update(node for _, node, *_ in running)
            for index in self._following["pods"]:
                index.pods_added(rows, with_rows)
        if self.observer is not None:
            for key, pod in added:
                self.observer("Pod", key, pod)
        return True

    def _update_in_place(self, key: Key, before: Pod, pod: Pod) -> bool:
        """Update a pod that stays on its node, or stays without one; return False, changing nothing, if it moves."""
        parts = changed_parts(before, pod)
        if key in self._without_row.orders:
            if parts:
                return False
            if key in self._without_row.nominated:
                self._without_row.nominated[key] = pod
        elif parts and (is_finished(pod) or pod.spec.node_name != before.spec.node_name):
            return False
        else:
            self._update_running(self.pod_table.row_of[identity(pod)], before, pod, parts)
        self.objects.pods[key] = pod
        return True

    def _update_running(self, row: int, before: Pod, pod: Pod, parts: frozenset[PodPart]) -> None:
        """Update a running pod; its node is laid out again only if importance or amounts changed."""
        if parts.isdisjoint(("spec", "status")):
            self.pods[row] = pod
        else:
            if self.pod_table.change(row, pod):
                self._touched.add(int(self.pod_table.node[row]))
            self._versions["pods"] += 1
        if "labels" in parts:
            self._versions["pod_labels"] += 1
        following = self._following_parts.get(parts)
        if following is None:
            following = [index for index in self._following["pods"] if not parts.isdisjoint(index.pod_parts)]
            self._following_parts[parts] = following
        for index in following:
            index.pod_changed(row, before, pod, parts)

    def _remove_pod(self, key: Key, pod: Pod) -> int:
        """Remove a pod from its node, or from the pods without a row; return its position in listing order."""
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
        pod, order = self.pods[row], int(self.pod_table.order[row])
        for index in self._following["pods"]:
            index.pod_removed(row, pod)
        self._touched.add(int(self.pod_table.node[row]))
        self._versions["pods"] += 1
        self.pod_table.remove(row)
        return order

    # --- changes of nodes and other objects -------------------------------------------------------------------

    def _put_node(self, node: Node) -> None:
        new_row, before = self._write_node(node), self.objects.nodes.get(("", node.metadata.name))
        self.objects.nodes["", node.metadata.name] = node
        if new_row is not None:
            self.node_order[node.metadata.name] = self._next_order
            self._next_order += 1
            self.pod_table.add_node()
            self._touched.add(new_row)
            # Watches are not ordered among each other: pods may arrive before the node that they are bound to.
            for key, order in self._without_row.take_pods_of(node.metadata.name):
                self._add_to_node(self.objects.pods[key], new_row, order)
        self._notify("nodes", before, node)

    def _remove_node(self, node: Node) -> None:
        """Remove a node; the last node takes its row."""
        # 1. Its pods stay in the cluster, but without a row.
        row, last = self.node_row[node.metadata.name], len(self.nodes) - 1
        for pod, order in self._remove_all_from_node(row):
            self._without_row.add(key_of("Pod", pod), pod, order)
        # 2. The last node moves to its row, with its pods.
        moving = self._remove_all_from_node(last) if last != row else []
        self._drop_node(node.metadata.name)
        self.pod_table.on_node.pop()
        self._touched.add(row)
        self._touched.discard(last)
        for pod, order in moving:
            self._add_to_node(pod, row, order)
        # 3. Call the indexes of nodes, which see the new rows.
        self._notify("nodes", node, None)

    def _remove_all_from_node(self, node: int) -> list[tuple[Pod, int]]:
        """Remove the pods of a node; return them with their positions in listing order."""
        rows = list(self.pod_table.on_node[node].values())
        return [(self.pods[row], self._remove_from_node(row)) for row in rows]

    def _notify(self, field: str, before: Object | None, after: Object | None) -> None:
        for index in self._following[field]:
            index.object_changed(field, before, after)

    # --- reading ----------------------------------------------------------------------------------------------

    def index(self, kind: type[I], *arguments: Hashable) -> I:
        """Return the index of the given class and constructor arguments; the first call builds it.

        If its constructor requests another index, that one receives callbacks first.
        """
        key: tuple[Hashable, ...] = cast(Hashable, kind), *arguments
        found = self._indexes.get(key)
        if found is None:
            found = kind(self, *arguments)
            for field in kind.reads:
                for one in getattr(self.objects, field).values():
                    found.object_changed(field, None, one)
                self._following[field].append(found)
            # Register only the callbacks that the index has: most changes then reach two or three of a dozen indexes.
            if kind.pod_added is not Index.pod_added:
                rows = list(self.pod_table.row_of.values())
                found.pods_added(rows, list(map(self.pods.__getitem__, rows)))
                self._following["pods"].append(found)
                self._following_parts.clear()
            if kind.settled is not Index.settled:
                found.settled()
                self._following["settled"].append(found)
            self._indexes[key] = found
        return cast(I, found)

    @property
    @derived("namespaces")
    def namespace_labels(self) -> Mapping[str, Labels]:
        """Namespace -> its labels."""
        return {one.metadata.name: one.metadata.labels or {} for one in self.objects.namespaces.values()}

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
        return ((row, self.pods[row]) for row in self.pod_table.row_of.values())

    def pods_without_row(self) -> Iterator[Pod]:
        """Yield the pods that are not running on a known node."""
        return map(self.objects.pods.__getitem__, self._without_row.orders)

    def running_row(self, pod: Pod) -> int | None:
        """Return the pod's row; None if it is not running."""
        return self.pod_table.row_of.get(identity(pod))

    def has_uid(self, uid: str) -> bool:
        """Return whether a pod with this UID exists, running or not."""
        return uid in self.pod_table.row_of or any(pod.metadata.uid == uid for pod in self.pods_without_row())

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


def _differs_in_version_only(before: Object, after: Object) -> bool:
    """Return whether only fields that no decision reads differ: most updates change only the resourceVersion."""
    fields = [field for field in before.__struct_fields__ if field != "metadata"]
    a, b = before.metadata, after.metadata
    return (
        all(getattr(before, field) == getattr(after, field) for field in fields)
        and (a.uid, a.labels, a.annotations, a.owner_references) == (b.uid, b.labels, b.annotations, b.owner_references)
        and a.deletion_timestamp == b.deletion_timestamp
        and a.generation == b.generation
    )


class Index:
    """Base of all indexes: callbacks for every change of the objects that `reads` and `pod_parts` select.

    Counterpart of client-go's ResourceEventHandler. `Snapshot.index` creates an index: its constructor leaves it empty,
    and only callbacks fill and change it.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    """Fields of ObjectTables whose changes call `object_changed`; `pods` cannot be one of them."""

    pod_parts: ClassVar[frozenset[PodPart]] = frozenset(get_args(PodPart))
    """Parts of a running pod that the index reads: `pod_changed` is not called for changes of other parts."""

    def __init__(self, snapshot: Snapshot) -> None:
        # A weak reference avoids a cycle: a snapshot that was replaced is freed with its last reader, not when the
        # cycle collector runs.
        self.snapshot: Snapshot = weakref.proxy(snapshot)

    def pod_added(self, row: int, pod: Pod) -> None:
        """Handle a pod that was added in this row."""

    def pods_added(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        """Handle many pods that were added in these rows; some subclasses do so faster than one by one."""
        for row, pod in zip(rows, pods, strict=True):
            self.pod_added(row, pod)

    def pod_removed(self, row: int, pod: Pod) -> None:
        """Handle a pod that is about to leave its row; the columns still hold the pod's values."""

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        """Handle a new state of a running pod, which differs in `parts`; row and node stay the same."""
        self.pod_removed(row, before)
        self.pod_added(row, after)

    def object_changed(self, field: str, before: Any, after: Any) -> None:
        """Handle an object that was added (`before` is None), changed or removed (`after` is None)."""

    def settled(self) -> None:
        """Handle the end of a group of changes, before the next decision."""
