"""uvicorn's HTTP/1.1 protocol with the limits that it lacks: header size, request time, response read time.

A request has 10 s from its first byte to its last, and its headers 32 KiB; the client has 10 s to read the response.
A request that is malformed, too large or too slow is answered with the usual error body, and the connection is closed.
An idle connection is closed after `keep_alive`, also before its first request.

A small request that arrives in one piece, like kube-scheduler's, is answered at once (`Begin`): a task and ASGI's
messages would take longer than the answer. If the answer has to wait, the application's task finishes it.

uvicorn documents its settings but not its protocol. None of these limits is a setting, so this module extends
HttpToolsProtocol and reads its attributes `cycle`, `pipeline`, `flow`, `scope`, `headers`, `expect_100_continue` and
`timeout_keep_alive_task`, and asyncio's `max_size`; tests/server/http/test_listener.py pins them. A protocol of our own
on httptools would be 214 lines longer.

Rule: an error is never written before the response to an earlier, pipelined request: the client would take the error
for that response. A closed connection leaves no reference cycle: TLS buffers hold 256 KiB per connection, and the
garbage collector skips frozen objects (`cluster.watch.garbage`).
"""

import asyncio
import logging
import types
import weakref
from asyncio import TimerHandle
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, NamedTuple, cast

import httptools
import uvicorn
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from extender.server.http.body import READ_TIMEOUT_SECONDS, UNCOUNTED_BODY_BYTES
from extender.server.http.caller import CALLER_KEY, caller_now
from extender.server.http.errors import error_body, error_response
from extender.server.http.response import CLOSE, Response, nothing_to_write
from extender.server.http.tls import TLSFiles
from extender.utilities.log_throttle import ThrottledLoggers

log = logging.getLogger(__name__)

MAX_HEADER_BYTES = 32 << 10
"""Maximum size of the request line with all headers, and of other bytes outside a body (chunk framing, trailers)."""

WRITE_TIMEOUT_SECONDS = 10.0
"""Seconds for which a client may stop reading its response once the write buffer is full."""

ANSWER_GRACE_SECONDS = 1.0
"""Seconds for the application to answer a body that is too slow, before the connection is closed."""

LINGER_SECONDS = 1.0
"""Seconds for which bytes after a rejection are discarded: closing a socket with unread bytes sends a TCP RST, and the
client might never see the response."""

READ_BYTES = 1 << 20
"""Read buffer per system call, instead of asyncio's 256 KiB: a request with whole nodes has up to 43 MB."""

MAX_WHOLE_BYTES = UNCOUNTED_BODY_BYTES
"""Largest body, and largest answer, of a call that is answered at once."""

BEGUN_KEY = "extender.begun"
"""ASGI scope key of an Awaitable[Response]: the answer to a request, begun by `Begin`."""

Begin = Callable[[Scope, bytes], Coroutine[Any, Any, Response]]
"""Begins to answer a complete request, given its scope and body. Never raises."""

MAX_PIPELINED_REQUESTS = 16
"""Maximum number of requests of a connection that wait for earlier answers; kube-scheduler sends one at a time."""

_PER_HEADER = len(": \r\n")
_REQUEST_LINE = len("GET  HTTP/1.1\r\n\r\n")


class ListenerState(ServerState):
    """State that all connections of one listener share."""

    connections: "set[LimitedProtocol]"  # type: ignore[assignment]

    def __init__(self, tls: TLSFiles | None = None, at_once: Mapping[bytes, Begin] | None = None) -> None:
        """`at_once`: path -> handler of small POST requests; all other requests go to the application."""
        super().__init__()
        self.tls = tls
        self.at_once = at_once or {}
        self.is_draining = False
        """True during a shutdown: each response closes its connection."""
        self.log_bad_request = ThrottledLoggers(log)


