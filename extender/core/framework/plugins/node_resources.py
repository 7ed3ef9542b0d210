"""NodeResourcesFit and NodeResourcesBalancedAllocation: does it fit, how full and how even does it leave the node?

Mirrors pkg/scheduler/framework/plugins/noderesources (v1.36).
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from extender.core.framework.constraint import (
    CodeArray,
    ColumnwiseConstraint,
    EvictablePods,
    NodeRows,
    SchedulingContext,
)
from extender.core.framework.plugins.normalize import MAX_NODE_SCORE
from extender.core.framework.status import Code
from extender.core.profile import Profile, ScoringStrategy
from extender.core.snapshot.arrays import BASE_RESOURCES, NEVER, BoolArray, IntArray, clamped
from extender.core.snapshot.device_classes import delegated_to_dra
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.requests import incoming_requests, is_extended, is_scalar, running_usage, scoring_request

FIT = "NodeResourcesFit"
BALANCED = "NodeResourcesBalancedAllocation"

_PODS = BASE_RESOURCES.index("pods")
_UNLIMITED = NEVER
_MOST_BITS = 32


# --- filter ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResourceConstraint(ColumnwiseConstraint):
    """BASE_RESOURCES up to the last one asked for, then the extended resources asked for."""

    names: tuple[str, ...]
    """[column]."""
    too_small: BoolArray
    """[node]: even empty, the node lacks some requested resource."""

    def codes(self, headroom: IntArray) -> CodeArray:
        rejected = np.where(self.too_small, np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE), np.uint8(Code.UNSCHEDULABLE))
        return np.where(self.fits(headroom), np.uint8(Code.SUCCESS), rejected)

    def kinds(self, headroom: IntArray, rows: NodeRows) -> IntArray:
        """Which columns lack room, as bits if these are few."""
        short = headroom[:, rows] < 0
        if len(short) > _MOST_BITS:
            return np.unique(short, axis=1, return_inverse=True)[1].reshape(-1)
        bits: IntArray = np.einsum("cn,c->n", short, 1 << np.arange(len(short), dtype=np.int64))
        return bits

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        short = [self.names[column] for column in np.flatnonzero(headroom[:, row] < 0)]
        pods = ("Too many pods",) if "pods" in short else ()
        return pods + tuple(f"Insufficient {name}" for name in short if name != "pods")

    def remove_pods(self, evictable: EvictablePods) -> IntArray:
        if evictable.freed is None:
            return super().remove_pods(evictable)
        base = len([name for name in self.names if name in BASE_RESOURCES])
        freed = evictable.freed[:base]
        if base < len(self.names):
            others = replace(self.ranked_demand, columns=self.ranked_demand.columns[base:])
            freed = np.concatenate((freed, others.sums(evictable.mask)))
        return self.headroom + freed

    def at(self, rows: NodeRows) -> Self:
        return replace(super().at(rows), too_small=self.too_small[rows])


def filter(context: SchedulingContext) -> tuple[ResourceConstraint, ...]:
    """Always one constraint: the number of pods is limited everywhere. Trailing columns that are not asked for are
    left out."""
    snapshot = context.snapshot
    requests = incoming_requests(context.pod) | {"pods": 1}
    extended = _checked_extended(requests, context.profile)
    base = max(BASE_RESOURCES.index(name) for name in requests if name in BASE_RESOURCES) + 1
    capacity, use = snapshot.allocatable[:base], snapshot.used[:base]
    if extended:
        capacity = np.vstack((capacity, *(_extended_capacity(snapshot, name) for name in extended)))
        use = np.vstack((use, *(snapshot.scalar_used(name) for name in extended)))
    names = BASE_RESOURCES[:base] + extended
    takes = RankedDemand(context.layout, (*range(base), *(snapshot.scalar_demand(name) for name in extended)))
    asked = np.array([clamped(requests.get(name, 0)) for name in names], np.int64)[:, np.newaxis]
    headroom = np.where(asked > 0, capacity - asked, _UNLIMITED) - use
    unfit = asked > capacity
    unfit[_PODS] = False  # "Too many pods" may always be helped
    return (ResourceConstraint(FIT, headroom, takes, _nominated(context, names), names, np.logical_or.reduce(unfit)),)


def _checked_extended(requests: dict[str, int], profile: Profile) -> tuple[str, ...]:
    """Extended resources that are asked for and not ignored by the profile."""
    return tuple(
        name
        for name in sorted(requests)
        if name not in BASE_RESOURCES and requests[name] > 0 and not _is_ignored(name, profile)
    )


def _extended_capacity(snapshot: Snapshot, resource: str) -> IntArray:
    """[node]; no limit where a DeviceClass backs the resource instead of a device plugin: DynamicResources decides."""
    capacity, left = snapshot.scalar_allocatable(resource), delegated_to_dra(snapshot, resource)
    return capacity if left is None else np.where(left, _UNLIMITED, capacity)


def _is_ignored(name: str, profile: Profile) -> bool:
    group = name.split("/")[0]
    return is_extended(name) and (name in profile.ignored_resources or group in profile.ignored_resource_groups)


def _nominated(context: SchedulingContext, names: tuple[str, ...]) -> IntArray | None:
    def demand_of(pod: Pod, _node: int) -> list[int]:
        requests = running_usage(pod).requests
        return [1 if name == "pods" else clamped(requests.get(name, 0)) for name in names]

    return context.nominated_demand(len(names), demand_of)


# --- scores -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Load:
    """Of one resource per node, with and without the incoming pod; nodes that lack it are left out of scores."""

    weight: int
    capacity: IntArray
    before: IntArray
    after: IntArray


def _loads(
    context: SchedulingContext, rows: NodeRows, resources: tuple[tuple[str, int], ...], *, balanced: bool
) -> list[_Load]:
    """Quirk: the fit score reads non-zero requests and neither pod-level requests nor resizes (see docs/parity.md)."""
    snapshot, loads = context.snapshot, []
    for place, (name, weight) in enumerate(resources):
        # Upstream has summed the requests once in PreFilter and once per resource before this one.
        asked = scoring_request(
            context.pod,
            name,
            non_zero=not balanced,
            pod_level=balanced,
            use_status=balanced,
            calls_before=1 + place,
        )
        if asked == 0 and is_scalar(name):
            continue
        capacity, before = _capacity_and_use(snapshot, name, non_zero=not balanced)
        loads.append(_Load(weight, capacity[rows], before[rows], before[rows] + clamped(asked)))
    return loads


def _capacity_and_use(snapshot: Snapshot, name: str, *, non_zero: bool) -> tuple[IntArray, IntArray]:
    if name not in ("cpu", "memory", "ephemeral-storage"):
        return snapshot.scalar_allocatable(name), snapshot.scalar_used(name)
    column = BASE_RESOURCES.index(name)
    used = snapshot.pod_table.non_zero_requested if non_zero and name != "ephemeral-storage" else snapshot.used
    return snapshot.allocatable[column], used[column]


def fit_score(context: SchedulingContext, rows: NodeRows) -> IntArray:
    """[row] 0-100 by the profile's scoring strategy."""
    strategy = context.profile.fit_strategy
    loads = _loads(context, rows, strategy.resources, balanced=False)
    total = np.zeros(len(rows), np.int64)
    weights = np.zeros(len(rows), np.int64)
    for load in loads:
        scores = _resource_score(strategy, load)
        counted = load.capacity > 0
        if strategy.type == "RequestedToCapacityRatio":
            counted &= scores > 0
        total += np.where(counted, scores * load.weight, 0)
        weights += np.where(counted, load.weight, 0)
    divisor = np.maximum(weights, 1)
    if strategy.type == "RequestedToCapacityRatio":
        return np.floor(total / divisor + 0.5).astype(np.int64)
    return total // divisor


