"""Share equal parts of resource slices and claims in memory: a cluster has a hundred thousand devices of a few models.

Devices of a model differ in a few attributes, such as their UUID: every other value exists once. Claims of a template
differ in names and in the device that they have.

Rule: what decisions read equals what was passed; values are shared between objects and must not be modified.
"""

from collections import defaultdict
from typing import TypeVar

from msgspec.structs import replace

from extender.cluster.watch.interning import InternPool
from extender.k8s.devices import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from extender.k8s.objects import ObjectMeta, OwnerReference

T = TypeVar("T")


class DeviceInterning:
    """Interns the parts of the slices or claims of one reflector."""

    def __init__(self) -> None:
        self._text = InternPool().text
        self._attribute = InternPool().intern
        self._pools: defaultdict[str, InternPool] = defaultdict(InternPool)
        """Field -> values: parts of different types may have the same JSON."""

    def _part(self, field: str, value: T) -> T:
        return self._pools[field].intern(value) if value else value

    def slice(self, found: ResourceSlice) -> ResourceSlice:
        """Return the slice with interned devices, and of its metadata what identifies it."""
        spec, text = found.spec, self._text
        about = found.metadata
        shared = replace(
            spec,
            driver=text(spec.driver),
            pool=replace(spec.pool, name=text(spec.pool.name)),
            node_name=spec.node_name and text(spec.node_name),
            node_selector=self._part("nodeSelector", spec.node_selector),
            devices=spec.devices and [self._device(one) for one in spec.devices],
            shared_counters=self._part("sharedCounters", spec.shared_counters),
        )
        return ResourceSlice(ObjectMeta(about.name, uid=about.uid, resource_version=about.resource_version), shared)

    def _device(self, device: Device) -> Device:
        part, attribute = self._part, self._attribute
        return replace(
            device,
            name=self._text(device.name),
            attributes=device.attributes and {name: attribute(value) for name, value in device.attributes.items()},
            capacity=part("capacity", device.capacity),
            consumes_counters=part("consumesCounters", device.consumes_counters),
            node_name=device.node_name and self._text(device.node_name),
            node_selector=part("nodeSelector", device.node_selector),
            taints=part("taints", device.taints),
            binding_conditions=part("conditions", device.binding_conditions),
            binding_failure_conditions=part("conditions", device.binding_failure_conditions),
        )

    def claim(self, found: ResourceClaim) -> ResourceClaim:
        """Return the claim with an interned spec and allocation, without labels and the time of its creation.

        Its owner is nearly always its user, too.
        """
        about = found.metadata
        owners = about.owner_references and [self._owner(one) for one in about.owner_references]
        metadata = replace(
            about,
            namespace=self._text(about.namespace),
            generation=0,
            creation_timestamp=None,
            labels=None,
            owner_references=owners,
        )
        return ResourceClaim(metadata, self._part("spec", found.spec), self._status(found.status))

    def _owner(self, owner: OwnerReference) -> OwnerReference:
        text = self._text
        names = text(owner.api_version), text(owner.kind), text(owner.name), text(owner.uid)
        return OwnerReference(*names, controller=owner.controller)

    def _status(self, status: ResourceClaimStatus) -> ResourceClaimStatus:
        text, users = self._text, status.reserved_for
        return ResourceClaimStatus(
            status.allocation and self._allocation(status.allocation),
            users
            and [replace(one, resource=text(one.resource), name=text(one.name), uid=text(one.uid)) for one in users],
            status.devices,
        )

    def _allocation(self, allocation: AllocationResult) -> AllocationResult:
        results = allocation.devices.results
        return replace(
            allocation,
            devices=DeviceAllocationResult(results and [self._result(one) for one in results]),
            node_selector=self._part("nodeSelector", allocation.node_selector),
        )

    def _result(self, one: DeviceRequestAllocationResult) -> DeviceRequestAllocationResult:
        text, part = self._text, self._part
        return replace(
            one,
            request=text(one.request),
            driver=text(one.driver),
            pool=text(one.pool),
            device=text(one.device),
            binding_conditions=part("conditions", one.binding_conditions),
            binding_failure_conditions=part("conditions", one.binding_failure_conditions),
            consumed_capacity=part("consumedCapacity", one.consumed_capacity),
        )
