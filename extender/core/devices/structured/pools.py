"""Pools of devices as one node sees them: the slices that count there, and whether the pool can be used.

Mirrors GatherPools and NodeMatches (k8s.io/dynamic-resource-allocation/structured/internal/incubating, v1.36).

Rule: reads slices and one node, but not the devices in use.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import msgspec

from extender.k8s.devices.device_view import DeviceView
from extender.k8s.devices.objects import CounterSet, Device, ResourceSlice, ResourceSliceSpec
from extender.k8s.objects import Node, NodeSelector
from extender.k8s.selectors import NodeTerm, SelectorError, parse_node_selector
from extender.k8s.version.features import Features

DeviceID = tuple[str, str, str]
"""Driver, pool and device."""


class PoolID(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class PoolDevice:
    """A device of a pool, and the slice that publishes it."""

    __slots__ = ("_view", "device", "has_request_policy", "id", "number", "pool", "slice")

    def __init__(self, pool: "Pool", slice_: ResourceSlice, device: Device, number: int) -> None:
        self.pool = pool
        self.slice = slice_
        self.device = device
        self.number = number
        """Index among the pool's devices, in upstream's order."""
        self.id: DeviceID = (pool.id.driver, pool.id.pool, device.name)
        self.has_request_policy = device.capacity is not None and any(
            one.request_policy is not None for one in device.capacity.values()
        )
        self._view: DeviceView | None = None

    def view(self, features: Features) -> DeviceView:
        """Return the device as selectors see it: the "stable" allocator hides whether the device can be shared."""
        if self._view is None:
            shared, lists = knows_shares(features), features.selectors_of_1_37
            self._view = DeviceView(self.id[0], self.device, shows_sharing=shared, shows_lists=lists)
        return self._view


class Pool:
    """The slices of a pool that offer devices to a node."""

    def __init__(
        self,
        pool_id: PoolID,
        slices: Sequence[ResourceSlice] = (),
        *,
        other_slices: Sequence[ResourceSlice] = (),
        counter_sets: Iterable[CounterSet] = (),
        incomplete: bool = False,
        invalid_reason: str = "",
    ) -> None:
        self.id = pool_id
        self.slices = tuple(slices)
        """Slices with devices for the node."""
        self.other_slices = tuple(other_slices)
        """Slices of the pool whose devices are for other nodes only, but consume the same counters."""
        self.counter_sets = tuple(counter_sets)
        self.incomplete = incomplete
        """Whether some slices of the pool are not known yet."""
        self.invalid_reason = invalid_reason
        """Why the pool is invalid; "" if it is valid."""
        self.has_binding_conditions = any(one.binding_conditions is not None for one in _devices(slices))

    @cached_property
    def devices(self) -> tuple[PoolDevice, ...]:
        """Devices in the order in which they are tried."""
        published = ((one, device) for one in self.slices for device in one.spec.devices or ())
        return tuple(PoolDevice(self, one, device, number) for number, (one, device) in enumerate(published))


class AllocationError(Exception):
    """An error that ends the scheduling cycle (code Error), in upstream's words.

    `names_pool`: the text names a pool or a device of the node, so that other nodes cannot share the text.
    """

    def __init__(self, text: str, *, names_pool: bool = False) -> None:
        super().__init__(text)
        self.names_pool = names_pool


class InvalidPools(Exception):
    """No device was found and a pool of the node is invalid (UnschedulableAndUnresolvable), in upstream's words."""


class NotEvaluated(Exception):
    """The result depends on a feature that is not evaluated; the message names it."""


class NodeSelectorError(NotEvaluated):
    """A node selector that does not parse: upstream's texts for it print whole objects in Go's notation."""


def knows_shares(features: Features) -> bool:
    """Return whether upstream's allocator supports shared devices, unlike the "stable" one."""
    # v1.34 has only one allocator that supports the status of devices: the "experimental" one.
    needs_status = not features.device_pools_of_1_35 and features.dra_resource_claim_device_status
    return features.dra_device_binding_conditions or features.dra_consumable_capacity or needs_status


def gather_pools(
    slices: Iterable[ResourceSlice],
    node: Node,
    slices_of_pool: Callable[[PoolID], Sequence[ResourceSlice]],
    features: Features,
) -> tuple[Pool, ...]:
    """Return the pools with devices for a node, in the order in which they are tried.

    `slices`: at least those with this nodeName and those for several nodes (without nodeName or with shared counters).
    `slices_of_pool`: all slices of a pool in the cluster, of all generations. Raises AllocationError, NotEvaluated.
    """
    found: dict[PoolID, list[ResourceSlice]] = {}
    for one in slices:
        if not _is_relevant(one, node, features):
            continue
        # Only the newest generation of a pool counts.
        known = found.setdefault(PoolID(one.spec.driver, one.spec.pool.name), [])
        if known and one.spec.pool.generation > known[0].spec.pool.generation:
            known.clear()
        if not known or one.spec.pool.generation == known[0].spec.pool.generation:
            known.append(one)
    pools = (_build(pool_id, of_pool, slices_of_pool, features) for pool_id, of_pool in found.items())
    return in_order(pool for pool in pools if pool is not None)


def is_seen_for_counters(spec: ResourceSliceSpec, features: Features) -> bool:
    """Return whether every node sees the slice, because it declares the counters of its pool."""
    if features.counter_slices_have_nodes and knows_shares(features):
        return False
    return bool(spec.shared_counters) and features.device_pools_of_1_35


