"""Input and output of an allocation: claims, the devices in use, and the devices chosen for each claim.

Rule: values only.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from extender.core.devices.structured.capacity import quantity_text
from extender.core.devices.structured.pools import DeviceID
from extender.k8s.devices.objects import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequestAllocationResult,
)
from extender.k8s.objects import NodeSelector


@dataclass(frozen=True, slots=True)
class ClaimToAllocate:
    """A claim without an allocation."""

    namespace: str
    name: str
    spec: DeviceClaim

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class AllocatedState:
    """Devices that are allocated to claims, as their status reports: results without admin access.

    Mirrors structured.AllocatedState (v1.36).
    """

    devices: Collection[DeviceID]
    """Devices that are allocated to one claim alone."""
    shared: Collection[DeviceID] = ()
    """Devices of results with a shareID (feature DRAConsumableCapacity)."""
    capacity: Mapping[DeviceID, Mapping[str, int]] | None = None
    """Capacity that shares consume, in nano-units; a device with an entry, even an empty one, counts as shared."""


class AllocatedDevice(NamedTuple):
    """A device chosen for a request."""

    request: str
    """Name of the request; for an alternative of a prioritized list, "request/alternative"."""
    id: DeviceID
    at: tuple[int, int]
    """Index of the pool among the node's pools, and of the device in the pool (`Pool.devices`)."""
    admin_access: bool = False
    consumed: Mapping[str, int] | None = None
    """Capacity that this share consumes, in nano-units; None if the device is not shared."""
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None


class AllocatedClaim(NamedTuple):
    """The devices of one claim, in the order in which they were chosen."""

    devices: tuple[AllocatedDevice, ...]
    chosen: tuple[int | None, ...]
    """[request]: index of the chosen alternative; None without a prioritized list."""
    node_selector: NodeSelector | None

    def result(self, share_ids: Iterator[str]) -> AllocationResult:
        """Return the allocation for the claim's status; each share takes the next of `share_ids`."""
        results = [
            DeviceRequestAllocationResult(
                request=one.request,
                driver=one.id[0],
                pool=one.id[1],
                device=one.id[2],
                admin_access=True if one.admin_access else None,
                binding_conditions=one.binding_conditions,
                binding_failure_conditions=one.binding_failure_conditions,
                share_id=None if one.consumed is None else next(share_ids),
                consumed_capacity={name: quantity_text(amount) for name, amount in one.consumed.items()}
                if one.consumed
                else None,
            )
            for one in self.devices
        ]
        return AllocationResult(DeviceAllocationResult(results), self.node_selector)


Allocated = tuple[AllocatedClaim, ...]
"""Allocated claims, [claim to allocate]."""
