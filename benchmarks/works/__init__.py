"""Pieces of work in this process whose time is taken: for the targets, for growth, and for comparing revisions.

Rule: each module here needs one layer of the service and no more, so that an older revision that lacks something lacks
only those works.
"""

from collections.abc import Callable

from benchmarks.measure import Work
from benchmarks.world import World

Maker = Callable[[World], Work]

MODULES = ("decisions", "changes", "calls")
"""Each has WORKS, by name."""
