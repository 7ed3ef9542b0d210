"""One port: a socket, the application behind it, and the connections between the two.

A socket that listens is handed to the event loop as a duplicate. To change the TLS context another duplicate is handed
over with the new one, and then the first is closed: what waits to be accepted waits at the socket itself and is lost
to neither. Nothing is shared between contexts.

Rule: nobody who has asked is left without an answer, unless the time for that is over.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from email.utils import formatdate
from functools import partial

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.errors import CannotListen
from extender.server.http.errors import error_response
from extender.server.http.protocol import LimitedProtocol, Port
from extender.server.http.tls import TLSFiles

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT = 10.0
CLOSING_TIMEOUT = 2.0
"""Seconds in which a client is to agree to the end of a TLS connection."""

LOOK = 0.02
"""Seconds between two looks at what is still under way."""

LAST_WORDS = 0.5
"""Seconds in which calls that are cut off may still be answered."""


class Listener:
    """`open()` begins, `drain()` makes each answer the last one of its connection, `close()` ends."""

    def __init__(
        self, name: str, app: ASGIApp, listening: socket.socket, keep_alive: float, backlog: int, tls: TLSFiles | None
    ) -> None:
        """`name`: for the log. `listening` is ours from now on."""
        self.name = name
        self.port = Port(tls)
        self._listening = listening
        self._backlog = backlog
        self._settings = settings(_answering_when_cut(app), keep_alive)
        self._settings.load()
        self._server: asyncio.Server | None = None
        self._beside: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        """As a URL."""
        host, port = self._listening.getsockname()[:2]
        scheme = "http" if self.port.tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def open(self) -> None:
        """Take connections."""
        tls = self.port.tls
        self._beside = [asyncio.create_task(self._tell_time(), name=f"{self.name}-date")]
        await self._put(None if tls is None else tls.context)
        if tls is not None:
            self._beside.append(asyncio.create_task(tls.follow(self._put), name=f"{self.name}-certificates"))
        log.info("%s: listening on %s", self.name, self.address)

    async def _put(self, context: ssl.SSLContext | None) -> None:
        """New connections are begun under this context."""
        loop, before = asyncio.get_running_loop(), self._server
        self._server = await loop.create_server(  # without a pause: nobody can end between this and the next line
            partial(LimitedProtocol, self._settings, self.port, {}, loop),
            sock=self._listening.dup(),
            backlog=self._backlog,
            ssl=context,
            ssl_handshake_timeout=None if context is None else HANDSHAKE_TIMEOUT,
            ssl_shutdown_timeout=None if context is None else CLOSING_TIMEOUT,
            start_serving=False,
        )
        try:
            await self._server.start_serving()
        finally:
            if before is not None:
                await _retire(before)

    async def _tell_time(self) -> None:
        while True:
            self.port.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            await asyncio.sleep(1.0)

    def drain(self) -> None:
        """From now on each answer is the last one of its connection."""
        self.port.is_draining = True
        for connection in self.port.connections:
            _protocol(connection).drain()

    async def close(self, within: float) -> None:
        """Take no more connections and finish what is under way, within so many seconds or until cancelled; then cut
        it off."""
        self.drain()
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        if self._server is not None:
            await _retire(self._server)
        self._listening.close()
        for connection in list(self.port.connections):
            _protocol(connection).shutdown()
        try:
            async with asyncio.timeout(within):
                while self.port.tasks or self.port.connections:  # noqa: ASYNC110 (uvicorn's sets, which tell nobody)
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            pass
        finally:
            await self._cut()

    async def _cut(self) -> None:
        if self.port.tasks:
            log.warning("%s: calls that are cut off unfinished: %d", self.name, len(self.port.tasks))
            for task in self.port.tasks:
                task.cancel()
            await asyncio.wait(self.port.tasks, timeout=LAST_WORDS)
        for connection in list(self.port.connections):
            connection.transport.close()


async def _retire(server: asyncio.Server) -> None:
    """Accept nothing more there, and begin what has been accepted: a server that is closed refuses to."""
    for one in server.sockets:
        asyncio.get_running_loop().remove_reader(one.fileno())
    try:
        await asyncio.sleep(0)
    finally:
        server.close()


def _protocol(connection: object) -> LimitedProtocol:
    assert isinstance(connection, LimitedProtocol)
    return connection


def settings(app: ASGIApp, keep_alive: float) -> uvicorn.Config:
    """uvicorn's, as far as they concern a connection. Nothing that a request says changes where it comes from."""
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


def _answering_when_cut(app: ASGIApp) -> ASGIApp:
    """The application; a call that is cancelled because the process ends is answered all the same, if it still can."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            with contextlib.suppress(RuntimeError):  # the answer has begun
                await error_response(503, "the process ends", {"Connection": "close"})(scope, receive, send)

    return answer


def bind(section: str, host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens there; CannotListen, which names the settings, if the address cannot be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        address = min(found, key=lambda one: one[0] != socket.AF_INET)  # localhost: as people mean it
        # With the protocol named asyncio sets TCP_NODELAY, without it each answer waits 40 ms for an acknowledgement.
        listening = socket.socket(address[0], address[1], socket.IPPROTO_TCP)
    except OSError as error:
        raise _cannot_listen(section, host, port, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address[4])
        listening.listen(backlog)
    except OSError as error:
        listening.close()
        raise _cannot_listen(section, host, port, error) from error
    return listening


def _cannot_listen(section: str, host: str, port: int, error: OSError) -> CannotListen:
    return CannotListen(
        f"{host}:{port}: {error.strerror}; choose another address with {section}.host and {section}.port "
        f"(EXTENDER_{section.upper()}__PORT)"
    )
