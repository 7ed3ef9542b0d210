"""NodeResourcesFit and NodeResourcesBalancedAllocation: filter nodes by free resources, and score them by how full and
how evenly used the pod leaves them.

Mirrors pkg/scheduler/framework/plugins/noderesources (v1.36): fit.go, least_allocated.go, most_allocated.go,
requested_to_capacity_ratio.go, balanced_allocation.go.

Rule: a node fits if requested <= allocatable - used, for every requested resource.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from extender.core.devices.classes import delegated_to_dra
from extender.core.framework.constraint import (
    CodeArray,
    ColumnwiseConstraint,
    EvictablePods,
    NodeRows,
    SchedulingContext,
)
from extender.core.framework.plugins.normalize import MAX_NODE_SCORE, interpolate
from extender.core.framework.status import Code
from extender.core.profile import ScoringStrategy
from extender.core.snapshot.arrays import BASE_RESOURCES, NEVER, BoolArray, IntArray, clamped
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.requests import (
    PODS,
    balanced_scoring_request,
    fit_scoring_request,
    incoming_requests,
    is_scalar,
    running_usage,
)

FIT_NAME = "NodeResourcesFit"
BALANCED_ALLOCATION_NAME = "NodeResourcesBalancedAllocation"

_PODS_COLUMN = BASE_RESOURCES.index("pods")
_UNLIMITED = NEVER
"""Capacity of a resource that does not limit the node."""
_MAX_BITMASK_COLUMNS = 32
"""Maximum columns for which reason keys are bit masks, which stay below 2**32."""


# --- filter ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResourceConstraint(ColumnwiseConstraint):
    """Columns: BASE_RESOURCES up to the last requested one, then the requested extended resources.

    headroom = allocatable - requested by the incoming pod - used by running pods.
    """

    names: tuple[str, ...]
    """[column]: resource name."""
    unresolvable: BoolArray
    """[node]: True if the pod requests more of some resource than the empty node has; no eviction helps there."""
    absent: tuple[str, ...] = ()
    """Further requested resources that no node has; one column stands for all of them."""

    def codes(self, headroom: IntArray) -> CodeArray:
        rejected = np.where(
            self.unresolvable, np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE), np.uint8(Code.UNSCHEDULABLE)
        )
        return np.where(self.fits(headroom), np.uint8(Code.SUCCESS), rejected)

    def reason_keys(self, headroom: IntArray, rows: NodeRows) -> IntArray:
        """Return [row]: the set of insufficient resources, as a bit mask if there are few enough columns."""
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


def filter(context: SchedulingContext) -> tuple[ResourceConstraint, ...]:
    """Return one constraint; never none, because every node limits its number of pods.

    BASE_RESOURCES behind the last requested one are left out to save columns.
    """
    snapshot, profile = context.snapshot, context.profile
    requests = incoming_requests(context.pod, context.features) | {"pods": 1}
    scalars = (name for name in sorted(requests) if name not in BASE_RESOURCES and requests[name] > 0)
    extended, absent = _without_absent(snapshot, [name for name in scalars if not profile.ignores(name)])
    base = max(BASE_RESOURCES.index(name) for name in requests if name in BASE_RESOURCES) + 1
    capacity, use = snapshot.allocatable[:base], snapshot.used[:base]
    if extended:
        capacity = np.vstack((capacity, *(_extended_capacity(snapshot, name) for name in extended)))
        use = np.vstack((use, *(snapshot.scalar_used(name) for name in extended)))
    names = BASE_RESOURCES[:base] + extended
    demand = RankedDemand(context.layout, (*range(base), *(snapshot.scalar_demand(name) for name in extended)))
    amounts = [clamped(requests.get(name, 0)) for name in names]
    requested = np.array(amounts, np.int64)[:, np.newaxis]
    headroom = np.where(requested > 0, capacity - requested, _UNLIMITED) - use
    exceeds = requested > capacity
    # A negative capacity rejects only pods that request the resource. Quirk: "Too many pods" is never unresolvable.
    for column, amount in enumerate(amounts):
        if not amount or column == _PODS_COLUMN:
            exceeds[column] = False

    def demand_of(pod: Pod, _node: int) -> list[int]:
        usage = running_usage(pod, context.features).requests | {"pods": 1}
        return [clamped(usage.get(name, 0)) for name in names]

    nominated = context.nominated_demand(len(names), demand_of)
    if not context.features.fit_above_allocatable_is_unresolvable:
        exceeds[:] = False
    unresolvable = np.logical_or.reduce(exceeds)
    return (ResourceConstraint(FIT_NAME, headroom, demand, nominated, names, unresolvable, absent),)


def _without_absent(snapshot: Snapshot, extended: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the requested extended resources into those that need a column, and the others that no node has.

    Resources that no node has reject every node alike, whatever is evicted: a column for the first of them stands for
    all. Where a DeviceClass backs one, it rejects no node at all.
    """
    columns, absent = list[str](), list[str]()
    for name in extended:
        requests = snapshot.pod_table.scalar_requests.get(name, {}).values()
        if name in snapshot.allocatable_names or min(requests, default=0) < 0:
            columns.append(name)
        elif delegated_to_dra(snapshot, name) is None:
            absent.append(name)
    return tuple(sorted([*columns, *absent[:1]])), tuple(absent[1:])


