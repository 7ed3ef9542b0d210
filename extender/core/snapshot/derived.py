"""Results computed from a snapshot and kept until what they were read from changes.

Every aspect of the snapshot has a version, which a change of that aspect increments. `derived` and `derived_by` return
a function's stored result while the versions of the aspects that it reads are unchanged.

Rule: a derived function reads only the aspects that it declares.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import wraps
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from extender.core.snapshot.arrays import BASE_RESOURCES, BoolArray, Encoded, IntArray, LabelColumn, clamped, encode
from extender.k8s.kinds import ObjectTables
from extender.k8s.objects import Labels, Node, PodDisruptionBudget, Value

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound="VersionedSource")

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
"""Parts of the snapshot that change independently of each other, each with a version of its own.

`nodes`: the set of nodes, their labels and declared features; `taints`: with spec.unschedulable; `pods`: which pods
run where, their specs and statuses; `pod_labels`: labels of pods that keep running; every other aspect is a field of
ObjectTables.
"""


class VersionedSource(Protocol):
    """The part of `Snapshot` that derived results need: the nodes, all objects, and a cache by versions of aspects."""

    nodes: list[Node]
    node_names: list[str]
    node_resources: list[dict[str, int]]
    base_resources: list[tuple[int, ...]]
    objects: ObjectTables

    def memoized(self, build: Callable[..., T], reads: tuple[Aspect, ...], key: Any, max_entries: int) -> T: ...


def derived(*reads: Aspect) -> Callable[[Callable[[S], T]], Callable[[S], T]]:
    """Keep the result of a function of a snapshot until one of `reads` changes; it must read no other aspect."""

    def decorate(build: Callable[[S], T]) -> Callable[[S], T]:
        return wraps(build)(lambda snapshot: snapshot.memoized(build, reads, None, 1))

    return decorate


def derived_by(*reads: Aspect, max_entries: int = 128) -> Callable[[Callable[[S, K], T]], Callable[[S, K], T]]:
    """Keep the results of a function of a snapshot and a key, for the last `max_entries` keys, until `reads` change."""

    def decorate(build: Callable[[S, K], T]) -> Callable[[S, K], T]:
        return wraps(build)(lambda snapshot, key: snapshot.memoized(build, reads, key, max_entries))

    return decorate


@derived("allocatable")
def allocatable_column(snapshot: VersionedSource) -> IntArray:
    """Return [resource, node]: allocatable amounts of BASE_RESOURCES."""
    return np.array(snapshot.base_resources, np.int64).reshape(len(snapshot.nodes), len(BASE_RESOURCES)).T.copy()


def base_amounts(resources: Mapping[str, int]) -> tuple[int, ...]:
    """Return the amounts of BASE_RESOURCES, in that order, 0 for those that are missing."""
    return tuple(clamped(resources.get(name, 0)) for name in BASE_RESOURCES)


@derived_by("allocatable")
def scalar_allocatable_column(snapshot: VersionedSource, resource: str) -> IntArray:
    """Return [node]: allocatable amount of an extended resource."""
    amounts = (clamped(own.get(resource, 0)) for own in snapshot.node_resources)
    return np.fromiter(amounts, np.int64, len(snapshot.nodes))


@derived_by("nodes")
def label_column(snapshot: VersionedSource, key: str) -> LabelColumn:
    """Return [node]: value of one label."""
    return LabelColumn.of([(node.metadata.labels or {}).get(key) for node in snapshot.nodes])


@derived("taints")
def taint_column(snapshot: VersionedSource) -> Encoded:
    """Return [node]: list of taints; equal lists share a code, so that tolerations are checked once for each."""
    of_node = [node.spec.taints or [] for node in snapshot.nodes]
    return encode(of_node, key=lambda taints: tuple((taint.key, taint.value, taint.effect) for taint in taints))


@derived("taints")
def unschedulable_column(snapshot: VersionedSource) -> BoolArray:
    """Return [node]: spec.unschedulable."""
    return np.fromiter((node.spec.unschedulable for node in snapshot.nodes), np.bool_, len(snapshot.nodes))


@derived("nodes")
def feature_column(snapshot: VersionedSource) -> Encoded:
    """Return [node]: set of status.declaredFeatures."""
    return encode([frozenset(node.status.declared_features or ()) for node in snapshot.nodes])


@derived("nodes")
def name_order_column(snapshot: VersionedSource) -> IntArray:
    """Return [node]: place of its name among all names in alphabetical order."""
    order = np.empty(len(snapshot.nodes), np.int64)
    order[np.array(sorted(range(len(order)), key=snapshot.node_names.__getitem__), np.int64)] = np.arange(len(order))
    return order


@derived("namespaces")
def labels_by_namespace(snapshot: VersionedSource) -> Mapping[str, Labels]:
    """Return namespace -> its labels."""
    return {one.metadata.name: one.metadata.labels or {} for one in snapshot.objects.namespaces.values()}


@derived("budgets")
def disruption_budgets(snapshot: VersionedSource) -> tuple[PodDisruptionBudget, ...]:
    """Return all PodDisruptionBudgets in listing order."""
    return tuple(snapshot.objects.budgets.values())


def differs_in_version_only(before: Value, after: Value) -> bool:
    """Compare two states of an object in all that decisions read; most updates change only its resourceVersion."""
    fields = [field for field in before.__struct_fields__ if field != "metadata"]
    a, b = before.metadata, after.metadata  # type: ignore[attr-defined]
    return (
        all(getattr(before, field) == getattr(after, field) for field in fields)
        and (a.uid, a.labels, a.annotations, a.owner_references) == (b.uid, b.labels, b.annotations, b.owner_references)
        and a.deletion_timestamp == b.deletion_timestamp
        and a.generation == b.generation
    )


def changed_aspects(before: Node, after: Node) -> Iterator[Aspect]:
    """Yield the aspects in which two states of a node differ (kubelet heartbeats differ in none)."""
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
