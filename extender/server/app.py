"""Assemble the scheduler extender: one application from a cluster cache and a configuration.

Rule: importing this module starts nothing; all state belongs to the application that `create_app` returns.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol

from extender.cluster.apiserver import binding
from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.core.profile import KubeScheduler
from extender.report.schema import OBJECTS, SourceReport
from extender.server.admin.collectors import EventLoopCollector, register_collectors
from extender.server.context import Binder, ServerContext
from extender.server.events.recorder import EventApi, EventRecorder
from extender.server.observability import tracing
from extender.server.observability.audit_log import AuditLog
from extender.server.observability.cache_status import NO_SOURCE, ClusterSource, NoSource
from extender.server.observability.decision_log import ALLOCATOR_SHARE, DecisionLog
from extender.server.recording.recorder import Recorder
from extender.server.scheduler.routes import SchedulerApp
from extender.server.settings import ConfigFile, LiveSettings
from extender.utilities.daemon_thread import run_in_daemon_thread

MAX_CONCURRENT_BINDINGS = 16
"""Threads of POST /bind. kube-scheduler binds in parallel: pods must not queue behind one slow API server call."""


class WritingApi(binding.BindingApi, EventApi, Protocol):
    """Requests that write to the API server, as ApiServer implements them."""


def create_app(
    cache: ClusterCache,
    config: Configuration,
    source: ClusterSource = NO_SOURCE,
    api: WritingApi | None = None,
    file: ConfigFile | None = None,
    where: Callable[[], SourceReport] = lambda: OBJECTS,
) -> SchedulerApp:
    """Return the scheduler's application; its lifespan runs `source` and reloads `file`, which `config` was read from.

    `api`: binds pods if `bind.enabled` is set, and writes Events if `events.enabled` is. `where`: returns where the
    cluster comes from.
    """
    threads = ThreadPoolExecutor(MAX_CONCURRENT_BINDINGS, "bind")
    server_context = ServerContext(
        cache,
        LiveSettings(config, file, source.found_version),
        source,
        where,
        Binder(api, config.bind.timeout, threads) if config.bind.enabled and api is not None else None,
        max_node_names_body_bytes=config.server.max_node_names_body_bytes,
        max_body_bytes=config.server.max_body_bytes,
        max_in_flight=config.server.max_in_flight,
        timeout=config.server.deadline,
        decisions=DecisionLog(
            config.debug.decisions if config.debug.enabled else 0,
            config.debug.decisions_size - config.debug.decisions_size // ALLOCATOR_SHARE,
        ),
        recorder=Recorder(cache, config.recording),
        audit=AuditLog(Path(config.audit.path) if config.audit.path else None) if config.audit.enabled else None,
        events=(
            EventRecorder(api, names_across_namespaces=config.events.names_across_namespaces)
            if config.events.enabled and api is not None
            else None
        ),
        tracing=tracing.start_tracing(config.tracing.endpoint),
    )
    cache.prepare_for(server_context.settings.scheduler)
    live_settings = server_context.live_settings
    live_settings.on_scheduler = server_context.metrics.add_plugins
    live_settings.on_scheduler(live_settings.active.scheduler)
    live_settings.cache = cache
    live_settings.adopt = partial(_adopt_at_once, cache) if isinstance(source, NoSource) else source.adopt
    source.watch_version(live_settings.use_version)
    waits = EventLoopCollector()
    register_collectors(server_context.metrics, server_context, waits)
    app = SchedulerApp(server_context)
    app.lifespan = partial(_run_tasks, app, waits, records=config.recording.directory is not None)
    return app


async def _adopt_at_once(cache: ClusterCache, scheduler: KubeScheduler, activate: Callable[[], None]) -> None:
    """Prepare a cluster cache that has no source, such as the example."""
    cache.prepare_for(scheduler)
    activate()


@contextlib.asynccontextmanager
async def _run_tasks(app: SchedulerApp, waits: EventLoopCollector, *, records: bool) -> AsyncIterator[None]:
    server_context = app.server_context
    # 1. Start the writers before the first call, which each of them may have to write.
    for writer in (server_context.recorder if records else None, server_context.audit, server_context.events):
        if writer is not None:
            writer.start()
    # 2. Follow the cluster and the configuration; a source that gives up for good ends the process.
    source = asyncio.create_task(server_context.source.run(), name="follow-cluster")
    source.add_done_callback(lambda _: app.stop() if server_context.source.fatal else None)
    live_settings = asyncio.create_task(server_context.live_settings.run(), name="follow-configuration")
    measuring = asyncio.create_task(waits.run(), name="measure-waits")
    try:
        yield
    finally:
        tasks = (source, live_settings, measuring)
        for task in tasks:
            task.cancel()
        # 3. Stop the writers side by side: one after another, their timeouts would exceed EXIT_LIMIT_SECONDS.
        writers = (server_context.recorder, server_context.audit, server_context.events, server_context.tracing)
        stops = [run_in_daemon_thread(one.stop) for one in writers if one is not None]
        results = await asyncio.gather(*tasks, *stops, return_exceptions=True)
        if server_context.binder is not None:
            server_context.binder.threads.shutdown(wait=False)
        for result in results:
            if isinstance(result, Exception):  # CancelledError is a BaseException: the tasks end with it
                raise result
