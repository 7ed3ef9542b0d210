"""DynamicResources: the node must provide the devices of the pod's ResourceClaims, allocated or still to allocate.

A claim not yet allocated takes the first suitable free devices of each node (`core.devices`). So does the claim that
kube-scheduler creates for extended resources that a DeviceClass backs, on nodes without a device plugin.
Evicting pods frees no devices: their claims keep them until deallocated.

Mirrors pkg/scheduler/framework/plugins/dynamicresources (v1.36).

Rule: if a claim needs an unsupported feature on a node, the node is not evaluated, and the feature is reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from extender.core.devices.claims import (
    UnsupportedRequest,
    binding_failed,
    pod_claims,
    request_problem,
    waits_since,
)
from extender.core.devices.extended_resources import (
    IN_MEMORY,
    delegated_to_dra,
    device_requests,
    extended_resource_claim,
    extended_resources,
    resources_from_devices,
)
from extender.core.devices.node_allocations import (
    AllocationFailed,
    CannotAllocate,
    NodeAllocations,
    NotAllocated,
    Outcome,
    allocate_on_nodes,
)
from extender.core.devices.structured.allocation import ClaimToAllocate
from extender.core.framework.filter_checks import StaticCheck
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code, PreFilterResult, ScoreFailed, Status, filter_error
from extender.core.profile import DYNAMIC_RESOURCES
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows
from extender.core.snapshot.derived import derived
from extender.core.snapshot.selector_index import nodes_in_any_term
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import DeviceClaim, ResourceClaim
from extender.k8s.limits import limits
from extender.k8s.objects import Pod
from extender.k8s.selectors import SelectorError, compile_node_selector, parse_node_selector
from extender.k8s.version.features import Features

NAME = DYNAMIC_RESOURCES

CANNOT_ALLOCATE = "cannot allocate all claims"
NOT_AVAILABLE = "resourceclaim not available on the node"
CANNOT_FIT = "cannot fit resource"
EARLIER_CLAIM = "cannot schedule extended resource claim"
"""Reason while the claim of an earlier scheduling cycle exists; PostFilter deletes that claim."""

TABLES = frozenset({"resource_claims", "resource_slices", "device_classes"})
"""Fields of ObjectTables that the plugin reads in every version."""

_MAX_ALTERNATIVES = 8
"""Maximum number of alternatives in a prioritized list (resource.FirstAvailableDeviceRequestMaxSize)."""

_ALPHA_BEFORE_1_36 = {
    "dra_partitionable_devices": "DRAPartitionableDevices",
    "dra_device_taints": "DRADeviceTaints",
    "dra_device_binding_conditions": "DRADeviceBindingConditions",
    "dra_consumable_capacity": "DRAConsumableCapacity",
}
"""Field of Features -> feature gate that is supported only from v1.36 on."""


# --- PreFilter ------------------------------------------------------------------------------------------------------


def pre_enqueue(snapshot: Snapshot, pod: Pod) -> Status | None:
    """Return the status that keeps the pod out of the queue because one of its claims cannot be used, or None."""
    features = snapshot.features
    if not features.dynamic_resource_allocation or _why_not_evaluated(features, snapshot.unreadable_tables):
        return None
    claims = pod_claims(snapshot, pod)
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NAME, (claims,)) if isinstance(claims, str) else None


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if a claim cannot be used, or requests a DeviceClass that does not exist."""
    state = state_data(context)
    return PreFilterResult(status=state if isinstance(state, Status) else None)


@dataclass(frozen=True, slots=True)
class StateData:
    """The pod's claims, as PreFilter finds them (upstream: stateData)."""

    claims: tuple[ResourceClaim, ...] = ()
    """Claims of the pod's spec.resourceClaims."""
    extended: ResourceClaim | None = None
    """Claim for the pod's extended resources; last in `all`."""

    @property
    def all(self) -> tuple[ResourceClaim, ...]:
        return self.claims if self.extended is None else (*self.claims, self.extended)


