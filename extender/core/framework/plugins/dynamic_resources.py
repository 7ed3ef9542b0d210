"""DynamicResources: the node must have the devices of the pod's ResourceClaims, allocated already or to be allocated.

A claim that is not allocated yet takes the first free devices that suit it on each node (`core.devices`). So does the
claim that kube-scheduler makes for extended resources that a DeviceClass backs, on nodes without a device plugin.
Taking pods off a node changes nothing: their claims keep the devices until they are deallocated.

Mirrors pkg/scheduler/framework/plugins/dynamicresources (v1.36).

Rule: where a claim needs a feature that is not followed, the node is not evaluated, and the feature is named.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
from extender.k8s.objects import Pod
from extender.k8s.selectors import SelectorError, compile_node_selector, parse_node_selector
from extender.k8s.version.features import Features

NAME = DYNAMIC_RESOURCES

CANNOT_ALLOCATE = "cannot allocate all claims"
NOT_AVAILABLE = "resourceclaim not available on the node"
CANNOT_FIT = "cannot fit resource"
EARLIER_CLAIM = "cannot schedule extended resource claim"
"""Reason while the claim of an earlier scheduling cycle is there, which PostFilter deletes."""

TABLES = frozenset({"resource_claims", "resource_slices", "device_classes"})
"""Fields of ObjectTables that the plugin reads; beside them those of `tables_by_feature`."""

_MAX_ALTERNATIVES = 8
"""Alternatives of a prioritized list (resource.FirstAvailableDeviceRequestMaxSize)."""

_MAX_CLAIMS = 256
"""Claims of a pod: each takes a look at every node."""

_MAX_CONTAINERS = 1_000
"""Containers of a pod with extended resources: each init container looks at those behind it."""

_ALPHA_BEFORE_1_36 = {
    "dra_partitionable_devices": "DRAPartitionableDevices",
    "dra_device_taints": "DRADeviceTaints",
    "dra_device_binding_conditions": "DRADeviceBindingConditions",
    "dra_consumable_capacity": "DRAConsumableCapacity",
}
"""Field of Features -> gate that is followed from v1.36 only."""


# --- PreFilter ------------------------------------------------------------------------------------------------------


def pre_enqueue(snapshot: Snapshot, pod: Pod) -> Status | None:
    """Return the status that keeps the pod out of the queue, because one of its claims cannot be used; None: none."""
    features = snapshot.features
    if not features.dynamic_resource_allocation or _why_not_evaluated(features, snapshot.unreadable_tables):
        return None
    claims = pod_claims(snapshot, pod)
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NAME, (claims,)) if isinstance(claims, str) else None


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if a claim cannot be used, or requests a DeviceClass that does not exist."""
    state = _state(context)
    if isinstance(state, Status):
        return PreFilterResult(status=state)
    return PreFilterResult()


@dataclass(frozen=True, slots=True)
class _State:
    """The pod's claims, as PreFilter finds them (upstream: stateData)."""

    claims: tuple[ResourceClaim, ...] = ()
    """Those that the pod names."""
    extended: ResourceClaim | None = None
    """The one for extended resources, behind the others."""

    @property
    def all(self) -> tuple[ResourceClaim, ...]:
        return self.claims if self.extended is None else (*self.claims, self.extended)


def _state(context: SchedulingContext) -> _State | Status:
    """Return the pod's claims, none where the plugin does nothing or is not evaluated, or the status of PreFilter."""
    snapshot, pod = context.snapshot, context.pod
    if not _may_have_claims(snapshot, pod) or _why_not_evaluated(context.features, snapshot.unreadable_tables):
        return _State()
    claims = pod_claims(snapshot, pod)
    if isinstance(claims, str):
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NAME, (claims,))
    for claim in claims:
        try:
            problem = None if claim.status.allocation is not None else request_problem(snapshot, claim)
        except UnsupportedRequest as error:
            return Status(Code.ERROR, NAME, (f'running PreFilter plugin "{NAME}": {error}',))
        if problem is not None:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NAME, (problem,))
    return _State(claims, extended_resource_claim(snapshot, pod))