def in_order(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Return pools in the order in which they are tried: those with binding conditions come last."""
    # By name since v1.36; earlier versions use the order of a Go map.
    return tuple(sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id)))


def _is_relevant(one: ResourceSlice, node: Node, features: Features) -> bool:
    """Return whether a node sees a slice, for its devices or for the counters of its pool."""
    spec = one.spec
    if not features.dra_partitionable_devices and (
        spec.per_device_node_selection is not None or (spec.shared_counters and features.device_pools_of_1_35)
    ):
        return False
    if is_seen_for_counters(spec, features):
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return is_for_node(spec, node)
    return bool(spec.per_device_node_selection) and any(is_for_node(one, node) for one in spec.devices or ())


def _build(
    pool_id: PoolID,
    slices: list[ResourceSlice],
    slices_of_pool: Callable[[PoolID], Sequence[ResourceSlice]],
    features: Features,
) -> Pool | None:
    """Return the pool with these slices of one generation; None if a newer generation has nothing for the node."""
    # 1. Sort the slices by name, as upstream does since v1.36.
    slices.sort(key=lambda one: one.metadata.name)
    # 2. Slices should agree on their number. Upstream believes the first slice, preferably one for this node alone.
    on_node = (one for one in slices if one.spec.node_name and not is_seen_for_counters(one.spec, features))
    first = next(on_node, slices[0])
    newest = first.spec.pool
    complete = len(slices) == newest.resource_slice_count
    if not features.device_pools_of_1_35:
        return Pool(pool_id, slices, incomplete=not complete, invalid_reason=_duplicate_device(slices))
    # 3. The missing slices may be for other nodes only: then the pool is complete, unless a newer generation exists.
    others: list[ResourceSlice] = []
    if not complete:
        of_pool = slices_of_pool(pool_id)
        if any(one.spec.pool.generation > newest.generation for one in of_pool):
            return None
        same = [one for one in of_pool if one.spec.pool.generation == newest.generation]
        if len(same) != newest.resource_slice_count:
            return Pool(pool_id, incomplete=True)
        names = {one.metadata.name for one in slices}
        others = [one for one in same if one.metadata.name not in names]
    # 4. Validate the pool.
    if not features.dra_partitionable_devices:
        reason = _duplicate_device(slices)
        return Pool(pool_id, invalid_reason=reason) if reason else Pool(pool_id, slices)
    return _with_counters(pool_id, slices, others)


def _with_counters(pool_id: PoolID, slices: Sequence[ResourceSlice], others: Sequence[ResourceSlice]) -> Pool:
    """Build a pool with shared counters, invalid if a device or counter set is listed twice or a counter is unknown."""
    of_pool = (*slices, *others)
    offering = [one for one in slices if not one.spec.shared_counters]
    all_sets = [counters for one in of_pool for counters in one.spec.shared_counters or ()]
    sets = {counters.name: counters for counters in all_sets}
    duplicate = _duplicate(counters.name for counters in all_sets)
    reason = _duplicate_device(offering) or ("" if duplicate is None else f"duplicate counter set name {duplicate}")
    reason = reason or _unknown_counter(sets, of_pool)
    if reason:
        return Pool(pool_id, invalid_reason=reason)
    return Pool(pool_id, offering, other_slices=others, counter_sets=sets.values())


def _duplicate_device(slices: Iterable[ResourceSlice]) -> str:
    found = _duplicate(device.name for device in _devices(slices))
    return "" if found is None else f"duplicate device name {found}"


def _duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that occurs a second time."""
    known = set[str]()
    for name in names:
        if name in known:
            return name
        known.add(name)
    return None


def _unknown_counter(sets: Mapping[str, CounterSet], slices: Iterable[ResourceSlice]) -> str:
    for consumed in (consumed for device in _devices(slices) for consumed in device.consumes_counters or ()):
        counters = sets.get(consumed.counter_set)
        if counters is None:
            return f"counter set {consumed.counter_set} not found"
        missing = next((name for name in consumed.counters or () if name not in (counters.counters or ())), None)
        if missing is not None:
            return f"counter {missing} not found in counter set {counters.name}"
    return ""


def _devices(slices: Iterable[ResourceSlice]) -> Iterator[Device]:
    return (device for one in slices for device in one.spec.devices or ())


# --- one node and one selector (NodeMatches, v1.36); for all nodes at once see `selector_index` ----------------------

_NAME_FIELD = "metadata.name"


def is_for_node(on: ResourceSliceSpec | Device, node: Node) -> bool:
    """Return whether a slice or device names or selects the node; raises NodeSelectorError."""
    if on.node_name:
        return node.metadata.name == on.node_name
    return bool(on.all_nodes) or (on.node_selector is not None and selects_node(on.node_selector, node))


def selects_node(selector: NodeSelector, node: Node) -> bool:
    """Return whether a node selector selects the node; raises NodeSelectorError."""
    labels, name = node.metadata.labels or {}, node.metadata.name
    return any(
        all(one.holds(labels.get(one.key)) for one in term.labels)
        and all(((name if one.key == _NAME_FIELD else "") == one.value) != one.negated for one in term.fields)
        for term in _terms(msgspec.json.encode(selector))
    )


@lru_cache(maxsize=4096)  # each device may have its own selector on each node: 2 us with the key, instead of 30
def _terms(selector: bytes) -> tuple[NodeTerm, ...]:
    try:
        return parse_node_selector(msgspec.json.decode(selector, type=NodeSelector)).terms or ()
    except SelectorError as error:
        raise NodeSelectorError("a node selector that does not parse") from error
