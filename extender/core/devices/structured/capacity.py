"""Capacity of a device that several claims share: the amount that a request consumes, and whether that much is left.

Mirrors structured/internal/incubating/consumable_capacity.go (k8s.io/dynamic-resource-allocation, v1.37). Amounts are
in nano-units.

Rule: computes amounts for one device and one request; callers pass in the existing shares.
"""

from collections.abc import Callable, Mapping
from typing import Final

from extender.k8s.devices.objects import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    ResourceQuantities,
)
from extender.k8s.objects import QuantityText
from extender.k8s.quantity import MAX_INT64, NANO, milli_value, parse, value
from extender.k8s.version.features import Features

Capacities = Mapping[str, DeviceCapacity]
Amounts = Mapping[str, int]

MILLI: Final = 10**6
"""Nano-units per thousandth."""

_NOT_REPRESENTABLE: Final = "capacity request cannot be represented in the device's range arithmetic"


class UnusablePolicy(Exception):
    """A request policy that crashes kube-scheduler: a step of 0, or without a minimum. No API server admits it."""


class CapacityError(Exception):
    """A capacity request that ends the scheduling cycle, in upstream's words."""


def has_room(
    capacities: Capacities,
    requests: ResourceQuantities | None,
    allocated: Amounts,
    allocating: Amounts,
    features: Features,
) -> bool:
    """Return whether a device has the capacity left that a request consumes; raises UnusablePolicy, CapacityError.

    `allocated`: amounts that claims consume already; `allocating`: amounts that this allocation has taken so far.
    Mirrors CmpRequestOverCapacity (v1.37).
    """
    if requests and any(name not in capacities for name in requests):
        return False
    for name, amount in consumed_by(capacities, requests, features).items():
        capacity = capacities[name]
        if capacity.request_policy is not None and _violates(amount, capacity.request_policy, features):
            return False
        if amount + allocated.get(name, 0) + allocating.get(name, 0) > parse(capacity.value):
            return False
    return True


def consumed_by(capacities: Capacities, requests: ResourceQuantities | None, features: Features) -> dict[str, int]:
    """Return the amount that a request consumes of each capacity of a device; raises UnusablePolicy, CapacityError.

    Mirrors GetConsumedCapacityFromRequest (v1.37): without a request, the policy's default or else the whole capacity.
    """
    consumed = {}
    for name, capacity in capacities.items():
        policy = capacity.request_policy
        try:
            if requests and name in requests:
                amount = _rounded_up(requests[name], policy, features)
            else:
                amount = parse(capacity.value if policy is None or policy.default is None else policy.default)
            if amount < 0 and features.unusable_capacity_requests_are_errors:
                raise CapacityError("capacity value is negative")
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        consumed[name] = amount
    return consumed


def quantity_text(nano: int) -> str:
    """Return an amount in nano-units as a quantity."""
    whole, rest = divmod(nano, NANO)
    return f"{nano}n" if rest else str(whole)


def _rounded_up(text: QuantityText, policy: CapacityRequestPolicy | None, features: Features) -> int:
    """Return the smallest admitted amount that is not below the requested one, or the requested one if none exists."""
    requested = parse(text)
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_up_to_step(text, policy.valid_range, features)
    admitted = (parse(one) for one in policy.valid_values or ())
    return next((one for one in admitted if requested <= one), requested)


def _rounded_up_to_step(text: QuantityText, valid: CapacityRequestPolicyRange, features: Features) -> int:
    requested, least = parse(text), parse(valid.min)
    if requested < least:
        return least
    if valid.step is None:
        return requested
    # Upstream computes steps in whole units (Quantity.Value, which rounds up), or in thousandths.
    counts_milli = _counts_milli(valid, features)
    if counts_milli and requested % MILLI:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: request {text} is not a representable milli value")
    units, unit = (milli_value, MILLI) if counts_milli else (value, NANO)
    start, step = units(least), _step(valid, units)
    found = start + -(-(units(requested) - start) // step) * step
    if found > MAX_INT64 and features.unusable_capacity_requests_are_errors:
        limit = "the milli-value range" if counts_milli else "MaxInt64"
        raise CapacityError(f"{_NOT_REPRESENTABLE}: rounding request {text} up to the next step passes {limit}")
    return found * unit


def _counts_milli(valid: CapacityRequestPolicyRange, features: Features) -> bool:
    """Return whether a range counts in thousandths: all its amounts are multiples of one (useMilli)."""
    if not features.dra_fractional_capacity_range:
        return False
    amounts = (parse(one) for one in (valid.min, valid.max, valid.step) if one is not None)
    return not any(one % MILLI or abs(one) > MAX_INT64 * MILLI for one in amounts)


def _violates(amount: int, policy: CapacityRequestPolicy, features: Features) -> bool:
    """Return whether the policy forbids an amount; its default is always admitted."""
    # Upstream compares the default as text. An API server only admits a default that the rest of the policy admits
    # too, so comparing amounts makes no difference.
    if policy.default is not None and amount == parse(policy.default):
        return False
    valid = policy.valid_range
    if valid is None:
        return bool(policy.valid_values) and amount not in map(parse, policy.valid_values or ())
    if valid.max is not None and amount > parse(valid.max):
        return True
    if valid.step is None:
        return False
    counts_milli = _counts_milli(valid, features)
    units = milli_value if counts_milli else value
    step = _step(valid, units)
    return bool(counts_milli and amount % MILLI) or (units(amount) - units(parse(valid.min))) % step != 0


def _step(valid: CapacityRequestPolicyRange, units: Callable[[int], int]) -> int:
    """Return the step in whole units. Upstream divides by the step and dereferences the minimum without checks."""
    step = units(parse(valid.step))
    if step == 0 or valid.min is None:
        raise UnusablePolicy
    return step