# --- Filter ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Allocation:
    """The claims that are to be allocated on some nodes, and what each of these nodes has for them."""

    claims: tuple[ClaimToAllocate, ...]
    rows: NodeRows
    nodes: NodeAllocations


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the plugin says of each node for one pod."""

    statuses: tuple[tuple[Code, str], ...]
    """(code, reason) of the nodes that are rejected."""
    status: IntArray
    """[node]: index into `statuses`; -1: not rejected."""
    not_followed: tuple[str, ...]
    """Features that are not followed."""
    not_evaluated: IntArray
    """[node]: index into `not_followed`; -1: evaluated."""
    unavailable: tuple[tuple[ResourceClaim, BoolArray], ...] = ()
    """Allocated claims and [node]: whether they are not available there."""
    allocations: tuple[Allocation, ...] = ()
    """Each for other nodes."""

    def outcome(self, row: int) -> tuple[tuple[ClaimToAllocate, ...], Outcome] | None:
        """Return the claims to allocate on a node and what was found there; None: nothing is to be allocated."""
        for one in self.allocations:
            if one.nodes.outcome[row] >= 0:
                return one.claims, one.nodes.at(row)
        return None


def verdicts(context: SchedulingContext) -> Verdicts | None:
    """Return what the plugin says of each node; None if the pod has no claims that PreFilter accepts.

    Computed once for a pod: filters, scores and explanations follow each other.
    """
    if not _may_have_claims(context.snapshot, context.pod):
        return None
    last, key = _last_verdicts(context.snapshot), (context.pod, context.history.now > 0, timed_out_claims(context))
    if not last or last[0][0] != key:
        last[:] = [(key, _verdicts(context))]
    return last[0][1]


@derived("any")
def _last_verdicts(_snapshot: Snapshot) -> list[tuple[tuple[Pod, bool, tuple[bool, ...]], Verdicts | None]]:
    """Return the place for the last verdicts; every change of the snapshot empties it."""
    return []


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return a check per code, none for a pod without claims."""
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


def _may_have_claims(snapshot: Snapshot, pod: Pod) -> bool:
    """Return whether there is anything to look at, at no cost for pods in clusters without DeviceClasses."""
    has_classes = snapshot.objects.device_classes or "device_classes" in snapshot.unreadable_tables
    return bool(pod.spec.resource_claims or has_classes) and snapshot.features.dynamic_resource_allocation


def _verdicts(context: SchedulingContext) -> Verdicts | None:
    reason = _why_not_evaluated(context.features, context.snapshot.unreadable_tables)
    state = _state(context) if reason is None else _State()
    if isinstance(state, Status) or (reason is None and not state.all):
        return None
    table = _Table(len(context.snapshot.nodes))
    if reason is not None:
        nodes = _nodes_that_read_tables(context)
        table.leave(nodes, reason)
        return table.verdicts() if nodes.any() else None
    unfollowed = _not_followed(context, state)
    if unfollowed is not None:
        table.leave(table.undecided, unfollowed)
        return table.verdicts()
    if state.extended is not None and state.extended.spec.devices.requests is not None:
        table.reject(table.undecided, EARLIER_CLAIM)
        return table.verdicts()
    variants = list(_variants(context, state, table))
    unavailable = tuple(_unavailable(context, state))
    allocations = []
    for claims, nodes in variants:
        rows = np.flatnonzero(nodes & table.undecided)
        if claims and len(rows):
            allocations.append(Allocation(claims, rows, allocate_on_nodes(context.snapshot, claims, rows)))
            table.take(allocations[-1])
    for _, nodes in unavailable:
        table.reject(nodes & table.undecided, NOT_AVAILABLE)
    if not context.history.now and any(_waits_since(context, claim) is not None for claim in state.all):
        table.leave(table.undecided, "the time limit of binding conditions, without a time")
    return replace(table.verdicts(), unavailable=unavailable, allocations=tuple(allocations))


class _Table:
    """Verdicts in the making: each node is decided once."""

    def __init__(self, size: int) -> None:
        self.undecided: BoolArray = np.ones(size, np.bool_)
        self._status, self._not_evaluated = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        self._statuses: dict[tuple[Code, str], int] = {}
        self._not_followed: dict[str, int] = {}

    def accept(self, nodes: BoolArray) -> None:
        self.undecided = self.undecided & ~nodes

    def reject(self, nodes: BoolArray, reason: str, code: Code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE) -> None:
        self._status[nodes] = self._statuses.setdefault((code, reason), len(self._statuses))
        self.accept(nodes)

    def leave(self, nodes: BoolArray, feature: str) -> None:
        """Leave nodes to kube-scheduler, because of a feature that is not followed."""
        self._not_evaluated[nodes] = self._not_followed.setdefault(feature, len(self._not_followed))
        self.accept(nodes)

    def take(self, allocation: Allocation) -> None:
        """Take over why devices were not allocated."""
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

    def verdicts(self) -> Verdicts:
        return Verdicts(tuple(self._statuses), self._status, tuple(self._not_followed), self._not_evaluated)


