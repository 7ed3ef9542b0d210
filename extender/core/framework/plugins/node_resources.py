"""NodeResourcesFit and NodeResourcesBalancedAllocation: filter nodes by free resources; score nodes by utilization and
by its balance across resources.

Mirrors pkg/scheduler/framework/plugins/noderesources (v1.36): fit.go, least_allocated.go, most_allocated.go,
requested_to_capacity_ratio.go, balanced_allocation.go.

Rule: a node fits if requested <= allocatable - used, for every requested resource.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from extender.core.devices.class_totals import scored_capacity, scored_use
from extender.core.devices.extended_resources import delegated_to_dra
from extender.core.framework.filter_checks import ColumnwiseConstraint, EvictablePods
from extender.core.framework.plugins.shared.normalize import MAX_NODE_SCORE, interpolate
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code, CodeArray
from extender.core.profile import ScoringStrategy
from extender.core.snapshot.arrays import BASE_RESOURCES, NEVER, BoolArray, IntArray, NodeRows, clamped
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod
from extender.k8s.requests import (
    EPHEMERAL_STORAGE,
    PODS,
    balanced_scoring_request,
    fit_scoring_request,
    incoming_requests,
    is_extended,
    is_scalar,
    resize_pending_reason,
)

FIT_NAME = "NodeResourcesFit"
BALANCED_ALLOCATION_NAME = "NodeResourcesBalancedAllocation"

_PODS_COLUMN = BASE_RESOURCES.index("pods")
_UNLIMITED = NEVER
"""Capacity of a resource that is not limited on a node."""
_MAX_BITMASK_COLUMNS = 32
"""Maximum number of columns for which reason keys are bit masks: below 2**32."""


class PendingResizeIndex(Index):
    """Running pods whose resize in place is deferred or infeasible: what they want or hold counts as used."""

    pod_parts = frozenset({"spec", "status"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.rows: set[int] = set()
        """Pod rows."""

    def pod_added(self, row: int, pod: Pod) -> None:
        if resize_pending_reason(pod):
            self.rows.add(row)

    def pod_removed(self, row: int, pod: Pod) -> None:
        self.rows.discard(row)


# --- filter ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResourceConstraint(ColumnwiseConstraint):
    """Columns for BASE_RESOURCES up to the last requested one, then for each requested extended resource.

    headroom = allocatable - requested by the incoming pod - used by running pods.
    """

    names: tuple[str, ...]
    """[column]: resource name."""
    unresolvable: BoolArray
    """[node]: True if the pod requests more of a resource than the empty node has, so that no eviction helps."""
    amounts: tuple[int, ...]
    """[column]: amount that the incoming pod requests."""
    absent: tuple[str, ...] = ()
    """Further requested resources that no node has; one column in `names` stands for all of them."""

    def codes(self, headroom: IntArray) -> CodeArray:
        final, other = np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE), np.uint8(Code.UNSCHEDULABLE)
        return np.where(self.fits(headroom), np.uint8(Code.SUCCESS), np.where(self.unresolvable, final, other))

    @property
    def base_requests(self) -> "BaseRequests | None":
        """Requests; None if the pod requests resources other than BASE_RESOURCES."""
        has_base_only = not self.absent and self.names == BASE_RESOURCES[: len(self.names)]
        return BaseRequests(self.amounts, self.nominated_demand) if has_base_only else None

    def with_current_pods(self, snapshot: Snapshot) -> Self:
        """Return the constraint for the pods now running; requires `base_requests` and unchanged nodes."""
        base = len(self.names)
        headroom = _headroom(self.amounts, snapshot.allocatable[:base], snapshot.used[:base])
        return replace(self, headroom=headroom)

    def reason_keys(self, headroom: IntArray, rows: NodeRows) -> IntArray:
        """Return [row]: key of the set of insufficient resources, a bit mask if there are few enough columns."""
        short = headroom[:, rows] < 0
        if len(short) > _MAX_BITMASK_COLUMNS:
            return np.unique(short, axis=1, return_inverse=True)[1].reshape(-1)
        bits: IntArray = np.einsum("cn,c->n", short, 1 << np.arange(len(short), dtype=np.int64))
        return bits

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        short = [self.names[column] for column in np.flatnonzero(headroom[:, row] < 0)]
        pods = ("Too many pods",) if "pods" in short else ()
        base = [name for name in short if name in BASE_RESOURCES and name != "pods"]
        others = sorted([*(name for name in short if name not in BASE_RESOURCES), *self.absent])
        return pods + tuple(f"Insufficient {name}" for name in (*base, *others))

    def remove_pods(self, evictable: EvictablePods) -> IntArray:
        if evictable.freed is None:
            return super().remove_pods(evictable)
        base = len([name for name in self.names if name in BASE_RESOURCES])
        freed = evictable.freed[:base]
        if base < len(self.names):
            others = replace(self.ranked_demand, columns=self.ranked_demand.columns[base:])
            freed = np.concatenate((freed, others.sums(evictable.mask)))
        return self.headroom + freed


@dataclass(frozen=True, slots=True)
class BaseRequests:
    """Requests for BASE_RESOURCES by the incoming pod and the nominated pods, as in ResourceConstraint."""

    amounts: tuple[int, ...]
    nominated_demand: IntArray | None

    def fits_on(self, snapshot: Snapshot, rows: NodeRows) -> BoolArray:
        """Return [row]: whether the pod fits beside the pods now running there."""
        base = len(self.amounts)
        headroom = _headroom(self.amounts, snapshot.allocatable[:base, rows], snapshot.used[:base, rows])
        fits: BoolArray = np.logical_and.reduce(headroom >= 0, axis=0)
        if self.nominated_demand is not None:  # the pod must fit both with and without nominated pods
            fits &= np.logical_and.reduce(headroom - self.nominated_demand[:, rows] >= 0, axis=0)
        return fits


def filter(context: SchedulingContext) -> tuple[ResourceConstraint, ...]:
    """Return one constraint, for every pod: each node limits its number of pods."""
    snapshot, profile = context.snapshot, context.profile
    # 1. PreFilter: the requests.
    requests = incoming_requests(context.pod, context.features) | {"pods": 1}
    scalars = (name for name in sorted(requests) if name not in BASE_RESOURCES and requests[name] > 0)
    # Quirk of v1.34: if the pod requests no extended resources, no DeviceClasses are looked up, and every scalar
    # resource that a node lacks is left to DynamicResources (fitsRequest), which allocates nothing for huge pages: the
    # node passes for them.
    absent_fit = (
        context.features.dra_extended_resource
        and context.features.absent_scalars_fit
        and not any(amount and is_extended(name) for name, amount in requests.items())
    )

    def delegated(name: str) -> BoolArray | None:
        """Return [node]: whether DynamicResources decides about the resource there; None if on no node."""
        return ~snapshot.has_scalar(name) if absent_fit else delegated_to_dra(snapshot, name)

    def capacity_of(name: str) -> IntArray:
        amounts, elsewhere = snapshot.scalar_allocatable(name), delegated(name)
        return amounts if elsewhere is None else np.where(elsewhere, _UNLIMITED, amounts)

    # 2. The columns: BASE_RESOURCES up to the last requested one, then extended resources that are not ignored.
    extended, absent = _without_absent(snapshot, [name for name in scalars if not profile.ignores(name)], delegated)
    base = max(BASE_RESOURCES.index(name) for name in requests if name in BASE_RESOURCES) + 1
    capacity, use = snapshot.allocatable[:base], snapshot.used[:base]
    if extended:
        capacity = np.vstack((capacity, *map(capacity_of, extended)))
        use = np.vstack((use, *(snapshot.scalar_used(name) for name in extended)))
    names = BASE_RESOURCES[:base] + extended
    demand = RankedDemand(context.layout, (*range(base), *(snapshot.scalar_demand(name) for name in extended)))
    amounts = tuple([clamped(requests.get(name, 0)) for name in names])
    headroom = _headroom(amounts, capacity, use)

    def demand_of(pod: Pod, _node: int) -> list[int]:
        held = snapshot.pod_table.resources_of(pod)
        usage = dict(zip(BASE_RESOURCES, held.demand, strict=True)) | dict(held.scalar_resources)
        return [usage.get(name, 0) for name in names]

    nominated = context.nominated_demand(len(names), demand_of)
    # 3. Nodes that are too small even when empty. Negative capacity rejects only pods that request the resource.
    #    Quirk: "Too many pods" is never unresolvable.
    unresolvable = np.zeros(len(snapshot.nodes), np.bool_)
    if context.features.fit_above_allocatable_is_unresolvable:
        for column, amount in enumerate(amounts):
            if amount and column != _PODS_COLUMN:
                unresolvable |= amount > capacity[column]
    return (ResourceConstraint(FIT_NAME, headroom, demand, nominated, names, unresolvable, amounts, absent),)


def _headroom(amounts: Sequence[int], capacity: IntArray, use: IntArray) -> IntArray:
    """Return [column, node]: capacity minus the pod's and the running pods' amounts; unlimited without a request."""
    requested = np.array(amounts, np.int64)[:, np.newaxis]
    return np.where(requested > 0, capacity - requested, _UNLIMITED) - use


def _without_absent(
    snapshot: Snapshot, extended: Sequence[str], delegated: Callable[[str], BoolArray | None]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the requested extended resources into those that need a column, and further ones that no node has."""
    # A resource that no node has rejects every node, whatever is evicted. One column stands for all such resources,
    # so that a pod with thousands of them costs no more. `delegated` resources that no node has reject no node.
    columns, absent = list[str](), list[str]()
    for name in extended:
        requests = snapshot.pod_table.scalar_requests.get(name, {}).values()
        if name in snapshot.allocatable_names or min(requests, default=0) < 0:
            columns.append(name)
        elif delegated(name) is None:
            absent.append(name)
    return tuple(sorted([*columns, *absent[:1]])), tuple(absent[1:])


