"""Check each promised piece of work against its target, with a baseline that runs in turns with it.

Rule: a target is a bound on the median (or the 99th percentile) of one core's time on an idle machine; the ratio says
how far it is from the least that the work could take.
"""

from collections.abc import Iterator

from benchmarks.measure import Row
from benchmarks.targets import calls, changes, decisions, devices, nodes, start, sync
from benchmarks.world import World

GROUP = "targets"


def rows(world: World) -> Iterator[Row]:
    for part in (decisions, changes, devices, calls, nodes, sync, start):
        yield from part.rows(world)
