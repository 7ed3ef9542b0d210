"""Selectors of devices: what they read, and their results, which are remembered but counted as if they were not.

AttributeProjection is what selectors and constraints read of a device: devices with the same value of it are the same
to all that it was made of.

Rule: what is remembered decides how long an answer takes, never what it is: a call is charged once for each result that
it needs, also for those of earlier calls, so that the same work always ends at the same step.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec

from extender.core.devices.structured.allocation import DeviceMatcher
from extender.k8s.devices.device_view import DeviceView
from extender.k8s.devices.objects import Device, DeviceClaim, DeviceRequest, DeviceSubRequest, ExactDeviceRequest
from extender.k8s.devices.selector import DeviceSelectorError, Selector, UnsupportedFeature
from extender.k8s.limits.limits import WorkBudget

_MAX_RESULTS: Final = 32_768
"""Results of selectors for devices, as these see them, that are remembered together."""

_NOTHING: Final[Mapping[str, Any]] = {}
_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class AttributeProjection:
    """What selectors and constraints read of a device's attributes and capacity."""

    attributes: tuple[str, ...] = ()
    """Fully qualified names; the domain may be left out on a device of the driver of that name."""
    capacity: tuple[str, ...] = ()
    """Likewise."""
    everything: bool = False
    """All attributes and capacity."""
    all_capacity: bool = False
    """All capacity, with its request policies."""

    @classmethod
    def of_selector(cls, selector: DeviceMatcher) -> "AttributeProjection":
        """Return what a selector reads."""
        if selector.error or selector.unsupported:
            return cls()
        if selector.reads is None:
            return cls(everything=True)
        names = {
            of: tuple(sorted(f"{domain}/{name}" for kind, domain, name in selector.reads if kind == of))
            for of in ("attributes", "capacity")
        }
        return cls(names["attributes"], names["capacity"])

    @classmethod
    def of_claims(cls, claims: Iterable[DeviceClaim], selectors: Iterable[DeviceMatcher]) -> "AttributeProjection":
        """Return what the selectors of claims and of their classes read, and their constraints and requests."""
        parts = [cls.of_selector(one) for one in selectors]
        attributes, all_capacity = {name for part in parts for name in part.attributes}, False
        for claim in claims:
            for constraint in claim.constraints or ():
                attributes |= {one for one in (constraint.match_attribute, constraint.distinct_attribute) if one}
            requested = (one for request in claim.requests or () for one in alternatives(request))
            all_capacity |= any(one.capacity is not None for one in requested)
        return cls(
            tuple(sorted(attributes)),
            tuple(sorted({name for part in parts for name in part.capacity})),
            any(part.everything for part in parts),
            all_capacity,
        )

    def of_devices(self, driver: str, devices: Sequence[Device]) -> Hashable:
        """Return what is read of devices of one driver, name by name: that is quicker than device by device."""
        if self.everything:
            return tuple([digest((device.attributes, device.capacity)) for device in devices])
        attributes = [device.attributes or _NOTHING for device in devices]
        found: list[Hashable] = [
            tuple([of.get(name) for of in attributes]) for name in _spellings(self.attributes, driver)
        ]
        if self.capacity:
            capacity = [device.capacity or _NOTHING for device in devices]
            columns = ([of.get(name) for of in capacity] for name in _spellings(self.capacity, driver))
            found += [tuple([one and one.value for one in column]) for column in columns]
        return tuple(found)


def _spellings(names: tuple[str, ...], driver: str) -> list[str]:
    """Return qualified names, and those of the driver's domain without it too."""
    own = f"{driver}/"
    return [one for name in names for one in ((name, name[len(own) :]) if name.startswith(own) else (name,))]


def digest(content: object) -> bytes:
    """Return what stands for content of any size."""
    return blake2b(_ENCODER.encode(content), digest_size=16).digest()


def alternatives(request: DeviceRequest) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    """Yield what a request may be served with: the request itself, or the alternatives of its prioritized list."""
    if request.exactly is not None:
        yield request.exactly
    yield from request.first_available or ()


SelectorResults = dict[Hashable, tuple[bool | DeviceSelectorError | UnsupportedFeature, int]]
"""Expression and what it reads of a device -> (result, steps that it took)."""


class WorkAccount:
    """Counts the steps of selectors in one call as if no results were remembered from calls before."""

    def __init__(self) -> None:
        self.charged: set[int] = set()
        """Hashes of the results that this call has been charged for."""
        self.used: dict[int, int] = {}
        """Hashes of the results that the current node needs -> steps."""
        self.steps = 0
        """Steps that the current node has been charged for."""

    def charge(self, results: Mapping[int, int]) -> int:
        """Charge this call for results, and return the steps of those that it was not charged for before."""
        steps = sum(results[one] for one in results.keys() - self.charged)
        self.charged.update(results)
        return steps

    def next_node(self) -> None:
        self.used, self.steps = {}, 0

    def end_call(self) -> None:
        self.charged.clear()
        self.next_node()


class CountedSelector:
    """A selector of one pod's claims or of a class, as the allocator sees it; `results` may be shared with others."""

    def __init__(self, selector: Selector, results: SelectorResults, account: WorkAccount) -> None:
        self.expression, self.error, self.unsupported = selector.expression, selector.error, selector.unsupported
        self.reads = selector.reads
        self._selector = selector
        self._projection = AttributeProjection.of_selector(selector)
        self._results = results
        self._account = account

    def matches(self, device: DeviceView, budget: WorkBudget) -> bool:
        """As Selector.matches."""
        budget.spend(1)
        read = self._projection.of_devices(device.driver, (device.device,))
        # An attribute without a value fails every selector, also one that does not read it.
        broken = None if device.has_values else digest(device.device.attributes)
        key = self.expression, device.driver, device.allow_multiple_allocations, read, broken
        # A hash, because what it is of would be held for each node; a collision only counts too few steps.
        charge, account = hash(key), self._account
        found = self._results.get(key)
        if found is None:
            left = budget.left
            result: bool | DeviceSelectorError | UnsupportedFeature
            try:
                result = self._selector.matches(device, budget)
            except (DeviceSelectorError, UnsupportedFeature) as error:
                result = type(error)(*error.args)  # without the frames that its traceback keeps
            if len(self._results) >= _MAX_RESULTS:
                self._results.clear()
            steps = left - budget.left
            self._results[key] = result, steps
            account.steps += steps
        else:
            result, steps = found
            if charge not in account.charged:
                account.steps += steps
                budget.spend(steps)
        account.charged.add(charge)
        account.used[charge] = steps
        if not isinstance(result, bool):
            raise type(result)(*result.args)
        return result
