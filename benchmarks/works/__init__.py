"""Pieces of work timed in this process: for the targets, for growth, and for comparing revisions.

Rule: each module imports one layer of the service only, so that an older revision without that layer lacks only those
works.
"""

from collections.abc import Callable

from benchmarks.measure import Work
from benchmarks.world import World

Maker = Callable[[World], Work]


class TooFewNodes(ValueError):
    """The cluster is too small for the work."""


def needing(nodes: int, maker: Maker) -> Maker:
    """Wrap a maker to raise TooFewNodes in smaller clusters, where the work would not match its name."""

    def make(world: World) -> Work:
        if world.plan.nodes < nodes:
            raise TooFewNodes(f"needs {nodes:,} nodes, there are {world.plan.nodes:,}")
        return maker(world)

    return make


MODULES = ("decisions", "changes", "calls", "devices", "simulate")
"""Submodules, each with a dictionary WORKS: name -> maker."""
