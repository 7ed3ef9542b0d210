"""Explain whether the claims of a pod can be allocated on one node, and which of their requests fails.

The allocator runs again on a snapshot that has only this node, its pools, the claims that use them and the
DeviceClasses. It allocates one more claim, then one more request at a time, until one fails.

Rule: the verdict about the node is its filter status; this module only explains it.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from msgspec.structs import replace

from extender.core.devices.device_index import DeviceIndex
from extender.core.devices.extended_resources import (
    classes_by_resource,
    device_requests,
    extended_resource_claim,
    extended_resources,
    resources_from_devices,
)
from extender.core.devices.structured.allocation import Allocated, ClaimToAllocate
from extender.core.devices.structured.allocator import Allocator
from extender.core.devices.structured.constraints import find_attribute
from extender.core.devices.structured.pools import (
    AllocationError,
    InvalidPools,
    NodeSelectorError,
    NotEvaluated,
    Pool,
    selects_node,
)
from extender.core.framework.plugins import dynamic_resources
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.recorded_devices import RecordedDevices
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import DeviceClaim, DeviceRequestAllocationResult, ResourceClaim
from extender.k8s.kinds import ClusterObjects
from extender.k8s.limits.limits import WorkLimitReached, explanation_budget
from extender.k8s.objects import Node, NodeStatus, ObjectMeta, Pod
from extender.k8s.version.features import Features
from extender.report.device_reasons import (
    MAX_DEVICES,
    MAX_NAMES,
    DeviceReasons,
    requests_of,
    value_of,
)
from extender.report.schema import ClaimReport, DeviceRequestReport, PodClaimReport
from extender.utilities.text import join_names, shortened

EXTENDED_RESOURCES = "extended resources"
"""Name of the claim that kube-scheduler creates for the extended resources of a pod."""

MAX_CONSTRAINTS = 3
"""Maximum number of constraints that a summary names."""

MAX_VALUES = 4
"""Maximum number of attribute values that a summary counts."""

_CANNOT = "cannot be allocated"


# --- the claims of the pod, wherever it may run ---------------------------------------------------------------------


def report_pod_claims(devices: RecordedDevices, pod: Pod, features: Features) -> list[PodClaimReport]:
    """Return the claims of the pod, each with its allocation or the reason why it cannot be used.

    Extended resources that a DeviceClass backs are the last claim.
    """
    own = [
        PodClaimReport(name=one.name, note=shortened(one.problem) or "no claim is needed")
        if one.claim is None
        else PodClaimReport(name=one.name, claim=one.claim.key, note=_allocation(one.claim))
        for one in devices.claims
    ]
    snapshot = Snapshot.build(ClusterObjects(device_classes=devices.classes), features)
    if extended_resource_claim(snapshot, pod) is None:
        return own
    classes = classes_by_resource(snapshot)
    backed = [name for name in extended_resources(snapshot, pod) if name in classes]
    names = join_names([f"{name} (class {classes[name].metadata.name})" for name in backed], MAX_NAMES)
    note = f"{names}: devices, on nodes without a device plugin for it"
    return [*own, PodClaimReport(name=EXTENDED_RESOURCES, note=note)]


def _allocation(claim: ResourceClaim) -> str:
    if claim.status.allocation is None:
        return "not allocated"
    pods = [f"{claim.metadata.namespace}/{one.name}" for one in claim.status.reserved_for or ()]
    devices = join_names(_names(_results(claim)), MAX_NAMES) or "no devices"
    return f"allocated: {devices}; reserved for {join_names(pods, MAX_NAMES) or 'no pod'}"


def _results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    return (allocation.devices.results or ()) if allocation is not None else ()


def _names(results: Sequence[DeviceRequestAllocationResult]) -> list[str]:
    return [f"{one.driver}/{one.pool}/{one.device}" for one in results]


# --- the claims on one node -----------------------------------------------------------------------------------------


def report_claims(
    devices: RecordedDevices, pod: Pod, node: str, context: SchedulingContext
) -> tuple[list[ClaimReport], str]:
    """Return the pod's claims on one node, and the feature that leaves the decision to kube-scheduler, or "".

    `context`: the context of the decision; its snapshot and pod are not read.
    """
    snapshot = _snapshot_of(devices, node, context.features)
    if snapshot is None:
        return [], ""
    found = dynamic_resources.verdicts(SchedulingContext(pod, snapshot, context.profile, (), context.history))
    feature = -1 if found is None else int(found.not_evaluated[0])
    not_followed = list(found.not_followed)[feature] if found is not None and feature >= 0 else ""
    return _reports(devices, pod, snapshot), shortened(not_followed)


def _reports(devices: RecordedDevices, pod: Pod, snapshot: Snapshot) -> list[ClaimReport]:
    own = [_own_claim(one.name, one.claim, one.problem, snapshot.nodes[0]) for one in devices.claims]
    to_allocate = [
        (place, ClaimToAllocate(one.claim.metadata.namespace, one.claim.metadata.name, one.claim.spec.devices))
        for place, one in enumerate(devices.claims)
        if one.claim is not None and one.claim.status.allocation is None
    ]
    extended = _extended_resources(snapshot, pod)
    if extended is not None:
        own.append(ClaimReport(name=EXTENDED_RESOURCES, summary=""))
        to_allocate.append((len(own) - 1, extended))
    search = _Search(snapshot, tuple(claim for _, claim in to_allocate))
    for number, (place, _) in enumerate(to_allocate):
        own[place] = search.report(number, own[place])
    return own


def _snapshot_of(devices: RecordedDevices, name: str, features: Features) -> Snapshot | None:
    """Return a snapshot of one node with everything that its devices depend on; None if the node is not recorded."""
    if name not in devices.node_names:
        return None
    row = devices.node_names.index(name)
    metadata = ObjectMeta(name, labels=devices.node_labels[row])
    node = Node(metadata, status=NodeStatus(allocatable=devices.node_allocatable[row]))
    # Pools with shared counters, too: devices of other nodes may have consumed counters that this node needs.
    pools = {
        (one.spec.driver, one.spec.pool.name)
        for one in devices.slices
        if one.spec.node_name in (None, "", name) or one.spec.shared_counters
    }
    own = {(one.claim.metadata.namespace, one.claim.metadata.name): one.claim for one in devices.claims if one.claim}
    claims = chain.from_iterable(devices.claim_parts)
    others = (claim for claim in claims if any((one.driver, one.pool) in pools for one in _results(claim)))
    objects = ClusterObjects(
        nodes=(node,),
        resource_slices=tuple(one for one in devices.slices if (one.spec.driver, one.spec.pool.name) in pools),
        resource_claims=(
            *own.values(),
            *(one for one in others if (one.metadata.namespace, one.metadata.name) not in own),
        ),
        device_classes=devices.classes,
        device_taint_rules=devices.taint_rules,
    )
    return Snapshot.build(objects, features)


def _own_claim(name: str, claim: ResourceClaim | None, problem: str, node: Node) -> ClaimReport:
    if claim is None:
        return ClaimReport(name=name, summary=shortened(problem) or "no claim is needed")
    if claim.status.allocation is None:
        return ClaimReport(name=name, claim=claim.key, summary="")
    # An allocated claim pins the pod to the nodes that can reach its devices.
    selector = claim.status.allocation.node_selector
    try:
        is_here = selector is None or selects_node(selector, node)
        where = "available on this node" if is_here else "not available on this node"
    except NodeSelectorError as error:
        where = str(error)
    summary = f"{_allocation(claim)}; {where}"
    return ClaimReport(name=name, claim=claim.key, summary=summary, devices=_names(_results(claim))[:MAX_DEVICES])


def _extended_resources(snapshot: Snapshot, pod: Pod) -> ClaimToAllocate | None:
    """Return the claim for extended resources that the node lacks; None if no DeviceClass backs any of them."""
    # Older versions leave extended resources to device plugins.
    if not snapshot.features.dra_extended_resource:
        return None
    lacking = resources_from_devices(snapshot, pod)
    asked = device_requests(snapshot, pod, lacking.groups[int(lacking.group[0])])
    spec = DeviceClaim(requests=asked)
    return ClaimToAllocate(pod.metadata.namespace, EXTENDED_RESOURCES, spec) if asked else None


class _Search:
    """Searches devices for a pod's unallocated claims on the only node of a snapshot."""

    def __init__(self, snapshot: Snapshot, claims: tuple[ClaimToAllocate, ...]) -> None:
        self._snapshot = snapshot
        self._claims = claims
        self._pools: tuple[Pool, ...] = ()
        self._pools_error = ""
        try:
            self._pools = snapshot.index(DeviceIndex).pools_at(0)
        except (AllocationError, NotEvaluated) as error:
            self._pools_error = str(error)
        # One budget for all claims and requests, so that the time of an explanation does not grow with their number.
        self._budget = explanation_budget()
        self._reasons = DeviceReasons(snapshot, self._pools, self._budget)

    def report(self, number: int, own: ClaimReport) -> ClaimReport:
        """Explain the claim at index `number`; earlier claims get their devices first."""
        claim = self._claims[number]
        # 1. The claim can be allocated together with the claims before it.
        found = self._pools_error or self._allocate(self._claims[: number + 1])
        if not isinstance(found, str):
            devices = ["/".join(one.id) for one in found[number].devices]
            summary = f"can be allocated: {join_names(devices, MAX_NAMES)}"
            requests = self._requests(claim, None)
            return replace(own, summary=summary, devices=devices[:MAX_DEVICES], requests=requests)
        # 2. An earlier claim cannot be allocated, so the allocator never tries this claim.
        if number and not self._pools_error and isinstance(self._allocate(self._claims[:number]), str):
            summary = "not tried: an earlier claim of the pod cannot be allocated"
            return replace(own, summary=summary, requests=self._requests(claim, None))
        # 3. The claim itself fails: find the first request that gets no devices; None if only the whole claim fails.
        fails = next(
            (
                place
                for place in range(len(claim.spec.requests or ()))
                if isinstance(self._allocate((*self._claims[:number], self._part(number, place + 1))), str)
            ),
            None,
        )
        why = self._in_combination(number, fails) if found == _CANNOT else ""
        return replace(own, summary=shortened(f"{found}{why}"), requests=self._requests(claim, fails))

    def _allocate(self, claims: Sequence[ClaimToAllocate]) -> Allocated | str:
        """Return the devices of the claims, or the error of the allocator."""
        snapshot = self._snapshot
        classes = {one.metadata.name: one for one in snapshot.objects.device_classes.values()}
        allocator = Allocator(claims, classes, self._reasons.selector, snapshot.features)
        state = snapshot.index(DeviceIndex).state
        try:
            found = allocator.allocate(snapshot.nodes[0], self._pools, state, self._budget)
        except (AllocationError, InvalidPools) as error:
            return str(error)
        except (NotEvaluated, WorkLimitReached) as error:
            return f"not evaluated: {error}"
        return _CANNOT if found is None else found

    def _part(self, number: int, requests: int) -> ClaimToAllocate:
        """Return the claim at index `number` with only its first `requests` requests."""
        claim = self._claims[number]
        spec = replace(claim.spec, requests=(claim.spec.requests or [])[:requests])
        return ClaimToAllocate(claim.namespace, claim.name, spec)

    def _in_combination(self, number: int, fails: int | None) -> str:
        """Return the reason why the failing request gets no devices although some are free; "" if none fails alone."""
        if fails is None:
            return ""
        # 1. Too few devices are free for each alternative of the request.
        claim = self._part(number, fails + 1)
        own = [one for place, one in requests_of(claim.spec) if place == fails]
        wanted = {id(one): 1 if one.asks.allocation_mode == "All" else one.asks.count for one in own}
        if all(sum(1 for _ in self._reasons.free_devices(claim, one)) < wanted[id(one)] for one in own):
            return f": request {own[0].name} has too few devices"
        # 2. The request fails even without the claim's constraints: several requests compete for the same devices.
        without = ClaimToAllocate(claim.namespace, claim.name, replace(claim.spec, constraints=None))
        if isinstance(self._allocate((*self._claims[:number], without)), str):
            is_first = number == 0 and fails == 0
            why = "cannot be had together" if is_first else "are needed by other requests of the pod"
            return f": the devices for request {own[0].name} {why}"
        # 3. Only the constraints stand in the way.
        constraints = [self._constraint(claim, at) for at in range(len(claim.spec.constraints or ()))]
        return f": no devices for request {own[0].name} satisfy {'; '.join(constraints[:MAX_CONSTRAINTS])}"

    def _constraint(self, claim: ClaimToAllocate, number: int) -> str:
        """Describe a constraint with the values of free devices: `constraint #0 (…): 1 free with 0, 1 with 1`."""
        constraint = (claim.spec.constraints or [])[number]
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        values = Counter(
            {
                one.id: value_of(found)
                for _, request in requests_of(claim.spec)
                if request.is_of(constraint)
                for one in self._reasons.free_devices(claim, request)
                if (found := find_attribute(one, attribute)) is not None
            }.values()
        )
        counted = ", ".join(f"{count} with {shortened(value)}" for value, count in values.most_common(MAX_VALUES))
        kind = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
        return f"constraint #{number} ({kind} {attribute}; free: {counted or 'none'})"

    def _requests(self, claim: ClaimToAllocate, fails: int | None) -> list[DeviceRequestReport]:
        report = self._reasons.report
        return [report(claim, request, fails=place == fails) for place, request in requests_of(claim.spec)]
