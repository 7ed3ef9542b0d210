"""Extended resources that a DeviceClass backs, and the claim that kube-scheduler creates for a pod that requests them.

Devices of the class provide the resource on nodes without a device plugin. Mirrors extendedresourcecache
(k8s.io/dynamic-resource-allocation/deviceclass) and extendeddynamicresources.go of dynamicresources (v1.36; feature
DRAExtendedResource).

Rule: requests only; `node_allocations` chooses the devices.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s import quantity
from extender.k8s.devices.objects import (
    EXTENDED_RESOURCE_CLAIM,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from extender.k8s.objects import ObjectMeta, Pod
from extender.k8s.requests import incoming_requests, is_extended
from extender.k8s.time import parse_time

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that requests a DeviceClass by its name."""

IN_MEMORY = "<extended-resources>"
"""Name of the claim before kube-scheduler creates it on binding the pod."""


# --- which class backs a resource -----------------------------------------------------------------------------------


def delegated_to_dra(snapshot: Snapshot, resource: str) -> BoolArray | None:
    """Return [node]: whether the resource is delegated to DynamicResources there; None if it is on no node.

    Mirrors noderesources.shouldDelegateResourceToDRA (v1.36).
    """
    # If DeviceClasses cannot be read, one may back any extended resource.
    if not snapshot.features.dra_extended_resource or not (
        (is_extended(resource) or resource.startswith(CLASS_PREFIX))
        if "device_classes" in snapshot.unreadable_tables
        else resource in classes_by_resource(snapshot)
    ):
        return None
    return snapshot.scalar_allocatable(resource) <= 0


@derived("device_classes")
def classes_by_resource(snapshot: Snapshot) -> Mapping[str, DeviceClass]:
    """Return extended resource -> the DeviceClass that backs it."""
    # Sorted by name, like kube-scheduler's initial list; it gets classes created later in order of creation.
    found: dict[str, DeviceClass] = {}
    for one in sorted(snapshot.objects.device_classes.values(), key=lambda of: of.metadata.name):
        named = one.spec.extended_resource_name
        # The newer of two classes backs the resource. A class skipped here cannot be requested by its own name either.
        if named is not None and named in found and not _created(found[named]) < _created(one):
            continue
        if named is not None:
            found[named] = one
        found[CLASS_PREFIX + one.metadata.name] = one
    return found


def _created(device_class: DeviceClass) -> int:
    created = device_class.metadata.creation_timestamp
    return parse_time(created) if created else 0


# --- the claim ------------------------------------------------------------------------------------------------------


