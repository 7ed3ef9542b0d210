"""Reserve the resource claims of a pod that is bound, as DynamicResources' Reserve and PreBind do (v1.36).

Rule: this module changes nothing; `whatif.effects` puts the claims into the snapshot.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from msgspec.structs import replace

from extender.core.devices.claims import pod_claims
from extender.core.devices.extended_resources import device_requests, extended_resource_claim, resources_from_devices
from extender.core.framework.plugins import dynamic_resources
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.scheduling_cycle.result import ClaimAllocation, ReservedClaim, ReservedDevice
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import (
    EXTENDED_RESOURCE_CLAIM,
    AllocationResult,
    DeviceClaim,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from extender.k8s.kinds import Key
from extender.k8s.objects import ObjectMeta, OwnerReference, Pod, PodExtendedResourceClaimStatus


@dataclass(frozen=True, slots=True)
class Reservation:
    """The resource claims of a bound pod, allocated and reserved for it."""

    claims: tuple[ResourceClaim, ...] = ()
    """Claims in the order of the pod's spec, then the claim for its extended resources."""
    allocations: tuple[ClaimAllocation, ...] = ()
    """[claim]: when its devices were allocated."""
    extended_resource_claim: PodExtendedResourceClaimStatus | None = None
    """Entry in the pod's status for the claim for its extended resources."""

    def reports(self) -> list[ReservedClaim]:
        """Return the claims with their devices."""
        return [
            ReservedClaim(
                claim=claim.key,
                allocation=allocated,
                devices=[
                    ReservedDevice(
                        request=device.request,
                        driver=device.driver,
                        pool=device.pool,
                        device=device.device,
                        admin_access=bool(device.admin_access),
                        consumed_capacity={name: str(one) for name, one in (device.consumed_capacity or {}).items()},
                    )
                    for device in (allocation.devices.results or () if allocation is not None else ())
                ],
            )
            for claim, allocated in zip(self.claims, self.allocations, strict=True)
            for allocation in (claim.status.allocation,)
        ]


NO_RESERVATION = Reservation()
"""Reservation of a pod without claims."""


def reserve(context: SchedulingContext, row: int) -> Reservation:
    """Return the pod's claims as they are stored when it is bound to the node, which must have passed the filters.

    A claim without an allocation gets the devices that the filter found for it, if we evaluate device claims.
    """
    snapshot, pod = context.snapshot, context.pod
    is_enabled = dynamic_resources.NAME in context.profile.filter_plugins
    found = dynamic_resources.verdicts(context) if is_enabled else None
    if found is None:
        return NO_RESERVATION
    outcome = found.outcome(row)
    chosen = outcome[1] if outcome is not None else ()
    names = (f"{pod.metadata.uid}-{number}" for number in count())
    results = iter([one.result(names) for one in chosen] if isinstance(chosen, tuple) else ())
    reserved = list(_reserved_claims(snapshot, pod, results))
    requests = list[DeviceRequest]()
    if extended_resource_claim(snapshot, pod) is not None:
        # Requests for devices that replace the containers' extended resources on this node.
        lacking = resources_from_devices(snapshot, pod)
        requests = device_requests(snapshot, pod, lacking.groups[int(lacking.group[row])])
    allocation = next(results, None) if requests else None
    status = None
    if allocation is not None:
        claim = _extended_resource_claim(pod, requests)
        reserved.append((_reserved(claim, pod, allocation), "created"))
        status = PodExtendedResourceClaimStatus(claim.metadata.name)
    return Reservation(tuple(claim for claim, _ in reserved), tuple(kind for _, kind in reserved), status)


def _reserved_claims(
    snapshot: Snapshot, pod: Pod, results: Iterator[AllocationResult]
) -> Iterator[tuple[ResourceClaim, ClaimAllocation]]:
    """Yield the claims of the pod's spec; those without an allocation get the next of `results`."""
    claims = pod_claims(snapshot, pod)
    for claim in claims if isinstance(claims, tuple) else ():
        if claim.status.allocation is not None:
            yield _reserved(claim, pod, claim.status.allocation), "existing"
        elif (result := next(results, None)) is not None:
            yield _reserved(claim, pod, result), "new"


def _reserved(claim: ResourceClaim, pod: Pod, allocation: AllocationResult) -> ResourceClaim:
    reserved_for = claim.status.reserved_for or []
    if all(one.uid != pod.metadata.uid for one in reserved_for):
        own = ResourceClaimConsumerReference("", "pods", pod.metadata.name, pod.metadata.uid)
        reserved_for = [*reserved_for, own]
    return replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=reserved_for))


def _extended_resource_claim(pod: Pod, requests: list[DeviceRequest]) -> ResourceClaim:
    """Return the claim that kube-scheduler creates for extended resources; the API server would generate its name."""
    own = pod.metadata
    name = f"{own.name}-extended-resources-simulated"
    metadata = ObjectMeta(
        name,
        own.namespace,
        f"{own.namespace}/{name}",
        annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        owner_references=[OwnerReference("v1", "Pod", own.name, own.uid, controller=True)],
    )
    return ResourceClaim(metadata, ResourceClaimSpec(DeviceClaim(requests)), ResourceClaimStatus())


def claim_keys(pod: Pod) -> Iterator[Key]:
    """Yield the keys of the resource claims that the pod references or that were created for it."""
    created = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses or ()}
    for one in pod.spec.resource_claims or ():
        name = one.resource_claim_name or created.get(one.name)
        if name:
            yield pod.metadata.namespace, name
    if pod.status.extended_resource_claim_status is not None:
        yield pod.metadata.namespace, pod.status.extended_resource_claim_status.resource_claim_name
