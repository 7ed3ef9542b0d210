"""Measure the CPU time of building the cluster cache from all objects at once, as the first sync does."""

from collections.abc import Iterator

from benchmarks import calibration
from benchmarks.growth import DecodedWorld
from benchmarks.measure import Limit, Row, Work, in_turns
from benchmarks.works.changes import making_a_snapshot
from benchmarks.world import World

GROUP = "targets"
ROUNDS = 5
PARTS = 100
WITHIN = Limit("≤", 1)
"""8 µs a pod where the calibration loop takes 0.8 ms."""


def rows(world: World) -> Iterator[Row]:
    objects = DecodedWorld(world.plan).objects
    own, others = in_turns([making_a_snapshot(objects), Work(calibration.loop(), parts=PARTS)], ROUNDS, warm_up=1)
    name = f"making a snapshot of all objects, {len(objects.pods):,} pods, for each pod"
    yield Row(GROUP, name, own, "a hundredth of the calibration loop", others, WITHIN)
