"""Devices of a node during one search: those that suit a request, their remaining capacity, and those taken so far.

Mirrors allocator.allocateDevice and its helpers (k8s.io/dynamic-resource-allocation/structured, v1.36).

Rule: devices are given back in reverse order; nothing here looks ahead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from extender.core.devices.structured.allocation import AllocatedState
from extender.core.devices.structured.capacity import Amounts, CapacityError, consumed_by, has_room
from extender.core.devices.structured.constraints import AttributeConstraint, DistinctAttribute, MatchAttribute
from extender.core.devices.structured.counters import Counters
from extender.core.devices.structured.pools import AllocationError, DeviceID, NotEvaluated, PoolDevice, is_for_node
from extender.core.devices.structured.requests import CompiledClaim, CompiledRequest
from extender.core.devices.structured.taints import prevents_allocation
from extender.k8s.devices.objects import DeviceConstraint
from extender.k8s.devices.selector import DeviceSelectorError, UnsupportedFeature
from extender.k8s.limits.limits import WorkBudget
from extender.k8s.objects import Node
from extender.k8s.version.features import Features

_NOTHING: Final[Mapping[Any, Any]] = {}


@dataclass(eq=False, slots=True)
class Taken:
    """A device that the search has taken, with the state that is needed to give it back."""

    request: CompiledRequest
    device: PoolDevice
    counted: bool
    """Whether it consumes counters of its pool."""
    consumed: Mapping[str, int] | None = None
    """Capacity that its share consumes; None if the device is not shared."""
    shares_before: Mapping[str, int] | None = None


class NodeDevices:
    """Devices of a node that requests can have, and those taken so far."""

    def __init__(
        self,
        claims: Sequence[CompiledClaim],
        features: Features,
        node: Node,
        state: AllocatedState,
        budget: WorkBudget,
    ) -> None:
        self._claims = claims
        self._features = features
        self.node = node
        self._state = state
        self._budget = budget
        self.taken: list[list[Taken]] = [[] for _ in claims]
        """[claim]: devices in the order in which they were taken."""
        self.matches: dict[tuple[CompiledRequest, PoolDevice], bool] = {}
        """Results of `selects`."""
        self._constraints = [[_constraint(one, features) for one in claim.constraints] for claim in claims]
        self._allocating: dict[PoolDevice, set[int]] = {}
        """Device -> indexes of the claims that have the whole device."""
        self._shares: dict[DeviceID, Mapping[str, int]] = {}
        self._counters = Counters(state, features, budget)

    # --- which devices suit a request

    def is_in_use(self, request: CompiledRequest, one: PoolDevice) -> bool:
        """Return whether a claim has the device; with admin access only the request's own claim counts."""
        allocating = self._allocating.get(one)
        if request.admin_access:
            return allocating is not None and request.claim in allocating
        return bool(allocating) or one.id in self._state.devices

    def selects(self, request: CompiledRequest, one: PoolDevice, remembers: CompiledRequest) -> bool:
        """Return whether the selectors of class and request select a usable device; cached under `remembers`."""
        if one.device.binding_conditions and not self._features.dra_device_binding_conditions:
            return False
        found = self.matches.get((remembers, one))
        if found is None:
            found = self.matches[remembers, one] = self._evaluate(request, one)
        return found

    def _evaluate(self, request: CompiledRequest, one: PoolDevice) -> bool:
        for at, selector in request.selectors:
            if selector.error:
                raise AllocationError(f"{at}: CEL compile error: {selector.error}")
            if selector.unsupported:
                raise NotEvaluated(f"{at}: {selector.unsupported}")
            try:
                if not selector.matches(one.view(self._features), self._budget):
                    return False
            except DeviceSelectorError as error:
                if not self._features.selector_errors_name_device:
                    raise AllocationError(f"{at}: CEL runtime error: {error}") from None
                text = f"{at} on device {'/'.join(one.id)}: CEL runtime error: {error}"
                raise AllocationError(text, names_pool=True) from None
            except UnsupportedFeature as feature:
                raise NotEvaluated(f"{at}: {feature}") from None
        return not one.slice.spec.per_device_node_selection or is_for_node(one.device, self.node)

    def belongs(self, request: CompiledRequest, one: PoolDevice) -> bool:
        """Return whether a request for all devices includes the device, judging by its capacity."""
        if not self._features.all_devices_include_full_ones:
            return self.room(request, one)
        if not (self._features.dra_consumable_capacity and (request.capacity or one.has_request_policy)):
            return True
        return self._has_room(request, one, one.device.name, _NOTHING, _NOTHING)

    def room(self, request: CompiledRequest, one: PoolDevice) -> bool:
        """Return whether the device has the capacity that the request would consume."""
        if not self._features.dra_consumable_capacity:
            return True
        if not (request.capacity or one.has_request_policy or self._shares or self._state.capacity):
            return True  # no capacity is shared: the request takes all of it
        allocated = (self._state.capacity or _NOTHING).get(one.id, _NOTHING)
        return self._has_room(request, one, "/".join(one.id), allocated, self._shares.get(one.id, _NOTHING))

    def _has_room(
        self, request: CompiledRequest, one: PoolDevice, name: str, allocated: Amounts, allocating: Amounts
    ) -> bool:
        try:
            return has_room(one.device.capacity or {}, request.capacity, allocated, allocating, self._features)
        except CapacityError as error:
            claim = self._claims[request.claim].text
            at = f"claim {claim}, request {request.name}: checking capacity for device {name}"
            raise AllocationError(f"{at}: {error}", names_pool=True) from None

    def take(self, request: CompiledRequest, one: PoolDevice, *, must: bool) -> Taken | None:
        """Take a selected, unused device; None if its counters, taints, constraints or capacity do not allow that.

        `must`: the claim has no solution without the device, so that an unsatisfied constraint is an error.
        """
        features = self._features
        shareable = features.dra_consumable_capacity and bool(one.device.allow_multiple_allocations)
        # 1. Consume counters of the pool, once for all shares of a device.
        counted = bool(one.device.consumes_counters) and not (shareable and self._is_shared(one))
        if one.device.consumes_counters and not features.dra_partitionable_devices:
            return None
        if counted:
            if must and not features.device_counters_of_1_36_2:
                raise NotEvaluated("all devices of a pool with counters before 1.36.2")
            if not self._counters.take(one):
                return None
        # 2. Check the taints, 3. the constraints of the claim.
        taken = Taken(request, one, counted)
        is_tainted = (
            one.device.taints
            and features.dra_device_taints
            and prevents_allocation(
                one.device.taints, request.tolerations, whatever_effect=not features.device_pools_of_1_35
            )
        )
        if is_tainted or not self._add_to_constraints(taken, must=must):
            if counted and features.counters_are_given_back:
                self._counters.give_back(one)
            return None
        # 4. Check the capacity for a request for all devices; for other requests the caller has checked `room`.
        if must and not self.room(request, one):
            # If upstream does not undo a failed request for all devices, the device stays taken for the alternatives.
            if features.counters_are_given_back:
                self._remove(taken)
            elif not shareable:
                self._allocating.setdefault(one, set()).add(request.claim)
            return None
        # 5. Take the device, or a share of it.
        if shareable:
            taken.consumed = consumed_by(one.device.capacity or {}, request.capacity, features)
            before = taken.shares_before = self._shares.get(one.id)
            self._shares[one.id] = {name: each + (before or {}).get(name, 0) for name, each in taken.consumed.items()}
        else:
            self._allocating.setdefault(one, set()).add(request.claim)
        self.taken[request.claim].append(taken)
        return taken

    def _add_to_constraints(self, taken: Taken, *, must: bool) -> bool:
        request = taken.request
        constraints = self._constraints[request.claim]
        self._budget.spend(len(request.constraints))
        for place, at in enumerate(request.constraints):
            if constraints[at].add(request.base_name, taken.device):
                continue
            for before in reversed(request.constraints[:place]):
                constraints[before].remove(request.base_name)
            if must:
                claim = self._claims[request.claim].text
                device = "/".join(taken.device.id)
                broken = f"cannot add device {device} because a claim constraint would not be satisfied"
                raise AllocationError(f"claim {claim}, request {request.name}: {broken}", names_pool=True)
            return False
        return True

    def _is_shared(self, one: PoolDevice) -> bool:
        state = self._state
        return (
            one.id in self._shares
            or one.id in (state.capacity or _NOTHING)
            or (self._features.shares_without_capacity_count and one.id in state.shared)
        )

    def give_back(self, taken: Taken | None) -> None:
        """Undo a `take`."""
        if taken is None:
            return
        request, one = taken.request, taken.device
        self.taken[request.claim].pop()
        if taken.consumed is None:
            self._allocating[one].discard(request.claim)
        elif taken.shares_before is None:
            del self._shares[one.id]
        else:
            self._shares[one.id] = taken.shares_before
        self._remove(taken)

    def _remove(self, taken: Taken) -> None:
        """Remove a device from the constraints and give its counters back."""
        constraints = self._constraints[taken.request.claim]
        for at in reversed(taken.request.constraints):
            constraints[at].remove(taken.request.base_name)
        if taken.counted and (taken.consumed is None or self._features.counters_are_given_back):
            self._counters.give_back(taken.device)


def _constraint(one: DeviceConstraint, features: Features) -> AttributeConstraint:
    if one.match_attribute is not None:
        return MatchAttribute(one.match_attribute)
    return DistinctAttribute(
        one.distinct_attribute or "",
        remembers_all=features.distinct_attribute_remembers_all_values,
        compares_values=features.shared_devices_of_1_35,
    )
