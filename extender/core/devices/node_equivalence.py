"""Group nodes whose devices are equivalent for claims that read the same attributes of devices.

Nodes are equivalent if their pools, in the order in which they are tried, offer devices that are equal in everything
that kube-scheduler reads for the claims. Names, and attributes that no selector reads (such as a UUID), do not count.

Rule: a change of one node's devices regroups that node only.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from extender.core.devices.attribute_projection import AttributeProjection, digest
from extender.core.devices.device_index import NO_OTHER_FIELDS, DeviceIndex, SharedPools, other_fields
from extender.core.devices.structured.pools import (
    AllocationError,
    DeviceID,
    NodeSelectorError,
    NotEvaluated,
    Pool,
    PoolID,
    is_for_node,
)
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.device_view import has_values
from extender.k8s.devices.objects import Device, ResourceSlice
from extender.k8s.objects import Node

_SPARE: Final = 64
"""Groups that may accumulate, beyond twice the needed ones, before all nodes are regrouped."""

_Use = bool | tuple[bool, frozenset[tuple[str, int]] | None]
"""Whether a claim has the device for itself; for a shared device also the capacity that its shares consume."""

_PoolNumber = tuple[bool, PoolID, int]
"""Sort key of a pool among those of a node (`in_order`), and the number of the pool's group."""


