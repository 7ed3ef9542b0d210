"""Share equal parts of objects in memory: one object for equal values, while they are in use.

A cluster may have a hundred thousand devices of a few models, which differ in a few attributes, such as their UUID;
every other value is stored once. Claims of a template differ in names and in their allocated devices.

Rule: every pool is bounded. Only newly decoded objects are modified, and only to equal values; shared values never are.
"""

from collections import defaultdict
from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from extender.k8s.devices.objects import Device, DeviceAttribute, ResourceClaim, ResourceSlice
from extender.k8s.objects import ObjectMeta

MAX_INTERNED_VALUES = 10_000  # Values in each of the two generations of an InternPool
MAX_INTERNED_BYTES = 4 << 20  # JSON of each generation: thousands of templates, but only a few pods of hostile length

_PARTS_OF_DEVICES = (
    "capacity",
    "consumes_counters",
    "node_selector",
    "taints",
    "binding_conditions",
    "binding_failure_conditions",
)
_PARTS_OF_RESULTS = ("binding_conditions", "binding_failure_conditions", "consumed_capacity")

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


class InternPool:
    """Returns the same object for equal values, while they are in use.

    Two generations bound the memory: a full recent one replaces the previous one, and a value that is used again moves
    to the recent one. A value that is not used for two generations is forgotten.
    """

    def __init__(self) -> None:
        self._recent: dict[str | bytes, Any] = {}
        self._previous: dict[str | bytes, Any] = {}
        self._recent_bytes = 0

    def get(self, key: str | bytes, value: T) -> T:
        """Return the value interned under the key, or intern `value` and return it."""
        known: T | None = self._recent.get(key)
        if known is not None:
            return known
        if len(self._recent) >= MAX_INTERNED_VALUES or self._recent_bytes + len(key) > MAX_INTERNED_BYTES:
            self._recent, self._previous, self._recent_bytes = {}, self._recent, 0
        kept: T = self._previous.get(key, value)
        self._recent[key] = kept
        self._recent_bytes += len(key)
        return kept

    def has(self, key: str | bytes) -> bool:
        return key in self._recent or key in self._previous

    def text(self, value: str) -> str:
        return self.get(value, value) if value else value

    def intern(self, value: T) -> T:
        """Intern a value by its JSON; None and empty values are returned as they are."""
        return self.get(_ENCODER.encode(value), value) if value else value


class DeviceInterning:
    """Interns the parts of the slices or claims of one reflector."""

    def __init__(self) -> None:
        self._names = InternPool()
        self._attributes = InternPool()
        self._latest: dict[str, DeviceAttribute] = {}  # Attribute -> value on the previous device, nearly always equal
        self._pools: defaultdict[str, InternPool] = defaultdict(InternPool)  # Per field: types may share their JSON

    def slice(self, found: ResourceSlice) -> ResourceSlice:
        """Return the slice with interned devices and only identifying metadata."""
        about, spec = found.metadata, found.spec
        self._intern_names(spec, "driver", "node_name")
        self._intern_names(spec.pool, "name")
        self._intern_parts(spec, ("node_selector", "shared_counters"))
        self._latest.clear()
        for device in spec.devices or ():
            self._intern_device(device)
        return ResourceSlice(ObjectMeta(about.name, uid=about.uid, resource_version=about.resource_version), spec)

    def _intern_device(self, device: Device) -> None:
        self._intern_names(device, "name", "node_name")
        self._intern_parts(device, _PARTS_OF_DEVICES)
        attributes, latest = device.attributes or {}, self._latest
        for name, value in attributes.items():
            known = latest.get(name)
            if known != value:
                known = latest[name] = self._attributes.intern(value)
            attributes[name] = known

    def claim(self, found: ResourceClaim) -> ResourceClaim:
        """Return the claim with interned spec and allocation, without labels and creationTimestamp."""
        owners, users = found.metadata.owner_references or (), found.status.reserved_for or ()
        for owner in owners:
            self._intern_names(owner, "api_version", "kind")
        by_uid = {owner.uid: owner for owner in owners}
        for user in users:
            self._intern_names(user, "api_group", "resource")
            pod = by_uid.get(user.uid)  # a generated claim is owned by the pod that it is reserved for
            if pod is not None and pod.name == user.name:
                force_setattr(user, "uid", pod.uid)
                force_setattr(user, "name", pod.name)
        allocation = found.status.allocation
        if allocation is not None:
            self._intern_parts(allocation, ("node_selector",))
            for result in allocation.devices.results or ():
                self._intern_names(result, "request", "driver", "pool", "device")
                self._intern_parts(result, _PARTS_OF_RESULTS)
        self._intern_parts(found, ("spec",))
        self._intern_parts(found.metadata, ("annotations",))
        namespace = self._names.text(found.metadata.namespace)
        metadata = replace(found.metadata, namespace=namespace, generation=0, creation_timestamp=None, labels=None)
        return ResourceClaim(metadata, found.spec, found.status)

    def _intern_names(self, one: Any, *fields: str) -> None:
        for field in fields:
            value = getattr(one, field)
            if value:
                force_setattr(one, field, self._names.text(value))

    def _intern_parts(self, one: Any, fields: tuple[str, ...]) -> None:
        for field in fields:
            value = getattr(one, field)
            if value:
                force_setattr(one, field, self._pools[field].intern(value))