# --- scores -----------------------------------------------------------------------------------------------------


Scorer = Callable[[Snapshot, NodeRows], IntArray]
"""(snapshot, node rows) -> [row]: scores of the scorer's pod, beside the pods now running there."""


@dataclass(frozen=True, slots=True)
class _ScoredResources:
    """Scored resources, with the incoming pod's requests for them."""

    names: tuple[str, ...]
    weights: IntArray
    """[resource, 1]: weight."""
    requested: IntArray
    """[resource, 1]: amount that the incoming pod requests."""
    base: IntArray | None
    """[resource, 1]: index in BASE_RESOURCES; None unless all `names` are in BASE_RESOURCES."""

    @classmethod
    def of(cls, resources: Sequence[tuple[str, int]], requests: Sequence[int]) -> "_ScoredResources":
        """Return the scored `resources` (name, weight): extended resources only if the pod requests them."""
        kept = [  # upstream finds no capacity under the name PODS
            (name, weight, clamped(request))
            for (name, weight), request in zip(resources, requests, strict=True)
            if (request != 0 or not is_scalar(name)) and name != PODS
        ]
        numbers = np.array([one[1:] for one in kept], np.int64).reshape(len(kept), 2)
        names = tuple([name for name, _, _ in kept])
        is_base = bool(names) and set(names) <= set(BASE_RESOURCES)
        base = np.array([BASE_RESOURCES.index(name) for name in names])[:, np.newaxis] if is_base else None
        return cls(names, numbers[:, :1], numbers[:, 1:], base)

    def capacity(self, snapshot: Snapshot, rows: NodeRows) -> IntArray:
        """Return [resource, row]: allocatable amounts; on nodes with amount 0, the resource is not scored."""
        return self._columns(snapshot.allocatable, partial(scored_capacity, snapshot), rows)

    def used(self, snapshot: Snapshot, rows: NodeRows) -> IntArray:
        """Return [resource, row]: amounts that running pods request, or number of devices allocated to claims."""
        return self._columns(snapshot.used, partial(scored_use, snapshot), rows)

    def used_with_defaults(self, snapshot: Snapshot, rows: NodeRows) -> IntArray:
        """Return [resource, row]: `used`, with a default for containers that request no cpu or memory."""
        used = snapshot.pod_table.non_zero_requested
        if EPHEMERAL_STORAGE in self.names:
            used = np.concatenate((used, snapshot.used[len(used) :]))
        return self._columns(used, partial(scored_use, snapshot), rows)

    def _columns(self, base: IntArray, scalar: Callable[[str], IntArray], rows: NodeRows) -> IntArray:
        if self.base is not None:
            return base[self.base, rows]
        columns = [base[BASE_RESOURCES.index(name)] if name in BASE_RESOURCES else scalar(name) for name in self.names]
        return np.array([column[rows] for column in columns], np.int64).reshape(len(columns), len(rows))


