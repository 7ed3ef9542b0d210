"""Write Events about answered preemptions, in a thread of its own.

Rule: `record` never blocks and never raises, so that no answer waits for an Event or fails because of one. Events that
are not written are counted by reason.
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
from extender.server.events.event import Notice, new_event
from extender.server.events.notices import AnsweredPreemption, notices
from extender.server.observability.writer_thread import WriterThread
from extender.utilities.log_throttle import ThrottledLoggers

log = logging.getLogger(__name__)

MAX_QUEUED_BYTES = 16 << 20
"""Maximum size of the queue of preemptions whose Events are still to be written."""

STOP_TIMEOUT_SECONDS = 2.0
"""Time limit for writing the queued Events at shutdown."""

REQUEST_TIMEOUT: Timeout = (2.0, 5.0)

MAX_TRIES = 3
"""Maximum number of requests for one Event, while the API server does not answer or is overloaded."""

RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 10.0
"""Minimum and maximum pause before a retry. A Retry-After header is clamped to them; without it the minimum counts."""

NO_RESPONSE = 0
"""Code of an error without a complete response of the API server."""

LABELS = {
    "created": "written",
    "repeated": "written",
    "rateLimited": "dropped",
    "queueFull": "dropped",
    "failed": "failed",
}
"""Result of a notice, or of a preemption that finds the queue full -> label value of extender_events_total. A
repetition counts as written: it is in the count of an Event."""

PERMISSION = "the permission to create and patch events of events.k8s.io (events.enabled, components/events)"


class EventApi(Protocol):
    """The requests that Events need, which raise ApiError or ApiUnreachable; ApiServer implements them."""

    def post(self, path: str, body: bytes, *, timeout: Timeout) -> bytes: ...

    def patch(self, path: str, body: bytes, *, timeout: Timeout) -> bytes: ...


class EventRecorder:
    """Writes Events; off until `start`. Only the thread that decides calls `record`."""

    def __init__(
        self,
        api: EventApi,
        *,
        names_across_namespaces: bool,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """`now`: returns nanoseconds since 1970, which are also part of the names of Events."""
        self.counts = dict.fromkeys(LABELS, 0)
        """Result -> count; each result is counted by one thread only."""
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
        if self._thread is None:
            self._thread = WriterThread("events", MAX_QUEUED_BYTES, self._write_all)
            self._thread.start()

    def stop(self) -> None:
        """Write the queued Events, for at most STOP_TIMEOUT_SECONDS, and stop the thread."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        if thread is not None and not thread.finish(STOP_TIMEOUT_SECONDS):
            log.warning("Events: shutdown timed out: dropped the Events of %d preemptions", len(thread.clear()))

    def record(self, preemption: AnsweredPreemption) -> None:
        """Queue the Events of a preemption."""
        thread = self._thread  # read once: `stop` runs on another thread
        if thread is not None and not thread.put(preemption, preemption.size):
            self.counts["queueFull"] += 1
            self._log("queue", "Events: the queue is full, dropped the Events of a preemption")

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
        """Write the Event of a notice, or its count; return the result, a key of LABELS."""
        # 1. Is it new, a repetition, or one too many?
        if not notice.is_valid:
            return "failed"
        verdict, series = self._correlator.correlate(notice.pod.metadata.uid, notice.key)
        if verdict == "limit":
            return "rateLimited"
        if verdict == "count":
            return "repeated"
        # 2. Write the count of a repetition to the Event of its series.
        if verdict == "patch":
            # A merge patch of `series`, the only field of an Event that is not immutable.
            patch = {"series": {"count": series.count, "lastObservedTime": format_time(self._now(), 6)}}
            path = f"{_path(notice)}/{quote(series.name, safe='')}"
            error = self._send(self._api.patch, path, msgspec.json.encode(patch))
            if error is None:
                return "repeated"
            if error.code != 404:
                self._log_error(error)
                return "failed"
        # 3. Create an Event, also if the Event of the series has expired (404).
        error = self._create(notice, series)
        if error is None or error.code == 409:  # it exists: the response to an earlier try was lost
            return "created"
        self._correlator.forget(notice.key)
        self._log_error(error)
        return "failed"

    def _create(self, notice: Notice, series: Repetitions) -> ApiError | None:
        now = self._now()
        self._last_number = max(now, self._last_number + 1)
        event = new_event(notice, self._last_number, now)
        series.name, series.count = event["metadata"]["name"], 1
        return self._send(self._api.post, _path(notice), msgspec.json.encode(event))

    def _send(self, request: Callable[..., bytes], path: str, body: bytes) -> ApiError | None:
        """Send a request, with retries where they may help; return the last error, or None."""
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
        if NAMESPACE_TERMINATING in error.causes:  # nothing for an operator to do
            return
        if error.code == 403:
            self._log(403, "Events: not allowed to write Events, which requires %s: %s", PERMISSION, error.message)
        elif error.code == NO_RESPONSE:
            self._log(
                error.code, "Events: failed to write an Event, no response from the API server: %s", error.message
            )
        else:
            self._log("refused", "Events: failed to write an Event, the API server answered %s", error)


def _path(notice: Notice) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(notice.pod.metadata.namespace, safe='')}/events"
