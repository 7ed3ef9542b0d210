"""Constraints between the devices of one claim: the search adds devices, and removes them in reverse order.

Mirrors matchAttributeConstraint and distinctAttributeConstraint (k8s.io/dynamic-resource-allocation/structured, package
incubating, v1.37).

Rule: state of one search; a constraint never looks ahead.
"""

from typing import Any, Protocol

from extender.core.devices.structured.pools import PoolDevice
from extender.k8s.devices.objects import DeviceAttribute

_TYPES = ("string_value", "int_value", "bool_value", "version_value")
"""Fields of a DeviceAttribute, in the order in which upstream looks for the field that is set."""


class AttributeConstraint(Protocol):
    """A constraint and the devices that have been added to it."""

    def add(self, request: str, device: PoolDevice) -> bool:
        """Add a device and return True, or return False if the constraint does not allow it."""

    def remove(self, request: str) -> None:
        """Remove the last added device, which was added for `request`."""


class MatchAttribute:
    """All devices must have the attribute (a fully qualified name) with the same value."""

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute
        self._first: DeviceAttribute | None = None
        self._count = 0

    def add(self, _request: str, device: PoolDevice) -> bool:
        attribute = find_attribute(device, self._attribute)
        if attribute is None:
            return False
        if self._count == 0:
            self._first = attribute
        else:
            of = _type_of(attribute)
            if of is None or self._first is None or getattr(self._first, of) != getattr(attribute, of):
                return False
        self._count += 1
        return True

    def remove(self, _request: str) -> None:
        self._count -= 1


class DistinctAttribute:
    """All devices must have the attribute, each with a different value."""

    def __init__(self, attribute: str, *, remembers_all: bool, compares_values: bool = True) -> None:
        self._attribute = attribute
        self._remembers_all = remembers_all
        self._compares_values = compares_values
        self._values: dict[str | int, tuple[str | None, Any]] = {}
        """Request, or index of the device -> type and value."""
        self._count = 0

    def add(self, request: str, device: PoolDevice) -> bool:
        attribute = find_attribute(device, self._attribute)
        if attribute is None:
            return False
        of = _type_of(attribute)
        # v1.34 compares the addresses of values, which differ from device to device.
        value = of, getattr(attribute, of or "", None) if self._compares_values else device.id
        if self._count and self._values and (of is None or value in self._values.values()):
            return False
        self._values[self._key(request)] = value
        self._count += 1
        return True

    def remove(self, request: str) -> None:
        self._count -= 1
        self._values.pop(self._key(request), None)

    def _key(self, request: str) -> str | int:
        # Up to v1.36 a second device of a request overwrites the value of the first; removing it drops both values.
        return self._count if self._remembers_all else request


def find_attribute(device: PoolDevice, name: str) -> DeviceAttribute | None:
    """Return a device's attribute by its fully qualified name; the device may omit its driver's domain."""
    attributes = device.device.attributes or {}
    found = attributes.get(name)
    if found is not None:
        return found
    domain, _, identifier = name.partition("/")
    return attributes.get(identifier) if domain == device.id[0] and identifier else None


def _type_of(attribute: DeviceAttribute) -> str | None:
    """Return the field that is set; None if the type is unknown (a list of values)."""
    return next((one for one in _TYPES if getattr(attribute, one) is not None), None)
