"""Extended resources that a DeviceClass backs, and the claim that kube-scheduler creates for those of a pod.

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
from extender.k8s.objects import Container, ContainerExtendedResourceRequest, ObjectMeta, Pod
from extender.k8s.requests import incoming_requests, is_extended
from extender.k8s.time import parse_time

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that requests a DeviceClass by its name."""

IN_MEMORY = "<extended-resources>"
"""Name of the claim until kube-scheduler creates it, when it binds the pod."""


# --- which class backs a resource -----------------------------------------------------------------------------------


def delegated_to_dra(snapshot: Snapshot, resource: str) -> BoolArray | None:
    """Return [node]: whether DynamicResources decides about the resource there; None: on no node.

    Mirrors noderesources.shouldDelegateResourceToDRA (v1.36).
    """
    # Where DeviceClasses may not be read, any extended resource may be backed by one.
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
    # By name, as in the first list of kube-scheduler; classes created since then come in order of creation there.
    found: dict[str, DeviceClass] = {}
    for one in sorted(snapshot.objects.device_classes.values(), key=lambda of: of.metadata.name):
        named = one.spec.extended_resource_name
        # The newer one of two classes backs the resource. A class that lost cannot be requested by its own name either.
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
    """Yield the UID of the pod that owns a claim for extended resources, with the claim's key and the claim."""
    if claim is None or (claim.metadata.annotations or {}).get(EXTENDED_RESOURCE_CLAIM) != "true":
        return
    for uid in dict.fromkeys(owner.uid for owner in claim.metadata.owner_references or () if owner.controller):
        yield uid, (claim.metadata.namespace, claim.metadata.name), claim


def extended_resource_claim(snapshot: Snapshot, pod: Pod) -> ResourceClaim | None:
    """Return the claim for the extended resources that DeviceClasses back, or None if the pod requests none.

    It is the one of an earlier scheduling cycle, or else has the name IN_MEMORY and no requests: these depend on the
    node (`device_requests`).
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
    """Return extended resource -> amount that the pod requests, without those of amount 0."""
    requests = incoming_requests(pod, snapshot.features).items()
    return {
        name: amount for name, amount in requests if amount and (is_extended(name) or name.startswith(CLASS_PREFIX))
    }


# --- what each node lacks -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResourcesFromDevices:
    """Which of the pod's extended resources devices must provide on each node."""

    group: IntArray
    """[node]: index into `groups`."""
    groups: tuple[tuple[str, ...], ...]
    """Sets of resources, sorted by name."""
    cannot_fit: BoolArray
    """[node]: whether the node lacks a resource that no DeviceClass backs."""


def resources_from_devices(snapshot: Snapshot, pod: Pod) -> ResourcesFromDevices:
    """Split the nodes by the extended resources that they lack (filterExtendedResources)."""
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


@dataclass(frozen=True, slots=True)
class DeviceRequests:
    """What the pod's containers ask of devices instead of extended resources."""

    requests: tuple[DeviceRequest, ...] = ()
    """By name."""
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    """Which request serves which container, as the pod's status shows it."""


def device_requests(snapshot: Snapshot, pod: Pod, resources: Sequence[str]) -> DeviceRequests:
    """Return the requests of the pod's claim where devices provide these resources (createRequestsAndMappings)."""
    requests, mappings = list[DeviceRequest](), list[ContainerExtendedResourceRequest]()
    for name in sorted(resources):
        device_class = classes_by_resource(snapshot)[name].metadata.name
        of_resource = _requests_of_resource(pod, name, device_class)
        requests += of_resource.requests
        mappings += of_resource.mappings
    return DeviceRequests(tuple(sorted(requests, key=lambda one: one.name)), tuple(mappings))


def _requests_of_resource(pod: Pod, resource: str, device_class: str) -> DeviceRequests:
    init_containers = pod.spec.init_containers or ()
    containers = [*init_containers, *(pod.spec.containers or ())]
    is_short = [at < len(init_containers) and one.restart_policy != "Always" for at, one in enumerate(containers)]
    # 1. Request devices for the containers that run at the same time.
    long_lived: dict[int, tuple[str, int]] = {}
    mappings = list[ContainerExtendedResourceRequest]()
    for at, container in enumerate(containers):
        amount = 0 if is_short[at] else _amount(container, resource)
        if amount:
            long_lived[at] = _request_name(at, container, resource), amount
            mappings.append(ContainerExtendedResourceRequest(container.name, resource, long_lived[at][0]))
    # 2. Init containers that end before the others start use the others' devices. What they need beyond is requested
    #    once, for the one that needs most.
    largest: tuple[str, int] | None = None
    extra, of_short = set[str](), list[tuple[str, str]]()
    for at, container in enumerate(containers):
        missing = _amount(container, resource) if is_short[at] else 0
        if not missing:
            continue
        for name, amount in (one for later, one in long_lived.items() if later >= at):
            missing -= amount
            of_short.append((container.name, name))
            if missing <= 0:
                break
        if missing > 0:
            own = _request_name(at, container, resource)
            extra.add(own)
            of_short.append((container.name, own))
            largest = (own, missing) if largest is None or largest[1] < missing else largest
    for container_name, name in of_short:
        served_by = largest[0] if largest is not None and name in extra else name
        mappings.append(ContainerExtendedResourceRequest(container_name, resource, served_by))
    # 3. Build the requests, in upstream's order.
    named = ([largest] if largest is not None else []) + list(long_lived.values())
    requests = [
        DeviceRequest(
            name, ExactDeviceRequest(device_class_name=device_class, allocation_mode="ExactCount", count=count)
        )
        for name, count in named
    ]
    return DeviceRequests(tuple(requests), tuple(mappings))


def _amount(container: Container, resource: str) -> int:
    """Return how many devices the container requests; 0 also for a fraction (Quantity.AsInt64)."""
    requests = (container.resources.requests if container.resources is not None else None) or {}
    nano = quantity.parse(requests.get(resource, "0"))
    return nano // quantity.NANO if nano % quantity.NANO == 0 else 0


def _request_name(container_at: int, container: Container, resource: str) -> str:
    """Return the name of a container's request: with its place, and the resource's among those that it requests."""
    requests = (container.resources.requests if container.resources is not None else None) or {}
    return f"container-{container_at}-request-{sorted(requests).index(resource)}"
