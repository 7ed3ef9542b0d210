"""Write Events about answered preemptions, from a thread of its own.

Rule: `record` never blocks and never raises, so that no answer waits for an Event or fails with one. What is not
written is counted by its reason.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol
from urllib.parse import quote

import msgspec

from extender.cluster.apiserver.client import Timeout
from extender.cluster.apiserver.stream import NAMESPACE_TERMINATING, ApiError, ApiUnreachable
from extender.k8s.time import format_time
from extender.server.events.correlator import EventCorrelator, Repetitions
from extender.server.events.event import Notice, SeriesCount, SeriesPatch, new_event
from extender.server.events.notices import AnsweredPreemption, notices
from extender.server.observability.writer_thread import WriterThread
from extender.utilities.log_throttle import ThrottledLoggers

log = logging.getLogger(__name__)

MAX_QUEUED_BYTES = 16 << 20
"""Limit of the preemptions whose Events are not written yet."""

STOP_TIMEOUT_SECONDS = 2.0
"""Time limit for writing the queued Events at shutdown."""

REQUEST_TIMEOUT: Timeout = (2.0, 5.0)

MAX_TRIES = 3
"""Requests for one Event, if the API server does not answer or is overloaded."""

RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 10.0
"""Pause before the next try: what a Retry-After says, within these limits."""

NO_RESPONSE = 0
"""The code of an error where the API server sent no complete response."""

LABELS = {
    "created": "written",
    "repeated": "written",
    "rateLimited": "dropped",
    "queueFull": "dropped",
    "failed": "failed",
}
"""Result of a notice, or of a preemption for which the queue is full -> label value of extender_events_total; one that
is repeated is counted by the Event that there is already."""

PERMISSION = "the permission to create and patch events of events.k8s.io (events.enabled, components/events)"


class EventApi(Protocol):
    """The requests that Events need; ApiServer implements it. Both raise ApiError or ApiUnreachable."""

    def post(self, path: str, body: bytes, *, timeout: Timeout) -> bytes: ...

    def patch(self, path: str, body: bytes, *, timeout: Timeout) -> bytes: ...


class EventRecorder:
    """Writes Events once it is started; only the thread that decides calls `record`."""

    def __init__(
        self,
        api: EventApi,
        *,
        names_across_namespaces: bool,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """`now`: nanoseconds since 1970, which also make the names of Events."""
        self.counts = dict.fromkeys(LABELS, 0)
        """Result -> how often; each has one thread that counts it."""
        self._api, self._now = api, now
        self._names_across_namespaces = names_across_namespaces
        self._correlator = EventCorrelator(clock)
        self._log = ThrottledLoggers(log, clock)
        self._last_number = 0
        self._stopping = threading.Event()
        self._thread: WriterThread[AnsweredPreemption] | None = None

    @property
    def is_on(self) -> bool:
        return self._thread is not None

    def totals(self) -> dict[str, int]:
        """Return label value of extender_events_total -> its value."""
        totals = dict.fromkeys(LABELS.values(), 0)
        for result, label in LABELS.items():
            totals[label] += self.counts[result]
        return totals

    def start(self) -> None:
        """Start the thread."""
        if self._thread is None:
            self._thread = WriterThread("events", MAX_QUEUED_BYTES, self._write_all)
            self._thread.start()

    def stop(self) -> None:
        """Write the queued Events, for at most STOP_TIMEOUT_SECONDS, and stop the thread."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        if thread is not None and not thread.finish(STOP_TIMEOUT_SECONDS):
            log.warning("shutting down: the Events of %d preemptions are not written", len(thread.clear()))

    def record(self, preemption: AnsweredPreemption) -> None:
        """Queue the Events of a preemption."""
        thread = self._thread  # `stop` runs on another thread
        if thread is not None and not thread.put(preemption, preemption.size):
            self.counts["queueFull"] += 1
            self._log("queue", "Events: dropped those of a preemption: the queue is full")

    # --- the thread ---

    def _write_all(self, preemptions: Iterator[AnsweredPreemption]) -> None:
        for preemption in preemptions:
            try:
                for notice in notices(preemption, names_across_namespaces=self._names_across_namespaces):
                    self.counts[self._write(notice)] += 1
            except Exception:
                self.counts["failed"] += 1
                log.exception("failed to write the Events of a preemption")

    def _write(self, notice: Notice) -> str:
        """Write the Event of a notice, or count it; return the result, one of LABELS."""
        if not notice.is_valid:
            return "failed"
        verdict, series = self._correlator.correlate(notice.pod.metadata.uid, notice.key)
        if verdict == "limit":
            return "rateLimited"
        if verdict == "count":
            return "repeated"
        error = self._patch(notice, series) if verdict == "patch" else None
        if error is not None and error.code != 404:
            self._log_error(error)
            return "failed"
        if verdict == "patch" and error is None:
            return "repeated"
        error = self._create(notice, series)  # also where the Event of the series does not exist any more
        if error is None or error.code == 409:  # 409: it exists: the response to an earlier try was lost
            return "created"
        self._correlator.forget(notice.key)
        self._log_error(error)
        return "failed"

    def _create(self, notice: Notice, series: Repetitions) -> ApiError | None:
        now = self._now()
        self._last_number = max(now, self._last_number + 1)
        event = new_event(notice, self._last_number, now)
        series.name, series.count = event.metadata.name, 1
        return self._send(self._api.post, _path(notice), msgspec.json.encode(event))

    def _patch(self, notice: Notice, series: Repetitions) -> ApiError | None:
        """Write the count of the series to its Event."""
        last = SeriesCount(count=series.count, last_observed_time=format_time(self._now(), 6))
        path = f"{_path(notice)}/{quote(series.name, safe='')}"
        return self._send(self._api.patch, path, msgspec.json.encode(SeriesPatch(series=last)))

    def _send(self, request: Callable[..., bytes], path: str, body: bytes) -> ApiError | None:
        """Send a request, again where that may help; return the error with which it failed, or None."""
        error = self._try(request, path, body)
        for _ in range(MAX_TRIES - 1):
            if error is None or not (error.code in (NO_RESPONSE, 408, 429) or error.code >= 500):
                break
            wait = min(max(error.retry_after or 0.0, RETRY_SECONDS), MAX_RETRY_SECONDS)
            if self._stopping.wait(wait):
                break
            error = self._try(request, path, body)
        return error

    @staticmethod
    def _try(request: Callable[..., bytes], path: str, body: bytes) -> ApiError | None:
        try:
            request(path, body, timeout=REQUEST_TIMEOUT)
        except ApiUnreachable as error:
            return ApiError(NO_RESPONSE, "", str(error))
        except ApiError as error:
            return error
        return None

    def _log_error(self, error: ApiError) -> None:
        if NAMESPACE_TERMINATING in error.causes:
            return
        if error.code == 403:
            self._log(403, "Events: not allowed to write them, that requires %s: %s", PERMISSION, error.message)
        elif error.code == NO_RESPONSE:
            self._log(error.code, "Events: not written, no answer from the API server: %s", error.message)
        else:
            self._log("refused", "Events: not written: the API server answered %s", error)


def _path(notice: Notice) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(notice.pod.metadata.namespace, safe='')}/events"
