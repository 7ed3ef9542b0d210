"""GET /cluster: the cluster cache as a cluster file, without assumed effects of answers.

Rule: a forked child encodes the objects, so that kube-scheduler does not wait; the response is streamed, so that the
file is never in memory as a whole.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator

from fastapi import Response
from starlette.responses import ContentStream

from extender.cluster.files.dump import encode_list
from extender.k8s.kinds import ClusterObjects
from extender.server.admin import fork_worker
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.fork_worker import ForkedWorker
from extender.server.admin.in_flight_limit import InFlightLimit, LimitedResponse
from extender.server.context import ServerContext

MAX_DUMPS = 2
"""Maximum number of dumps at the same time."""

DUMP_TIMEOUT_SECONDS = 300.0
"""Time limit of one dump, including the time that the client takes to read it."""


class ClusterDumps:
    """Answers GET /cluster, at most MAX_DUMPS at the same time."""

    def __init__(self, server_context: ServerContext, decision_thread: DecisionThread) -> None:
        self._server_context, self._decision_thread = server_context, decision_thread
        self._in_flight = InFlightLimit(MAX_DUMPS, "cluster dumps")

    async def dump(self) -> Response:
        """Return every object of the cluster cache with the fields that decisions read (docs/cluster.md)."""
        await self._decision_thread.run(self._server_context.snapshot)  # raises NotReady before a response has begun
        if fork_worker.IS_FORK_SUPPORTED:
            content: ContentStream = _chunks_of_child(self._server_context, self._decision_thread)
        else:
            objects = await self._decision_thread.run(self._server_context.cache.api_objects)
            content = _encode(self._server_context, objects)
        return LimitedResponse(content, self._in_flight)


async def _chunks_of_child(server_context: ServerContext, decision_thread: DecisionThread) -> AsyncIterator[bytes]:
    def start() -> ForkedWorker:
        objects = server_context.cache.api_objects
        return ForkedWorker.start(lambda: _encode(server_context, objects()), DUMP_TIMEOUT_SECONDS)

    worker = await decision_thread.run(start, ForkedWorker.abandon)
    async with contextlib.aclosing(worker.chunks(DUMP_TIMEOUT_SECONDS)) as chunks:
        async for chunk in chunks:
            yield chunk


def _encode(server_context: ServerContext, objects: ClusterObjects) -> Iterator[bytes]:
    # The objects are as the API server sent them; an annotation lists the effects that the service assumes.
    annotations = server_context.settings.scheduler.preemption.annotations
    return encode_list(objects, annotations, server_context.cache.assumed.effects())
