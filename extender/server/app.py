"""Assemble the scheduler extender: one FastAPI application from a cluster cache and a configuration.

Rule: importing this module starts nothing; all state belongs to the application that `create_app` returns.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from extender.cluster.apiserver import binding
from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.server.admin import collectors
from extender.server.http.errors import add_error_handlers
from extender.server.observability import tracing
from extender.server.observability.audit_log import AuditLog
from extender.server.observability.cache_status import NO_SOURCE, ClusterSource
from extender.server.observability.decision_log import DecisionLog
from extender.server.recording.recorder import Recorder
from extender.server.scheduler import openapi
from extender.server.scheduler.routes import Application, add_routes
from extender.server.scheduler.verbs import Binder, ServerContext
from extender.server.settings import ConfigFile, LiveSettings
from extender.version import __version__

MAX_CONCURRENT_BINDINGS = 16
"""Threads for POST /bind. kube-scheduler binds in parallel: pods must not queue behind one slow API server call."""

NOT_FOUND = (
    "no such path: this listener serves POST /filter, /prioritize, /preempt and /bind; health, metrics and debug pages "
    "are on the admin listener (admin.port)"
)


def create_app(
    cache: ClusterCache,
    config: Configuration,
    source: ClusterSource = NO_SOURCE,
    api: binding.BindingApi | None = None,
    file: ConfigFile | None = None,
) -> FastAPI:
    """Return the scheduler's application; its lifespan runs `source` and reloads `file`, which `config` was read from.

    `api`: binds pods where `bind.enabled` is set.
    """
    app = Application(
        title=openapi.TITLE,
        description=openapi.DESCRIPTION,
        version=__version__,
        lifespan=_follow,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    threads = ThreadPoolExecutor(MAX_CONCURRENT_BINDINGS, "bind")
    app.state.stop = lambda: None
    recorder = Recorder(cache, config.recording, source.problem)
    server_context = app.state.server_context = ServerContext(
        cache,
        LiveSettings(config, file),
        source,
        Binder(api, config.bind.timeout, threads) if config.bind.enabled and api is not None else None,
        max_node_names_body_bytes=config.server.max_node_names_body_bytes,
        max_body_bytes=config.server.max_body_bytes,
        max_in_flight=config.server.max_in_flight,
        timeout=config.server.deadline,
        decisions=DecisionLog(
            config.debug.decisions if config.debug.enabled else 0, config.debug.decisions_size, cache.holds
        ),
        recorder=recorder,
        audit=AuditLog(Path(config.audit.path) if config.audit.path else None) if config.audit.enabled else None,
        tracing=tracing.start_tracing(config.tracing.endpoint),
    )
    app.state.record = config.recording.directory is not None
    cache.prepare_for(server_context.settings.profile)
    server_context.live_settings.prepare_cache = source.adopt
    app.state.waits = collectors.EventLoopCollector()
    collectors.register_collectors(server_context.metrics, server_context, app.state.waits)
    add_routes(app)
    add_error_handlers(app, NOT_FOUND)
    return app


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the scheduler's port, as checked in under openapi/openapi.json."""
    return openapi.document(app)


@contextlib.asynccontextmanager
async def _follow(app: FastAPI) -> AsyncIterator[None]:
    server_context: ServerContext = app.state.server_context
    if app.state.record and server_context.recorder is not None:
        server_context.recorder.start()
    if server_context.audit is not None:
        server_context.audit.start()
    source = asyncio.create_task(server_context.source.run(), name="follow-cluster")
    source.add_done_callback(lambda _: app.state.stop() if server_context.source.fatal else None)
    live_settings = asyncio.create_task(server_context.live_settings.run(), name="follow-configuration")
    waits = asyncio.create_task(app.state.waits.run(), name="measure-waits")
    try:
        yield
    finally:
        for task in (source, live_settings, waits):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if server_context.recorder is not None:
            server_context.recorder.stop()
        if server_context.audit is not None:
            server_context.audit.stop()
        if server_context.tracing is not None:
            await asyncio.to_thread(server_context.tracing.stop)
        if server_context.binder is not None:
            server_context.binder.threads.shutdown(wait=False)