def _extended_capacity(snapshot: Snapshot, resource: str) -> IntArray:
    """Return [node]: allocatable amount of an extended resource.

    Unlimited where a DeviceClass backs the resource instead of a device plugin: there DynamicResources decides.
    """
    capacity, delegated = snapshot.scalar_allocatable(resource), delegated_to_dra(snapshot, resource)
    return capacity if delegated is None else np.where(delegated, _UNLIMITED, capacity)


# --- scores -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Usage:
    """Use of one resource on each node; nodes without the resource (capacity 0) do not score it."""

    weight: int
    capacity: IntArray
    """[row]: allocatable amount."""
    before: IntArray
    """[row]: amount requested by the running pods."""
    after: IntArray
    """[row]: `before` plus the incoming pod's request."""


def _usages(
    context: SchedulingContext, rows: NodeRows, resources: tuple[tuple[str, int], ...], *, balanced: bool
) -> list[_Usage]:
    """Return the usage of every scored resource; extended resources that the pod does not request are left out.

    Quirk: the fit score reads non-zero requests and ignores pod-level requests and resizes (see docs/parity.md);
    balanced allocation does the opposite.
    """
    snapshot, usages = context.snapshot, []
    request_of = balanced_scoring_request if balanced else fit_scoring_request
    for name, weight in resources:
        requested = request_of(context.pod, name, context.features)
        if (requested == 0 and is_scalar(name)) or name == PODS:  # upstream finds no capacity under this name
            continue
        if name in ("cpu", "memory", "ephemeral-storage"):
            column = BASE_RESOURCES.index(name)
            # With defaults for pods without a request of cpu or memory.
            used = snapshot.used if balanced or name == "ephemeral-storage" else snapshot.pod_table.non_zero_requested
            capacity, before = snapshot.allocatable[column], used[column]
        else:
            capacity, before = snapshot.scalar_allocatable(name), snapshot.scalar_used(name)
        usages.append(_Usage(weight, capacity[rows], before[rows], before[rows] + clamped(requested)))
    return usages


def fit_score(context: SchedulingContext, rows: NodeRows) -> IntArray:
    """Return [row]: 0-100 by the profile's scoring strategy (NodeResourcesFitArgs.scoringStrategy)."""
    # score = sum(weight_r * score_r) / sum(weight_r), over the resources r that the node has (capacity > 0).
    # RequestedToCapacityRatio also leaves out resources with score_r = 0, and rounds half up instead of truncating.
    strategy = context.profile.fit_strategy
    total, weights = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for usage in _usages(context, rows, strategy.resources, balanced=False):
        scores = _resource_score(strategy, usage)
        counted = usage.capacity > 0
        if strategy.type == "RequestedToCapacityRatio":
            counted &= scores > 0
        total += np.where(counted, scores * usage.weight, 0)
        weights += np.where(counted, usage.weight, 0)
    divisor = np.maximum(weights, 1)
    if strategy.type == "RequestedToCapacityRatio":
        return np.floor(total / divisor + 0.5).astype(np.int64)
    return total // divisor


