"""GET /pending: the last report of the pending pods, answered at once; asking for it makes a newer one.

A report takes a scheduling cycle per template of pods. It is made on a copy of the snapshot (`SnapshotCopies`), and
only while clients ask, at most a tenth of the time.

Rule: no request waits for a report, and no decision is delayed by one.
"""

import asyncio
import time

import msgspec
from fastapi import Request, Response

from extender.core.eviction_history import EvictionHistory
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ExtenderError, NotReady
from extender.k8s.kinds import ClusterObjects
from extender.k8s.time import format_time
from extender.report.lists.pending import pending_report
from extender.report.pod_schema import PendingReport
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.snapshot_copy import SnapshotCopies
from extender.server.context import ServerContext
from extender.server.http.query import check_parameters

MIN_AGE_SECONDS = 5.0
"""Age of a report, or of a failed attempt, from which on a request makes a newer one."""

REST_PER_SECOND = 9.0
"""Seconds without a report in the making, per second that the last one took."""

MAX_REPORT_BYTES = 64 << 20
"""Size of a report that is kept: some 50,000 pods."""

MAX_MEMORY_BYTES = 512 << 20
"""Memory that the making of a report may allocate, beyond the cluster cache that it shares with the service."""


class PendingPods:
    """Makes and keeps the report; used on the event loop of the admin listener."""

    def __init__(self, server_context: ServerContext, decision_thread: DecisionThread) -> None:
        self._copies = SnapshotCopies(server_context, decision_thread)
        self._making: asyncio.Task[None] | None = None
        self._report = b""
        self._time: int | None = None
        """When the report began to be made, in nanoseconds since the Unix epoch; None without a report."""
        self._error = ""
        self._next = 0.0
        """Time of the event loop from which on a request makes another report."""

    async def show(self, request: Request) -> Response:
        """Return the last report with its age; without the report if `?known=` is its time."""
        check_parameters(request.query_params, ("known",))
        if self._making is None and asyncio.get_running_loop().time() >= self._next:
            self._making = asyncio.create_task(self._make(), name="pending-pods")
        if self._time is None and self._error:
            raise NotReady(self._error)
        at = None if self._time is None else format_time(self._time, 3)
        answer = {
            "time": at,
            "ageSeconds": None if self._time is None else round((time.time_ns() - self._time) / 1e9, 3),
            "isMaking": self._making is not None,
            "error": self._error,
            "report": None if at is None or request.query_params.get("known") == at else msgspec.Raw(self._report),
        }
        return Response(msgspec.json.encode(answer), media_type="application/json")

    async def _make(self) -> None:
        loop, now = asyncio.get_running_loop(), time.time_ns()
        begun = loop.time()
        try:
            answer = await self._copies.run(_report, MAX_MEMORY_BYTES)
            status, body = int(answer[:3]), answer[3:]
            if status != 200:
                self._error = msgspec.json.decode(body)["Error"]
            elif len(body) > MAX_REPORT_BYTES:
                self._error = f"the report has {len(body) >> 20} MiB, more than {MAX_REPORT_BYTES >> 20} MiB"
            else:
                self._report, self._time, self._error = body, now, ""
        except Exception as error:
            self._error = str(error) if isinstance(error, ExtenderError) else "the report could not be made"
        finally:
            self._next = loop.time() + max(MIN_AGE_SECONDS, REST_PER_SECOND * (loop.time() - begun))
            self._making = None


def _report(cluster: ClusterObjects | Snapshot, scheduler: KubeScheduler, history: EvictionHistory) -> PendingReport:
    snapshot = cluster if isinstance(cluster, Snapshot) else Snapshot.build(cluster, scheduler.features)
    return pending_report(snapshot, scheduler, history)
