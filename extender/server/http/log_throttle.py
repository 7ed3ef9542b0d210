"""Log what others can cause as often as they like, but not as often as they like.

Rule: at most a line per interval and reason to speak; the next line says how many were left out.
"""

import logging
import time
from collections.abc import Callable

INTERVAL = 10.0
"""Seconds."""


class ThrottledLogger:
    """A logger for one kind of event."""

    def __init__(
        self, log: logging.Logger, level: int = logging.WARNING, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._level = level
        self._clock = clock
        self._next: float | None = None
        self._left_out = 0

    def __call__(self, message: str, *args: object) -> None:
        """Log the message, or count it."""
        now = self._clock()
        if self._next is not None and now < self._next:
            self._left_out += 1
            return
        if self._left_out:
            message, args = f"{message} (and %d such before, not logged)", (*args, self._left_out)
        self._log.log(self._level, message, *args)
        self._next, self._left_out = now + INTERVAL, 0
