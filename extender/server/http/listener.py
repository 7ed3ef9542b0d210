"""One listener: a listening socket, its connections and the ASGI application behind them, with a graceful shutdown.

A listener belongs to the event loop that `open` runs on; a process may have several.

Rule: every accepted request is answered, also during a shutdown, unless the shutdown timeout has passed.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Mapping
from email.utils import formatdate

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.errors import ListenError
from extender.server.http.acceptor import Acceptor
from extender.server.http.errors import error_response
from extender.server.http.protocol import Begin, LimitedProtocol, ListenerState
from extender.server.http.tls import TLSFiles

log = logging.getLogger(__name__)

SHUTDOWN_POLL_SECONDS = 0.02
"""Time between two checks for in-flight requests during a shutdown."""

CANCELLED_CALLS_TIMEOUT_SECONDS = 0.5
"""Seconds for cancelled calls to send their 503 at the end of a shutdown."""


class Listener:
    """Serve one socket: `open()`, then `drain()` (each response closes its connection), then `close()`."""

    def __init__(
        self,
        name: str,
        app: ASGIApp,
        listening: socket.socket,
        keep_alive: float,
        backlog: int,
        tls: TLSFiles | None,
        at_once: Mapping[bytes, Begin] | None = None,
    ) -> None:
        """Take ownership of `listening`, which `close` closes; `name`: for log lines; `at_once`: see ListenerState."""
        self.name = name
        self.state = ListenerState(tls, at_once)
        self._listening = listening
        self._listening.listen(backlog)
        self._settings = uvicorn_config(_answering_when_cancelled(app), keep_alive)
        self._settings.load()

        def make_protocol() -> LimitedProtocol:
            return LimitedProtocol(self._settings, self.state, {}, asyncio.get_running_loop())

        self._acceptor = Acceptor(name, listening, make_protocol, self.state, keep_alive)
        self._background: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        """Return the listening address as a URL."""
        host, port = self._listening.getsockname()[:2]
        scheme = "http" if self.state.tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def open(self) -> None:
        """Start accepting connections."""
        self._background = [asyncio.create_task(self._update_date_header(), name=f"{self.name}-date")]
        if self.state.tls is not None:
            self._background.append(asyncio.create_task(self.state.tls.run(), name=f"{self.name}-certificates"))
        self._acceptor.open()
        log.info("%s: listening on %s", self.name, self.address)

    async def _update_date_header(self) -> None:
        while True:  # once per second for all responses, as uvicorn's own server does
            self.state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            await asyncio.sleep(1.0)

    def drain(self) -> None:
        """Close each connection after its next response."""
        self.state.is_draining = True
        for connection in self.state.connections:
            connection.drain()

    async def close(self, timeout_seconds: float) -> None:
        """Stop accepting, drain in-flight requests for `timeout_seconds` or until cancelled, then cancel the rest."""
        # 1. Stop accepting; idle connections close at once, the others after their responses.
        self.drain()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._acceptor.close()
        for connection in list(self.state.connections):
            connection.shutdown()
        # 2. Wait for the requests in flight.
        try:
            async with asyncio.timeout(timeout_seconds):
                while self.state.tasks or self.state.connections or self._acceptor.is_starting:  # noqa: ASYNC110 (uvicorn's sets)
                    await asyncio.sleep(SHUTDOWN_POLL_SECONDS)
        except TimeoutError:
            pass
        finally:
            # 3. Cancel what is left: `_answering_when_cancelled` answers 503.
            await self._cancel_remaining()

    async def _cancel_remaining(self) -> None:
        if self.state.tasks:
            log.warning(
                "%s: shutdown timeout exceeded, cancelling %d in-flight requests", self.name, len(self.state.tasks)
            )
            for task in self.state.tasks:
                task.cancel()
            await asyncio.wait(self.state.tasks, timeout=CANCELLED_CALLS_TIMEOUT_SECONDS)
        for connection in list(self.state.connections):
            connection.transport.close()


def uvicorn_config(app: ASGIApp, keep_alive: float) -> uvicorn.Config:
    """Return uvicorn's settings. Forwarding headers are ignored: the peer's address is the client's."""
    return uvicorn.Config(
        app,
        interface="asgi3",
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        timeout_keep_alive=max(1, round(keep_alive)),
        access_log=False,
        server_header=False,
        log_config=None,
    )


def _answering_when_cancelled(app: ASGIApp) -> ASGIApp:
    """Wrap the application so that a request that the shutdown cancels gets a 503, unless its response has begun."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            with contextlib.suppress(RuntimeError):  # the response has begun
                await error_response(503, "shutting down", {"Connection": "close"})(scope, receive, send)

    return answer


def bind(section: str, host: str, port: int, backlog: int) -> socket.socket:
    """Return a listening socket; raises ListenError, which names the settings, if the address cannot be bound."""
    listening = None
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        address = min(addresses, key=lambda info: info[0] != socket.AF_INET)  # clients expect localhost to be IPv4
        # asyncio sets TCP_NODELAY only if the protocol is given; without it, each answer waits 40 ms for an ACK.
        listening = socket.socket(address[0], address[1], socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address[4])
        listening.listen(backlog)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise ListenError(
            f"{host}:{port}: {error.strerror}; choose another address with {section}.host and {section}.port "
            f"(EXTENDER_{section.upper()}__PORT)"
        ) from error
    return listening
