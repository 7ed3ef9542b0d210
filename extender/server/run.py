"""Listen: the application on a socket, until a signal ends it.

Rule: nothing is checked here. That plain HTTP stays on this machine unless told otherwise is the configuration's rule.
"""

import gc
import socket
import sys

import uvicorn
from fastapi import FastAPI

from extender.config import Configuration

MAX_HEADER_BYTES = 32 << 10

SWITCH_INTERVAL = 0.0001
"""Seconds for which a thread that reads from the API server may go on while a request waits; Python's own are 5 ms."""


def serve(app: FastAPI, config: Configuration, listening: socket.socket | None = None) -> None:
    """Serve until SIGINT or SIGTERM; on a socket that listens already, or on the configured address."""
    # What the cluster picture consists of lives long: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_INTERVAL)
    server = uvicorn.Server(server_settings(app, config))
    app.state.stop = lambda: setattr(server, "should_exit", True)
    server.run(sockets=None if listening is None else [listening])


def server_settings(app: FastAPI, config: Configuration) -> uvicorn.Config:
    """uvicorn's settings: keep-alive longer than the 90 s after which Go's client gives a connection up."""
    return uvicorn.Config(
        app,
        host=config.server.host,
        port=config.server.port,
        http="httptools",
        ws="none",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_keep_alive=max(1, round(config.server.keep_alive)),
        timeout_graceful_shutdown=10,
        access_log=False,
        server_header=False,
        log_config=None,
    )
