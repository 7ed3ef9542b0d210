"""HTTP as uvicorn speaks it, with the limits that it lacks.

A request, from its first byte to its last, must be here within 10 s, its headers within 32 KiB; an answer must be
read within 10 s. What is no HTTP, too large or too slow is answered in the shape of all errors, and the connection is
closed. One that idles is closed after `keep_alive`, also if it never said anything.

Rule: an answer is never written where another one is still to come: who sent that would take it for theirs. Nothing of
a connection refers to itself once it is closed: TLS holds 256 KiB for each, and the collector does not look at what was
there when it last did (`KubernetesSource._collect`).
"""

import asyncio
import logging
import weakref
from asyncio import TimerHandle
from typing import Any, cast

import httptools
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from extender.server.http.body import BEGAN, TIMEOUT
from extender.server.http.errors import error_body, error_response
from extender.server.http.log_throttle import ThrottledLogger
from extender.server.http.tls import TLSFiles

log = logging.getLogger(__name__)

MAX_HEADER_BYTES = 32 << 10
"""Of the request line and all headers; and of anything else that is no body."""

UNREAD_TIMEOUT = 10.0
"""Seconds within which a client must read on once as much of its answer waits as may."""

GRACE = 1.0
"""Seconds that the application has to answer a body that is too slow, before the connection is closed."""

LINGER = 1.0
"""Seconds for which what still comes after a refusal is thrown away: were it left unread, the client's machine would
be told of a broken connection, and the client might never see the answer."""

READ_BYTES = 1 << 20
"""At most so much is read at once, instead of asyncio's 256 KiB: whole nodes come as 43 MB."""

_PER_HEADER = len(": \r\n")
_REQUEST_LINE = len("GET  HTTP/1.1\r\n\r\n")


class Port(ServerState):
    """What all connections of one listener share."""

    def __init__(self, tls: TLSFiles | None = None) -> None:
        super().__init__()
        self.tls = tls
        self.is_draining = False
        """Each answer is the last one of its connection."""
        self.note = ThrottledLogger(log)


