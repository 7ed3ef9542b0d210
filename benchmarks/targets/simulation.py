"""Measure the CPU time of simulations, for each scheduling cycle, against what the engine takes for the same decisions.

A simulation runs in a child process: on a large cluster, forking it is most of the time of one pod.
"""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.measure import Limit, Row, in_turns
from benchmarks.works.simulate import deciding, simulating
from benchmarks.world import World

GROUP = "targets"
ROUNDS = 15
ROUNDS_MANY = 3
PODS = 1000
"""Number of pods of the larger simulation, and nodes of its cluster."""
TIMES_ENGINE = Limit("≤", 3)


def rows(world: World) -> Iterator[Row]:
    for which, fits in (("fits", True), ("preempts", False)):
        yield simulated(world, f"one pod that {which}", 1, fits, ROUNDS)
    smaller = World(replace(world.plan, nodes=min(PODS, world.plan.nodes)))
    yield simulated(smaller, f"{PODS:,} pods that fit, each", PODS, True, ROUNDS_MANY)


def simulated(world: World, name: str, count: int, fits: bool, rounds: int) -> Row:
    own, others = in_turns([simulating(world, count, fits), deciding(world, count, fits)], rounds, warm_up=1)
    about = f"simulation of {name}, {world.plan.nodes:,} nodes, {len(world.snapshot.objects.pods):,} pods"
    return Row(GROUP, about, own, "the engine's own work", others, TIMES_ENGINE)