def state_data(context: SchedulingContext) -> StateData | Status:
    """Return the pod's claims (none if the plugin is skipped or not evaluated), or the rejection by PreFilter."""
    snapshot, pod = context.snapshot, context.pod
    if not _may_have_claims(snapshot, pod) or _why_not_evaluated(context.features, snapshot.unreadable_tables):
        return StateData()
    # 1. All claims exist and belong to the pod.
    claims = pod_claims(snapshot, pod)
    if isinstance(claims, str):
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NAME, (claims,))
    # 2. Each unallocated claim requests only known DeviceClasses.
    for claim in claims:
        try:
            problem = None if claim.status.allocation is not None else request_problem(snapshot, claim)
        except UnsupportedRequest as error:
            return Status(Code.ERROR, NAME, (f'running PreFilter plugin "{NAME}": {error}',))
        if problem is not None:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NAME, (problem,))
    # 3. The claim for extended resources, which kube-scheduler itself creates.
    return StateData(claims, extended_resource_claim(snapshot, pod))


def _may_have_claims(snapshot: Snapshot, pod: Pod) -> bool:
    """Return whether the pod may have claims; a cheap check in clusters without DeviceClasses."""
    has_classes = snapshot.objects.device_classes or "device_classes" in snapshot.unreadable_tables
    return bool(pod.spec.resource_claims or has_classes) and snapshot.features.dynamic_resource_allocation


# --- Filter ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Allocation:
    """Claims to allocate on the nodes `rows`, and the outcome of the allocation on each of these nodes."""

    claims: tuple[ClaimToAllocate, ...]
    rows: NodeRows
    nodes: NodeAllocations


class Verdicts:
    """The plugin's result for one pod on each node; the first result that applies to a node is final."""

    def __init__(self, size: int) -> None:
        self.undecided: BoolArray = np.ones(size, np.bool_)
        """[node]: True until a result applies."""
        self.statuses: dict[tuple[Code, str], int] = {}
        """(code, reason) of rejected nodes -> index."""
        self.status: IntArray = np.full(size, -1, np.int64)
        """[node]: index of its entry in `statuses`; -1 if not rejected."""
        self.not_followed: dict[str, int] = {}
        """Unsupported feature -> index."""
        self.not_evaluated: IntArray = np.full(size, -1, np.int64)
        """[node]: index in `not_followed` of the unsupported feature; -1 if evaluated."""
        self.unavailable: tuple[tuple[ResourceClaim, BoolArray], ...] = ()
        """Allocated claims, each with [node]: True if the claim is not available there."""
        self.allocations: list[Allocation] = []
        """Allocations, each for different nodes."""

    def accept(self, nodes: BoolArray) -> None:
        self.undecided = self.undecided & ~nodes

    def reject(self, nodes: BoolArray, reason: str, code: Code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE) -> None:
        self.status[nodes] = self.statuses.setdefault((code, reason), len(self.statuses))
        self.accept(nodes)

    def leave(self, nodes: BoolArray, feature: str) -> None:
        """Leave the nodes to kube-scheduler because of an unsupported feature."""
        self.not_evaluated[nodes] = self.not_followed.setdefault(feature, len(self.not_followed))
        self.accept(nodes)

    def allocate(self, allocation: Allocation) -> None:
        """Record the allocation; reject or leave the nodes where no devices were allocated."""
        self.allocations.append(allocation)
        for number, outcome in enumerate(allocation.nodes.outcomes):
            nodes = self.undecided & (allocation.nodes.outcome == number)
            if isinstance(outcome, NotAllocated):
                self.leave(nodes, outcome.reason)
            elif isinstance(outcome, CannotAllocate):
                self.reject(nodes, CANNOT_ALLOCATE)
            elif isinstance(outcome, AllocationFailed) and outcome.is_error:
                error = filter_error(NAME, outcome.text)
                self.reject(nodes, error.message, error.code)
            elif isinstance(outcome, AllocationFailed):
                self.reject(nodes, outcome.text)

    def outcome(self, row: int) -> tuple[tuple[ClaimToAllocate, ...], Outcome] | None:
        """Return the claims to allocate on node `row` and their outcome; None if there is nothing to allocate."""
        for one in self.allocations:
            if one.nodes.outcome[row] >= 0:
                return one.claims, one.nodes.at(row)
        return None


