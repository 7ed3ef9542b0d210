"""Control the garbage collector, so that no collection visits all objects of a large cluster.

Rule: objects are frozen only right after a collection, because frozen garbage is never freed.
"""

import contextlib
import gc
from collections.abc import Awaitable, Callable, Iterator, Sequence

from extender.cluster.watch.state import Phase, ReflectorState

INTERVAL_SECONDS = 10.0  # Seconds between two garbage collections while no kind is being listed
INTERVAL_WHILE_LISTING_SECONDS = 0.5  # Seconds between two garbage collections while a kind is being listed


async def collect_periodically(states: Sequence[ReflectorState], sleep: Callable[[float], Awaitable[None]]) -> None:
    """Collect cycles among objects created since the last collection, and freeze the survivors."""
    # A collection over the whole cache, or after a large list, would block the event loop for seconds. Therefore
    # automatic collection is off, survivors are frozen (gc.freeze), and collections are frequent while kinds are
    # listed: each then visits few objects.
    relists, is_listing, left = 0, False, INTERVAL_SECONDS
    while True:
        await sleep(INTERVAL_WHILE_LISTING_SECONDS)
        left -= INTERVAL_WHILE_LISTING_SECONDS
        before = relists, is_listing
        relists, is_listing = sum(one.relists for one in states), any(one.phase is Phase.LISTING for one in states)
        if left <= 0 or is_listing or before != (relists, is_listing):
            gc.collect()
            gc.freeze()
            left = INTERVAL_SECONDS


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Disable automatic collection in the whole process while objects are loaded."""
    # Each collection would visit all objects loaded so far and hold the interpreter lock for up to a second.
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
