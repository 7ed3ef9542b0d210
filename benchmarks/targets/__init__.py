"""Check each promised piece of work against its target, with a baseline that runs in turns with it.

Rule: a target is a bound on the median (or the 99th percentile) of one core's time on an idle machine; the ratio says
how far it is from the least that the work could take.
"""

from collections.abc import Callable, Iterator

from benchmarks.measure import Row
from benchmarks.targets import (
    bulk,
    calls,
    changes,
    decisions,
    devices,
    following,
    memory,
    nodes,
    pending,
    simulation,
    start,
    sync,
    why,
)
from benchmarks.world import World

GROUP = "targets"

PARTS: dict[str, Callable[[World], Iterator[Row]]] = {
    "decisions": decisions.rows,
    "changes": changes.rows,
    "bulk": bulk.rows,
    "devices": devices.rows,
    "simulation": simulation.rows,
    "calls": calls.rows,
    "following": following.rows,
    "nodes": nodes.rows,
    "sync": sync.rows,
    "why": why.rows,
    "pending": pending.rows,
    "memory": memory.rows,
    "start": start.rows,
}
"""Name -> its rows, in the order of the table."""


def rows(world: World) -> Iterator[Row]:
    for part in PARTS.values():
        yield from part(world)