def fit_scorer(context: SchedulingContext) -> Scorer:
    """Return the scorer of the profile's scoring strategy (NodeResourcesFitArgs.scoringStrategy): 0-100."""
    # Quirk: this score reads non-zero requests and ignores pod-level requests and resizes (docs/parity.md); balanced
    # allocation does the opposite.
    strategy = context.profile.fit_strategy
    requests = [fit_scoring_request(context.pod, name, context.features) for name, _ in strategy.resources]
    resources = _ScoredResources.of(strategy.resources, requests)

    def scores(snapshot: Snapshot, rows: NodeRows) -> IntArray:
        # score = sum(weight_r * score_r) / sum(weight_r), over the resources r that the node has (capacity > 0).
        # RequestedToCapacityRatio also leaves out resources with score_r = 0, and rounds half up instead of truncating.
        capacity, used = resources.capacity(snapshot, rows), resources.used_with_defaults(snapshot, rows)
        of_resource = _resource_scores(strategy, capacity, used + resources.requested)
        counted = capacity > 0
        if strategy.type == "RequestedToCapacityRatio":
            counted &= of_resource > 0
        weights = counted * resources.weights
        total: IntArray = (weights * of_resource).sum(axis=0)
        divisor: IntArray = np.maximum(weights.sum(axis=0), 1)
        if strategy.type == "RequestedToCapacityRatio":
            return np.floor(total / divisor + 0.5).astype(np.int64)
        return total // divisor

    return scores