def verdicts(context: SchedulingContext) -> Verdicts | None:
    """Return the plugin's result for each node; None if PreFilter rejects the pod's claims or there are none."""
    if not _may_have_claims(context.snapshot, context.pod):
        return None
    # A pod's filter, score and explanation run in succession, so the last result is cached.
    last, key = _last_verdicts(context.snapshot), (context.pod, context.history.now > 0, timed_out_claims(context))
    if not last or last[0][0] != key:
        last[:] = [(key, _verdicts(context))]
    return last[0][1]


@derived("any")
def _last_verdicts(_snapshot: Snapshot) -> list[tuple[tuple[Pod, bool, tuple[bool, ...]], Verdicts | None]]:
    return []


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return one check per code of the rejected nodes; none for a pod without claims."""
    found = verdicts(context)
    if found is None:
        return ()
    reasons = tuple(reason for _, reason in found.statuses)
    codes = np.array([code for code, _ in found.statuses] + [Code.SUCCESS])[found.status]
    return tuple(
        StaticCheck(NAME, codes == code, reasons, code, found.status)
        for code in (Code.ERROR, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        if code in codes
    )


def _verdicts(context: SchedulingContext) -> Verdicts | None:
    found = Verdicts(len(context.snapshot.nodes))
    # 1. Reasons not to evaluate any pod, or the claims of this pod.
    reason = _why_not_evaluated(context.features, context.snapshot.unreadable_tables)
    if reason is not None:
        nodes = _nodes_that_read_tables(context)
        found.leave(nodes, reason)
        return found if nodes.any() else None
    state = state_data(context)
    if isinstance(state, Status) or not state.all:
        return None
    unfollowed = _not_followed(context, state)
    if unfollowed is not None:
        found.leave(found.undecided, unfollowed)
        return found
    # 2. A claim that an earlier cycle created for extended resources blocks the pod until PostFilter deletes it.
    if state.extended is not None and state.extended.spec.devices.requests is not None:
        found.reject(found.undecided, EARLIER_CLAIM)
        return found
    # 3. Devices for unallocated claims.
    for claims, nodes in list(_claims_to_allocate(context, state, found)):
        rows = np.flatnonzero(nodes & found.undecided)
        if claims and len(rows):
            found.allocate(Allocation(claims, rows, allocate_on_nodes(context.snapshot, claims, rows)))
    # 4. Allocated claims. Upstream checks their availability first, but reports it last.
    found.unavailable = tuple(_unavailable(context, state))
    for _, nodes in found.unavailable:
        found.reject(nodes & found.undecided, NOT_AVAILABLE)
    if not context.history.now and any(_waits_since(context, claim) is not None for claim in state.all):
        found.leave(found.undecided, "the timeout of binding conditions (no current time)")
    return found


def _claims_to_allocate(
    context: SchedulingContext, state: StateData, found: Verdicts
) -> Iterator[tuple[tuple[ClaimToAllocate, ...], BoolArray]]:
    """Yield (claims to allocate, [node]: whether to allocate there), one per set of missing extended resources.

    Also accepts nodes where the plugin has nothing to do, and rejects nodes that lack a resource without a DeviceClass.
    """
    snapshot, pod = context.snapshot, context.pod
    own = tuple(_to_allocate(claim, claim.spec.devices) for claim in state.claims if claim.status.allocation is None)
    if state.extended is None:
        yield own, found.undecided
        return
    wanted = resources_from_devices(snapshot, pod)
    found.reject(wanted.cannot_fit, CANNOT_FIT)
    for number, resources in enumerate(wanted.groups):
        nodes = wanted.group == number
        if not resources and not state.claims:
            found.accept(nodes)
        elif state.extended.status.allocation is None:
            requests = device_requests(snapshot, pod, resources)
            yield (*own, _to_allocate(state.extended, DeviceClaim(requests))), nodes
        elif state.claims:
            yield own, nodes
        else:
            found.accept(nodes)


def _to_allocate(claim: ResourceClaim, spec: DeviceClaim) -> ClaimToAllocate:
    return ClaimToAllocate(claim.metadata.namespace, claim.metadata.name, spec)


def _unavailable(context: SchedulingContext, state: StateData) -> Iterator[tuple[ResourceClaim, BoolArray]]:
    """Yield each allocated claim that is unavailable on some node, with [node]: whether it is unavailable there."""
    size = len(context.snapshot.nodes)
    for claim in state.all:
        allocation = claim.status.allocation
        if allocation is None:
            continue
        available = np.ones(size, np.bool_)
        if allocation.node_selector is not None:
            available = nodes_in_any_term(context.snapshot, compile_node_selector(allocation.node_selector).terms or ())
        has_failed = context.features.dra_device_binding_conditions and binding_failed(claim)
        if has_failed or _is_timed_out(context, claim):
            available = np.zeros(size, np.bool_)
        if not available.all():
            yield claim, ~available


def timed_out_claims(context: SchedulingContext) -> tuple[bool, ...]:
    """Return [claim]: whether its binding conditions timed out; nothing else in the verdicts depends on the time."""
    claims = pod_claims(context.snapshot, context.pod) if context.pod.spec.resource_claims else ()
    return () if isinstance(claims, str) else tuple(_is_timed_out(context, claim) for claim in claims)


def _is_timed_out(context: SchedulingContext, claim: ResourceClaim) -> bool:
    since, now = _waits_since(context, claim), context.history.now
    return since is not None and now > 0 and since + context.profile.binding_timeout < now


def _waits_since(context: SchedulingContext, claim: ResourceClaim) -> int | None:
    return waits_since(claim) if context.features.dra_device_binding_conditions else None


# --- what is not evaluated ------------------------------------------------------------------------------------------


def nodes_not_evaluated(context: SchedulingContext) -> BoolArray:
    """Return [node]: whether only kube-scheduler knows if the pod gets its devices there."""
    found = verdicts(context)
    return np.zeros(len(context.snapshot.nodes), np.bool_) if found is None else found.not_evaluated >= 0


def tables(features: Features) -> frozenset[str]:
    """Return the fields of ObjectTables that the plugin reads with these features."""
    return TABLES | {"device_taint_rules"} if features.dra_device_taint_rules else TABLES


def reads_tables(context: SchedulingContext) -> bool:
    """Return whether the pod has claims or requests a resource that a DeviceClass backs (or may, if unreadable)."""
    resources = extended_resources(context.snapshot, context.pod)
    backed = any(delegated_to_dra(context.snapshot, name) is not None for name in resources)
    return bool(context.pod.spec.resource_claims) or backed


def _why_not_evaluated(features: Features, unreadable: frozenset[str]) -> str | None:
    """Return the reason why the plugin is not evaluated for any pod; None if it is evaluated."""
    if not features.device_claims_are_evaluated:
        return "claims before 1.34"
    missing = sorted(tables(features) & unreadable)
    return f"claims without permission to list {', '.join(missing).replace('_', '')}" if missing else None


def _nodes_that_read_tables(context: SchedulingContext) -> BoolArray:
    """Return [node]: whether the plugin would read its tables for the pod on the node."""
    snapshot, size = context.snapshot, len(context.snapshot.nodes)
    if context.pod.spec.resource_claims or "device_classes" not in snapshot.unreadable_tables:
        return np.full(size, reads_tables(context), np.bool_)
    delegated = (delegated_to_dra(snapshot, name) for name in extended_resources(snapshot, context.pod))
    return sum((nodes for nodes in delegated if nodes is not None), np.zeros(size, np.bool_))


def _not_followed(context: SchedulingContext, state: StateData) -> str | None:
    """Return the unsupported feature that keeps the pod's claims from being evaluated on any node, or None."""
    features, spec = context.features, context.pod.spec
    if len(state.claims) > limits.MAX_CLAIMS:
        return limits.TOO_MANY_CLAIMS
    containers = len(spec.init_containers or ()) + len(spec.containers or ())
    if state.extended is not None and containers > limits.MAX_DEVICE_CONTAINERS:
        return limits.TOO_MANY_DEVICE_CONTAINERS
    if state.extended is not None and not features.extended_resource_claims_are_evaluated:
        return "extended resources of device classes before 1.35"
    if not all(map(_parses, state.all)):
        return "a node selector that does not parse"
    if not features.alpha_device_gates_are_evaluated:
        on = [gate for name, gate in _ALPHA_BEFORE_1_36.items() if getattr(features, name)]
        return f"{on[0]} before 1.36" if on else None
    return None


