"""Run the process: two listeners (scheduler and admin) in one event loop, from startup to graceful shutdown.

The admin listener opens first and closes last, so that probes are always answered. On SIGTERM /readyz fails at once,
calls are still answered for `server.drainTime` while endpoints are removed, then connections are refused, in-flight
requests are drained, and the process exits. SIGINT and the loss of the cluster skip `server.drainTime`. Each further
signal ends the current wait.

Rule: no validation here; that plain HTTP needs `allowPlainHTTP` off loopback is checked by `extender.config`.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Coroutine

import numpy.ma  # noqa: F401 (np.unique imports it lazily: the first call that needs it would take 20 ms longer)

from extender.config import Configuration
from extender.server.admin.app import create_admin_app
from extender.server.http.listener import Listener, bind
from extender.server.http.tls import TLSFiles
from extender.server.scheduler.routes import SchedulerApp

log = logging.getLogger(__name__)

THREAD_SWITCH_INTERVAL_SECONDS = 0.0001
"""Seconds for which a reflector's thread may hold the GIL while a request waits; Python's default is 5 ms."""

SCHEDULER_BACKLOG = 2048
"""Connections of the scheduler listener that may wait to be accepted."""

ADMIN_BACKLOG = 128
"""Connections of the admin listener that may wait to be accepted."""

SHUTDOWN_TIMEOUT_SECONDS = 5.0
"""Seconds for which in-flight calls of the scheduler are still answered during a shutdown."""

ADMIN_SHUTDOWN_TIMEOUT_SECONDS = 2.0
"""Seconds for which in-flight requests of the admin listener are still answered during a shutdown."""


def serve(app: SchedulerApp, config: Configuration, listening: socket.socket | None = None) -> None:
    """Serve until SIGINT, SIGTERM or `app.stop()`, on `listening` or else on the configured address.

    Raises ConfigError if a certificate is not usable, ListenError if an address cannot be bound.
    """
    server_context = app.server_context
    certificates = server_context.lifecycle.certificates
    for name, section in (("server", config.server), ("admin", config.admin)):
        if section.tls.is_on:
            certificates[name] = TLSFiles(name, section.tls)
    keep_alive, tls_files = config.server.keep_alive, certificates.get
    with contextlib.ExitStack() as stack:
        admin_socket = stack.enter_context(bind("admin", config.admin.host, config.admin.port, ADMIN_BACKLOG))
        listening = listening or bind("server", config.server.host, config.server.port, SCHEDULER_BACKLOG)
        stack.enter_context(listening)
        admin_app = create_admin_app(server_context, config)
        admin = Listener("admin", admin_app, admin_socket, keep_alive, ADMIN_BACKLOG, tls_files("admin"))
        scheduler = Listener("scheduler", app, listening, keep_alive, SCHEDULER_BACKLOG, tls_files("server"))
        # The objects of the cluster cache live long: freeze them, so that no garbage collection walks them.
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(THREAD_SWITCH_INTERVAL_SECONDS)
        asyncio.run(_run(app, admin, scheduler, config.server.drain_time))


async def _run(app: SchedulerApp, admin: Listener, scheduler: Listener, drain_time: float) -> None:
    shutdown = _Shutdown()
    shutdown.install_signal_handlers()
    app.stop = shutdown.stop
    try:
        await admin.open()
        async with app.lifespan():
            await scheduler.open()
            reason = await shutdown.wait()
            app.server_context.lifecycle.is_draining = True
            if reason == signal.SIGTERM and drain_time > 0:
                log.info("shutting down: SIGTERM received, not ready, still answering calls for %gs", drain_time)
                scheduler.drain()
                await shutdown.wait(drain_time)
            log.info("shutting down: draining in-flight requests")
            await shutdown.until_next_request(scheduler.close(SHUTDOWN_TIMEOUT_SECONDS))
        await shutdown.until_next_request(admin.close(ADMIN_SHUTDOWN_TIMEOUT_SECONDS))
    finally:
        shutdown.remove_signal_handlers()
    log.info("shutdown complete")


class _Shutdown:
    """Requests to stop the process, in the order in which they arrived."""

    def __init__(self) -> None:
        self._requests: deque[int] = deque()
        self._has_request = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        # asyncio installs signal handlers in the main thread only.
        is_main_thread = threading.current_thread() is threading.main_thread()
        self._signals = (signal.SIGINT, signal.SIGTERM) if is_main_thread else ()

    def install_signal_handlers(self) -> None:
        for number in self._signals:
            self._loop.add_signal_handler(number, self._request, number)

    def remove_signal_handlers(self) -> None:
        for number in self._signals:
            self._loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Stop without draining; safe to call from any thread."""
        self._loop.call_soon_threadsafe(self._request, 0)

    def _request(self, number: int) -> None:
        self._requests.append(number)
        self._has_request.set()

    async def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Return the next stop request: a signal number, or 0 for `stop`; None after `timeout_seconds` without one."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._has_request.wait()
        except TimeoutError:
            return None
        number = self._requests.popleft()
        if not self._requests:
            self._has_request.clear()
        return number

    async def until_next_request(self, closing: Coroutine[None, None, None]) -> None:
        """Run `closing`, but cancel it when another stop request arrives."""
        close_task, stop_task = asyncio.ensure_future(closing), asyncio.ensure_future(self.wait())
        await asyncio.wait((close_task, stop_task), return_when=asyncio.FIRST_COMPLETED)
        for task in (close_task, stop_task):
            task.cancel()
        await asyncio.wait((close_task, stop_task))
