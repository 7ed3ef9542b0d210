"""Clocks that stand still until a test moves them."""

import threading


class Clock:
    """A monotonic clock, in seconds: time passes when a test adds to `now`, and during waits."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.waits: list[float] = []
        """Seconds of each wait so far."""

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        """Stand in for time.sleep."""
        self.waits.append(seconds)
        self.now += seconds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Stand in for threading.Event.wait: the seconds pass, whether or not the event is set."""
        self.pause(seconds)
        return event.is_set()