class NodeEquivalence:
    """Groups nodes so that claims with this projection have the same outcome on all nodes of a group."""

    def __init__(self, snapshot: Snapshot, projection: AttributeProjection) -> None:
        self._snapshot = snapshot
        self._devices = snapshot.index(DeviceIndex)
        self._projection = projection
        self._numbers: IntArray = np.empty(0, np.int64)
        self._names: tuple[str, ...] = ()
        self._changes: list[str | None] = []
        """`DeviceIndex.changes` at the last call of `numbers`."""
        self._read = 0
        """Number of entries of `_changes` that were read."""
        self._next = 0
        self._number_of: dict[Hashable, int] = {}
        """Key of a group of pools or of nodes -> number of the group."""
        self._needed = 0
        """Number of these groups after all nodes were last grouped."""
        self._own: dict[str, tuple[Mapping[PoolID, bytes] | None, tuple[_PoolNumber, ...]]] = {}
        """Node name -> (`SharedPools.on` of the node, its pools with slices that no other node sees)."""
        self._counting: set[int] = set()
        """Groups of the pools whose devices consume counters."""

    def numbers(self) -> IntArray:
        """Return [node]: number of its group, up to date."""
        snapshot, names, changes = self._snapshot, self._snapshot.frozen_node_names, self._devices.changes
        starts_anew = changes is not self._changes or len(self._number_of) > 2 * self._needed + _SPARE
        changed = [] if starts_anew else changes[self._read :]
        # 1. Drop the cached pools of nodes that changed or were removed.
        if starts_anew:
            self._own.clear()
            self._number_of.clear()
            self._counting.clear()
        elif not changed and names is self._names:
            return self._numbers
        for name in {*changed, *(self._own.keys() - snapshot.node_row.keys() if names is not self._names else ())}:
            self._own.pop(name or "", None)
        # 2. Group the changed nodes (0.04 ms each), or all: 130 ms for 5,000, or 15 ms while `_own` is valid.
        layout, known = self._devices.layout(), dict[int, _PoolNumber]()
        if starts_anew or None in changed or names is not self._names:
            rows: Iterable[int] = range(len(names))
            self._numbers = np.empty(len(names), np.int64)
        else:
            rows = [snapshot.node_row[name] for name in set(changed) if name in snapshot.node_row]
            self._numbers = self._numbers.copy()
        for row in rows:
            self._numbers[row] = self._number(row, layout, known)
        if starts_anew:
            self._needed = len(self._number_of)
        self._names, self._changes, self._read = names, changes, len(changes)
        return self._numbers

    def _number(self, row: int, layout: SharedPools, known: dict[int, _PoolNumber]) -> int:
        """Return the group of a node; `known`: `id()` of a shared pool -> its group."""
        name, conditions = self._snapshot.node_names[row], layout.on.get(row)
        own = self._own.get(name)
        try:
            if own is None or own[0] != conditions:
                own = self._own[name] = conditions, tuple(self._own_pools(row))
            pools = own[1]
            # Nodes that see a shared pool alike have the same object, which is then evaluated once.
            for one in self._devices.shared_pools_at(row) if conditions or layout.everywhere else ():
                if id(one) not in known:
                    known[id(one)] = self._pool(one, row)
                pools = (*pools, known[id(one)])
        except (AllocationError, NotEvaluated) as error:
            return self._intern((type(error), str(error)))
        if len(pools) > 1:
            pools = tuple(sorted(pools))
        counting = [pool_id.pool for _, pool_id, number in pools if number in self._counting]
        # Upstream treats counters as the same if their pools have the same name.
        same_names = tuple(map(counting.index, counting)) if len(counting) > 1 else ()
        return self._intern((tuple([number for _, _, number in pools]), same_names))

    def _intern(self, content: Hashable) -> int:
        # Numbers are never reused, even after `_number_of` was cleared, because answers are cached by number.
        number = self._number_of.get(content)
        if number is None:
            number = self._number_of[content] = self._next
            self._next += 1
        return number

    # --- pools ---

    def _own_pools(self, row: int) -> Iterator[_PoolNumber]:
        """Yield the pools that have slices for the node alone."""
        for pool_id, slices in self._devices.own_slices_at(row).items():
            if not self._projection.all_capacity and self._devices.is_usual(pool_id, slices):
                yield False, pool_id, self._intern(self._usual_content(pool_id, slices[0]))
                continue
            pool = self._devices.own_pool(pool_id, slices, row)
            if pool is not None:
                yield self._pool(pool, row)

    def _usual_content(self, pool_id: PoolID, published: ResourceSlice) -> Hashable:
        """Return `_content` of a usual pool without gathering it: most pools of a large cluster are usual."""
        (driver, name), state, devices = pool_id, self._devices.state, published.spec.devices or ()
        ids = [(driver, name, device.name) for device in devices]
        if state.shared and any(one in state.shared for one in ids):
            return driver, tuple([self._device(pool_id, published, one, None) for one in devices]), None, False, ""
        read = self._projection.of_devices(driver, devices)
        return driver, read, tuple(map(state.devices.__contains__, ids))

    def _pool(self, pool: Pool, row: int) -> _PoolNumber:
        number = self._intern(self._content(pool, self._snapshot.nodes[row]))
        if pool.counter_sets:
            self._counting.add(number)
        return pool.has_binding_conditions, pool.id, number

    def _content(self, pool: Pool, node: Node) -> Hashable:
        """Return everything, except names, that an allocation from the pool on this node depends on."""
        found = tuple(
            [self._device(pool.id, one, device, node) for one in pool.slices for device in one.spec.devices or ()]
        )
        terms = None if all(one.spec.node_name for one in pool.slices) else tuple(_terms(pool))
        if not pool.counter_sets:
            return pool.id.driver, found, terms, pool.incomplete, pool.invalid_reason
        consumed = [
            device.consumes_counters
            for one in pool.other_slices
            for device in one.spec.devices or ()
            if device.consumes_counters and self._use((*pool.id, device.name))
        ]
        return pool.id.driver, found, terms, digest((pool.counter_sets, consumed))

    def _device(self, pool_id: PoolID, published: ResourceSlice, device: Device, node: Node | None) -> Hashable:
        read = self._projection.of_devices(pool_id.driver, (device,))
        use = self._use((*pool_id, device.name))
        seen: bool | str = True
        if node is not None and published.spec.per_device_node_selection:
            try:
                seen = is_for_node(device, node)
            except NodeSelectorError as error:
                seen = str(error)
        # Most devices differ only in the values that selectors read and in whether they are in use.
        is_plain = not self._projection.all_capacity and other_fields(device) == NO_OTHER_FIELDS and has_values(device)
        policies = (one.request_policy for one in (device.capacity or {}).values())
        if isinstance(use, bool) and seen is True and is_plain and all(one is None for one in policies):
            return read, use
        attributes = None if has_values(device) else device.attributes
        return read, use, seen, digest((other_fields(device), device.capacity, attributes))

    def _use(self, device: DeviceID) -> _Use:
        """Return how a device is in use; False if it is not."""
        state = self._devices.state
        if device not in state.shared:
            return device in state.devices
        consumed = (state.capacity or {}).get(device)
        return device in state.devices, None if consumed is None else frozenset(consumed.items())


def _terms(pool: Pool) -> Iterator[int | None]:
    """Yield each device's number of node selector terms (allocations accept one); None if it names a node instead."""
    for one in pool.slices:
        for device in one.spec.devices or ():
            on = device if one.spec.per_device_node_selection else one.spec
            selector = on.node_selector
            yield None if on.node_name is not None else len((selector and selector.node_selector_terms) or ())
