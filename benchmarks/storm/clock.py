"""Simulated time: actions run in order of time, and in order of planning where times are equal."""

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Action = Callable[[], None]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""Start of the storm."""

_EPOCH_NANOSECONDS = int(EPOCH.timestamp()) * 10**9


def timestamp(seconds: float) -> str:
    """Format seconds since EPOCH as the API server does, in whole seconds; negative values are before the storm."""
    return (EPOCH + timedelta(seconds=int(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


class Clock:
    """The current simulated time and the planned actions."""

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the storm began."""
        self._planned: list[tuple[float, int, Action]] = []
        self._count = 0

    def seconds(self) -> float:
        """Return the current time, for callers that take a clock function."""
        return self.now

    def nanoseconds(self) -> int:
        """Return the current time in nanoseconds since 1970."""
        return _EPOCH_NANOSECONDS + round(self.now * 10**9)

    def after(self, seconds: float, action: Action) -> None:
        """Plan an action after `seconds`; with 0 it runs after everything else that is due now."""
        self._count += 1
        heapq.heappush(self._planned, (self.now + seconds, self._count, action))

    def run(self, until: float) -> None:
        """Run all actions that are due up to `until`."""
        while self._planned and self._planned[0][0] <= until:
            self.now, _, action = heapq.heappop(self._planned)
            action()
        self.now = until