def _variants(
    context: SchedulingContext, state: _State, table: _Table
) -> Iterator[tuple[tuple[ClaimToAllocate, ...], BoolArray]]:
    """Yield the claims to allocate and [node]: where; nodes with the same devices plugins have the same claims.

    Decides about the nodes where the plugin has nothing to do, and where a resource comes from nowhere.
    """
    snapshot, pod = context.snapshot, context.pod
    own = tuple(_to_allocate(claim, claim.spec.devices) for claim in state.claims if claim.status.allocation is None)
    if state.extended is None:
        yield own, table.undecided
        return
    wanted = resources_from_devices(snapshot, pod)
    table.reject(wanted.cannot_fit, CANNOT_FIT)
    for number, resources in enumerate(wanted.groups):
        nodes = wanted.group == number
        if not resources and not state.claims:
            table.accept(nodes)
        elif state.extended.status.allocation is None:
            requests = device_requests(snapshot, pod, resources).requests
            yield (*own, _to_allocate(state.extended, DeviceClaim(list(requests)))), nodes
        elif state.claims:
            yield own, nodes
        else:
            table.accept(nodes)


def _to_allocate(claim: ResourceClaim, spec: DeviceClaim) -> ClaimToAllocate:
    return ClaimToAllocate(claim.metadata.namespace, claim.metadata.name, spec)


def _unavailable(context: SchedulingContext, state: _State) -> Iterator[tuple[ResourceClaim, BoolArray]]:
    """Yield the allocated claims that are not available everywhere, with [node]: where they are not."""
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
    """Return for each claim of the pod whether it has waited too long for its devices: what depends on the time.

    Empty for a pod without claims that can be used.
    """
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
    """Return the fields of ObjectTables that the plugin reads."""
    return TABLES | {"device_taint_rules"} if features.dra_device_taint_rules else TABLES


def reads_tables(context: SchedulingContext) -> bool:
    """Return whether the pod has claims, or requests a resource that a DeviceClass backs, or may back if unreadable."""
    resources = extended_resources(context.snapshot, context.pod)
    backed = any(delegated_to_dra(context.snapshot, name) is not None for name in resources)
    return bool(context.pod.spec.resource_claims) or backed


def _why_not_evaluated(features: Features, unreadable: frozenset[str]) -> str | None:
    """Return why the plugin is evaluated for no pod at all; None: it is evaluated."""
    if not features.device_claims_are_evaluated:
        return "claims before 1.34"
    missing = sorted(tables(features) & unreadable)
    return f"claims without permission to list {', '.join(missing).replace('_', '')}" if missing else None


def _nodes_that_read_tables(context: SchedulingContext) -> BoolArray:
    """Return [node]: whether the plugin reads its objects for the pod there."""
    snapshot, size = context.snapshot, len(context.snapshot.nodes)
    if context.pod.spec.resource_claims or "device_classes" not in snapshot.unreadable_tables:
        return np.full(size, reads_tables(context), np.bool_)
    nodes = np.zeros(size, np.bool_)
    for name in extended_resources(snapshot, context.pod):
        delegated = delegated_to_dra(snapshot, name)
        if delegated is not None:
            nodes |= delegated
    return nodes


def _not_followed(context: SchedulingContext, state: _State) -> str | None:
    """Return the feature because of which the pod's claims are evaluated on no node."""
    features, spec = context.features, context.pod.spec
    if len(state.claims) > _MAX_CLAIMS:
        return f"more than {_MAX_CLAIMS} claims of a pod"
    if state.extended is not None and len(spec.init_containers or ()) + len(spec.containers or ()) > _MAX_CONTAINERS:
        return f"more than {_MAX_CONTAINERS} containers of a pod with extended resources of device classes"
    if state.extended is not None and not features.extended_resource_claims_are_evaluated:
        return "extended resources of device classes before 1.35"
    if not all(map(_parses, state.all)):
        return "a node selector that does not parse"
    if not features.alpha_device_gates_are_evaluated:
        on = [gate for name, gate in _ALPHA_BEFORE_1_36.items() if getattr(features, name)]
        return f"{on[0]} before 1.36" if on else None
    return None


