"""Run long work on a copy of the snapshot, so that it does not delay kube-scheduler's calls.

A forked child has the copy for free (`fork_worker`). Where the system cannot fork, a thread gets the objects.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgspec
from fastapi import Response
from starlette.concurrency import run_in_threadpool

from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ExtenderError
from extender.report.scheduler_report import with_version_hint
from extender.server.admin import fork_worker
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.fork_worker import ForkedWorker
from extender.server.admin.simulate import SIMULATION_TIMEOUT_SECONDS
from extender.server.context import ServerContext, WorkInputs
from extender.server.http.errors import error_body
from extender.whatif.simulator import SimulationProgress

MAX_MEMORY_BYTES = 512 << 20
"""Memory that one work may allocate, beyond the cluster cache that it shares with the service."""

Work = Callable[[WorkInputs], object]
"""Returns what the response shows; it may change the snapshot that it is given."""


class SnapshotCopies:
    """Runs works on copies of the snapshot, one at a time."""

    def __init__(self, server_context: ServerContext, decision_thread: DecisionThread) -> None:
        self._server_context, self._decision_thread = server_context, decision_thread
        self._running = asyncio.Lock()
        self.progress = SimulationProgress()
        """Progress of the work that runs, if it is a simulation."""

    async def run(
        self,
        work: Work,
        remedy: str = "extender why has no time limit",
        progress: SimulationProgress | None = None,
    ) -> Response:
        """Return the response; raises NotReady.

        `remedy`: what to do if it takes too long. `progress`: what the work keeps up to date, no other work's: the
        child of a caller that left may go on until it is killed.
        """

        def start() -> ForkedWorker:
            inputs = self._server_context.work_inputs()
            return ForkedWorker.start(
                lambda: [answer_in_child(work, inputs)], SIMULATION_TIMEOUT_SECONDS, MAX_MEMORY_BYTES
            )

        def frozen_inputs() -> WorkInputs:
            inputs = self._server_context.work_inputs()
            return replace(inputs, cluster=inputs.snapshot().frozen())

        async with self._running:
            self.progress = progress or self.progress
            try:
                if fork_worker.IS_FORK_SUPPORTED:
                    worker = await self._decision_thread.run(start, ForkedWorker.abandon)
                    answer = await worker.result(SIMULATION_TIMEOUT_SECONDS, remedy)
                else:
                    answer = await run_in_threadpool(_answer, work, await self._decision_thread.run(frozen_inputs))
            finally:
                self.progress = SimulationProgress()
        return Response(answer[3:], int(answer[:3]), media_type="application/json")


def answer_in_child(work: Work, inputs: WorkInputs) -> bytes:
    """Run `work` on the child's own snapshot, detached from the observer that records changes.

    Returns the HTTP status in three digits, followed by the body.
    """
    inputs.snapshot().observer = None
    try:
        return _answer(work, inputs)
    except MemoryError:
        return b"503" + error_body(f"the answer needs more than {MAX_MEMORY_BYTES >> 20} MiB of memory")


def _answer(work: Work, given: WorkInputs) -> bytes:
    nodes = given.cluster.objects.nodes.values() if isinstance(given.cluster, Snapshot) else given.cluster.nodes
    source = with_version_hint(given.source, given.scheduler, nodes, given.found_version)
    try:
        return b"200" + msgspec.json.encode(work(replace(given, source=source)))
    except ExtenderError as error:
        return b"%d%b" % (error.status, error_body(str(error)))
