"""Pin the measuring thread to one core and the services that it calls to the others.

On a single core, or without CPU affinity support, nothing is pinned.
"""

import contextlib
import os
from collections.abc import Collection, Iterator

ALLOWED: tuple[int, ...] = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
"""Cores allowed before anything was pinned."""

MEASURING = ALLOWED[-1:]
OTHERS = ALLOWED[:-1] or ALLOWED


def pin() -> None:
    """Pin this thread, and those that it starts, to the measuring core."""
    _stay_on(MEASURING)


@contextlib.contextmanager
def on(cores: tuple[int, ...]) -> Iterator[None]:
    """Run processes that are started in this context on these cores."""
    before = os.sched_getaffinity(0) if ALLOWED else set()
    _stay_on(cores)
    try:
        yield
    finally:
        _stay_on(before)


def description() -> str:
    if len(ALLOWED) < 2:
        return "not pinned"
    others = ", ".join(map(str, OTHERS))
    return f"the measuring thread on core {MEASURING[0]}; services on {others}"


def _stay_on(cores: Collection[int]) -> None:
    if cores:
        os.sched_setaffinity(0, cores)
