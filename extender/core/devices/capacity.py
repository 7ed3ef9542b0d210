"""Capacity of a device that several claims share: what a request consumes, and whether that much is left.

Mirrors structured/internal/incubating/consumable_capacity.go (k8s.io/dynamic-resource-allocation, v1.36). Amounts are
in nano-units. Upstream compares an amount with the policy's default as Go structs, by spelling; here by amount: an API
server only admits a default that the rest of the policy admits too, so that it makes no difference.

Rule: amounts of one device and one request; which shares exist is passed in.
"""

from collections.abc import Mapping

from extender.k8s.devices.objects import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    ResourceQuantities,
)
from extender.k8s.quantity import NANO, parse, value

Capacities = Mapping[str, DeviceCapacity]
Amounts = Mapping[str, int]


class UnusablePolicy(Exception):
    """A request policy that ends kube-scheduler: a step of 0, or one without a minimum. No API server admits it."""


def has_room(
    capacities: Capacities, requests: ResourceQuantities | None, allocated: Amounts, allocating: Amounts
) -> bool:
    """Return whether a device has the capacity left that a request consumes; raises UnusablePolicy.

    `allocated`: what claims consume already, `allocating`: what this allocation has given so far. A request of a
    capacity that the device does not have, or that its policy does not admit, has no room.
    Mirrors CmpRequestOverCapacity (v1.36).
    """
    if requests and any(name not in capacities for name in requests):
        return False
    for name, amount in consumed_by(capacities, requests).items():
        capacity = capacities[name]
        if capacity.request_policy is not None and _violates(amount, capacity.request_policy):
            return False
        if amount + allocated.get(name, 0) + allocating.get(name, 0) > parse(capacity.value):
            return False
    return True


def consumed_by(capacities: Capacities, requests: ResourceQuantities | None) -> dict[str, int]:
    """Return what a request consumes of each capacity of a device; raises UnusablePolicy.

    Mirrors GetConsumedCapacityFromRequest (v1.36): without a request the policy's default, else all there is.
    """
    return {
        name: _rounded_up(parse(requests[name]), capacity.request_policy)
        if requests and name in requests
        else _default(capacity)
        for name, capacity in capacities.items()
    }


def quantity_text(nano: int) -> str:
    """Return a quantity of that amount."""
    whole, rest = divmod(nano, NANO)
    return f"{nano}n" if rest else str(whole)


def _default(capacity: DeviceCapacity) -> int:
    policy = capacity.request_policy
    return parse(capacity.value if policy is None or policy.default is None else policy.default)


def _rounded_up(requested: int, policy: CapacityRequestPolicy | None) -> int:
    """Return the least amount that the policy admits and that is not below the requested one, where there is one."""
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_up_to_step(requested, policy.valid_range)
    admitted = (parse(one) for one in policy.valid_values or ())
    return next((one for one in admitted if requested <= one), requested)


def _rounded_up_to_step(requested: int, valid: CapacityRequestPolicyRange) -> int:
    least = parse(valid.min)
    if requested < least:
        return least
    if valid.step is None:
        return requested
    # Upstream computes steps in whole units (Quantity.Value, which rounds up).
    start, step = value(least), _step(valid)
    return (start + -(-(value(requested) - start) // step) * step) * NANO


def _violates(amount: int, policy: CapacityRequestPolicy) -> bool:
    """Return whether the policy does not admit an amount; its default is always admitted."""
    if policy.default is not None and amount == parse(policy.default):
        return False
    valid = policy.valid_range
    if valid is None:
        return bool(policy.valid_values) and amount not in map(parse, policy.valid_values or ())
    if valid.max is not None and amount > parse(valid.max):
        return True
    return valid.step is not None and (value(amount) - value(parse(valid.min))) % _step(valid) != 0


def _step(valid: CapacityRequestPolicyRange) -> int:
    """Return the step in whole units; upstream divides by it, and reads the minimum without looking for it."""
    step = value(parse(valid.step))
    if step == 0 or valid.min is None:
        raise UnusablePolicy
    return step
