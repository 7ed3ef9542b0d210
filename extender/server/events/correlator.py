"""Decide which notices become Events: repetitions are counted in one Event, and a rate limit drops the rest.

The counterpart of client-go's EventCorrelator and event series, with the same burst and rate per object, end of a
series and cache size. The limit of all objects together is our own.

Rule: no I/O, and memory is bounded whatever happens.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

from extender.utilities.lru import LRU

MAX_REMEMBERED = 4096
"""Maximum number of series, and of objects with their rates, in memory; the least recently used are dropped first."""

EVENTS_PER_SECOND, EVENT_BURST = 5.0, 100
"""Rate and burst of the requests to the API server."""

OBJECT_EVENTS_PER_SECOND, OBJECT_BURST = 1 / 300, 25
"""Rate and burst of the Events about one pod."""

SERIES_SECONDS = 360.0
"""Time without a repetition that ends a series: the next notice becomes a new Event."""

PATCH_INTERVAL_SECONDS = 60.0
"""Minimum time between two requests about one series: the second writes the count of all repetitions in between."""

Verdict = Literal["create", "patch", "count", "limit"]
"""Create an Event; write the count of its series; only count the repetition; drop the notice for a rate limit."""


@dataclass(slots=True)
class Repetitions:
    """A series: an Event and its repetitions."""

    name: str = ""
    """Name of the Event; empty until it is created."""
    count: int = 1
    seen_at: float = 0.0
    written_at: float = 0.0


class TokenBucket:
    """A rate limit of `rate` tokens per second, and up to `burst` at once."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = float(burst), now

    def take(self, now: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class EventCorrelator:
    """Counts repetitions and applies the rate limits. Not thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all = TokenBucket(EVENTS_PER_SECOND, EVENT_BURST, clock())
        self._objects: LRU[str, TokenBucket] = LRU(MAX_REMEMBERED)
        self._series: LRU[Hashable, Repetitions] = LRU(MAX_REMEMBERED)

    def correlate(self, uid: str, key: Hashable) -> tuple[Verdict, Repetitions]:
        """Return the verdict on a notice about the pod `uid`, and its series; repetitions have the same `key`."""
        # 1. A repetition is counted, and written now and then.
        now, series = self._clock(), self._series.use(key)
        if series is not None and now - series.seen_at < SERIES_SECONDS:
            series.count += 1
            series.seen_at = now
            if now - series.written_at < PATCH_INTERVAL_SECONDS or not self._all.take(now):
                return "count", series
            series.written_at = now
            return "patch", series
        # 2. A new notice needs a token of its pod and a token of all pods.
        bucket = self._objects.use(uid)
        if bucket is None:
            bucket = TokenBucket(OBJECT_EVENTS_PER_SECOND, OBJECT_BURST, now)
            self._objects.put(uid, bucket)
        if not bucket.take(now) or not self._all.take(now):
            return "limit", Repetitions()
        # 3. It begins a series.
        series = Repetitions(seen_at=now, written_at=now)
        self._series.put(key, series)
        return "create", series

    def forget(self, key: Hashable) -> None:
        """Forget a series whose Event could not be created: the next repetition begins a new series."""
        self._series.pop(key, None)