def _parses(claim: ResourceClaim) -> bool:
    """Return whether the node selector of a claim's allocation parses; if not, PreFilter ends with an error."""
    allocation = claim.status.allocation
    try:
        if allocation is not None and allocation.node_selector is not None:
            parse_node_selector(allocation.node_selector)
    except SelectorError:
        return False
    return True


# --- Score ----------------------------------------------------------------------------------------------------------


def score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """Return [row]: more for earlier alternatives of prioritized lists; None if the pod's claims have none.

    Raises ScoreFailed.
    """
    features = context.features
    if not features.prioritized_lists_are_scored or NAME not in context.profile.filter_plugins:
        return None  # Filter finds what Score reads
    found = verdicts(context)
    state = _state(context)
    if found is None or isinstance(state, Status):
        return None
    if not features.allocated_claims_are_scored:
        _check_all_are_new(state, found, rows)
    requests = (request for claim in state.claims for request in claim.spec.devices.requests or ())
    if not features.dra_prioritized_list or not any(request.first_available for request in requests):
        return None
    scores = np.zeros(len(context.snapshot.nodes), np.int64)
    allocated = sum(_score_of_allocated(claim) for claim in state.claims)
    for one in found.allocations:
        values = np.zeros(len(one.nodes.outcomes), np.int64)
        for number, outcome in enumerate(one.nodes.outcomes):
            if isinstance(outcome, tuple):
                chosen = [at for claim in outcome for at in claim.chosen if at is not None]
                values[number] = allocated + sum(_MAX_ALTERNATIVES - at for at in chosen)
        scores[one.rows] = values[one.nodes.outcome[one.rows]]
    return scores[rows]


def _check_all_are_new(state: _State, found: Verdicts, rows: NodeRows) -> None:
    """Raise ScoreFailed if devices were allocated on one of the nodes, but not for all claims."""
    for one in found.allocations:
        outcomes = one.nodes.outcome[rows]
        if len(one.claims) < len(state.all) and any(
            isinstance(one.nodes.outcomes[at], tuple) for at in outcomes[outcomes >= 0]
        ):
            raise ScoreFailed(f"number of allocations {len(one.claims)} is smaller than number of claims")


def _score_of_allocated(claim: ResourceClaim) -> int:
    """Return the score of a claim that is allocated already."""
    allocation = claim.status.allocation
    used = {one.request for one in (allocation.devices.results if allocation is not None else None) or ()}
    return sum(
        _MAX_ALTERNATIVES - at
        for request in claim.spec.devices.requests or ()
        if request.exactly is None
        for at, one in enumerate(request.first_available or ())
        if f"{request.name}/{one.name}" in used
    )


# --- PostFilter -----------------------------------------------------------------------------------------------------

NO_NEW_CLAIMS = "no new claims to deallocate"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
STILL_NOT_SCHEDULABLE = "still not schedulable"


def post_filter(context: SchedulingContext, rejected: BoolArray) -> tuple[str, ResourceClaim | None]:
    """Return the message of PostFilter, and the claim that it deallocates (DEALLOCATED) or deletes (DELETED).

    `rejected`: [node]: whether this plugin is the one that rejected it. Of several claims that could be deallocated,
    kube-scheduler takes any; here it is the first.
    """
    if _why_not_evaluated(context.features, context.snapshot.unreadable_tables):
        return STILL_NOT_SCHEDULABLE if reads_tables(context) else NO_NEW_CLAIMS, None
    state = _state(context)
    if isinstance(state, Status) or not state.all:
        return NO_NEW_CLAIMS, None
    found, uid = verdicts(context), context.pod.metadata.uid
    if found is None:
        return STILL_NOT_SCHEDULABLE, None
    for claim, nodes in found.unavailable:
        reserved = [one.uid for one in claim.status.reserved_for or ()]
        # A node may have another reason, as allocation comes first; then deallocating this claim would not help.
        statuses = [found.statuses[at] for at in set(found.status[nodes & rejected].tolist()) if at >= 0]
        decides = any(reason == NOT_AVAILABLE for _, reason in statuses)
        if decides and claim is not state.extended and (not reserved or reserved == [uid]):
            return DEALLOCATED, claim
    if state.extended is not None and state.extended.metadata.name != IN_MEMORY:
        return DELETED, state.extended
    return STILL_NOT_SCHEDULABLE, None
