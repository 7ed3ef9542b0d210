"""Rate-limited logging for events that clients, disks or API servers can cause at any rate.

Rule: at most one line per interval and kind of event; the next line counts the suppressed ones.
"""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable

LOG_INTERVAL_SECONDS = 10.0  # Minimum seconds between two lines about the same kind of event


class Throttle:
    """Lets one event per interval through."""

    def __init__(self, interval_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval_seconds
        self._clock = clock
        self._next_at: float | None = None

    def is_due(self) -> bool:
        """Return whether an interval has passed since the last event let through; if so, let this event through."""
        now = self._clock()
        if self._next_at is not None and now < self._next_at:
            return False
        self._next_at = now + self._interval
        return True


class ThrottledLoggers:
    """Rate-limited warnings about several kinds of events: the first event of each kind is always logged.

    Rule: the kinds are few and known in advance, because each keeps its state.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._throttles: defaultdict[Hashable, Throttle] = defaultdict(lambda: Throttle(LOG_INTERVAL_SECONDS, clock))
        self._suppressed: Counter[Hashable] = Counter()

    def __call__(self, kind: Hashable, message: str, *args: object) -> None:
        """Log the message, or suppress it if the last line about this kind is less than LOG_INTERVAL_SECONDS ago."""
        if not self._throttles[kind].is_due():
            self._suppressed[kind] += 1
            return
        if suppressed := self._suppressed.pop(kind, 0):
            message, args = f"{message} (%d similar messages suppressed)", (*args, suppressed)
        self._log.warning(message, *args)
