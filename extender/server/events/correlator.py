"""Which notices become Events: repetitions are counted in one Event, and what exceeds the rates is left out.

The counterpart of client-go's EventCorrelator and series: its burst and rate per object, its end of a series, and the
size of its cache. The rate of all objects together is that of this process.

Rule: no I/O, and memory is bounded whatever happens.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

from extender.utilities.lru import LRU

MAX_REMEMBERED = 4096
"""Series, and objects with a rate of their own, that are remembered; the least recently used ones are forgotten."""

EVENTS_PER_SECOND, EVENT_BURST = 5.0, 100
"""Rate of the requests to the API server, and how many may be made at once."""

OBJECT_EVENTS_PER_SECOND, OBJECT_BURST = 1 / 300, 25
"""Rate of the Events about one pod."""

SERIES_SECONDS = 360.0
"""Time without a repetition after which the next one is an Event of its own."""

PATCH_INTERVAL_SECONDS = 60.0
"""Minimum time between two requests about one series: a repetition within it is counted by the next one after it."""

Verdict = Literal["create", "patch", "count", "limit"]
"""A new Event; the count of an Event is written; it is only counted; left out, because a rate is exceeded."""


@dataclass(slots=True)
class Repetitions:
    """An Event and its repetitions."""

    name: str = ""
    """Name of the Event; empty until it is created."""
    count: int = 1
    seen_at: float = 0.0
    written_at: float = 0.0


class TokenBucket:
    """Lets `rate` events per second through, and up to `burst` at once."""

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
    """Counts repetitions and keeps to the rates; one thread uses it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all = TokenBucket(EVENTS_PER_SECOND, EVENT_BURST, clock())
        self._objects: LRU[str, TokenBucket] = LRU(MAX_REMEMBERED)
        self._series: LRU[Hashable, Repetitions] = LRU(MAX_REMEMBERED)

    def correlate(self, uid: str, key: Hashable) -> tuple[Verdict, Repetitions]:
        """Return what to do with a notice about the pod `uid`, and its series; `key`: what its repetitions share."""
        now, series = self._clock(), self._series.use(key)
        if series is not None and now - series.seen_at < SERIES_SECONDS:
            series.count += 1
            series.seen_at = now
            if now - series.written_at < PATCH_INTERVAL_SECONDS or not self._all.take(now):
                return "count", series
            series.written_at = now
            return "patch", series
        if not self._bucket(uid, now).take(now) or not self._all.take(now):
            return "limit", Repetitions()
        series = Repetitions(seen_at=now, written_at=now)
        self._series.put(key, series)
        return "create", series

    def forget(self, key: Hashable) -> None:
        """Forget a series whose Event does not exist: the next repetition is a new one."""
        self._series.pop(key, None)

    def _bucket(self, uid: str, now: float) -> TokenBucket:
        bucket = self._objects.use(uid)
        if bucket is None:
            bucket = TokenBucket(OBJECT_EVENTS_PER_SECOND, OBJECT_BURST, now)
            self._objects.put(uid, bucket)
        return bucket
