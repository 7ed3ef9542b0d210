"""Measure the CPU time of filters of a pod with a claim on nodes with devices, in this process."""

from collections.abc import Iterator

from benchmarks.devices import CLAIM, PER_NODE
from benchmarks.measure import Bound, Row, in_turns, nothing
from benchmarks.works.devices import PREPARED, Devices, filtering
from benchmarks.world import World

GROUP = "targets"
ROUNDS = 51
ROUNDS_FIRST = 7

BOUNDS = {
    "first": (Bound("median", 300),),
    "repeated": (Bound("median", 3),),
    "after a claim changed": (),
}
"""When the filter runs -> limits in milliseconds."""


def rows(world: World) -> Iterator[Row]:
    of = Devices(world)
    plain = filtering(of, nothing)
    for when, bounds in BOUNDS.items():
        rounds = ROUNDS_FIRST if when == "first" else ROUNDS
        own, others = in_turns([filtering(of, PREPARED[when](of), CLAIM), plain], rounds)
        name = f"filter of {world.plan.nodes:,} nodes with {PER_NODE} devices in the engine, one claim, {when}"
        yield Row(GROUP, name, own, "the same pod without the claim", others, bounds=bounds)
