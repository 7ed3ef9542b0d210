"""Time the retries of the reflectors: each on its own, or all together while the API server is unreachable.

Each reflector backs off on its own, up to 30 s (client-go's reflector). During an outage, one reflector at a time
retries within PROBE_INTERVAL_SECONDS instead: its request is the probe, which needs no extra endpoint or permission.
The first request that succeeds ends the outage, and all reflectors retry at once. In client-go, reflectors share
nothing and recover one by one.

Rule: only a failed connection begins an outage, and only a successful request ends it. Until then refusals are ignored:
an API server that is starting answers 403 until it has read its roles. Afterwards, an error from the API server itself
gets its full backoff; a 429 or a Retry-After always does.
"""

import threading
from collections.abc import Callable, Iterator

from extender.cluster.apiserver.stream import ApiError, ApiUnreachable

PROBE_INTERVAL_SECONDS = 3.0  # Longest wait of the reflector that probes during an outage
RESUME_SPREAD_SECONDS = 1.0  # Seconds over which the reflectors spread their retries after an outage
GATEWAY_ERRORS = (502, 503, 504)  # Status codes of a load balancer that cannot reach an API server


class Outage:
    """An outage of one API server, shared by all reflectors of a source; every method is thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.woken: list[threading.Event] = []  # Set at the end of every outage
        self.is_under_way = False
        self._probe_at: float | None = None  # Time of the next probe; in the past if no reflector has planned one

    def begin(self) -> None:
        """Record a failed connection."""
        with self._lock:
            self.is_under_way = True

    def limit(self, seconds: float) -> float:
        """Return the seconds to wait during an outage: fewer if the caller becomes the reflector that probes."""
        with self._lock:
            now = self._clock()
            if seconds > 0 and (self._probe_at is None or self._probe_at <= now):
                seconds = min(seconds, PROBE_INTERVAL_SECONDS)
                self._probe_at = now + seconds
            return seconds

    def end(self) -> None:
        """Record a successful request; if an outage is under way, wake all reflectors."""
        with self._lock:
            for woken in self.woken if self.is_under_way else ():
                woken.set()
            # After the events are set, so that `RetryTimer.is_outage`, which takes no lock, sees one or the other.
            self.is_under_way, self._probe_at = False, None


class RetryTimer:
    """The backoff and the waits of one reflector."""

    def __init__(
        self,
        outage: Outage,
        new_backoff: Callable[[], Iterator[float]],
        wait: Callable[[threading.Event, float], object],
        jitter: Callable[[], float],
    ) -> None:
        self.stopped = threading.Event()
        self.jitter = jitter
        self._outage = outage
        self._new_backoff = new_backoff
        self._wait = wait
        self._backoff = new_backoff()
        self._relist_backoff = new_backoff()  # After 410 Gone; a watch that advanced without lasting does not reset it
        self._woken = threading.Event()
        self._has_succeeded = self._waits_for_end = self._is_unreachable = self._was_unreachable = False
        outage.woken.append(self._woken)

    @property
    def is_outage(self) -> bool:
        """Whether this round is part of an outage: one is under way, or ended after the round began."""
        return not self._has_succeeded and (self._outage.is_under_way or self._woken.is_set())

    def stop(self) -> None:
        """End the current wait; later waits return at once."""
        self.stopped.set()
        self._woken.set()

    def begin(self) -> None:
        """Begin a round of requests. If an outage ends from now on, the wait after the round is cut short."""
        self._was_unreachable, self._is_unreachable = self._is_unreachable, False
        self._waits_for_end = self._has_succeeded = False
        self._woken.clear()

    def succeed(self) -> None:
        """Record a successful request of this round."""
        self._has_succeeded = True
        self._outage.end()

    def reset(self, has_lasted: bool = False) -> None:
        """Begin a new backoff, with an immediate retry; after a watch that lasted, also for relists."""
        self._backoff = self._new_backoff()
        if has_lasted:
            self._relist_backoff = self._new_backoff()

    def delay(self, error: Exception | None = None, is_expired: bool = False) -> float:
        """Return the seconds to wait after a failed round; `is_expired`: it ended with 410 Gone."""
        asks_to_wait = isinstance(error, ApiError) and (error.code == 429 or error.retry_after is not None)
        may_join = not self._has_succeeded and not asks_to_wait
        self._is_unreachable = may_join and _is_unreachable(error)
        if self._is_unreachable:
            self._outage.begin()
        self._waits_for_end = may_join and self.is_outage
        if self._was_unreachable and not self._is_unreachable:
            self._begin_recovery()
        seconds = next(self._relist_backoff if is_expired else self._backoff)
        return self._outage.limit(seconds) if self._waits_for_end else seconds

    def sleep(self, seconds: float) -> None:
        """Wait `seconds`, or less if `stop` is called or the outage ends."""
        if not self._waits_for_end:
            self._wait(self.stopped, seconds)
            return
        self._wait(self._woken, seconds)
        if self._woken.is_set() and not self.stopped.is_set():
            self._begin_recovery()
            self._wait(self.stopped, self.jitter() * RESUME_SPREAD_SECONDS)

    def _begin_recovery(self) -> None:
        self.reset()
        next(self._backoff)  # skip the immediate retry: an API server that is starting refuses requests at first


def _is_unreachable(error: Exception | None) -> bool:
    if isinstance(error, ApiError):
        return error.code in GATEWAY_ERRORS
    return isinstance(error, ApiUnreachable)
