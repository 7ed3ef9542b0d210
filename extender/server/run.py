"""Listen: the application on a socket, until a signal ends it.

Rule: the scheduler's payloads and our answers cross the network in the clear only by explicit choice.
"""

import gc
import ipaddress

import uvicorn
from fastapi import FastAPI

from extender.config import Configuration
from extender.errors import ConfigError

MAX_HEADER_BYTES = 32 << 10


def serve(app: FastAPI, config: Configuration) -> None:
    """Serve until SIGINT or SIGTERM; ConfigError if the address is not a safe one for plain HTTP."""
    check_address(config.server.host, config.server.allow_plain_http)
    # What the cluster picture consists of lives long: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    uvicorn.Server(server_settings(app, config)).run()


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


def check_address(host: str, allow_plain_http: bool) -> None:
    """ConfigError for plain HTTP on an address that other machines may reach."""
    if allow_plain_http or is_loopback(host):
        return
    raise ConfigError(
        "server.host: plain HTTP on an address that is not loopback needs server.allowPlainHTTP: true "
        "(pods and nodes would cross the network unencrypted, and anybody who reaches the port may ask)"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address; a name other than localhost may mean anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
