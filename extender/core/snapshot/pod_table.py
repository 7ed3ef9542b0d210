"""Running pods, one row each, with columns over the pods and sums per node.

With `node_layout`, the counterpart of kube-scheduler's NodeInfo (framework.NodeInfo, v1.36): its Pods, Requested and
NonZeroRequested, as columns over all nodes and pods instead of one object per node. A pod keeps its row while it runs.

Rule: the cost of a change depends on the pods that it adds or removes; nothing is computed over all pods.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from extender.core.snapshot.arrays import BASE_RESOURCES, NEVER, IntArray, clamped, grown
from extender.k8s.kinds import Key
from extender.k8s.objects import ObjectMeta, Pod
from extender.k8s.requests import is_resize_infeasible, resize_pending_reason, running_usage
from extender.k8s.time import parse_time
from extender.k8s.version.features import DEFAULT_FEATURES, Features
from extender.utilities.groups import remove_member

ASSUMED_DELETION_TIMESTAMP = "1970-01-01T00:00:00Z"
"""deletionTimestamp of a pod that is assumed to be terminating, because its eviction was approved (see AssumeCache)."""

NO_POD = Pod(ObjectMeta())
"""Placeholder in free rows."""

PodPart = Literal["labels", "annotations", "owners", "spec", "status"]
"""Parts of a pod that can change while it runs; `status` covers its deletionTimestamp as well."""

_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
_MAX_CACHED_TEMPLATES = 8192
"""Maximum number of pod templates whose resources are cached."""

_MAX_CACHED_TEMPLATE_BYTES = 8 << 20
"""Maximum size of the JSON of all cached templates."""

_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class PodResources:
    """Amounts that a pod adds to the columns of its node (framework.PodResource, v1.36)."""

    demand: tuple[int, ...] = (0,) * len(BASE_RESOURCES)
    """Amounts of BASE_RESOURCES."""
    non_zero: tuple[int, int] = (0, 0)
    """cpu and memory, with a default for containers that request none."""
    scalar_resources: tuple[tuple[str, int], ...] = ()
    """(resource, amount) of all other resources (framework.Resource.ScalarResources)."""


NewPod = tuple[Pod, int, int, PodResources, int]
"""A pod, the row of its node, its position in listing order, its `resources_of` and its `start_time`."""


class PodTable:
    """Columns over running pods, [pod], and sums over the pods of every node, [node] (upstream: NodeInfo)."""

    def __init__(self, features: Features = DEFAULT_FEATURES) -> None:
        self._features = features
        self.pods: list[Pod] = []
        """[pod]: the pod, NO_POD where a row is free."""
        self.row_of: dict[str, int] = {}
        """`identity` -> pod row."""
        self.on_node: list[dict[str, int]] = []
        """[node]: its pods, `identity` -> pod row (NodeInfo.Pods)."""
        self.scalar_requests: dict[str, dict[int, int]] = {}
        """Resource that is not in BASE_RESOURCES -> pod row -> amount."""
        self.scalar_resources: dict[int, tuple[tuple[str, int], ...]] = {}
        """Pod row -> (resource, amount) of each resource in `scalar_requests` that the pod requests."""
        self.priorities: Counter[int] = Counter()
        """Priority -> number of pods that have it."""
        self.node = np.full(64, -1, np.int64)
        """[pod]: node row, -1 where a row is free."""
        self.priority = np.zeros(64, np.int64)
        """[pod]: scheduling priority."""
        self.start = np.full(64, NEVER)
        """[pod]: start time in nanoseconds since 1970, NEVER if the pod has not started."""
        self.order = np.zeros(64, np.int64)
        """[pod]: position in listing order."""
        self.terminating = np.zeros(64, np.bool_)
        """[pod]: whether it has a deletionTimestamp."""
        self.demand = np.zeros((64, len(BASE_RESOURCES)), np.int64)
        """[pod, resource]: requests of BASE_RESOURCES."""
        self.non_zero = np.zeros((64, 2), np.int64)
        """[pod, 2]: requests of cpu and memory, with a default for containers that request none."""
        self._non_zero_requested = np.zeros((64, 2), np.int64)
        self._free: list[int] = []
        self._cached_resources: dict[bytes, PodResources] = {}
        self._cached_bytes = 0
        """Total length of the keys of `_cached_resources`."""

    @property
    def non_zero_requested(self) -> IntArray:
        """[2, node]: cpu and memory, with a default for containers that request none (NodeInfo.NonZeroRequested)."""
        return self._non_zero_requested[: len(self.on_node)].T

    def importance(self, pods: IntArray) -> tuple[IntArray, ...]:
        """Return sort keys of pod rows: higher priority, then earlier start (util.MoreImportantPod, v1.36)."""
        # Quirk up to v1.36: for a pod without a start time upstream reads the clock at each comparison, so the pod that
        # it compares first is more important, and its insertion sort reverses the listing order of such equal pods.
        # Since v1.37 it reads the clock once for each pod, in listing order.
        order = self.order[pods]
        if not self._features.unstarted_pods_in_listing_order:
            order = np.where(self.start[pods] == NEVER, -order, order)
        return -self.priority[pods], self.start[pods], order

    # --- nodes ------------------------------------------------------------------------------------------------

    def add_node(self) -> None:
        """Append a node without pods."""
        self.on_node.append({})
        self._non_zero_requested = grown(self._non_zero_requested, len(self.on_node) - 1, 0)
        self._non_zero_requested[len(self.on_node) - 1] = 0

    # --- pods -------------------------------------------------------------------------------------------------

    def add(self, pod: Pod, node: int, order: int) -> int:
        """Add a pod to a node and return its row (NodeInfo.AddPod).

        Raises ValueError, and changes nothing, for a pod that `validate` rejects.
        """
        resources, started = self.resources_of(pod), start_time(pod)
        row = self._free.pop() if self._free else len(self.pods)  # columns never shrink below the peak number of pods
        if row == len(self.pods):
            self.reserve(row + 1)
            self.pods.append(NO_POD)
        self.row_of[identity(pod)] = self.on_node[node][identity(pod)] = row
        self.node[row], self.order[row] = node, order
        self._write(row, pod, resources, started)
        self._add_to_sums(row, node, 1)
        return row

    def add_all(self, new: Sequence[NewPod]) -> list[int]:
        """Add pods together, as `add` does, and return their rows; none of them may be in the table yet."""
        # Column by column: numpy writes a hundred rows in the time of a few single rows.
        pods, nodes, orders, resources, starts = zip(*new, strict=True)
        first, end = len(self.pods), len(self.pods) + len(pods)
        rows, added = list(range(first, end)), slice(first, end)
        self.reserve(end)
        self.pods += pods
        names = [identity(pod) for pod in pods]
        self.row_of.update(zip(names, rows, strict=True))
        for name, node, row in zip(names, nodes, rows, strict=True):
            self.on_node[node][name] = row
        priorities = [pod.spec.priority or 0 for pod in pods]
        self.priorities.update(priorities)
        self.node[added], self.order[added], self.priority[added] = nodes, orders, priorities
        self.start[added] = starts
        self.terminating[added] = [pod.metadata.deletion_timestamp is not None for pod in pods]
        self.demand[added] = [one.demand for one in resources]
        self.non_zero[added] = [one.non_zero for one in resources]
        np.add.at(self._non_zero_requested, np.array(nodes), self.non_zero[added])
        for row, one in zip(rows, resources, strict=True):
            if one.scalar_resources:
                self._add_scalars(row, one.scalar_resources)
        return rows

    def change(self, row: int, pod: Pod) -> bool:
        """Store a new state of the row's pod; return whether its rank or its amounts on the node may have changed.

        Raises ValueError, and changes nothing, for a pod that `validate` rejects.
        """
        # 1. Compute everything that may raise before the first change.
        resources, started, node = self.resources_of(pod), start_time(pod), int(self.node[row])
        cpu, memory = self.non_zero[row].tolist()
        held = PodResources(tuple(self.demand[row].tolist()), (cpu, memory), self.scalar_resources.get(row, ()))
        before = held, self.priority[row], self.start[row]
        # 2. Replace the pod in the columns and in the sums of its node.
        self._add_to_sums(row, node, -1)
        self._write(row, pod, resources, started)
        self._add_to_sums(row, node, 1)
        return before != (resources, pod.priority, started)

    def _write(self, row: int, pod: Pod, resources: PodResources, started: int) -> None:
        self.pods[row] = pod
        self.priority[row], self.start[row] = pod.priority, started
        self.terminating[row] = pod.metadata.deletion_timestamp is not None
        self.demand[row], self.non_zero[row] = resources.demand, resources.non_zero
        if resources.scalar_resources:
            self._add_scalars(row, resources.scalar_resources)

    def _add_scalars(self, row: int, amounts: tuple[tuple[str, int], ...]) -> None:
        self.scalar_resources[row] = amounts
        for resource, amount in amounts:
            self.scalar_requests.setdefault(resource, {})[row] = amount

    def remove(self, row: int) -> None:
        """Remove the row's pod from its node and free the row (NodeInfo.RemovePod)."""
        pod, node = self.pods[row], int(self.node[row])
        self._add_to_sums(row, node, -1)
        del self.row_of[identity(pod)], self.on_node[node][identity(pod)]
        self.pods[row] = NO_POD
        self.node[row] = -1
        self._free.append(row)

    def _add_to_sums(self, row: int, node: int, sign: int) -> None:
        priority = self.pods[row].priority
        self.priorities[priority] += sign
        if not self.priorities[priority]:
            del self.priorities[priority]
        cpu, memory = self.non_zero[row].tolist()
        self._non_zero_requested[node, 0] += sign * cpu
        self._non_zero_requested[node, 1] += sign * memory
        for resource, _ in self.scalar_resources.pop(row, ()) if sign < 0 else ():
            remove_member(self.scalar_requests, resource, row)

    def reserve(self, rows: int) -> None:
        """Make room in the columns for `rows` rows."""
        last = rows - 1
        self.node, self.start = grown(self.node, last, -1), grown(self.start, last, NEVER)
        self.priority, self.order = grown(self.priority, last, 0), grown(self.order, last, 0)
        self.terminating, self.demand = grown(self.terminating, last, 0), grown(self.demand, last, 0)
        self.non_zero = grown(self.non_zero, last, 0)

    def validate(self, pod: Pod) -> None:
        """Raise ValueError if an amount or the start time of the pod cannot be parsed."""
        self.resources_of(pod)
        start_time(pod)

    def resources_of_many(self) -> Callable[[Pod], PodResources]:
        """Return a faster `resources_of`, for pods that all stay alive while it is in use."""
        # Pods of one template share most objects (`cluster.watch.decode` interns them): identity proves that they are
        # equal without encoding them. An id may be reused once an object is freed, hence the condition above.
        known: dict[tuple[int, ...], PodResources] = {}

        def resources_of(pod: Pod) -> PodResources:
            key = tuple(map(id, (*_resource_parts(pod), pod.status.conditions)))
            found = known.get(key)
            if found is None:
                if len(known) >= _MAX_CACHED_TEMPLATES:
                    known.clear()
                found = known[key] = self.resources_of(pod)
            return found

        return resources_of

    def resources_of(self, pod: Pod) -> PodResources:
        """Return the amounts that the pod takes, computed once for all pods of a template."""
        key = _ENCODER.encode((is_resize_infeasible(pod), _resource_parts(pod)))
        known = self._cached_resources.get(key)
        if known is None:
            if (
                len(self._cached_resources) >= _MAX_CACHED_TEMPLATES
                or self._cached_bytes + len(key) > _MAX_CACHED_TEMPLATE_BYTES
            ):
                self._cached_resources.clear()
                self._cached_bytes = 0
            self._cached_bytes += len(key)
            usage = running_usage(pod, self._features)
            amounts = {name: clamped(amount) for name, amount in usage.requests.items()} | {"pods": 1}
            known = self._cached_resources[key] = PodResources(
                tuple(amounts.get(name, 0) for name in BASE_RESOURCES),
                (clamped(usage.non_zero_cpu), clamped(usage.non_zero_memory)),
                tuple((name, amount) for name, amount in amounts.items() if name not in BASE_RESOURCES),
            )
        return known


