"""Pieces of work in this process whose time is taken: for the targets, for growth, and for comparing revisions.

Rule: each module here needs one layer of the service and no more, so that an older revision that lacks something lacks
only those works.
"""

from collections.abc import Callable

from benchmarks.measure import Work
from benchmarks.world import World

Maker = Callable[[World], Work]


class TooFewNodes(ValueError):
    """The cluster is too small for the work."""


def needing(nodes: int, maker: Maker) -> Maker:
    """Return the work; it raises TooFewNodes in smaller clusters, where it would not be what its name says."""

    def make(world: World) -> Work:
        if world.plan.nodes < nodes:
            raise TooFewNodes(f"needs {nodes:,} nodes, there are {world.plan.nodes:,}")
        return maker(world)

    return make


MODULES = ("decisions", "changes", "calls")
"""Each has WORKS, by name."""
