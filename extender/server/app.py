"""Put the service together: one FastAPI application from a store and a configuration.

Rule: importing this starts nothing; all state hangs on the application that `create_app` returns.
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
from extender.server.observability.cache_status import NO_SOURCE, Source
from extender.server.observability.decision_log import Decisions
from extender.server.recording.recorder import Recorder
from extender.server.scheduler import openapi
from extender.server.scheduler.routes import Application, add_routes
from extender.server.scheduler.verbs import Binder, ServerContext
from extender.server.settings import ConfigFile, LiveSettings
from extender.version import __version__

BINDINGS_AT_ONCE = 16
"""kube-scheduler binds beside its other calls: pods that wait for a slow API server must not wait for each other."""

NOT_FOUND = (
    "no such path; there are POST /filter, /prioritize, /preempt and /bind; health, metrics and what people look at "
    "are on the admin listener (admin.port)"
)


def create_app(
    cache: ClusterCache,
    config: Configuration,
    source: Source = NO_SOURCE,
    api: binding.Api | None = None,
    file: ConfigFile | None = None,
) -> FastAPI:
    """The service; while it runs it follows `source`, and `file`, from which `config` was read.

    `api`: where pods are bound, if the configuration wants that.
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
    threads = ThreadPoolExecutor(BINDINGS_AT_ONCE, "bind")
    app.state.stop = lambda: None
    recorder = Recorder(cache, config.recording, source.problem)
    service = app.state.service = ServerContext(
        cache,
        LiveSettings(config, file),
        source,
        Binder(api, config.bind.timeout, threads) if config.bind.enabled and api is not None else None,
        max_body_names=config.server.max_body_names,
        max_body_full=config.server.max_body_full,
        max_in_flight=config.server.max_in_flight,
        timeout=config.server.deadline,
        decisions=Decisions(
            config.debug.decisions if config.debug.enabled else 0, config.debug.decisions_size, cache.holds
        ),
        recorder=recorder,
        audit=AuditLog(Path(config.audit.path) if config.audit.path else None) if config.audit.enabled else None,
        tracing=tracing.start(config.tracing.endpoint),
    )
    app.state.record = config.recording.directory is not None
    cache.prepare_for(service.settings.profile)
    service.configured.make_ready = source.adopt
    app.state.waits = collectors.Waits()
    collectors.show(service.metrics, service, app.state.waits)
    add_routes(app)
    add_error_handlers(app, NOT_FOUND)
    return app


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the service, as it stands in openapi/openapi.json."""
    return openapi.document(app)


@contextlib.asynccontextmanager
async def _follow(app: FastAPI) -> AsyncIterator[None]:
    service: ServerContext = app.state.service
    if app.state.record and service.recorder is not None:
        service.recorder.start()
    if service.audit is not None:
        service.audit.start()
    source = asyncio.create_task(service.source.run(), name="follow-cluster")
    source.add_done_callback(lambda _: app.state.stop() if service.source.fatal else None)
    configured = asyncio.create_task(service.configured.run(), name="follow-configuration")
    waits = asyncio.create_task(app.state.waits.run(), name="measure-waits")
    try:
        yield
    finally:
        for task in (source, configured, waits):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if service.recorder is not None:
            service.recorder.stop()
        if service.audit is not None:
            service.audit.stop()
        if service.tracing is not None:
            await asyncio.to_thread(service.tracing.stop)
        if service.binder is not None:
            service.binder.threads.shutdown(wait=False)