def _resource_score(strategy: ScoringStrategy, usage: _Usage) -> IntArray:
    """Return [row]: 0-100 for one resource; `requested` in the formulas includes the incoming pod."""
    capacity = np.maximum(usage.capacity, 1)
    is_over = usage.after > capacity
    if strategy.type == "LeastAllocated":
        # score = (capacity - requested) * 100 / capacity; 0 if requested > capacity
        return np.where(is_over, 0, (capacity - usage.after) * MAX_NODE_SCORE // capacity)
    if strategy.type == "MostAllocated":
        # score = min(requested, capacity) * 100 / capacity
        return np.minimum(usage.after, capacity) * MAX_NODE_SCORE // capacity
    # RequestedToCapacityRatio: score = shape(utilization), utilization = requested * 100 / capacity, at most 100
    return interpolate(strategy.shape, np.where(is_over, 100, usage.after * 100 // capacity))


def balanced_score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """Return [row]: 50-100, 75 if the pod does not change the balance; None (Skip) if it requests no such resource."""
    names, features = context.profile.balanced_resources, context.features
    requested = (balanced_scoring_request(context.pod, name, features) for name in names)
    if features.balanced_allocation_skips_best_effort and not any(requested):
        return None
    usages = _usages(context, rows, tuple((name, 1) for name in names), balanced=True)
    if not usages:  # a best-effort pod up to v1.32, and extended resources only: no resource is out of balance
        return np.full(len(rows), MAX_NODE_SCORE, np.int64)
    counted = [usage.capacity > 0 for usage in usages]
    after = _balance([usage.after for usage in usages], usages, counted)
    if not features.balanced_allocation_scores_change:
        return after
    # score = 50 + (50 + balance(with the pod) - balance(without it)) / 2
    before = _balance([usage.before for usage in usages], usages, counted)
    half = MAX_NODE_SCORE // 2
    return half + (half + after - before) // 2


def _balance(used: list[IntArray], usages: list[_Usage], counted: list[BoolArray]) -> IntArray:
    """Return [row]: 0-100; 100 where all counted resources are used to the same fraction.

    `counted`: per resource, [row]: True if the node has it.
    """
    # fraction_r = min(used_r / capacity_r, 1), for the n resources that the node has
    # std        = sqrt(sum((fraction_r - mean)^2) / n) if n > 2;  |fraction_1 - fraction_2| / 2 if n = 2;  0 if n < 2
    # balance    = (1 - std) * 100, truncated
    size = counted[0].shape
    fractions: list[npt.NDArray[np.float64]] = [
        np.where(has, np.minimum(use / np.maximum(usage.capacity, 1), 1.0), 0.0)
        for use, usage, has in zip(used, usages, counted, strict=True)
    ]
    count = sum((has.astype(np.int64) for has in counted), np.zeros(size, np.int64))
    mean = sum(fractions, np.zeros(size)) / np.maximum(count, 1)
    squares = sum(
        (np.where(has, (f - mean) * (f - mean), 0.0) for f, has in zip(fractions, counted, strict=True)), np.zeros(size)
    )
    std = np.where(count > 2, np.sqrt(squares / np.maximum(count, 1)), 0.0)
    std = np.where(count == 2, _std_of_two(fractions, counted), std)
    return ((1.0 - std) * MAX_NODE_SCORE).astype(np.int64)


def _std_of_two(fractions: list[npt.NDArray[np.float64]], counted: list[BoolArray]) -> npt.NDArray[np.float64]:
    """Return [row]: |fraction_1 - fraction_2| / 2; meaningful only where exactly two resources count."""
    highest = np.max([np.where(has, f, -np.inf) for f, has in zip(fractions, counted, strict=True)], axis=0)
    lowest = np.min([np.where(has, f, np.inf) for f, has in zip(fractions, counted, strict=True)], axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs((highest - lowest) / 2))
