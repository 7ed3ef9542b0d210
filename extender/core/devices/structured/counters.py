"""Counters that devices of a pool share: the amounts left while devices are chosen.

Mirrors checkAvailableCounters (k8s.io/dynamic-resource-allocation/structured/internal/incubating, v1.37).

Rule: state of one search; amounts in nano-units.
"""

from collections.abc import Iterator

from extender.core.devices.structured.allocation import AllocatedState
from extender.core.devices.structured.pools import PoolDevice, PoolID
from extender.k8s.devices.objects import Device
from extender.k8s.limits.limits import WorkBudget
from extender.k8s.quantity import parse
from extender.k8s.version.features import Features

_COUNTERS_PER_STEP = 8
"""Number of counters that are added and compared in the time of one search step."""

_Counter = tuple[str, str]
"""Names of the counter set and of the counter."""


class Counters:
    """Counters of the pools of one node, in nano-units."""

    def __init__(self, state: AllocatedState, features: Features, budget: WorkBudget) -> None:
        self._budget = budget
        self._state = state
        self._features = features
        self._available: dict[PoolID | str, dict[_Counter, int]] = {}
        self._consumed: dict[PoolID | str, dict[_Counter, int]] = {}
        self._needs: dict[PoolDevice, tuple[tuple[_Counter, int], ...]] = {}

    def take(self, one: PoolDevice) -> bool:
        """Take a device's counters and return True; return False, taking none, if a counter would be exceeded."""
        pool = self._key(one)
        # Upstream computes the counters once for all nodes of a scheduling cycle. That differs only if slices of one
        # pool give nodes different counters, or if pools share a name before v1.36.4.
        if pool not in self._available:
            self._available[pool] = self._left_by_devices_in_use(one)
        available, consumed = self._available[pool], self._consumed.setdefault(pool, {})
        if one not in self._needs:
            self._needs[one] = tuple(_consumption(one.device))
        needs = self._needs[one]
        self._budget.spend(1 + (len(available) + len(needs)) // _COUNTERS_PER_STEP)
        for key, amount in needs:
            consumed[key] = consumed.get(key, 0) + amount
        # Compare all counters: devices in use may already exceed a counter that this device does not consume.
        if all(consumed.get(key, 0) <= amount for key, amount in available.items()):
            return True
        self.give_back(one)
        return False

    def give_back(self, one: PoolDevice) -> None:
        """Undo a successful `take`."""
        consumed = self._consumed[self._key(one)]
        for key, amount in self._needs[one]:
            consumed[key] -= amount

    def _key(self, one: PoolDevice) -> PoolID | str:
        """Return the key of a device's pool: before v1.36.4 pools with the same name share counters."""
        return one.pool.id if self._features.counters_are_of_drivers else one.pool.id.pool

    def _left_by_devices_in_use(self, one: PoolDevice) -> dict[_Counter, int]:
        """Return the amounts left of the counters of a device's pool; below zero if devices in use exceed them."""
        pool, state = one.pool, self._state
        left = {
            (counters.name, name): parse(counter.value)
            for counters in pool.counter_sets
            for name, counter in (counters.counters or {}).items()
        }
        for published in (*pool.slices, *pool.other_slices):
            self._budget.spend(len(published.spec.devices or ()))
            for device in published.spec.devices or ():
                if not device.consumes_counters:
                    continue
                device_id = (pool.id.driver, pool.id.pool, device.name)
                is_shared = device_id in state.shared or device_id in (state.capacity or ())
                in_use = device_id in state.devices or (is_shared and self._features.device_counters_of_1_36_2)
                for key, amount in _consumption(device) if in_use else ():
                    if key in left:
                        left[key] -= amount
        return left


def _consumption(device: Device) -> Iterator[tuple[_Counter, int]]:
    return (
        ((consumed.counter_set, name), parse(counter.value))
        for consumed in device.consumes_counters or ()
        for name, counter in (consumed.counters or {}).items()
    )
