"""HTTP/1.1 of one connection, with limits on size and time: bytes -> requests -> the application -> bytes.

A request must arrive within 10 s from its first byte to its last, its headers within 32 KiB; a response must be read
within 10 s. Malformed, too large or too slow requests are answered with the usual error body, and the connection is
closed. An idle connection is closed after `keep_alive`, also before its first request.

A small request that arrives in one piece, as those of kube-scheduler do, is answered at once (`Begin`): a task and
ASGI's messages would take longer than the answer. If the answer has to wait, the application's task finishes it. All
other requests are exchanges with the application, one at a time for each connection. httptools parses.

Rule: an error is never written before the response to an earlier, pipelined request: the client would take the error
for that response. A closed connection leaves no reference cycle: TLS buffers hold 256 KiB per connection, and the
garbage collector skips frozen objects (`cluster.watch.garbage`).
"""

import asyncio
import logging
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools
from starlette.types import ASGIApp, Scope

from extender.server.http.body import READ_TIMEOUT_SECONDS, UNCOUNTED_BODY_BYTES
from extender.server.http.caller import CALLER_KEY, Caller, caller_now
from extender.server.http.errors import error_body, error_response
from extender.server.http.exchange import Exchange, Flow, Progress
from extender.server.http.response import CLOSE, Header, Response, nothing_to_write
from extender.server.http.tls import TLSFiles
from extender.utilities.log_throttle import ThrottledLogger

log = logging.getLogger(__name__)

MAX_HEADER_BYTES = 32 << 10
"""Limit for the request line and all headers, and for any other bytes outside a body (chunk framing, trailers)."""

ANSWER_GRACE_SECONDS = 1.0
"""Seconds for the application to answer a body that is too slow, before the connection is closed."""

LINGER_SECONDS = 1.0
"""Seconds for which bytes after a rejection are discarded: closing with unread bytes sends a TCP RST, and the client
might never see the response."""

READ_BYTES = 1 << 20
"""Read buffer per system call, instead of asyncio's 256 KiB: a request with whole nodes has up to 43 MB."""

MAX_WHOLE_BYTES = UNCOUNTED_BODY_BYTES
"""Largest body, and largest answer, of a call that is answered at once."""

BEGUN_KEY = "extender.begun"
"""ASGI scope key of an Awaitable[Response]: the answer to a request, begun by `Begin`."""

Begin = Callable[[Scope, bytes], Coroutine[Any, Any, Response]]
"""Begins to answer a complete request: its scope and its body. Never raises."""

MAX_PIPELINED_REQUESTS = 16
"""Requests of one connection that wait for the answers to earlier ones; kube-scheduler sends one at a time."""

_PER_HEADER = len(": \r\n")
_REQUEST_LINE = len("GET  HTTP/1.1\r\n\r\n")


@dataclass(slots=True)
class ListenerState:
    """What all connections of one listener share."""

    app: ASGIApp
    keep_alive: float
    """Seconds after which an idle connection is closed."""
    tls: TLSFiles | None = None
    at_once: Mapping[bytes, Begin] = field(default_factory=dict)
    """Path -> what answers a POST to it, if the whole request is small; others go to the application."""
    is_draining: bool = False
    """True during a shutdown: each response closes its connection."""
    default_headers: list[Header] = field(default_factory=list)
    """Headers of every response."""
    connections: "set[Connection]" = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Exchanges with the application."""
    log_bad_request: ThrottledLogger = field(default_factory=lambda: ThrottledLogger(log))


class _Rejected(Exception):
    """Rejection of a request before the application sees it: status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Phase(Enum):
    """What a connection does with received bytes, and whether its last answer is written."""

    OPEN = auto()
    """Bytes are parsed."""
    DEAF = auto()
    """Bytes are discarded; the answer to an earlier request is still to come."""
    CLOSING = auto()
    """Bytes are discarded; the last answer is written."""


class Usefulness(NamedTuple):
    """What a connection has done; when connections must be closed, the lowest are closed first."""

    has_been_answered: bool
    """Whether the connection has had a response."""
    has_begun: bool
    """Whether a request has begun and is not complete."""
    has_headers: bool
    """Whether the headers of that request are complete."""
    since: float
    """When the last request began, or else the connection; event loop's clock."""


@dataclass(slots=True)
class _Incoming:
    """A request as it arrives."""

    caller: Caller
    is_complete: bool = False
    url: bytes = b""
    headers: list[Header] = field(default_factory=list)
    has_headers: bool = False
    """True once the headers are complete and valid."""
    scope: Scope = field(default_factory=dict)
    begin: Begin | None = None
    """What answers the request if it is complete after this read; None: the application does."""
    body: bytes = b""
    """The body so far, for `begin`."""

    def has(self, *names: bytes) -> bool:
        return any(name in names for name, _ in self.headers)


