"""GET /cluster: the cluster cache as a cluster file, without the effects of answers that are only assumed.

Rule: a forked child encodes the objects, and they are sent as they are encoded: neither does kube-scheduler wait, nor
is the file ever in memory.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator

from fastapi import Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from extender.cluster.files.dump import encode_list
from extender.k8s.kinds import ClusterObjects
from extender.server.admin import fork_worker
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.fork_worker import ForkedWorker
from extender.server.context import ServerContext

MAX_DUMPS = 2
"""Dumps at the same time."""

DUMP_TIMEOUT_SECONDS = 300.0
"""Time limit of one dump, which includes the time that the client takes to read it."""


async def dump_cluster(request: Request) -> Response:
    """Return every object of the cluster cache with the fields that decisions read (docs/cluster.md)."""
    server_context: ServerContext = request.app.state.server_context
    decision_thread: DecisionThread = request.app.state.decision_thread
    await decision_thread.run(server_context.snapshot)  # raises NotReady before a response has begun
    if fork_worker.IS_FORK_SUPPORTED:
        return _Dump(_chunks_of_child(server_context, decision_thread), media_type="application/json")
    objects = await decision_thread.run(server_context.cache.api_objects)
    return _Dump(_encode(server_context, objects), media_type="application/json")


class _Dump(StreamingResponse):
    """The response, one of at most MAX_DUMPS at the same time."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with scope["app"].state.dumps.track():
            await super().__call__(scope, receive, send)


async def _chunks_of_child(server_context: ServerContext, decision_thread: DecisionThread) -> AsyncIterator[bytes]:
    def start() -> ForkedWorker:
        return ForkedWorker.start(lambda: _encode(server_context, server_context.cache.api_objects()), limit)

    limit = DUMP_TIMEOUT_SECONDS
    worker = await decision_thread.run(start, ForkedWorker.abandon)
    async with contextlib.aclosing(worker.chunks(limit)) as chunks:
        async for chunk in chunks:
            yield chunk


def _encode(server_context: ServerContext, objects: ClusterObjects) -> Iterator[bytes]:
    annotations = server_context.settings.scheduler.preemption.annotations
    return encode_list(objects, annotations, server_context.cache.assumed.effects())
