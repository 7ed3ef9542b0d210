"""Rate-limited logging for events that clients can trigger (bad requests, failed TLS handshakes).

Rule: at most one line per interval and logger; the next line says how many were suppressed.
"""

import logging
import time
from collections.abc import Callable

LOG_INTERVAL_SECONDS = 10.0
"""Minimum time between two lines of one ThrottledLogger."""


class ThrottledLogger:
    """A rate-limited logger for one kind of event."""

    def __init__(
        self, log: logging.Logger, level: int = logging.WARNING, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._level = level
        self._clock = clock
        self._next_line_at: float | None = None
        self._suppressed = 0

    def __call__(self, message: str, *args: object) -> None:
        """Log the message, or count it as suppressed if the last line is less than LOG_INTERVAL_SECONDS ago."""
        now = self._clock()
        if self._next_line_at is not None and now < self._next_line_at:
            self._suppressed += 1
            return
        if self._suppressed:
            message, args = f"{message} (%d similar messages suppressed)", (*args, self._suppressed)
        self._log.log(self._level, message, *args)
        self._next_line_at, self._suppressed = now + LOG_INTERVAL_SECONDS, 0