class _Refused(Exception):
    """The request is answered by us: status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: Port,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._port = server_state
        self._out: _Answers
        self._is_receiving = False
        """A request has begun, and has not ended."""
        self._has_headers = False
        self._is_over = False
        """Nothing that comes is looked at any more."""
        self._began = 0.0
        self._bodiless = 0
        """Bytes that came since the last one of a body, or of a request."""
        self._at_most = 0
        """The most of them that the headers of a request may be that ends with this read."""
        self._asked: RequestResponseCycle | None = None
        """`cycle`, which is None before the first request whatever its type says."""
        self._refused: _Refused | None = None
        self._deadline: TimerHandle | None = None
        self._unread: TimerHandle | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._out = _Answers(weakref.proxy(self))
        if hasattr(transport, "max_size"):  # not under TLS, which has a buffer of its own
            transport.max_size = READ_BYTES
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        connection = transport.get_extra_info("ssl_object")
        refusal = self._port.tls.refusal(connection) if self._port.tls is not None and connection is not None else None
        if refusal is not None:
            self.app = cast(Any, _forbidden(refusal))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._is_over = True
        self.pipeline.clear()
        self._unset_keepalive_if_required()
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()

    def drain(self) -> None:
        """The answer that is to come is to be the last one here."""
        if self._is_answering and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close the connection, once what it asks is answered. The port is draining."""
        if self._is_answering:
            self.cycle.keep_alive = False
        elif not self._is_receiving:
            self.transport.close()

    @property
    def _is_answering(self) -> bool:
        return self._asked is not None and not self._asked.response_complete

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # it has had time enough to read its answer
        else:
            super().timeout_keep_alive_handler()

    # --- a request ---

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._unset_keepalive_if_required()
        self._at_most = self._bodiless + len(data)
        self._bodiless = self._at_most
        try:
            self.parser.feed_data(data)
            if self._bodiless > MAX_HEADER_BYTES and self._is_receiving:
                self._refuse(_headers_too_large())
        except httptools.HttpParserUpgrade:
            self._is_over = True  # what follows need not be HTTP
        except httptools.HttpParserError:
            if self._refused is None:
                self._port.note("what %s sent is no HTTP/1.1 request, or a wrong one", self.client)
            self._refuse(self._refused or _Refused(400, "what was sent is no HTTP/1.1 request, or a wrong one"))
        if self._is_receiving and self._deadline is None and not self._is_over:
            self._deadline = self.loop.call_at(self._began + TIMEOUT, self._too_slow)
        elif not self._is_receiving and not self._is_answering and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_receiving, self._has_headers = True, False
        self._began = self.loop.time()
        cast(dict[str, Any], self.scope)[BEGAN] = self._began

    def on_headers_complete(self) -> None:
        if self._at_most > MAX_HEADER_BYTES:
            size = _REQUEST_LINE + len(self.url) + sum(len(n) + len(v) + _PER_HEADER for n, v in self.headers)
            if size > MAX_HEADER_BYTES:
                self._refused = _headers_too_large()
                raise self._refused
        asks_for_more = self.parser.should_upgrade()
        if asks_for_more and any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
            self._refused = _Refused(400, "a body cannot follow a request for another protocol: leave Upgrade out")
            raise self._refused  # the parser takes the body for the other protocol
        super().on_headers_complete()
        self._has_headers = True
        self._asked = self.cycle
        self.cycle.transport = cast(asyncio.Transport, self._out)
        if asks_for_more or self._port.is_draining:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._bodiless = 0
        waiting: bytes | bytearray = self.cycle.body
        if not waiting:  # as it is: uvicorn would copy it into its own, and out of that
            self.cycle.body, body = cast(bytearray, body), b""
        elif isinstance(waiting, bytes):  # of many small pieces none may cost what all before it are
            self.cycle.body = bytearray(waiting)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_receiving, self._bodiless = False, 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self._out.is_closing():
            super().on_response_complete()

    # --- refusals ---

    def _too_slow(self) -> None:
        self._deadline = None
        if self.transport.is_closing() or not self._is_receiving:
            return
        if self.flow.read_paused:  # it is we who do not read on
            self._deadline = self.loop.call_later(GRACE, self._too_slow)
        elif not self._has_headers:
            self._refuse(_Refused(408, f"the request did not arrive within {TIMEOUT:.0f} seconds"), linger=0)
        elif self._is_answering and self.loop.time() < self._began + TIMEOUT + GRACE:
            self._deadline = self.loop.call_later(GRACE, self._too_slow)
        elif self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _refuse(self, why: _Refused, linger: float = LINGER) -> None:
        """Answer the request that is being received, unless an earlier one must be answered first; then close."""
        self._is_over = True
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._is_answering and not (self._has_headers and self._is_receiving):
            self.cycle.keep_alive = False  # an earlier request: its answer is the last one
            return
        if self.pipeline or (self._is_answering and self.cycle.response_started):
            self.transport.abort()
            return
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(self._error(why))
        self._out.close(linger)

    def _error(self, why: _Refused) -> bytes:
        body = error_body(str(why))
        headers = [*self._port.default_headers, (b"content-type", b"application/json")]
        headers += [(b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        return b"".join([STATUS_LINE[why.status], *(b"%b: %b\r\n" % header for header in headers), b"\r\n", body])

    def close_later(self, linger: float) -> None:
        """Close, after a while in which what still comes is thrown away, or as soon as the client does."""
        self._is_over = True
        self.flow.resume_reading()
        self.loop.call_later(linger, self.transport.close)

    @property
    def is_receiving(self) -> bool:
        """Is there more to come of a request?"""
        return self._is_receiving


class _Answers:
    """The connection as answers are written to it: not closed while the client is still sending."""

    def __init__(self, protocol: LimitedProtocol) -> None:
        self._protocol = protocol
        self._is_closing = False
        self.write = protocol.transport.write

    def is_closing(self) -> bool:
        return self._is_closing or self._protocol.transport.is_closing()

    def close(self, linger: float = LINGER) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if linger and self._protocol.is_receiving and not self._protocol.transport.is_closing():
            self._protocol.close_later(linger)
        else:
            self._protocol.transport.close()


def _headers_too_large() -> _Refused:
    return _Refused(431, f"request line and headers are larger than the {MAX_HEADER_BYTES} bytes that are allowed")


def _forbidden(message: str) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await error_response(403, message, {"Connection": "close"})(scope, receive, send)

    return answer
