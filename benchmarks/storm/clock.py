"""Simulated time: what is due is done in order of time; of two things at one time, what was planned first."""

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Action = Callable[[], None]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When the storm begins."""

_EPOCH_NANOSECONDS = int(EPOCH.timestamp()) * 10**9


def timestamp(seconds: float) -> str:
    """As the API server writes it: whole seconds; before the storm is negative."""
    return (EPOCH + timedelta(seconds=int(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


class Clock:
    """Now, and what will be done when."""

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the storm began."""
        self._planned: list[tuple[float, int, Action]] = []
        self._count = 0

    def seconds(self) -> float:
        """Return the current time, for callers that take a clock function."""
        return self.now

    def nanoseconds(self) -> int:
        """Since 1970."""
        return _EPOCH_NANOSECONDS + round(self.now * 10**9)

    def after(self, seconds: float, action: Action) -> None:
        """Do it so much later; 0: as soon as everything else that is due now is done."""
        self._count += 1
        heapq.heappush(self._planned, (self.now + seconds, self._count, action))

    def run(self, until: float) -> None:
        """Do what is due until then."""
        while self._planned and self._planned[0][0] <= until:
            self.now, _, action = heapq.heappop(self._planned)
            action()
        self.now = until