class ExtendedResourceClaimIndex(Index):
    """Claims that kube-scheduler created for extended resources, by the UID of their pod."""

    reads = ("resource_claims",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.of_pod: dict[str, dict[tuple[str, str], ResourceClaim]] = {}
        """UID of the pod -> (namespace, name) of the claim -> claim."""

    def object_changed(self, _field: str, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        for uid, key, _ in _owned(before):
            del self.of_pod[uid][key]
            if not self.of_pod[uid]:
                del self.of_pod[uid]
        for uid, key, claim in _owned(after):
            self.of_pod.setdefault(uid, {})[key] = claim


def _owned(claim: ResourceClaim | None) -> Iterator[tuple[str, tuple[str, str], ResourceClaim]]:
    """Yield (UID of the pod that owns the claim, key of the claim, claim) for a claim for extended resources."""
    if claim is None or (claim.metadata.annotations or {}).get(EXTENDED_RESOURCE_CLAIM) != "true":
        return
    for uid in dict.fromkeys(owner.uid for owner in claim.metadata.owner_references or () if owner.controller):
        yield uid, (claim.metadata.namespace, claim.metadata.name), claim


def extended_resource_claim(snapshot: Snapshot, pod: Pod) -> ResourceClaim | None:
    """Return the claim for the extended resources that DeviceClasses back; None if the pod requests none.

    This is the claim of an earlier scheduling cycle, or else a claim named IN_MEMORY without requests, which depend on
    the node (`device_requests`).
    """
    if not snapshot.features.dra_extended_resource or not snapshot.objects.device_classes:
        return None
    if classes_by_resource(snapshot).keys().isdisjoint(extended_resources(snapshot, pod)):
        return None
    earlier = snapshot.index(ExtendedResourceClaimIndex).of_pod.get(pod.metadata.uid)
    if earlier:
        return next(iter(earlier.values()))
    return ResourceClaim(ObjectMeta(name=IN_MEMORY, namespace=pod.metadata.namespace))


def extended_resources(snapshot: Snapshot, pod: Pod) -> dict[str, int]:
    """Return extended resource -> amount that the pod requests, without zero amounts."""
    requests = incoming_requests(pod, snapshot.features).items()
    return {
        name: amount for name, amount in requests if amount and (is_extended(name) or name.startswith(CLASS_PREFIX))
    }


# --- what each node lacks -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResourcesFromDevices:
    """The pod's extended resources that devices must provide on each node."""

    group: IntArray
    """[node]: index into `groups`."""
    groups: tuple[tuple[str, ...], ...]
    """Sets of resources, sorted by name."""
    cannot_fit: BoolArray
    """[node]: whether the node lacks a resource that no DeviceClass backs."""


def resources_from_devices(snapshot: Snapshot, pod: Pod) -> ResourcesFromDevices:
    """Group the nodes by the pod's extended resources that devices must provide there (filterExtendedResources)."""
    size, backed = len(snapshot.nodes), classes_by_resource(snapshot)
    cannot_fit, group = np.zeros(size, np.bool_), np.zeros(size, np.int64)
    groups: list[tuple[str, ...]] = [()]
    for name in sorted(extended_resources(snapshot, pod)):
        if name not in backed:
            cannot_fit |= ~snapshot.has_scalar(name)
            continue
        lacking = snapshot.scalar_allocatable(name) == 0
        lacking_or_not = 2 * group + lacking
        numbers, group = np.unique(lacking_or_not, return_inverse=True)
        groups = [(*groups[number // 2], name) if number % 2 else groups[number // 2] for number in numbers.tolist()]
    return ResourcesFromDevices(group, tuple(groups), cannot_fit)


# --- requests for devices -------------------------------------------------------------------------------------------


def device_requests(snapshot: Snapshot, pod: Pod, resources: Sequence[str]) -> list[DeviceRequest]:
    """Return the requests of the pod's claim on nodes where devices provide `resources` (createRequestsAndMappings).

    They are sorted by name.
    """
    requests = list[DeviceRequest]()
    for name in sorted(resources):
        device_class = classes_by_resource(snapshot)[name].metadata.name
        requests += _requests_of_resource(pod, name, device_class)
    return sorted(requests, key=lambda one: one.name)


def _requests_of_resource(pod: Pod, resource: str, device_class: str) -> Iterator[DeviceRequest]:
    init_containers = pod.spec.init_containers or ()
    containers = [*init_containers, *(pod.spec.containers or ())]
    is_short = [at < len(init_containers) and one.restart_policy != "Always" for at, one in enumerate(containers)]
    requested = [(one.resources.requests if one.resources is not None else None) or {} for one in containers]
    nanos = [quantity.parse(requests.get(resource, "0")) for requests in requested]
    # A fraction of a device counts as none (Quantity.AsInt64).
    amounts = [0 if nano % quantity.NANO else nano // quantity.NANO for nano in nanos]
    # 1. Request devices for the containers that run at the same time.
    long_lived = {at: amount for at, amount in enumerate(amounts) if amount and not is_short[at]}
    # 2. Init containers that end before other containers start reuse the devices of the other containers. Additional
    #    devices are requested once, for the init container that needs the most, the first of several.
    most = most_at = reused = 0
    for at in reversed(range(len(containers))):
        reused += long_lived.get(at, 0)
        missing = amounts[at] - reused
        if is_short[at] and missing > 0 and missing >= most:
            most, most_at = missing, at
    counts = long_lived | ({most_at: most} if most else {})
    for at, count in counts.items():
        exactly = ExactDeviceRequest(device_class_name=device_class, allocation_mode="ExactCount", count=count)
        yield DeviceRequest(f"container-{at}-request-{sorted(requested[at]).index(resource)}", exactly)
