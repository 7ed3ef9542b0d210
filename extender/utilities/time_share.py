"""Limit work that may be left out to a share of the time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TimeShare:
    """A share of the time, saved up to a limit: 0.05 with a limit of 0.25 s is 50 ms of each second, 250 ms at once.

    A share of 1 is never used up.
    """

    def __init__(self, share: float, limit_seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._share, self._limit, self._clock = share, limit_seconds, clock
        self._left, self._at = limit_seconds, clock()

    def spend(self, work: Callable[[], T], otherwise: T) -> T:
        """Return what the work returns, or `otherwise` while the share is used up."""
        now = self._clock()
        self._left, self._at = min(self._limit, self._left + self._share * (now - self._at)), now
        if self._left <= 0:
            return otherwise
        try:
            return work()
        finally:
            self._left -= self._clock() - now