def _resource_score(strategy: ScoringStrategy, load: _Load) -> IntArray:
    capacity = np.maximum(load.capacity, 1)
    over = load.after > capacity
    if strategy.type == "LeastAllocated":
        return np.where(over, 0, (capacity - load.after) * MAX_NODE_SCORE // capacity)
    if strategy.type == "MostAllocated":
        return np.minimum(load.after, capacity) * MAX_NODE_SCORE // capacity
    return _broken_line(strategy.shape, np.where(over, 100, load.after * 100 // capacity))


def _broken_line(shape: tuple[tuple[int, int], ...], utilization: IntArray) -> IntArray:
    """The line through the shape's points, flat outside (plugins/helper/shape_score.go); scores 0-10 become 0-100."""
    points = [(x, y * 10) for x, y in shape]
    scores = np.full(utilization.shape, points[-1][1], np.int64)
    for (x0, y0), (x1, y1) in reversed(list(pairwise(points))):
        rise = (y1 - y0) * (utilization - x0)
        slope = np.sign(rise) * (np.abs(rise) // (x1 - x0))  # Go divides towards zero
        scores = np.where(utilization <= x1, y0 + slope, scores)
    return np.where(utilization <= points[0][0], points[0][1], scores)


def balanced_score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """[row] 50-100: 75 leaves the balance as it is; None (skipped) for a pod that requests none of the resources."""
    names = context.profile.balanced_resources
    asked = (scoring_request(context.pod, name, non_zero=False, pod_level=True, use_status=True) for name in names)
    if not any(asked):
        return None
    loads = _loads(context, rows, tuple((name, 1) for name in names), balanced=True)
    counted = [load.capacity > 0 for load in loads]
    after = _evenness([load.after for load in loads], loads, counted)
    before = _evenness([load.before for load in loads], loads, counted)
    half = MAX_NODE_SCORE // 2
    return half + (half + after - before) // 2


def _evenness(used: list[IntArray], loads: list[_Load], counted: list[BoolArray]) -> IntArray:
    """100 * (1 - standard deviation of the used fractions), cut to an integer."""
    size = counted[0].shape if counted else (0,)
    fractions: list[npt.NDArray[np.float64]] = [
        np.where(has, np.minimum(use / np.maximum(load.capacity, 1), 1.0), 0.0)
        for use, load, has in zip(used, loads, counted, strict=True)
    ]
    number = sum((has.astype(np.int64) for has in counted), np.zeros(size, np.int64))
    mean = sum(fractions, np.zeros(size)) / np.maximum(number, 1)
    squares = sum(
        (np.where(has, (f - mean) * (f - mean), 0.0) for f, has in zip(fractions, counted, strict=True)),
        np.zeros(size),
    )
    deviation = np.where(number > 2, np.sqrt(squares / np.maximum(number, 1)), 0.0)
    deviation = np.where(number == 2, _half_difference(fractions, counted), deviation)
    return ((1.0 - deviation) * MAX_NODE_SCORE).astype(np.int64)


def _half_difference(fractions: list[npt.NDArray[np.float64]], counted: list[BoolArray]) -> npt.NDArray[np.float64]:
    """Where exactly two resources count: half of what lies between them."""
    highest = np.max([np.where(has, f, -np.inf) for f, has in zip(fractions, counted, strict=True)], axis=0)
    lowest = np.min([np.where(has, f, np.inf) for f, has in zip(fractions, counted, strict=True)], axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs((highest - lowest) / 2))
