"""Rate-limited logging for events that clients, disks or API servers can cause at any rate.

Rule: at most one line per interval; nothing is logged twice.
"""

import logging
import time
from collections.abc import Callable, Hashable

LOG_INTERVAL_SECONDS = 10.0
"""Minimum time between two lines about the same kind of event."""


class Throttle:
    """Lets one event per interval through."""

    def __init__(self, interval_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval_seconds
        self._clock = clock
        self._next_at: float | None = None

    def is_due(self) -> bool:
        """Return whether an interval has passed since the last event that was let through; if so, this one is."""
        now = self._clock()
        if self._next_at is not None and now < self._next_at:
            return False
        self._next_at = now + self._interval
        return True


class ThrottledLogger:
    """A rate-limited logger of warnings for one kind of event; a line says how many were suppressed before it."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._throttle = Throttle(LOG_INTERVAL_SECONDS, clock)
        self._suppressed = 0

    def __call__(self, message: str, *args: object) -> None:
        """Log the message, or count it as suppressed if the last line is less than LOG_INTERVAL_SECONDS ago."""
        if not self._throttle.is_due():
            self._suppressed += 1
            return
        if self._suppressed:
            message, args = f"{message} (%d similar messages suppressed)", (*args, self._suppressed)
        self._log.warning(message, *args)
        self._suppressed = 0


class ThrottledLoggers:
    """Rate-limited warnings about several kinds of events: the first event of each kind is always logged.

    Rule: the kinds are few and known in advance, because each is remembered.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._loggers: dict[Hashable, ThrottledLogger] = {}

    def __call__(self, kind: Hashable, message: str, *args: object) -> None:
        """Log the message, or count it as suppressed if the last line about this kind is too recent."""
        if kind not in self._loggers:
            self._loggers[kind] = ThrottledLogger(self._log, self._clock)
        self._loggers[kind](message, *args)
