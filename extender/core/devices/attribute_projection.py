"""AttributeProjection: what selectors and constraints read of a device, so that devices can be compared by that alone.

Rule: two devices of a driver with the same value of a projection are the same to everything that it was made of.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec

from extender.core.devices.structured.allocation import DeviceMatcher
from extender.k8s.devices.objects import Device, DeviceClaim, DeviceRequest, DeviceSubRequest, ExactDeviceRequest

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


@lru_cache(maxsize=256)
def _spellings(names: tuple[str, ...], driver: str) -> tuple[str, ...]:
    """Return qualified names, and those of the driver's domain without it too."""
    own = f"{driver}/"
    return tuple(spelling for name in names for spelling in {name, name.removeprefix(own)})


def digest(content: object) -> bytes:
    """Return what stands for content of any size."""
    return blake2b(_ENCODER.encode(content), digest_size=16).digest()


def alternatives(request: DeviceRequest) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    """Yield what a request may be served with: the request itself, or the alternatives of its prioritized list."""
    if request.exactly is not None:
        yield request.exactly
    yield from request.first_available or ()