@dataclass(slots=True)
class _Read:
    """What one read from the socket brought."""

    non_body_bytes: int = 0
    """Bytes received since the last byte of a body, or since the last complete request; also by earlier reads."""
    max_header_bytes: int = 0
    """Upper bound for the header bytes of a request whose headers complete in this read."""
    has_answered: bool = False
    """True after one answer at once; requests that were pipelined behind it take turns with other connections."""


class Connection(asyncio.Protocol):
    """One connection with limits on size and time."""

    def __init__(self, listener: ListenerState) -> None:
        now = asyncio.get_running_loop().time()
        self.transport: asyncio.Transport
        self._flow: Flow
        self._listener = listener
        self._app = listener.app
        self._parser: Any = httptools.HttpRequestParser(self)
        # A request may follow one that asks for the end of the connection: the parser would take it for an error.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._peers: dict[str, Any] = {}
        """Part of the ASGI scope that all requests share."""
        self._incoming = _Incoming(Caller(now, now), is_complete=True)
        """The last request that has begun; before the first, a complete one from when the connection began."""
        self._exchanges: deque[Exchange] = deque()
        """Requests without a complete response; the first one is being answered."""
        self._phase = Phase.OPEN
        self._has_been_answered = False
        self._read = _Read()
        self._timer: asyncio.TimerHandle | None = None
        """Ends a request that arrives too slowly, or else a connection that is idle."""

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport, self._flow = transport, Flow(transport)
        self._listener.connections.add(self)
        connection, tls = transport.get_extra_info("ssl_object"), self._listener.tls
        self._peers = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http" if connection is None else "https",
            "client": _address(transport.get_extra_info("peername")),
            "server": _address(transport.get_extra_info("sockname")),
            "root_path": "",
        }
        if hasattr(transport, "max_size"):  # TLS transports have a buffer of their own
            transport.max_size = READ_BYTES
        self._set_timer(self._listener.keep_alive, self._on_idle_timeout)
        message = tls.rejection_message(connection) if tls is not None and connection is not None else None
        if message is not None:
            self._app = error_response(403, message, {"Connection": "close"})

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._phase, self._parser = Phase.CLOSING, None
        for exchange in self._exchanges:
            exchange.disconnect()
        self._exchanges.clear()
        self._flow.resume_writing()
        self._cancel_timer()

    @property
    def is_receiving(self) -> bool:
        """Return whether a request has begun and is not complete."""
        return not self._incoming.is_complete

    def usefulness(self) -> Usefulness | None:
        """Return how much would be lost if the connection were closed; None: the answer to a complete request."""
        if self._exchanges and not self.is_receiving:
            return None
        has_headers = self.is_receiving and self._incoming.has_headers
        return Usefulness(self._has_been_answered, self.is_receiving, has_headers, self._incoming.caller.read_at)

    def drain(self) -> None:
        """Close the connection after the pending response."""
        if self._exchanges and self._exchanges[-1].progress is Progress.NOTHING:
            self._exchanges[-1].keep_alive = False

    def shutdown(self) -> None:
        """Close the connection as soon as its pending request is answered; the listener is draining."""
        if self._exchanges:
            self._exchanges[-1].keep_alive = False
        elif not self.is_receiving:
            self.transport.close()

    def pause_writing(self) -> None:
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        self._flow.resume_writing()

    def _set_timer(self, seconds: float, on_end: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, on_end)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_idle_timeout(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # the client had the whole keep-alive time to read its response
        else:
            self.transport.close()

    # --- a request ---

    def data_received(self, data: bytes) -> None:
        if self._phase is not Phase.OPEN:
            return
        if not self.is_receiving:
            self._cancel_timer()
        read = self._read
        read.has_answered = False
        read.max_header_bytes = read.non_body_bytes = read.non_body_bytes + len(data)
        try:
            self._parser.feed_data(data)
            if read.non_body_bytes > MAX_HEADER_BYTES and self.is_receiving:
                self._reject(_headers_too_large())
        except httptools.HttpParserUpgrade:
            self._phase = Phase.DEAF  # what follows may be another protocol
        except httptools.HttpParserError as error:
            rejection = error.__context__  # of what a callback raised
            if not isinstance(rejection, _Rejected):
                self._listener.log_bad_request("malformed HTTP/1.1 request from %s", self._peers["client"])
                rejection = _Rejected(400, "malformed HTTP/1.1 request")
            self._reject(rejection)
        incoming = self._incoming
        if self._phase is Phase.OPEN and incoming.begin is not None:  # it did not arrive at once
            incoming.begin = None
            exchange = self._start_exchange(incoming)
            if incoming.body:
                exchange.add_body(incoming.body)
                incoming.body = b""
        if self.is_receiving and self._timer is None and self._phase is Phase.OPEN:
            left = incoming.caller.read_at + READ_TIMEOUT_SECONDS - asyncio.get_running_loop().time()
            self._set_timer(left, self._on_read_timeout)
        elif not self.is_receiving and not self._exchanges and self._timer is None:
            self._set_timer(self._listener.keep_alive, self._on_idle_timeout)

    def on_message_begin(self) -> None:
        self._incoming = _Incoming(caller_now(self.transport, asyncio.get_running_loop().time()))

    def on_url(self, url: bytes) -> None:
        self._incoming.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._incoming.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        incoming = self._incoming
        wants_upgrade = self._parser.should_upgrade()
        self._check_headers(incoming, wants_upgrade)
        url = httptools.parse_url(incoming.url)
        path = url.path.decode("ascii")
        incoming.scope = {
            **self._peers,
            "http_version": self._parser.get_http_version(),
            "method": self._parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": incoming.headers,
            "state": {},
            CALLER_KEY: incoming.caller,
        }
        incoming.has_headers = True
        if not wants_upgrade and not self._read.has_answered and not self._exchanges:
            incoming.begin = self._answering_at_once(incoming)
        if incoming.begin is None:
            self._start_exchange(incoming).keep_alive &= not wants_upgrade

    def _check_headers(self, incoming: _Incoming, wants_upgrade: bool) -> None:
        """Raise _Rejected for a request that the application should not see."""
        if self._read.max_header_bytes > MAX_HEADER_BYTES:
            size = sum(len(name) + len(value) + _PER_HEADER for name, value in incoming.headers)
            if _REQUEST_LINE + len(incoming.url) + size > MAX_HEADER_BYTES:
                raise _headers_too_large()
        if len(self._exchanges) > MAX_PIPELINED_REQUESTS:
            raise _Rejected(503, "too many requests on one connection")  # closes it after the earlier answers
        if [name for name, _ in incoming.headers].count(b"host") > 1:  # RFC 9112, 3.2
            raise _Rejected(400, "more than one Host header")
        if wants_upgrade and incoming.has(b"content-length", b"transfer-encoding"):
            # The parser would treat the body as bytes of the other protocol.
            raise _Rejected(400, "a request with a body cannot ask for another protocol: leave Upgrade out")
        if self._phase is Phase.CLOSING:  # the answer to an earlier request has closed it
            raise _Rejected(503, "the connection is closed")

    def _answering_at_once(self, incoming: _Incoming) -> Begin | None:
        """Return what may answer the request if all of it arrives at once; None: only the application."""
        begin = self._listener.at_once.get(incoming.url)
        length = next((value for name, value in incoming.headers if name == b"content-length"), b"")
        is_small = length.isdigit() and len(length) < 9 and int(length) <= MAX_WHOLE_BYTES
        if begin is None or not is_small or incoming.has(b"expect") or self._app is not self._listener.app:
            return None
        is_post = (incoming.scope["method"], incoming.scope["http_version"]) == ("POST", "1.1")
        return begin if is_post and self._flow.may_write.is_set() else None

    def _start_exchange(self, incoming: _Incoming) -> Exchange:
        """Let the application answer, after earlier requests."""
        keep_alive = incoming.scope["http_version"] != "1.0" and self._parser.should_keep_alive()
        exchange = Exchange(
            incoming.scope,
            self._flow,
            self._listener.default_headers,
            self._on_exchange_end,
            keep_alive=keep_alive and not self._listener.is_draining,
            expects_continue=any(
                name == b"expect" and value.lower() == b"100-continue" for name, value in incoming.headers
            ),
        )
        self._exchanges.append(exchange)
        if len(self._exchanges) == 1:
            self._run(exchange)
        else:
            self._flow.pause_reading()
        return exchange

    def _run(self, exchange: Exchange) -> None:
        task = asyncio.get_running_loop().create_task(exchange.run(self._app))
        self._listener.tasks.add(task)
        task.add_done_callback(self._listener.tasks.discard)

    def on_body(self, body: bytes) -> None:
        self._read.non_body_bytes = 0
        if self._incoming.begin is not None:
            self._incoming.body += body
        elif self._exchanges:  # the last one is that of this request, unless its response is complete already
            self._exchanges[-1].add_body(body)

    def on_message_complete(self) -> None:
        incoming = self._incoming
        incoming.is_complete, self._read.non_body_bytes = True, 0
        self._cancel_timer()
        if incoming.begin is not None:
            self._answer_at_once(incoming, incoming.begin)
        elif self._exchanges:
            self._exchanges[-1].end_body()

    def _answer_at_once(self, incoming: _Incoming, begin: Begin) -> None:
        """Answer the complete request; where the answer waits for something or is large, the application sends it."""
        content, incoming.begin, incoming.body = incoming.body, None, b""
        answering = begin(incoming.scope, content)
        try:
            incoming.scope[BEGUN_KEY] = _rest(answering, answering.send(None))
        except StopIteration as done:
            response: Response = done.value
            if len(response.body) <= MAX_WHOLE_BYTES:
                self._write(response)
                response.after_send()
                return
            response.after_send()
            incoming.scope[BEGUN_KEY] = ready = asyncio.get_running_loop().create_future()
            ready.set_result(response._replace(after_send=nothing_to_write))
        self._start_exchange(incoming)  # without the body, so that `receive` waits for the end of the connection

    def _write(self, response: Response) -> None:
        closes = CLOSE in response.headers or not self._parser.should_keep_alive() or self._listener.is_draining
        more = self._listener.default_headers
        if closes and CLOSE not in response.headers:
            more = [*more, CLOSE]
        self.transport.write(response.encode(more))
        self._has_been_answered = self._read.has_answered = True
        if closes:
            self._close()

    def _on_exchange_end(self, exchange: Exchange) -> None:
        """Let the application answer the next request, or close the connection."""
        self._has_been_answered = True
        if self._exchanges and self._exchanges[0] is exchange:
            self._exchanges.popleft()
        if not exchange.keep_alive:
            self._close()
        elif self._phase is not Phase.CLOSING and not self.transport.is_closing():
            self._flow.resume_reading()
            if self._exchanges:
                self._run(self._exchanges[0])
            elif not self.is_receiving and self._timer is None:
                self._set_timer(self._listener.keep_alive, self._on_idle_timeout)

    # --- rejections ---

    def _on_read_timeout(self) -> None:
        self._timer = None
        if self.transport.is_closing() or not self.is_receiving:
            return
        ends = self._incoming.caller.read_at + READ_TIMEOUT_SECONDS + ANSWER_GRACE_SECONDS
        if self._flow.is_reading_paused:  # reading is paused on our side, the client is not slow
            self._set_timer(ANSWER_GRACE_SECONDS, self._on_read_timeout)
        elif not self._incoming.has_headers:
            message = f"the request did not arrive within {READ_TIMEOUT_SECONDS:.0f} seconds"
            self._reject(_Rejected(408, message), linger=0)
        elif self._exchanges and asyncio.get_running_loop().time() < ends:
            self._set_timer(ANSWER_GRACE_SECONDS, self._on_read_timeout)
        elif self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _reject(self, rejection: _Rejected, linger: float = LINGER_SECONDS) -> None:
        """Answer the request in progress with an error, unless an earlier request is still unanswered; then close."""
        self._cancel_timer()
        if self._phase is Phase.CLOSING or self.transport.is_closing():
            return
        self._phase = Phase.DEAF
        if self._exchanges and not (self._incoming.has_headers and self.is_receiving):
            self._exchanges[-1].keep_alive = False  # an earlier request is being answered: close after its response
        elif len(self._exchanges) > 1 or (self._exchanges and self._exchanges[0].progress is not Progress.NOTHING):
            self.transport.abort()
        else:
            for exchange in self._exchanges:
                exchange.disconnect()
            error = Response(rejection.status, error_body(str(rejection)), (CLOSE,))
            self.transport.write(error.encode(self._listener.default_headers))
            self._close(linger)

    def _close(self, linger: float = LINGER_SECONDS) -> None:
        """Close the connection behind its last answer; `linger`: seconds for a client that is still sending."""
        if self._phase is Phase.CLOSING:
            return
        self._phase = Phase.CLOSING
        if linger and self.is_receiving and not self.transport.is_closing():
            self._flow.resume_reading()
            asyncio.get_running_loop().call_later(linger, self.transport.close)
        else:
            self.transport.close()


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, Response], waits_for: Any) -> Generator[Any, Any, Response]:
    """Run the rest of a coroutine, which has yielded `waits_for`, in the task that awaits this."""
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


def _address(name: Any) -> tuple[str, int] | None:
    """Return host and port of a socket's name; None: it has none, or is not of TCP."""
    return (name[0], name[1]) if isinstance(name, tuple) else None
