"""Run the process: two listeners, each with an event loop of its own, from startup to graceful shutdown.

The scheduler's listener runs on the main thread, which decides; the admin listener runs on another one, so that it
answers /livez during a long decision. SIGTERM and SIGHUP drain first (`server.drainTime`); SIGINT and the loss of the
cluster do not. Each further signal ends the current wait. Whatever hangs, the process ends EXIT_LIMIT_SECONDS after
`server.drainTime`.

Rule: no validation here; `extender.config` checks that plain HTTP off loopback has `allowPlainHTTP`.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import threading

import numpy.ma  # noqa: F401 (np.unique imports it lazily: the first call that needs it would take 20 ms longer)

from extender.cluster.watch import source
from extender.config import Configuration
from extender.server.admin.admin_thread import AdminThread
from extender.server.admin.app import create_admin_app
from extender.server.admin.decision_thread import DecisionThread
from extender.server.events import recorder as event_recorder
from extender.server.http.listener import CANCELLED_CALLS_TIMEOUT_SECONDS, Listener, bind
from extender.server.http.tls import TLSFiles
from extender.server.observability import audit_log, tracing
from extender.server.recording import recorder
from extender.server.scheduler.routes import SchedulerApp
from extender.server.shutdown import HardStop, StopRequests

log = logging.getLogger(__name__)

THREAD_SWITCH_INTERVAL_SECONDS = 0.0001
"""Seconds for which a reflector's thread may hold the GIL while a request waits; Python's default is 5 ms."""

SCHEDULER_BACKLOG = 2048
"""Connections of the scheduler listener that may wait to be accepted."""

ADMIN_BACKLOG = 1024
"""Connections of the admin listener that may wait to be accepted."""

SHUTDOWN_TIMEOUT_SECONDS = 5.0
"""Seconds that in-flight calls of the scheduler have to finish during a shutdown."""

ADMIN_SHUTDOWN_TIMEOUT_SECONDS = 1.0
"""Seconds that in-flight requests of the admin listener have to finish during a shutdown."""

EXIT_MARGIN_SECONDS = 0.5
"""Slack for the parts of a shutdown that have no timeout of their own."""

EXIT_LIMIT_SECONDS = (
    SHUTDOWN_TIMEOUT_SECONDS
    + CANCELLED_CALLS_TIMEOUT_SECONDS
    + max(
        source.JOIN_SECONDS,
        recorder.STOP_TIMEOUT_SECONDS,
        audit_log.STOP_TIMEOUT_SECONDS,
        event_recorder.STOP_TIMEOUT_SECONDS,
        tracing.STOP_TIMEOUT_SECONDS,
    )
    + ADMIN_SHUTDOWN_TIMEOUT_SECONDS
    + CANCELLED_CALLS_TIMEOUT_SECONDS
    + EXIT_MARGIN_SECONDS
)
"""Seconds after `server.drainTime` at which the process ends, whatever still hangs: the sum of all timeouts."""

DRAIN_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals after which calls are still answered for `server.drainTime`."""


def serve(app: SchedulerApp, config: Configuration, listening: socket.socket | None = None) -> None:
    """Serve until SIGINT, SIGTERM or `app.stop()`, on `listening` or else on the configured address.

    Raises ConfigError if a certificate is not usable, ListenError if an address cannot be bound.
    """
    server_context = app.server_context
    # 1. Read the certificates: an unusable one fails the start before any client can connect.
    certificates = server_context.lifecycle.certificates
    for name, section in (("server", config.server), ("admin", config.admin)):
        if section.tls.is_on:
            certificates[name] = TLSFiles(name, section.tls)
    keep_alive, tls_files = config.server.keep_alive, certificates.get
    with contextlib.ExitStack() as stack:
        # 2. Bind both addresses, so that an address in use fails the start, too.
        admin_socket = stack.enter_context(bind("admin", config.admin.host, config.admin.port, ADMIN_BACKLOG))
        listening = listening or bind("server", config.server.host, config.server.port, SCHEDULER_BACKLOG)
        stack.enter_context(listening)
        decision_thread = DecisionThread()
        admin_app = create_admin_app(server_context, config, decision_thread)
        admin = Listener("admin", admin_app, admin_socket, keep_alive, ADMIN_BACKLOG, tls_files("admin"))
        scheduler = Listener(
            "scheduler", app, listening, keep_alive, SCHEDULER_BACKLOG, tls_files("server"), app.at_once
        )
        # 3. The objects of the cluster cache live long: freeze them, so that no garbage collection walks them.
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(THREAD_SWITCH_INTERVAL_SECONDS)
        # 4. Serve until the shutdown is complete.
        asyncio.run(_run(app, admin, decision_thread, scheduler, config.server.drain_time))


async def _run(
    app: SchedulerApp, admin: Listener, decision_thread: DecisionThread, scheduler: Listener, drain_time: float
) -> None:
    lifecycle, hard_stop = app.server_context.lifecycle, HardStop()
    is_main_thread = threading.current_thread() is threading.main_thread()

    def on_request(number: int) -> None:
        lifecycle.is_draining = True
        if is_main_thread:  # on another thread, as in tests, the process is not ours to end
            hard_stop.arm(EXIT_LIMIT_SECONDS + (drain_time if number in DRAIN_SIGNALS else 0))

    with StopRequests(on_request) as stops:
        app.stop = stops.stop
        # 1. The admin listener opens first and closes last, so that the kubelet's probes are always answered.
        admin_thread = AdminThread(admin, decision_thread, stops.stop)
        await admin_thread.open()
        try:
            # 2. Follow the cluster and the configuration files, and start the threads that write.
            async with app.lifespan():
                # 3. Accept calls until a signal arrives or the cluster is lost.
                await scheduler.open()
                reason = await stops.wait()
                # 4. Not ready: the endpoint is being removed, and calls that still arrive are answered meanwhile.
                if reason in DRAIN_SIGNALS and drain_time > 0:
                    name = signal.Signals(reason).name
                    log.info("shutting down: %s received, not ready, still answering calls for %gs", name, drain_time)
                    scheduler.drain()
                    await stops.wait(drain_time)
                # 5. Refuse connections, and answer the calls in flight.
                log.info("shutting down: draining in-flight requests")
                await stops.until_next_request(scheduler.close(SHUTDOWN_TIMEOUT_SECONDS))
                # 6. Leaving the lifespan ends the watches, and flushes the queues to disk and API server.
        except BaseException:
            await admin_thread.close(0.0)
            raise
        # 7. Probes no longer matter.
        await stops.until_next_request(admin_thread.close(ADMIN_SHUTDOWN_TIMEOUT_SECONDS))
    log.info("shutdown complete")
    hard_stop.complete(0 if reason else 1)
