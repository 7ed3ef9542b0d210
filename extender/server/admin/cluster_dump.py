"""GET /cluster: the cluster cache as a cluster file, without the effects of answers that are only assumed.

Rule: a forked child encodes the objects, and they are sent as they are encoded: neither does kube-scheduler wait, nor
is the file ever in memory.
"""

from collections.abc import AsyncIterator, Iterator

from fastapi import Request, Response
from starlette.responses import StreamingResponse

from extender.cluster.files.dump import encode_list
from extender.k8s.kinds import ClusterObjects
from extender.server.admin import fork_worker
from extender.server.admin.fork_worker import ForkedWorker
from extender.server.context import ServerContext

DUMP_TIMEOUT_SECONDS = 300.0
"""Time limit of one dump, which includes the time that the client takes to read it."""


async def dump_cluster(request: Request) -> Response:
    """Return every object of the cluster cache with the fields that decisions read (docs/cluster.md)."""
    server_context: ServerContext = request.app.state.server_context
    server_context.snapshot()  # raises NotReady before a response has begun
    if fork_worker.IS_FORK_SUPPORTED:
        return StreamingResponse(_chunks_of_child(server_context), media_type="application/json")
    return StreamingResponse(_encode(server_context, server_context.cache.api_objects()), media_type="application/json")


async def _chunks_of_child(server_context: ServerContext) -> AsyncIterator[bytes]:
    cache = server_context.cache
    worker = ForkedWorker.start(lambda: _encode(server_context, cache.api_objects()), DUMP_TIMEOUT_SECONDS)
    async for chunk in worker.chunks(DUMP_TIMEOUT_SECONDS):
        yield chunk


def _encode(server_context: ServerContext, objects: ClusterObjects) -> Iterator[bytes]:
    annotations = server_context.settings.profile.preemption.annotations
    return encode_list(objects, annotations, server_context.cache.assumed.effects())
