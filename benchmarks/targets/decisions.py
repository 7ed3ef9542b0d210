"""Measure the CPU time of filters and the exhaustive dry run in this process."""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks import calibration, kube_scheduler
from benchmarks.generate import INCOMING_PRIORITY, Plan
from benchmarks.kube_scheduler import Figure
from benchmarks.measure import Bound, Limit, Row, Work, in_turns
from benchmarks.works.decisions import CHANGED, filtering, preempting
from benchmarks.world import World

GROUP = "targets"
ROUNDS = 151
ROUNDS_UPSTREAM = 51
ROUNDS_DENSE = 41
COLUMNS = 4
"""Number of resources that the preemptor requests."""

DENSE_PODS = (110, 110)
FASTER = Limit("≥", 500)

FILTER_MS = {False: 1.5, True: 5.0}
DRY_RUN_MS = {False: 8.0, True: 25.0}
DENSE_MS = {False: 35.0, True: None}
"""Limits in milliseconds, by whether the pod has spread and anti-affinity constraints."""

UPSTREAM = (
    (False, kube_scheduler.EXHAUSTIVE, FASTER),
    (False, kube_scheduler.ANOTHER_CLUSTER, FASTER),
    (False, kube_scheduler.AS_CONFIGURED, None),
    (True, kube_scheduler.EXHAUSTIVE_MIXED, None),
)
UPSTREAM_DENSE = ((False, kube_scheduler.EXHAUSTIVE_DENSE, None),)
"""Whether the pod is mixed, the figure of the Go code, and the target."""


def rows(world: World) -> Iterator[Row]:
    yield from dry_runs(world, DRY_RUN_MS, ROUNDS)
    yield from against_upstream(world, UPSTREAM)
    if world.full:
        dense = World(Plan(world.plan.seed, world.plan.nodes, DENSE_PODS), full=True)
        yield from dry_runs(dense, DENSE_MS, ROUNDS_DENSE)
        yield from against_upstream(dense, UPSTREAM_DENSE)
    yield from filters(world)


def dry_runs(world: World, limits: Mapping[bool, float | None], rounds: int) -> Iterator[Row]:
    bare = Work(calibration.loop(ranks(world), COLUMNS, world.plan.nodes))
    for mixed, limit in limits.items():
        for when in ("", CHANGED):
            own, others = in_turns([preempting(world, mixed, bool(when)), bare], rounds)
            name = f"dry run and ranking, {world.plan.nodes:,} x {pods(world)} pods, {kind(mixed)}{when}"
            bounds = (Bound("median", limit),) if limit is not None else ()
            yield Row(GROUP, name, own, "bare numpy pass", others, bounds=bounds)


def against_upstream(world: World, figures: Sequence[tuple[bool, Figure, Limit | None]]) -> Iterator[Row]:
    """Compare both sides after a pod changed, since kube-scheduler caches nothing between pods either."""
    calibrated = Work(calibration.loop())
    for mixed, figure, limit in figures:
        own, loops = in_turns([preempting(world, mixed, changed=True), calibrated], ROUNDS_UPSTREAM)
        name = f"dry run and ranking, {world.plan.nodes:,} x {pods(world)} pods, {kind(mixed)}{CHANGED}"
        against, others = f"kube-scheduler's Go, {figure.work}", scaled(world, figure, loops)
        yield Row(GROUP, name, own, against, others, limit, faster=True)


def scaled(world: World, figure: Figure, loops: list[float]) -> list[float]:
    """Scale kube-scheduler's seconds to this machine by the calibration loop, and to this number of nodes linearly."""
    return [figure.here(loop) * world.plan.nodes / kube_scheduler.NODES for loop in loops]


def filters(world: World) -> Iterator[Row]:
    bare = Work(calibration.loop(1, COLUMNS, world.plan.nodes))
    for mixed, limit in FILTER_MS.items():
        for when in ("", CHANGED):
            own, others = in_turns([filtering(world, mixed, bool(when)), bare], ROUNDS)
            name = f"filter of {world.plan.nodes:,} nodes in the engine, {kind(mixed)}{when}"
            yield Row(GROUP, name, own, "one bare numpy comparison", others, bounds=(Bound("median", limit),))


def ranks(world: World) -> int:
    """Return the maximum number of evictable pods on a node."""
    evictable = dict.fromkeys(world.node_names, 0)
    for pod in world.objects.pods:
        evictable[pod.spec.node_name] += (pod.spec.priority or 0) < INCOMING_PRIORITY
    return max(1, *evictable.values())


def pods(world: World) -> int:
    least, most = world.plan.pods
    return (least + most) // 2


def kind(mixed: bool) -> str:
    return "spread and anti-affinity" if mixed else "resources"
