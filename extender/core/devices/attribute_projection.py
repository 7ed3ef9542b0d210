"""AttributeProjection: what claims read of a device, so that devices that differ in nothing else are treated as one.

Rule: names and attributes that nothing reads, such as a UUID, are left out.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec

from extender.k8s.devices.objects import Device, DeviceClaim, DeviceSubRequest, ExactDeviceRequest
from extender.k8s.devices.selector import DeviceMatcher

_NOTHING: Final[Mapping[str, Any]] = {}
_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class AttributeProjection:
    """What selectors and constraints read of a device's attributes and capacity."""

    attributes: tuple[str, ...] = ()
    """Fully qualified names, sorted; the domain may be left out on a device of the driver of that name."""
    capacity: tuple[str, ...] = ()
    """Likewise."""
    everything: bool = False
    """All attributes and capacity."""
    all_capacity: bool = False
    """All capacity, with its request policies."""

    @classmethod
    def of(cls, claims: Iterable[DeviceClaim], selectors: Iterable[DeviceMatcher]) -> "AttributeProjection":
        """Return what selectors read, and the constraints and requests of claims."""
        names: dict[str, set[str]] = {"attributes": set(), "capacity": set()}
        everything = all_capacity = False
        for selector in selectors:
            everything |= selector.reads is None and not selector.error and not selector.unsupported
            for kind, domain, name in selector.reads or ():
                names[kind].add(f"{domain}/{name}")
        for claim in claims:
            for constraint in claim.constraints or ():
                names["attributes"].update(filter(None, (constraint.match_attribute, constraint.distinct_attribute)))
            all_capacity |= any(one.capacity is not None for one in alternatives([claim]))
        return cls(tuple(sorted(names["attributes"])), tuple(sorted(names["capacity"])), everything, all_capacity)

    def of_devices(self, driver: str, devices: Sequence[Device]) -> tuple[tuple[Hashable, ...], ...]:
        """Return what is read of devices of one driver, as [name][device]."""
        if self.everything:
            return (tuple([digest((device.attributes, device.capacity)) for device in devices]),)
        attribute_names, capacity_names = _spellings(self.attributes, driver), _spellings(self.capacity, driver)
        # A column per name takes a third less time than a row per device.
        attributes = [device.attributes or _NOTHING for device in devices]
        found: list[tuple[Hashable, ...]] = [tuple([of.get(name) for of in attributes]) for name in attribute_names]
        if capacity_names:
            capacity = [device.capacity or _NOTHING for device in devices]
            columns = ([of.get(name) for of in capacity] for name in capacity_names)
            found += [tuple([one and one.value for one in column]) for column in columns]
        return tuple(found)


def _spellings(names: tuple[str, ...], driver: str) -> list[str]:
    """Return qualified names, and those of the driver's domain without it too."""
    own = f"{driver}/"
    return [one for name in names for one in ((name, name[len(own) :]) if name.startswith(own) else (name,))]


def digest(content: object) -> bytes:
    """Return a hash that stands for content of any size."""
    return blake2b(_ENCODER.encode(content), digest_size=16).digest()


def alternatives(claims: Iterable[DeviceClaim]) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    """Yield the requests of claims, and instead of a prioritized list its alternatives."""
    for request in (request for claim in claims for request in claim.requests or ()):
        if request.exactly is not None:
            yield request.exactly
        yield from request.first_available or ()