def _parses(claim: ResourceClaim) -> bool:
    """Return whether the node selector of the claim's allocation parses; if not, upstream's PreFilter fails."""
    allocation = claim.status.allocation
    try:
        if allocation is not None and allocation.node_selector is not None:
            parse_node_selector(allocation.node_selector)
    except SelectorError:
        return False
    return True


# --- Score ----------------------------------------------------------------------------------------------------------


def score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """Return [row]: higher for earlier alternatives of prioritized lists; None if the claims have no such lists.

    Raises ScoreFailed.
    """
    features = context.features
    if not features.prioritized_lists_are_scored or NAME not in context.profile.filter_plugins:
        return None  # Score reads the result of Filter
    found, state = verdicts(context), state_data(context)
    if found is None or isinstance(state, Status):
        return None
    # 1. Up to v1.36, a pod with both allocated and unallocated claims fails.
    if not features.allocated_claims_are_scored:
        for one in found.allocations:
            outcomes = one.nodes.outcome[rows]
            has_devices = (isinstance(one.nodes.outcomes[number], tuple) for number in outcomes[outcomes >= 0])
            if len(one.claims) < len(state.all) and any(has_devices):
                raise ScoreFailed(f"number of allocations {len(one.claims)} is smaller than number of claims")
    requests = (request for claim in state.claims for request in claim.spec.devices.requests or ())
    if not features.dra_prioritized_list or not any(request.first_available for request in requests):
        return None
    # 2. Each list scores by its chosen alternative: 8 for the first, 7 for the second, ...
    scores = np.zeros(len(context.snapshot.nodes), np.int64)
    allocated = sum(_score_of_allocated(claim) for claim in state.claims)
    for one in found.allocations:
        values = np.zeros(len(one.nodes.outcomes), np.int64)
        for number, outcome in enumerate(one.nodes.outcomes):
            if isinstance(outcome, tuple):
                chosen = [index for claim in outcome for index in claim.chosen if index is not None]
                values[number] = allocated + sum(_MAX_ALTERNATIVES - index for index in chosen)
        scores[one.rows] = values[one.nodes.outcome[one.rows]]
    return scores[rows]