class _Rejected(Exception):
    """Rejection of a request before the application sees it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Usefulness(NamedTuple):
    """Progress of a connection so far; if connections must be closed, those with the lowest values are closed first."""

    has_been_answered: bool
    """Whether the connection has had a response."""
    has_begun: bool
    """Whether a request has begun and is not complete."""
    has_headers: bool
    """Whether the headers of that request are complete."""
    since: float
    """Time when the last request began, or else the connection, by the event loop's clock."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection with limits on size and time."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ListenerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._listener = server_state
        self._response_transport: _LingeringTransport
        self._is_rejected = False
        """True if the client's certificate is not accepted: `app` then only answers 403."""
        self.is_receiving = False
        """True while a request has begun but is not complete."""
        self._has_headers = False
        self._ignores_input = False
        self._started_at = self.loop.time()
        """Time when the last request began, or else the connection."""
        self._has_been_answered = False
        self._non_body_bytes = 0
        """Bytes received since the last part of a body or the end of a request."""
        self._max_header_bytes = 0
        """Upper bound on the header bytes of a request whose headers end in this read."""
        self._rejected: _Rejected | None = None
        self._wants_upgrade = False
        self._begin: Begin | None = None
        """Handler of the request in progress if it is complete after this read; None if the application answers."""
        self._whole = b""
        """The body of that request so far."""
        self._has_answered_at_once = False
        """True after one answer in this read: requests pipelined behind it take turns with those of other clients."""
        self._read_timer: TimerHandle | None = None
        self._write_timer: TimerHandle | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._response_transport = _LingeringTransport(weakref.proxy(self))
        if hasattr(transport, "max_size"):  # TLS transports have a buffer of their own
            transport.max_size = READ_BYTES
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        connection, tls = transport.get_extra_info("ssl_object"), self._listener.tls
        message = tls.rejection_message(connection) if tls is not None and connection is not None else None
        if message is not None:
            self.app = cast(Any, error_response(403, message, {"Connection": "close"}))
            self._is_rejected = True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._ignores_input = True
        self.pipeline.clear()
        self._unset_keepalive_if_required()
        self._cancel_read_timer()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def usefulness(self) -> Usefulness | None:
        """Return how useful the connection is; None if it must stay open while a complete request is answered."""
        if self._is_answering and not self.is_receiving:
            return None
        has_headers = self.is_receiving and self._has_headers
        return Usefulness(self._has_been_answered, self.is_receiving, has_headers, self._started_at)

    def drain(self) -> None:
        """Close the connection after the pending response."""
        if self._is_answering and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close the connection, after the answer to its pending request if there is one."""
        if self._is_answering:
            self.cycle.keep_alive = False
        elif not self.is_receiving:
            self.transport.close()

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(WRITE_TIMEOUT_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def timeout_keep_alive_handler(self) -> None:
        # Closing would wait for the write buffer, and the client had the whole keep-alive time to read it.
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    # --- a request ---

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        # 1. Parse: calls the `on_` methods below, in which a small request is answered.
        self._unset_keepalive_if_required()
        self._has_answered_at_once = False
        self._max_header_bytes = self._non_body_bytes + len(data)
        self._non_body_bytes = self._max_header_bytes
        try:
            self.parser.feed_data(data)
            if self._non_body_bytes > MAX_HEADER_BYTES and self.is_receiving:
                self._reject(_headers_too_large())
        except httptools.HttpParserUpgrade:
            self._ignores_input = True  # the following bytes may be another protocol
        except httptools.HttpParserError:
            if self._rejected is None:
                self._listener.log_bad_request("malformed", "malformed HTTP/1.1 request from %s", self.client)
            self._reject(self._rejected or _Rejected(400, "malformed HTTP/1.1 request"))
        # 2. A request that is not complete yet becomes the application's, which reads the rest.
        if not self._ignores_input and self._begin is not None:
            self._begin, whole, self._whole = None, self._whole, b""
            self._create_cycle()
            if whole:
                self.cycle.body = cast(bytearray, whole)
                self.cycle.message_event.set()
        # 3. Limit the time until the rest arrives, or until the next request does.
        if self.is_receiving and self._read_timer is None and not self._ignores_input:
            self._read_timer = self.loop.call_at(self._started_at + READ_TIMEOUT_SECONDS, self._on_read_timeout)
        elif not self.is_receiving and not self._is_answering and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.is_receiving, self._has_headers = True, False
        self._started_at = self.loop.time()
        cast(dict[str, Any], self.scope)[CALLER_KEY] = caller_now(self.transport, self._started_at)

    def on_headers_complete(self) -> None:
        self._wants_upgrade = self.parser.should_upgrade()
        self._rejected = self._check_headers()
        if self._rejected is not None:
            raise self._rejected  # ends `feed_data`
        self._has_headers = True
        self._begin, self._whole = self._answering_at_once(), b""
        if self._begin is None:
            self._create_cycle()

    def _check_headers(self) -> _Rejected | None:
        names = [name for name, _ in self.headers]
        if self._max_header_bytes > MAX_HEADER_BYTES:
            size = _REQUEST_LINE + len(self.url) + sum(len(n) + len(v) + _PER_HEADER for n, v in self.headers)
            if size > MAX_HEADER_BYTES:
                return _headers_too_large()
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:  # sent after the answers to these
            return _Rejected(503, "too many requests on one connection")
        if names.count(b"host") > 1:  # RFC 9112, 3.2
            return _Rejected(400, "more than one Host header")
        # The parser would take the body for bytes of the other protocol.
        if self._wants_upgrade and (b"content-length" in names or b"transfer-encoding" in names):
            return _Rejected(400, "a request with a body cannot ask for another protocol: leave Upgrade out")
        if self._response_transport.is_closing():  # by the answer to an earlier request
            return _Rejected(503, "the connection is closed")
        return None

    def _answering_at_once(self) -> Begin | None:
        """Return the handler for the request if all of it arrives at once; None if the application has to answer."""
        length = next((value for name, value in self.headers if name == b"content-length"), b"")
        is_small = length.isdigit() and len(length) < 9 and int(length) <= MAX_WHOLE_BYTES
        has_turn = not (self._has_answered_at_once or self._is_answering or self.pipeline or self.flow.write_paused)
        if not is_small or not has_turn or self.expect_100_continue or self._wants_upgrade or self._is_rejected:
            return None
        is_post = self.parser.get_method() == b"POST" and self.parser.get_http_version() == "1.1"
        return self._listener.at_once.get(self.url) if is_post else None

    def _create_cycle(self) -> None:
        super().on_headers_complete()
        self.cycle.transport = cast(asyncio.Transport, self._response_transport)
        if self._wants_upgrade or self._listener.is_draining:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._non_body_bytes = 0
        if self._begin is not None:
            self._whole += body
            return
        buffered: bytes | bytearray = self.cycle.body
        # Most bodies arrive in one piece: keep it as it is, where uvicorn would copy it into a bytearray and out again.
        if not buffered:
            self.cycle.body, body = cast(bytearray, body), b""
        elif isinstance(buffered, bytes):  # more pieces are appended in place, so that the total cost stays linear
            self.cycle.body = bytearray(buffered)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.is_receiving, self._non_body_bytes = False, 0
        self._cancel_read_timer()
        if self._begin is not None:
            self._answer_at_once(self._begin)
        else:
            super().on_message_complete()

    def _answer_at_once(self, begin: Begin) -> None:
        """Answer the complete request, or let the application send an answer that has to wait or is large."""
        # 1. Run the handler until it first has to wait, which it seldom does.
        scope, content = cast(dict[str, Any], self.scope), self._whole
        self._begin, self._whole = None, b""
        scope["method"], scope["path"] = "POST", self.url.decode("ascii")
        answering = begin(scope, content)
        try:
            scope[BEGUN_KEY] = _rest(answering, answering.send(None))
        except StopIteration as done:
            # 2. It did not: write the answer, unless it is too large to buffer and must be sent as fast as it is read.
            response: Response = done.value
            if len(response.body) <= MAX_WHOLE_BYTES:
                self._write(response)
                response.after_send()
                return
            response.after_send()
            scope[BEGUN_KEY] = ready = self.loop.create_future()
            ready.set_result(response._replace(after_send=nothing_to_write))
        # 3. The application awaits BEGUN_KEY.
        self._create_cycle()
        self.cycle.more_body = False

    def _write(self, response: Response) -> None:
        closes = CLOSE in response.headers or not self.parser.should_keep_alive() or self._listener.is_draining
        more = self._listener.default_headers
        if closes and CLOSE not in response.headers:
            more = [*more, CLOSE]
        self.transport.write(response.head(more) + response.body)
        self._has_been_answered = self._has_answered_at_once = True
        if closes:
            self._ignores_input = True
            self._response_transport.close()

    def on_response_complete(self) -> None:
        self._has_been_answered = True
        if not self._response_transport.is_closing():
            super().on_response_complete()

    # --- rejections ---

    def _cancel_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _on_read_timeout(self) -> None:
        self._read_timer = None
        if self.transport.is_closing() or not self.is_receiving:
            return
        if self.flow.read_paused:  # the delay is ours, not the client's
            self._read_timer = self.loop.call_later(ANSWER_GRACE_SECONDS, self._on_read_timeout)
        elif not self._has_headers:
            self._reject(
                _Rejected(408, f"the request did not arrive within {READ_TIMEOUT_SECONDS:.0f} seconds"), linger=0
            )
        elif self._is_answering and self.loop.time() < self._started_at + READ_TIMEOUT_SECONDS + ANSWER_GRACE_SECONDS:
            self._read_timer = self.loop.call_later(ANSWER_GRACE_SECONDS, self._on_read_timeout)
        elif self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _reject(self, rejection: _Rejected, linger: float = LINGER_SECONDS) -> None:
        """Answer the request in progress with an error, unless an earlier request is still unanswered; then close."""
        self._ignores_input = True
        self._cancel_read_timer()
        if self._response_transport.is_closing():
            return
        # An earlier request is being answered: close after its response, without an answer to the current one.
        if self._is_answering and not (self._has_headers and self.is_receiving):
            self.cycle.keep_alive = False
            return
        # An error within a response that has begun, or before one, would be taken for a part of it.
        if self.pipeline or (self._is_answering and self.cycle.response_started):
            self.transport.abort()
            return
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        response = Response(rejection.status, error_body(str(rejection)), (CLOSE,))
        self.transport.write(response.head(self._listener.default_headers) + response.body)
        self._response_transport.close(linger)

    def close_later(self, linger: float) -> None:
        """Discard further bytes, and close after `linger` seconds or as soon as the client closes."""
        self._ignores_input = True
        self.flow.resume_reading()
        self.loop.call_later(linger, self.transport.close)


class _LingeringTransport:
    """Transport for responses, whose `close()` lingers while the client is still sending."""

    def __init__(self, protocol: LimitedProtocol) -> None:
        self._protocol = protocol
        self._is_closing = False
        self.write = protocol.transport.write

    def is_closing(self) -> bool:
        return self._is_closing or self._protocol.transport.is_closing()

    def close(self, linger: float = LINGER_SECONDS) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if linger and self._protocol.is_receiving and not self._protocol.transport.is_closing():
            self._protocol.close_later(linger)
        else:
            self._protocol.transport.close()


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, Response], waits_for: Any) -> Generator[Any, Any, Response]:
    """Run the rest of a coroutine that has yielded `waits_for`, in the task that awaits the result."""
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:
                waits_for = coroutine.throw(error)
            else:
                waits_for = coroutine.send(sent)
    except StopIteration as done:
        response: Response = done.value
        return response


def _headers_too_large() -> _Rejected:
    return _Rejected(431, f"request line and headers exceed the limit of {MAX_HEADER_BYTES} bytes")
