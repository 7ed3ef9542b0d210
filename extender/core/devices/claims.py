"""Look up the ResourceClaims that a pod's spec names, or the reason why kube-scheduler cannot use one of them.

Mirrors foreachPodResourceClaim and PreFilter of dynamicresources, and Name and IsForPod of
k8s.io/dynamic-resource-allocation/resourceclaim (v1.36). The API server enforces the limit of 256 pods that a claim is
reserved for; the plugin does not check it.

Rule: reads claims and DeviceClasses only; `node_allocations` chooses the devices.
"""

from collections.abc import Iterator, Mapping

from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.devices.objects import ResourceClaim
from extender.k8s.kinds import Key
from extender.k8s.objects import Pod, PodResourceClaim
from extender.k8s.time import parse_time

NOT_CREATED = "ResourceClaim not created yet"
"""End of the reason while a claim has yet to be created from its template."""


def pod_claims(snapshot: Snapshot, pod: Pod) -> tuple[ResourceClaim, ...] | str:
    """Return the pod's claims in spec order, or why it cannot be scheduled; entries that need no claim are left out."""
    found = list[ResourceClaim]()
    for _, claim in each_claim(snapshot, pod):
        if isinstance(claim, str):
            return claim
        if claim is not None:
            found.append(claim)
    return tuple(found)


def each_claim(snapshot: Snapshot, pod: Pod) -> Iterator[tuple[PodResourceClaim, ResourceClaim | str | None]]:
    """Yield each entry of spec.resourceClaims with its claim, or why it cannot be used; None if it needs no claim."""
    # If several statuses have the same name, the first one counts, as in upstream's loop.
    created = {one.name: one.resource_claim_name for one in reversed(pod.status.resource_claim_statuses or ())}
    for named in pod.spec.resource_claims or ():
        yield named, _claim(snapshot, pod, named, created)


def _claim(
    snapshot: Snapshot, pod: Pod, named: PodResourceClaim, created: Mapping[str, str | None]
) -> ResourceClaim | str | None:
    """Return the claim of one entry; `created`: name of an entry -> name of the claim created from its template."""
    name = named.resource_claim_name
    if name is None:
        if named.resource_claim_template_name is None:
            return f'pod "{pod.key}", spec.resourceClaim "{named.name}": none of the supported fields are set'
        if named.name not in created:
            return f'pod "{pod.key}": {NOT_CREATED}'
        name = created[named.name]
    if name is None:  # the resource claim controller found that no claim is needed
        return None
    claim = snapshot.objects.resource_claims.get((pod.metadata.namespace, name))
    if claim is None:
        return f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'resourceclaim "{name}" is being deleted'
    # An earlier pod with the same name may have left its claim behind.
    owner = claim.metadata.controller
    if named.resource_claim_name is None and (owner is None or owner.uid != pod.metadata.uid):
        pod_word = "Pod" if snapshot.features.claim_reasons_of_1_36 else "pod"
        return f"ResourceClaim {claim.key} was not created for {pod_word} {pod.key} ({pod_word} is not owner)"
    return claim


class UnsupportedRequest(Exception):
    """A request without a DeviceClass, which ends the scheduling cycle; the message is kube-scheduler's."""


def request_problem(snapshot: Snapshot, claim: ResourceClaim) -> str | None:
    """Return why an unallocated claim cannot be allocated anywhere; None if its requests and their classes are known.

    Raises UnsupportedRequest.
    """
    # PreFilter's checks only: the allocator finds the other errors of a request (`structured.requests`).
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            classes = [(request.name, request.exactly.device_class_name)]
        elif not request.first_available:
            return f"resource claim {claim.key}, request {request.name}: unknown request type"
        elif not snapshot.features.dra_prioritized_list:
            return (
                f"resource claim {claim.key}, request {request.name}: has subrequests, "
                "but the DRAPrioritizedList feature is disabled"
            )
        else:
            classes = [(f"{request.name}/{one.name}", one.device_class_name) for one in request.first_available]
        for name, class_name in classes:
            if not class_name:
                raise UnsupportedRequest(f"request {name}: unsupported request type")
            if ("", class_name) not in snapshot.objects.device_classes:
                return f"request {name}: device class {class_name} does not exist"
    return None


# --- binding conditions ---------------------------------------------------------------------------------------------


def binding_failed(claim: ResourceClaim) -> bool:
    """Return whether preparing the devices of an allocated claim for binding has failed."""
    return _binding(claim) is False


def waits_since(claim: ResourceClaim) -> int | None:
    """Return when an allocated claim began to wait for its devices to be prepared, in nanoseconds since 1970.

    None if it does not wait, or waits without a time limit (isClaimTimeout).
    """
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or _binding(claim) is not None:
        return None
    return parse_time(allocation.allocation_timestamp)


def _binding(claim: ResourceClaim) -> bool | None:
    """Return True if an allocated claim is ready for binding, None if it is not ready yet, False if it failed.

    Mirrors isClaimReadyForBinding: the first device that is not ready decides.
    """
    allocation = claim.status.allocation
    for device in (allocation.devices.results if allocation is not None else None) or ():
        if not device.binding_conditions:
            continue
        same = (device.driver, device.pool, device.device)
        statuses = (one for one in claim.status.devices or () if (one.driver, one.pool, one.device) == same)
        status = next(statuses, None)
        if status is None:  # the driver has not reported on the device yet
            return None
        conditions = {one.type: one.status for one in reversed(status.conditions or ())}
        if any(conditions.get(name) == "True" for name in device.binding_failure_conditions or ()):
            return False
        if any(conditions.get(name) != "True" for name in device.binding_conditions):
            return None
    return True


_PARTS = 256


class ResourceClaimParts(Index):
    """All ResourceClaims of the cluster, split into parts that the records of decisions share.

    Claims change with every pod that is bound: a change copies one part only.
    """

    reads = ("resource_claims",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._parts: list[dict[Key, ResourceClaim]] = [{} for _ in range(_PARTS)]
        self._frozen: list[tuple[ResourceClaim, ...]] = [()] * _PARTS
        self._changed: set[int] = set()

    def object_changed(self, _field: str, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        metadata = (after or before).metadata  # type: ignore[union-attr]  # one of them is there
        key = metadata.namespace, metadata.name
        number = hash(key) % _PARTS
        self._changed.add(number)
        if after is not None:
            self._parts[number][key] = after
        else:
            del self._parts[number][key]

    def frozen(self) -> tuple[tuple[ResourceClaim, ...], ...]:
        """Return the current claims; later changes do not affect the returned tuples."""
        for number in self._changed:
            self._frozen[number] = tuple(self._parts[number].values())
        self._changed.clear()
        return tuple(self._frozen)