def _score_of_allocated(claim: ResourceClaim) -> int:
    allocation = claim.status.allocation
    used = {one.request for one in (allocation.devices.results if allocation is not None else None) or ()}
    return sum(
        _MAX_ALTERNATIVES - index
        for request in claim.spec.devices.requests or ()
        if request.exactly is None
        for index, one in enumerate(request.first_available or ())
        if f"{request.name}/{one.name}" in used
    )


# --- PostFilter -----------------------------------------------------------------------------------------------------

NO_NEW_CLAIMS = "no new claims to deallocate"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
STILL_NOT_SCHEDULABLE = "still not schedulable"


def post_filter(context: SchedulingContext, rejected: BoolArray) -> tuple[str, ResourceClaim | None]:
    """Return the message of PostFilter, and the claim that it deallocates (DEALLOCATED) or deletes (DELETED).

    `rejected`: [node]: whether this plugin rejected it.
    """
    if _why_not_evaluated(context.features, context.snapshot.unreadable_tables):
        return STILL_NOT_SCHEDULABLE if reads_tables(context) else NO_NEW_CLAIMS, None
    state = state_data(context)
    if isinstance(state, Status) or not state.all:
        return NO_NEW_CLAIMS, None
    found, uid = verdicts(context), context.pod.metadata.uid
    if found is None:
        return STILL_NOT_SCHEDULABLE, None
    # 1. Deallocate a claim that no other pod uses. Of several, kube-scheduler takes any; here the first is taken.
    statuses = list(found.statuses)
    for claim, nodes in found.unavailable:
        reserved = [one.uid for one in claim.status.reserved_for or ()]
        # A node may have a different reason, as allocation is checked first: deallocating would not help there.
        numbers = set(found.status[nodes & rejected].tolist())
        decides = any(number >= 0 and statuses[number][1] == NOT_AVAILABLE for number in numbers)
        if decides and claim is not state.extended and (not reserved or reserved == [uid]):
            return DEALLOCATED, claim
    # 2. Delete the claim that an earlier cycle created for extended resources.
    if state.extended is not None and state.extended.metadata.name != IN_MEMORY:
        return DELETED, state.extended
    return STILL_NOT_SCHEDULABLE, None
