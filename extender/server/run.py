"""Listen: the application on a socket, and the one for people on another, until a signal ends both.

Rule: nothing is checked here. That plain HTTP stays on this machine unless told otherwise is the configuration's rule.
"""

import asyncio
import contextlib
import gc
import socket
import sys
from collections.abc import Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from extender.config import Configuration
from extender.errors import CannotListen
from extender.server.debug import create_debug_app

MAX_HEADER_BYTES = 32 << 10

SWITCH_INTERVAL = 0.0001
"""Seconds for which a thread that reads from the API server may go on while a request waits; Python's own are 5 ms."""

BACKLOG = 128
"""Connections for people that may wait to be accepted."""


def serve(app: FastAPI, config: Configuration, listening: socket.socket | None = None) -> None:
    """Serve until SIGINT or SIGTERM; on a socket that listens already, or on the configured address."""
    debug = _listen(config) if config.debug.enabled else None
    # What the cluster picture consists of lives long: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_INTERVAL)
    beside = (
        None if debug is None else _Beside(_settings(create_debug_app(app.state.service, config.debug.host), config))
    )
    server = _Server(server_settings(app, config), beside, debug)
    app.state.stop = lambda: setattr(server, "should_exit", True)
    server.run(sockets=None if listening is None else [listening])


class _Beside(uvicorn.Server):
    """Begins and ends with the other one: signals are that one's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Server(uvicorn.Server):
    """The scheduler's port, and beside it the one for people."""

    def __init__(self, config: uvicorn.Config, beside: _Beside | None, listening: socket.socket | None) -> None:
        super().__init__(config)
        self._beside = beside
        self._listening = listening
        self._serving: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._beside is not None and self._listening is not None and not self.should_exit:
            self._serving = asyncio.create_task(self._beside.serve([self._listening]), name="debug")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._beside is None or self._serving is None:
            await super().shutdown(sockets)
        else:
            self._beside.should_exit = True
            await asyncio.gather(super().shutdown(sockets), self._serving)


def _listen(config: Configuration) -> socket.socket:
    """The socket for people; CannotListen if the address cannot be had."""
    host, port = config.debug.host, config.debug.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise CannotListen(
            f"{host}:{port}: {error.strerror}; choose another address with debug.host and debug.port "
            "(EXTENDER_DEBUG__PORT), or none with debug.enabled: false"
        ) from error
    return listening


def server_settings(app: FastAPI, config: Configuration) -> uvicorn.Config:
    """uvicorn's settings for the scheduler's port."""
    return _settings(app, config, host=config.server.host, port=config.server.port)


def _settings(app: ASGIApp, config: Configuration, **address: Any) -> uvicorn.Config:
    """Keep-alive longer than the 90 s after which Go's client gives a connection up."""
    return uvicorn.Config(
        app,
        **address,
        http="httptools",
        ws="none",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_keep_alive=max(1, round(config.server.keep_alive)),
        timeout_graceful_shutdown=10,
        access_log=False,
        server_header=False,
        log_config=None,
    )
