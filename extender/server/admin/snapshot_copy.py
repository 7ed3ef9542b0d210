"""Run long work on a copy of the snapshot, so that it does not delay kube-scheduler's calls.

A forked child has the copy for free (`fork_worker`). Where the system cannot fork, a thread gets the objects.
"""

import asyncio
from collections.abc import Callable

import msgspec
from fastapi import Response
from starlette.concurrency import run_in_threadpool

from extender.core.eviction_history import EvictionHistory
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ExtenderError
from extender.k8s.kinds import ClusterObjects
from extender.server.admin import fork_worker
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.fork_worker import ForkedWorker
from extender.server.admin.simulate import SIMULATION_TIMEOUT_SECONDS
from extender.server.context import ServerContext
from extender.server.http.errors import error_body

MAX_MEMORY_BYTES = 512 << 20
"""Memory that one work may allocate, beyond the cluster cache that it shares with the service."""

Work = Callable[[ClusterObjects | Snapshot, KubeScheduler, EvictionHistory], object]
"""Returns what the response shows; it may change the snapshot that it is given."""


class SnapshotCopies:
    """Runs works on copies of the snapshot, one at a time."""

    def __init__(self, server_context: ServerContext, decision_thread: DecisionThread) -> None:
        self._server_context, self._decision_thread = server_context, decision_thread
        self._running = asyncio.Lock()

    async def run(self, work: Work, remedy: str = "extender why has no time limit") -> Response:
        """Return the response; raises NotReady.

        `remedy`: what to do if it takes too long.
        """

        def start() -> ForkedWorker:
            inputs = self._server_context.simulation_inputs()
            return ForkedWorker.start(
                lambda: [answer_in_child(work, *inputs)], SIMULATION_TIMEOUT_SECONDS, MAX_MEMORY_BYTES
            )

        def frozen_inputs() -> tuple[ClusterObjects, KubeScheduler, EvictionHistory]:
            snapshot, scheduler, history = self._server_context.simulation_inputs()
            return snapshot.frozen(), scheduler, history

        async with self._running:
            if fork_worker.IS_FORK_SUPPORTED:
                worker = await self._decision_thread.run(start, ForkedWorker.abandon)
                answer = await worker.result(SIMULATION_TIMEOUT_SECONDS, remedy)
            else:
                answer = await run_in_threadpool(_answer, work, *await self._decision_thread.run(frozen_inputs))
        return Response(answer[3:], int(answer[:3]), media_type="application/json")


def own_snapshot(cluster: ClusterObjects | Snapshot, scheduler: KubeScheduler) -> Snapshot:
    """Return the snapshot that a work was given, or one of the objects."""
    return cluster if isinstance(cluster, Snapshot) else Snapshot.build(cluster, scheduler.features)


def answer_in_child(work: Work, snapshot: Snapshot, scheduler: KubeScheduler, history: EvictionHistory) -> bytes:
    """Run `work` on the child's own snapshot, detached from the observer that records changes.

    Returns the HTTP status in three digits, followed by the body.
    """
    snapshot.observer = None
    try:
        return _answer(work, snapshot, scheduler, history)
    except MemoryError:
        return b"503" + error_body(f"the answer needs more than {MAX_MEMORY_BYTES >> 20} MiB of memory")


def _answer(
    work: Work, cluster: ClusterObjects | Snapshot, scheduler: KubeScheduler, history: EvictionHistory
) -> bytes:
    try:
        return b"200" + msgspec.json.encode(work(cluster, scheduler, history))
    except ExtenderError as error:
        return b"%d%b" % (error.status, error_body(str(error)))
