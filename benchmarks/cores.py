"""Which core is measured on: the measuring thread has one to itself, the services that it calls have the others.

Where there is one core only, or no way to choose, nothing is pinned.
"""

import contextlib
import os
from collections.abc import Collection, Iterator

ALLOWED: tuple[int, ...] = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
"""Before anything was pinned."""

MEASURING = ALLOWED[-1:]
OTHERS = ALLOWED[:-1] or ALLOWED


def pin() -> None:
    """Keep this thread, and those that it starts, on the core that is measured on."""
    _stay_on(MEASURING)


@contextlib.contextmanager
def on(cores: tuple[int, ...]) -> Iterator[None]:
    """Processes that are started meanwhile run on these cores."""
    before = os.sched_getaffinity(0) if ALLOWED else set()
    _stay_on(cores)
    try:
        yield
    finally:
        _stay_on(before)


def in_words() -> str:
    if len(ALLOWED) < 2:
        return "not pinned"
    others = ", ".join(map(str, OTHERS))
    return f"the measuring thread on core {MEASURING[0]}; services on {others}"


def _stay_on(cores: Collection[int]) -> None:
    if cores:
        os.sched_setaffinity(0, cores)
