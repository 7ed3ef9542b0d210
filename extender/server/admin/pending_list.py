"""GET /pending: the last report of the pending pods, answered at once; asking for it makes a newer one.

A report takes a scheduling cycle per template of pods. It is made on a copy of the snapshot (`SnapshotCopies`), and
only while clients ask, at most a tenth of the time.

Rule: no request waits for a report, and no decision is delayed by one.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import msgspec
from fastapi import Request, Response

from extender.errors import ExtenderError, NotReady
from extender.k8s.time import format_time
from extender.report.lists.page_schema import PendingList
from extender.report.lists.pending import pending_report
from extender.report.pod_schema import PendingReport
from extender.report.scheduler_report import with_source
from extender.server.admin.fork_worker import CHUNK_BYTES
from extender.server.admin.in_flight_limit import InFlightLimit, LimitedResponse
from extender.server.admin.snapshot_copy import SnapshotCopies
from extender.server.context import WorkInputs
from extender.server.http.query import check_parameters
from extender.utilities.log_throttle import ThrottledLoggers

log = logging.getLogger(__name__)

MIN_AGE_SECONDS = 5.0
"""Age of a report, or of a failed attempt, from which on a request makes a newer one."""

REST_PER_SECOND = 9.0
"""Seconds without a report in the making, per second that the last one took."""

MAX_EVALUATION_SECONDS = 20.0
"""Time after which no more pods are evaluated: simulations and other reports wait meanwhile."""

MAX_RESPONSES = 4
"""Maximum number of responses that are being sent."""

MAX_REPORT_BYTES = 64 << 20
"""Size of a report that is kept: some 50,000 pods."""


class PendingPods:
    """Makes and keeps the report; used on the event loop of the admin listener."""

    def __init__(self, copies: SnapshotCopies) -> None:
        self._copies = copies
        self._in_flight, self._warn = InFlightLimit(MAX_RESPONSES, "requests for pending pods"), ThrottledLoggers(log)
        self._making: asyncio.Task[None] | None = None
        self._report = b""
        self._time: int | None = None
        """When the report began to be made, in nanoseconds since the Unix epoch; None without a report."""
        self._error = ""
        self._error_time = 0.0
        """Time of the event loop at which the last attempt failed."""
        self._next = 0.0
        """Time of the event loop from which on a request makes another report."""

    async def show(self, request: Request) -> Response:
        """Return the last report with its age; without the report if `?known=` is its time."""
        check_parameters(request.query_params, ("known",))
        now = asyncio.get_running_loop().time()
        if self._making is None and now >= self._next:
            self._making = asyncio.create_task(self._make(), name="pending-pods")
        error_age = now - self._error_time if self._error else None
        # An old error may be over: the attempt under way will tell.
        is_old = self._making is not None and error_age is not None and error_age >= MIN_AGE_SECONDS
        if self._time is None and self._error and not is_old:
            raise NotReady(self._error)
        at = None if self._time is None else format_time(self._time, 3)
        answer = PendingList(
            time=at,
            age_seconds=None if self._time is None else round((time.time_ns() - self._time) / 1e9, 3),
            is_making=self._making is not None,
            error=self._error,
            error_age_seconds=None if error_age is None else round(error_age, 3),
            report=None,
        )
        is_known = at is None or request.query_params.get("known") == at
        return LimitedResponse(_chunks(answer, b"" if is_known else self._report), self._in_flight)

    async def _make(self) -> None:
        loop, now = asyncio.get_running_loop(), time.time_ns()
        begun = loop.time()
        try:
            found = await self._copies.run(_report)
            if found.status_code != 200:
                self._error = msgspec.json.decode(found.body)["Error"]
            elif len(found.body) > MAX_REPORT_BYTES:
                self._error = f"the report has {len(found.body) >> 20} MiB, more than {MAX_REPORT_BYTES >> 20} MiB"
            else:
                self._report, self._time, self._error = bytes(found.body), now, ""
        except ExtenderError as error:
            self._error = str(error)
        except Exception as error:
            self._error = "the report could not be made: see the log of the service"
            self._warn("failed", "the report of the pending pods could not be made: %r", error)
        finally:
            self._error_time = loop.time()
            self._next = loop.time() + max(MIN_AGE_SECONDS, REST_PER_SECOND * (loop.time() - begun))
            self._making = None


async def _chunks(answer: PendingList, report: bytes) -> AsyncIterator[bytes]:
    """Yield the answer as JSON with the report, which is not copied: it may be large, and clients slow."""
    encoded = msgspec.json.encode(answer)
    if not report:
        yield encoded
        return
    yield encoded.removesuffix(b"null}")  # the report is the last field
    for first in range(0, len(report), CHUNK_BYTES):
        yield report[first : first + CHUNK_BYTES]
    yield b"}"


def _report(inputs: WorkInputs) -> PendingReport:
    snapshot, end = inputs.snapshot(), time.monotonic() + MAX_EVALUATION_SECONDS
    found = pending_report(snapshot, inputs.scheduler, inputs.history, is_time_over=lambda: time.monotonic() >= end)
    return with_source(found, inputs.source)