def _resource_scores(strategy: ScoringStrategy, capacity: IntArray, requested: IntArray) -> IntArray:
    """Return [resource, row]: 0-100; `requested` includes the incoming pod's request."""
    capacity = np.maximum(capacity, 1)
    if strategy.type == "LeastAllocated":
        # score = (capacity - requested) * 100 / capacity; 0 if requested > capacity
        left: IntArray = np.maximum(capacity - requested, 0)
        return left * MAX_NODE_SCORE // capacity
    if strategy.type == "MostAllocated":
        # score = min(requested, capacity) * 100 / capacity
        taken: IntArray = np.minimum(requested, capacity)
        return taken * MAX_NODE_SCORE // capacity
    # RequestedToCapacityRatio: score = shape(utilization), utilization = requested * 100 / capacity, at most 100
    return interpolate(strategy.shape, np.where(requested > capacity, 100, requested * 100 // capacity))


def fit_score(context: SchedulingContext, rows: NodeRows) -> IntArray:
    """Return [row]: 0-100, see `fit_scorer`."""
    return fit_scorer(context)(context.snapshot, rows)


def balanced_scorer(context: SchedulingContext) -> Scorer | None:
    """Return the scorer: 50-100, 75 if the pod does not change the balance; None (Skip) if it requests no resource."""
    names, features = context.profile.balanced_resources, context.features
    requests = [balanced_scoring_request(context.pod, name, features) for name in names]
    if features.balanced_allocation_skips_best_effort and not any(requests):
        return None
    resources = _ScoredResources.of([(name, 1) for name in names], requests)

    def scores(snapshot: Snapshot, rows: NodeRows) -> IntArray:
        if not resources.names:  # up to v1.32, a best-effort pod and only extended resources to score: balanced
            return np.full(len(rows), MAX_NODE_SCORE, np.int64)
        capacity, before = resources.capacity(snapshot, rows), resources.used(snapshot, rows)
        after = _balance(before + resources.requested, capacity)
        if not features.balanced_allocation_scores_change:
            return after
        # score = 50 + (50 + balance(with the pod) - balance(without it)) / 2
        half = MAX_NODE_SCORE // 2
        return half + (half + after - _balance(before, capacity)) // 2

    return scores


def balanced_score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """Return [row]: 50-100, see `balanced_scorer`."""
    scorer = balanced_scorer(context)
    return None if scorer is None else scorer(context.snapshot, rows)


def _balance(used: IntArray, capacity: IntArray) -> IntArray:
    """Return [row]: 0-100; 100 where all resources that the node has (capacity > 0) are used to the same fraction.

    `used`, `capacity`: [resource, row].
    """
    # fraction_r = min(used_r / capacity_r, 1), for the n resources that the node has
    # std        = sqrt(sum((fraction_r - mean)^2) / n) if n > 2;  |fraction_1 - fraction_2| / 2 if n = 2;  0 if n < 2
    # balance    = (1 - std) * 100, truncated
    has = capacity > 0
    fractions = np.minimum(used / np.maximum(capacity, 1), 1.0)
    count = has.sum(axis=0)
    highest = np.where(has, fractions, -np.inf).max(axis=0)
    lowest = np.where(has, fractions, np.inf).min(axis=0)
    std = np.where(count == 2, (highest - lowest) / 2, 0.0)
    if len(has) > 2:
        # Sums run resource by resource, as upstream's do: floating-point results depend on the order.
        mean = sum(np.where(has, fractions, 0.0), np.zeros(len(count))) / np.maximum(count, 1)
        squares = sum(np.where(has, (fractions - mean) ** 2, 0.0), np.zeros(len(count)))
        std = np.where(count > 2, np.sqrt(squares / np.maximum(count, 1)), std)
    return ((1.0 - std) * MAX_NODE_SCORE).astype(np.int64)
