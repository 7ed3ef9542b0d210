"""From the start of the process to its end: two listeners in one event loop, the scheduler's and the one for admins.

The admin listener is there first and last, so that probes are always answered. SIGTERM: not ready at once, calls are
answered for `server.drainTime` while the word spreads, then no more connections are taken, what is under way is
finished, and the process ends. Ctrl-C does not wait, nor does a cluster that is lost. Each further signal ends what is
being waited for.

Rule: nothing is checked here. That plain HTTP stays on this machine unless told otherwise is the configuration's rule.
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

import numpy.ma  # noqa: F401 (or numpy imports it when a call first needs np.unique, which is late by 20 ms)
from fastapi import FastAPI

from extender.config import Configuration
from extender.config.serving import AdminSection, ServerSection
from extender.server.admin.app import create_admin_app
from extender.server.context import ServerContext
from extender.server.http.listener import Listener, bind
from extender.server.http.tls import TLSFiles

log = logging.getLogger(__name__)

SWITCH_INTERVAL = 0.0001
"""Seconds for which a thread that reads from the API server may go on while a request waits; Python's own are 5 ms."""

SCHEDULER_BACKLOG = 2048
ADMIN_BACKLOG = 128
"""Connections that may wait to be accepted."""

FINISH_TIME = 5.0
"""Seconds in which calls that are under way at the end may still be answered."""

FINISH_TIME_ADMIN = 2.0
"""The same for questions of people and machines that watch."""


def serve(app: FastAPI, config: Configuration, listening: socket.socket | None = None) -> None:
    """Serve until SIGINT, SIGTERM or `app.state.stop()`; on a socket that listens already, or on the configured one.

    ConfigError or CannotListen if certificates cannot be used or an address cannot be had.
    """
    service: ServerContext = app.state.service
    certificates = service.lifecycle.certificates
    for name, section in (("server", config.server), ("admin", config.admin)):
        if section.tls.is_on:
            certificates[name] = TLSFiles(name, section.tls)
    keep_alive, shown = config.server.keep_alive, certificates.get
    with contextlib.ExitStack() as stack:
        beside = stack.enter_context(_bound("admin", config.admin, ADMIN_BACKLOG))
        listening = stack.enter_context(listening or _bound("server", config.server, SCHEDULER_BACKLOG))
        admin = Listener("admin", create_admin_app(service, config), beside, keep_alive, ADMIN_BACKLOG, shown("admin"))
        scheduler = Listener("scheduler", app, listening, keep_alive, SCHEDULER_BACKLOG, shown("server"))
        # What the cluster picture consists of lives long: keep the collector from walking it again and again.
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(SWITCH_INTERVAL)
        asyncio.run(_run(app, admin, scheduler, config.server.drain_time))


def _bound(name: str, section: ServerSection | AdminSection, backlog: int) -> socket.socket:
    return bind(name, section.host, section.port, backlog)


async def _run(app: FastAPI, admin: Listener, scheduler: Listener, drain_time: float) -> None:
    end = _End()
    end.listen_to_signals()
    app.state.stop = end.stop
    lifecycle = app.state.service.lifecycle
    try:
        await admin.open()
        async with app.router.lifespan_context(app):
            await scheduler.open()
            ended_by = await end.wait()
            lifecycle.draining = True
            if ended_by == signal.SIGTERM and drain_time > 0:
                log.info("SIGTERM: not ready; calls are still answered for %g s", drain_time)
                scheduler.drain()
                await end.wait(drain_time)
            log.info("ending: what is under way is finished")
            await end.unless_told(scheduler.close(FINISH_TIME))
        await end.unless_told(admin.close(FINISH_TIME_ADMIN))
    finally:
        end.forget_signals()
    log.info("ended")


class _End:
    """Who wants the process to end, in the order in which they said so."""

    def __init__(self) -> None:
        self._said: deque[int] = deque()
        self._is_said = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._signals = (signal.SIGINT, signal.SIGTERM) if _is_main_thread() else ()

    def listen_to_signals(self) -> None:
        for number in self._signals:
            self._loop.add_signal_handler(number, self._say, number)

    def forget_signals(self) -> None:
        for number in self._signals:
            self._loop.remove_signal_handler(number)

    def stop(self) -> None:
        """End without waiting; may be called on any thread."""
        self._loop.call_soon_threadsafe(self._say, 0)

    def _say(self, who: int) -> None:
        self._said.append(who)
        self._is_said.set()

    async def wait(self, within: float | None = None) -> int | None:
        """Who says so next: a signal, or 0 for `stop`; None if nobody does in that time."""
        try:
            async with asyncio.timeout(within):
                await self._is_said.wait()
        except TimeoutError:
            return None
        who = self._said.popleft()
        if not self._said:
            self._is_said.clear()
        return who

    async def unless_told(self, closing: Coroutine[None, None, None]) -> None:
        """Do this, or give it up when somebody says again that the process is to end."""
        doing, told = asyncio.ensure_future(closing), asyncio.ensure_future(self.wait())
        await asyncio.wait((doing, told), return_when=asyncio.FIRST_COMPLETED)
        for task in (doing, told):
            task.cancel()
        await asyncio.wait((doing, told))


def _is_main_thread() -> bool:
    """Only there signals can be listened to."""
    return threading.current_thread() is threading.main_thread()
