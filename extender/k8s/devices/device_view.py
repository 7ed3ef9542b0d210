"""DeviceView: a device as selectors see it, by domain and id.

Mirrors CompilationResult.DeviceMatches (k8s.io/dynamic-resource-allocation/cel, v1.36).

Rule: each part is converted once, when it is first read.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from extender.k8s.cel.library.kubernetes import Semver, quantity, semver
from extender.k8s.cel.values import CelError, EndlessMap, StringMap
from extender.k8s.devices.objects import Device, DeviceAttribute


class DeviceView:
    """The variable `device` of a selector; without `shows_sharing`, its allowMultipleAllocations is always false.

    `shows_lists`: attributes may be lists of values, as since v1.37.
    """

    def __init__(self, driver: str, device: Device, *, shows_sharing: bool = True, shows_lists: bool = False) -> None:
        self.driver = driver
        self.device = device
        self._value: Callable[[DeviceAttribute], Any] = _value_or_list if shows_lists else _value
        self.allow_multiple_allocations = shows_sharing and bool(device.allow_multiple_allocations)

    def check(self) -> None:
        """Raise CelError for an attribute without a value, even if the selector does not read it."""
        # Up to v1.36 an attribute with a list of values counts as having no value, and fails every selector.
        if self.has_values:
            return
        for name, attribute in sorted((self.device.attributes or {}).items()):
            try:
                self._value(attribute)
            except CelError as error:
                raise CelError(f"attribute {name}: {error}") from None

    @cached_property
    def has_values(self) -> bool:
        return has_values(self.device)

    @cached_property
    def attribute_values(self) -> EndlessMap:
        """{domain: {id: value}} of the attributes; a name without a domain has the driver's."""
        return self._by_domain(self.device.attributes or {}, self._value)

    @cached_property
    def capacity_values(self) -> EndlessMap:
        """{domain: {id: quantity}} of the capacity."""
        return self._by_domain(self.device.capacity or {}, lambda capacity: quantity(capacity.value))

    def _by_domain(self, values: Mapping[str, Any], convert: Callable[[Any], Any]) -> EndlessMap:
        found = EndlessMap()
        own = found[self.driver] = StringMap()
        for name, value in values.items():
            domain, separator, identifier = name.partition("/")
            of = found.setdefault(domain, StringMap()) if separator else own
            of[identifier if separator else name] = convert(value)
        if not own:
            del found[self.driver]
        return found


def has_values(device: Device) -> bool:
    """Return whether each attribute has one value, so that `DeviceView.check` raises nothing."""
    try:
        for attribute in (device.attributes or {}).values():
            _value(attribute)
    except CelError:
        return False
    return True


def _value(attribute: DeviceAttribute) -> Any:
    """Return an attribute's value; raises CelError (getAttributeValue)."""
    if attribute.int_value is not None:
        return attribute.int_value
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.version_value is None:
        raise CelError("unsupported attribute value")
    return _version(attribute.version_value)


def _value_or_list(attribute: DeviceAttribute) -> Any:
    for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if values is not None:
            return list(values)
    if attribute.version_values is not None:
        return [_version(each) for each in attribute.version_values]
    return _value(attribute)


def _version(text: str) -> Semver:
    try:
        return semver(text)
    except CelError as error:
        raise CelError(f"parse semantic version: {error}") from None