class PodsWithoutRow:
    """Pods that use nothing of a known node: pending, nominated, finished, or bound to an unknown node."""

    def __init__(self) -> None:
        self.orders: dict[Key, int] = {}
        """Key -> position in listing order."""
        self.nominated: dict[Key, Pod] = {}
        """Pending pods that have a nominatedNodeName."""
        self._by_unknown_node: dict[str, set[Key]] = defaultdict(set)

    def add(self, key: Key, pod: Pod, order: int) -> None:
        self.orders[key] = order
        if is_finished(pod):
            return
        if pod.spec.node_name:
            self._by_unknown_node[pod.spec.node_name].add(key)
        elif pod.status.nominated_node_name:
            self.nominated[key] = pod

    def remove(self, key: Key, pod: Pod) -> int | None:
        """Remove a pod and return its position in listing order; None if the pod table has it."""
        order = self.orders.pop(key, None)
        if order is None:
            return None
        self.nominated.pop(key, None)
        remove_member(self._by_unknown_node, pod.spec.node_name, key)
        return order

    def take_pods_of(self, node: str) -> list[tuple[Key, int]]:
        """Remove the pods that are bound to a node; return (key, position in listing order) of each."""
        keys = sorted(self._by_unknown_node.pop(node, ()), key=self.orders.__getitem__)
        return [(key, self.orders.pop(key)) for key in keys]


