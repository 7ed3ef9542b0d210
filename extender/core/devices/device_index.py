"""Index ResourceSlices by node and pool, and the devices that are allocated to claims.

Counterpart of kube-scheduler's resource slice tracker and allocatedDevices (dynamicresources/allocateddevices.go,
v1.36). The pools that a node sees are gathered from this index.

Rule: a change of a slice or claim updates the entries of its own pools only.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from extender.core.devices.structured.allocation import AllocatedState
from extender.core.devices.structured.pools import DeviceID, Pool, PoolID, gather_pools, in_order, is_seen_for_counters
from extender.core.devices.structured.taints import with_rule_taints
from extender.core.snapshot.arrays import BoolArray
from extender.core.snapshot.selector_index import nodes_matching
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.devices.device_view import has_values
from extender.k8s.devices.objects import (
    Device,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
    ResourceSliceSpec,
)
from extender.k8s.objects import Object
from extender.k8s.quantity import parse
from extender.k8s.selectors import SelectorError, parse_node_selector

Slices = dict[str, ResourceSlice]
"""Name -> slice."""

_OTHER_FIELDS = tuple(one for one in Device.__struct_fields__ if one not in ("name", "attributes", "capacity"))

other_fields = attrgetter(*_OTHER_FIELDS)
"""Returns all fields of a device except name, attributes and capacity."""

NO_OTHER_FIELDS = (None,) * len(_OTHER_FIELDS)

_MAX_CHANGES = 100_000
"""Maximum length of the change log, about 1 MB; beyond it all nodes are regrouped, 130 ms for 5,000."""


@dataclass(frozen=True, slots=True)
class SharedPools:
    """The nodes that see each pool with slices for more than one node."""

    nodes: tuple[str, ...]
    """`Snapshot.frozen_node_names` when this was computed."""
    everywhere: tuple[PoolID, ...]
    """Pools that all nodes see alike."""
    on: dict[int, dict[PoolID, bytes]]
    """Node row -> pool that not all nodes see alike -> bits of the conditions (`_conditions`) that hold on the node."""


class _DevicesInUse:
    """Counts the allocation results of claims by device."""

    def __init__(self) -> None:
        self._devices: Counter[DeviceID] = Counter()
        self._shares: Counter[DeviceID] = Counter()
        self._consumers: Counter[DeviceID] = Counter()
        """Shared device -> number of results that consume its capacity."""
        self._capacity: dict[DeviceID, dict[str, int]] = {}
        self.state = AllocatedState(self._devices, self._shares, self._capacity)
        """A live view of these counts."""

    def count(self, result: DeviceRequestAllocationResult, times: int, *, counts_shares: bool) -> None:
        """Add a result to the counts (`times` is 1), or remove it (-1)."""
        device, is_share = (result.driver, result.pool, result.device), counts_shares and result.share_id is not None
        _add(self._shares if is_share else self._devices, device, times)
        if is_share and result.consumed_capacity is not None:
            amounts = self._capacity.setdefault(device, {})
            for name, amount in result.consumed_capacity.items():
                amounts[name] = amounts.get(name, 0) + times * parse(amount)
            _add(self._consumers, device, times)
            if device not in self._consumers:
                del self._capacity[device]


def _add(counts: Counter[DeviceID], device: DeviceID, times: int) -> None:
    counts[device] += times
    if not counts[device]:
        del counts[device]


class DeviceIndex(Index):
    """ResourceSlices by node and pool, and the devices that are in use."""

    reads = ("device_taint_rules", "resource_slices", "resource_claims")

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._in_use = _DevicesInUse()
        self.state = self._in_use.state
        self._of_pool: dict[PoolID, Slices] = {}
        """Pool -> its slices of all generations."""
        self._of_node: dict[str, Slices] = {}
        """Node name -> slices that no other node sees."""
        self._unusual: set[str] = set()
        """Names of the slices for a single node that are not `_is_usual`."""
        self._shared: dict[PoolID, Slices] = {}
        """Pool -> its slices that several nodes may see."""
        self._gathered: dict[PoolID, dict[bytes, Pool | None]] = defaultdict(dict)
        """Pool in `_shared` -> bits of the conditions on a node -> the pool there, without slices of the node alone."""
        self._layout: SharedPools | None = None
        """Cached until a shared slice or the set of nodes changes."""
        self.changes: list[str | None] = []
        """Change log: nodes whose own devices changed, newest last; None for devices that several nodes see.

        A new list starts after _MAX_CHANGES, so that names of removed nodes do not accumulate.
        """

    # --- changes ---

    def object_changed(self, field: str, before: Object | None, after: Object | None) -> None:
        if field == "resource_claims":
            self._claim(tuple(_results(before)), tuple(_results(after)))
        elif field == "resource_slices":
            for one in (before, after):
                if isinstance(one, ResourceSlice):
                    self._slice(one, is_now=one is after)
        elif self.snapshot.features.dra_device_taint_rules:
            # Rules are few and change rarely, so a change updates all slices, not only those that the rule selects.
            for name in [name for slices in self._of_pool.values() for name in slices]:
                self._slice(self.snapshot.objects.resource_slices["", name], is_now=True)

    def _slice(self, one: ResourceSlice, *, is_now: bool) -> None:
        name, pool_id = one.metadata.name, _pool_of(one)
        features = self.snapshot.features
        if is_now and features.dra_device_taint_rules:
            rules = self.snapshot.objects.device_taint_rules.values()
            one = with_rule_taints(one, rules, needs_selector=features.taint_rules_need_a_selector)
        shared = self._is_shared(one.spec)
        node = None if shared else one.spec.node_name or ""
        places: list[tuple[dict[Any, Slices], Any]] = [(self._of_pool, pool_id)]
        places.append((self._shared, pool_id) if shared else (self._of_node, node))
        for table, key in places:
            if is_now:
                table.setdefault(key, {})[name] = one
            elif table.get(key, {}).pop(name, None) is not None and not table[key]:
                del table[key]
        self._unusual.discard(name)
        if is_now and not shared and not _is_usual(one.spec):
            self._unusual.add(name)
        if shared or pool_id in self._shared:
            self._layout = None
        self._gathered.pop(pool_id, None)
        self._changed(node)
        self._pool_changed(pool_id)

    def _claim(
        self, before: tuple[DeviceRequestAllocationResult, ...], after: tuple[DeviceRequestAllocationResult, ...]
    ) -> None:
        if before == after:  # nearly always: kube-scheduler treats an allocation as immutable
            return
        counts_shares = self.snapshot.features.dra_consumable_capacity
        for times, results in ((-1, before), (1, after)):
            for result in results:
                self._in_use.count(result, times, counts_shares=counts_shares)
        for pool_id in {PoolID(result.driver, result.pool) for result in (*before, *after)}:
            self._pool_changed(pool_id)

    def _pool_changed(self, pool_id: PoolID) -> None:
        slices = self._of_pool.get(pool_id, {})
        if pool_id in self._shared:
            self._changed(None)
        for node in {one.spec.node_name or "" for one in slices.values() if not self._is_shared(one.spec)}:
            self._changed(node)

    def _changed(self, node: str | None) -> None:
        if len(self.changes) >= _MAX_CHANGES:
            self.changes = []
        self.changes.append(node)

    # --- reading ---

    def pools_at(self, row: int) -> tuple[Pool, ...]:
        """Return the pools that a node sees, like `gather_pools`, without valid pools that have no devices there.

        Raises AllocationError, NotEvaluated.
        """
        own = (self.own_pool(one, slices, row) for one, slices in self.own_slices_at(row).items())
        return in_order((*(pool for pool in own if pool is not None), *self.shared_pools_at(row)))

    def own_slices_at(self, row: int) -> Mapping[PoolID, Sequence[ResourceSlice]]:
        """Return the slices that no other node sees, by pool."""
        slices = self._of_node.get(self.snapshot.node_names[row], {})
        if len(slices) == 1:  # as on most nodes
            (only,) = slices.values()
            return {_pool_of(only): (only,)}
        own: dict[PoolID, list[ResourceSlice]] = {}
        for one in slices.values():
            own.setdefault(_pool_of(one), []).append(one)
        return own

    def is_usual(self, pool_id: PoolID, slices: Sequence[ResourceSlice]) -> bool:
        """Return whether the pool is one valid slice for a single node, and its devices have only a name, attributes,
        and capacity without request policies. `slices`: the pool's slices for that node alone."""
        return len(slices) == len(self._of_pool[pool_id]) == 1 and slices[0].metadata.name not in self._unusual

    def own_pool(self, pool_id: PoolID, slices: Sequence[ResourceSlice], row: int) -> Pool | None:
        """Return the pool as a node sees it; `slices`: the pool's slices for that node alone."""
        return self._gather([*slices, *self._shared.get(pool_id, {}).values()], row)

    def shared_pools_at(self, row: int) -> list[Pool]:
        """Return the pools of `pools_at` that have no slices for the node alone, in any order.

        Nodes that see a pool alike get the same object.
        """
        layout, own = self.layout(), self.own_slices_at(row)
        found = [self._shared_pool(one, bits, row) for one, bits in layout.on.get(row, {}).items() if one not in own]
        found += [self._shared_pool(one, b"", row) for one in layout.everywhere if one not in own]
        return [pool for pool in found if pool is not None]

    def layout(self) -> SharedPools:
        """Return the nodes that see each pool with slices for more than one node."""
        nodes = self.snapshot.frozen_node_names
        if self._layout is None or self._layout.nodes is not nodes:
            self._layout = self._lay_out(nodes)
        return self._layout

    def _lay_out(self, nodes: tuple[str, ...]) -> SharedPools:
        everywhere, on = list[PoolID](), defaultdict[int, dict[PoolID, bytes]](dict)
        for pool_id, slices in self._shared.items() if nodes else ():
            masks = [_mask(self.snapshot, part) for part in self._conditions(slices.values())]
            if not masks:
                if self._shared_pool(pool_id, b"", 0) is not None:
                    everywhere.append(pool_id)
                continue
            bits = np.packbits(np.array(masks), axis=0).T
            sees = np.any(masks, axis=0) | any(self._is_seen_everywhere(one.spec) for one in slices.values())
            for row in np.flatnonzero(sees).tolist():
                on[row][pool_id] = bits[row].tobytes()
        return SharedPools(nodes, tuple(everywhere), dict(on))

    def _shared_pool(self, pool_id: PoolID, bits: bytes, row: int) -> Pool | None:
        """Return the pool as seen by a node without slices of its own; `bits`: the conditions that hold on the node."""
        kept = self._gathered[pool_id]
        if bits not in kept:
            kept[bits] = self._gather(self._shared[pool_id].values(), row)
        return kept[bits]

    def _gather(self, slices: Iterable[ResourceSlice], row: int) -> Pool | None:
        """Return the pool of these slices as a node sees it; None if it is complete and valid but offers no device."""
        snapshot = self.snapshot
        pools = gather_pools(
            slices, snapshot.nodes[row], lambda one: tuple(self._of_pool[one].values()), snapshot.features
        )
        usable = [
            one
            for one in pools
            if one.incomplete or one.invalid_reason or any(part.spec.devices for part in one.slices)
        ]
        return usable[0] if usable else None

    def _is_shared(self, spec: ResourceSliceSpec) -> bool:
        """Return whether more than one node may see the slice, as in NewAllocator (v1.36)."""
        return not spec.node_name or is_seen_for_counters(spec, self.snapshot.features)

    def _is_seen_everywhere(self, spec: ResourceSliceSpec) -> bool:
        return bool(spec.all_nodes) or is_seen_for_counters(spec, self.snapshot.features)

    def _conditions(self, slices: Iterable[ResourceSlice]) -> Iterator[ResourceSliceSpec | Device]:
        """Yield the shared slices, and devices that select nodes themselves, that not all nodes see."""
        for one in slices:
            if one.spec.node_selector is not None and not self._is_seen_everywhere(one.spec):
                yield one.spec
            if one.spec.per_device_node_selection:
                yield from one.spec.devices or ()


