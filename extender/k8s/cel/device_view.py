"""DeviceView: a device as selectors see it, by domain and id.

Mirrors CompilationResult.DeviceMatches (k8s.io/dynamic-resource-allocation/cel, v1.36).

Rule: each part is read when it is first asked for, and once.
"""

from collections.abc import Mapping
from functools import cached_property

from extender.k8s.devices import Device, DeviceAttribute
from extender.k8s.objects import QuantityText


class DeviceView:
    """The variable `device` of a selector."""

    def __init__(self, driver: str, device: Device) -> None:
        self.driver = driver
        self.device = device

    @property
    def allow_multiple_allocations(self) -> bool:
        return bool(self.device.allow_multiple_allocations)

    @cached_property
    def attributes(self) -> Mapping[str, Mapping[str, DeviceAttribute]]:
        """{domain: {id: attribute}}; a name without a domain has the driver's."""
        found: dict[str, dict[str, DeviceAttribute]] = {}
        for name, attribute in (self.device.attributes or {}).items():
            domain, identifier = qualified_name(name, self.driver)
            found.setdefault(domain, {})[identifier] = attribute
        return found

    @cached_property
    def capacity(self) -> Mapping[str, Mapping[str, QuantityText]]:
        """{domain: {id: amount}}; a name without a domain has the driver's."""
        found: dict[str, dict[str, QuantityText]] = {}
        for name, capacity in (self.device.capacity or {}).items():
            domain, identifier = qualified_name(name, self.driver)
            found.setdefault(domain, {})[identifier] = capacity.value
        return found


def qualified_name(name: str, default_domain: str) -> tuple[str, str]:
    """Return (domain, id) of `domain/id` or `id`."""
    domain, separator, identifier = name.partition("/")
    return (domain, identifier) if separator else (default_domain, name)