# --- facts about one pod --------------------------------------------------------------------------------------------


def identity(pod: Pod) -> str:
    """Return the UID, or namespace/name for a pod from a file without UIDs."""
    return pod.metadata.uid or pod.key


def _resource_parts(pod: Pod) -> tuple[object, ...]:
    """Return the fields that `running_usage` reads, except those that report an infeasible resize."""
    spec, status = pod.spec, pod.status
    return (
        spec.containers,
        spec.init_containers,
        spec.resources,
        spec.overhead,
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
    )


def is_finished(pod: Pod) -> bool:
    """Return whether the pod has released its resources (podutil.IsPodPhaseTerminal); terminating pods have not."""
    return pod.status.phase in _TERMINAL_PHASES


def is_assumed_terminating(pod: Pod) -> bool:
    """Return whether the pod's eviction was approved, but no watch event has reported its deletion yet."""
    return pod.metadata.deletion_timestamp == ASSUMED_DELETION_TIMESTAMP


def changed_parts(before: Pod, after: Pod) -> frozenset[PodPart]:
    """Return the parts that differ between two states of a pod, as far as columns, indexes and policies read them."""
    a, b = before.metadata, after.metadata
    found: list[PodPart] = []
    if a.labels != b.labels:
        found.append("labels")
    if a.annotations != b.annotations:
        found.append("annotations")
    if a.owner_references != b.owner_references:
        found.append("owners")
    if before.spec != after.spec:
        found.append("spec")
    if not _same_status(before, after):
        found.append("status")
    return frozenset(found)


def _same_status(one: Pod, other: Pod) -> bool:
    a, b = one.status, other.status
    deleted, other_deleted = one.metadata.deletion_timestamp, other.metadata.deletion_timestamp
    # The time of a deletion does not matter, only whether it is assumed or set by the API server.
    if deleted != other_deleted and {None, ASSUMED_DELETION_TIMESTAMP} & {deleted, other_deleted}:
        return False
    return a is b or (
        a.phase == b.phase
        and a.start_time == b.start_time
        and a.qos_class == b.qos_class
        and one.is_ready == other.is_ready
        and a.nominated_node_name == b.nominated_node_name
        and a.container_statuses == b.container_statuses
        and a.init_container_statuses == b.init_container_statuses
        and a.resources == b.resources
        and a.allocated_resources == b.allocated_resources
        and resize_pending_reason(one) == resize_pending_reason(other)
    )


def start_time(pod: Pod) -> int:
    """Return nanoseconds since 1970, or NEVER if the pod has not started; raises ValueError like `parse_time`."""
    text = pod.status.start_time
    return parse_time(text) if text else int(NEVER)