def _results(claim: Object | None) -> Iterator[DeviceRequestAllocationResult]:
    """Yield the allocation results that keep other claims off a device: all without admin access."""
    if isinstance(claim, ResourceClaim) and claim.status.allocation is not None:
        yield from (one for one in claim.status.allocation.devices.results or () if not one.admin_access)


def _pool_of(one: ResourceSlice) -> PoolID:
    return PoolID(one.spec.driver, one.spec.pool.name)


def _mask(snapshot: Snapshot, part: ResourceSliceSpec | Device) -> BoolArray:
    """Return [node]: whether the node sees the slice or device; if the selector does not parse, every node does."""
    if part.node_name:
        found = np.zeros(len(snapshot.nodes), np.bool_)
        if part.node_name in snapshot.node_row:
            found[snapshot.node_row[part.node_name]] = True
        return found
    if part.all_nodes or part.node_selector is None:
        return np.full(len(snapshot.nodes), bool(part.all_nodes))
    try:
        return nodes_matching(snapshot, parse_node_selector(part.node_selector))
    except SelectorError:
        return np.ones(len(snapshot.nodes), np.bool_)


def _is_usual(spec: ResourceSliceSpec) -> bool:
    """Return whether a slice can be a valid pool, and its devices have only a name, attributes and capacity."""
    devices = spec.devices or ()
    policies = (one.request_policy for device in devices for one in (device.capacity or {}).values())
    return (
        spec.pool.resource_slice_count == 1
        and not spec.shared_counters
        and not spec.per_device_node_selection
        and 0 < len(devices) == len({device.name for device in devices})
        and all(other_fields(device) == NO_OTHER_FIELDS and has_values(device) for device in devices)
        and all(policy is None for policy in policies)
    )
