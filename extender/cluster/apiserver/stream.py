"""Send one request to the API server and stream its response, line by line or as a whole body.

Any thread may close a stream that another thread reads. There are two errors: `ApiError` for a response other than 2xx,
and `ApiUnreachable` for no complete response.

Rule: a truncated line or body is an error, never a result.
"""

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

import msgspec
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from extender.errors import ExtenderError

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # A warn-code, an agent and a quoted text (RFC 7234)
MAX_ERROR_BODY_BYTES = 65536  # Bytes of an error response that are read
MAX_READ_BYTES = 1 << 20  # Bytes of a response per read, which bounds a batch of lines
NAMESPACE_TERMINATING = "NamespaceTerminating"  # Cause of a 403 that has nothing to do with permissions


class ApiError(ExtenderError):
    """A response other than 2xx, or an ERROR event; `code`, `reason` and `message` are those of its Status."""

    status = 503

    def __init__(
        self, code: int, reason: str, message: str, retry_after: float | None = None, causes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(f"{code} {reason}: {message}" if message else f"{code} {reason}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after  # Seconds of the Retry-After header; None if the server sent none
        self.causes = causes  # Reasons of the causes in the Status, such as NAMESPACE_TERMINATING


class ApiUnreachable(ExtenderError):
    """No complete response: connection refused or reset, timeout, TLS failure, truncated body."""

    status = 503


class Stream:
    """One request and its response: `with stream: for lines in stream.lines(): …`.

    Other threads may call only `close`, at any time: it wakes the reader and ends the response.
    """

    def __init__(self, send: Callable[[], BaseHTTPResponse]) -> None:
        self._send = send
        self._response: BaseHTTPResponse | None = None
        self._lock = threading.Lock()
        self._socket: Any = None
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        """Send the request and wait for the response headers; raises ApiError or ApiUnreachable."""
        _opening.stream = self
        try:
            self._response = self._send()
        finally:
            _opening.stream = None
        # Connections over SOCKS do not report their socket.
        if self._socket is None and self._response.connection is not None:
            self.set_socket(getattr(self._response.connection, "sock", None))
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._socket = None
        if self._response is not None:
            self._response.close()
            self._response.release_conn()

    def lines(self) -> Iterator[list[bytes]]:
        """Yield complete lines as they arrive, one batch per read; ApiUnreachable if the response is truncated."""
        rest = b""
        # Go's server sends each event of a watch as a chunk; reading by chunks takes half the time of `read1`.
        if self._opened.chunked:
            read_next = partial(next, self._opened.stream(MAX_READ_BYTES, decode_content=True), b"")
        else:
            read_next = partial(self._opened.read1, MAX_READ_BYTES)
        while data := self._read(read_next):
            *lines, rest = (rest + data).split(b"\n")
            whole = [line for line in lines if line.strip()]
            if whole:
                yield whole
        if rest.strip() and not self._closed.is_set():
            raise ApiUnreachable("the response ended in the middle of a line")

    def read(self) -> bytes:
        """Return the whole body; ApiUnreachable if it is truncated or the stream was closed."""
        body = self._read(self._opened.read)
        if self._closed.is_set():
            raise ApiUnreachable("the request was cancelled")
        return body

    @property
    def warnings(self) -> tuple[str, ...]:
        """Texts of the Warning headers; those of other agents than 299, a persistent warning, are not the server's."""
        values = ", ".join(self._opened.headers.getlist("Warning"))
        return tuple(one_line(re.sub(r"\\(.)", r"\1", text)) for text in _WARNING.findall(values))

    def close(self) -> None:
        """End the response now; callable from any thread."""
        with self._lock:
            self._closed.set()
            _shut_down(self._socket)

    def set_socket(self, sock: Any) -> None:
        """Store the socket for `close` to shut down; called by the connection in the thread that opens the stream."""
        with self._lock:
            self._socket = sock
            if self._closed.is_set():
                _shut_down(sock)

    @property
    def _opened(self) -> BaseHTTPResponse:
        assert self._response is not None, "a stream is read inside its with block"
        return self._response

    def _read(self, read: Callable[[], bytes]) -> bytes:
        """Return the next bytes; none after `close`, even if the socket still has data."""
        if self._closed.is_set():
            return b""
        try:
            data = read()
        except (HTTPError, OSError, ValueError) as error:
            if self._closed.is_set():
                return b""
            raise ApiUnreachable(root_cause(error)) from error
        return b"" if self._closed.is_set() else data


def one_line(text: str, limit: int = 1000) -> str:
    """Return untrusted text as one line that is safe to log: unprintable characters are replaced."""
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split())[:limit])


def root_cause(error: BaseException) -> str:
    """Return the message of the innermost error; urllib3's outer messages contain object addresses."""
    while (inner := error.__cause__ or (error.__context__ if isinstance(error, HTTPError) else None)) is not None:
        error = inner
    return str(error) or type(error).__name__


# --- sockets --------------------------------------------------------------------------------------------------------


def socket_options() -> list[tuple[int, int, int]]:
    """Return options that make the kernel drop a dead peer within 30 s, while reading and while writing."""
    wanted = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 20_000))
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    return options + [(socket.IPPROTO_TCP, getattr(socket, n), v) for n, v in wanted if hasattr(socket, n)]


def use_reporting_connections(pools: urllib3.PoolManager) -> None:
    """Make a pool's connections report their socket to the stream that reads it."""
    pools.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}


_opening = threading.local()  # `stream`: the stream that the current thread is opening, or None


class _SocketReporting:
    """A connection that reports its socket to the stream, so that another thread can interrupt it."""

    sock: Any

    def getresponse(self) -> Any:
        if _opening.stream is not None:
            _opening.stream.set_socket(self.sock)
        return super().getresponse()  # type: ignore[misc]


class _Http(_SocketReporting, HTTPConnection):
    pass


class _Https(_SocketReporting, HTTPSConnection):
    pass


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Https


def _shut_down(sock: Any) -> None:
    if sock is not None:
        with contextlib.suppress(OSError):
            # The plain socket's shutdown, because that of SSLSocket lets a reader continue without TLS.
            socket.socket.shutdown(getattr(sock, "socket", sock), socket.SHUT_RDWR)


# --- errors ---------------------------------------------------------------------------------------------------------


class StatusCause(msgspec.Struct):
    reason: str | None = None


class StatusDetails(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None
    causes: list[StatusCause] | None = None


class ApiStatus(msgspec.Struct):
    """meta/v1 Status, as the body of an error and as the object of an ERROR event."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: StatusDetails | None = None

    def error(self, retry_after: float | None = None) -> ApiError:
        """Return the exception for this Status; a missing code counts as 500."""
        if retry_after is None and self.details is not None:
            retry_after = self.details.retry_after_seconds or None
        causes = () if self.details is None else tuple(one.reason or "" for one in self.details.causes or ())
        reason, message = one_line(self.reason or "Unknown"), one_line(self.message or "")
        return ApiError(self.code or 500, reason, message, retry_after, causes)


def api_error_from(response: BaseHTTPResponse) -> ApiError:
    """Return the error of a response other than 2xx and release the response; a proxy's HTML is not quoted."""
    try:
        status = msgspec.json.decode(response.read(MAX_ERROR_BODY_BYTES), type=ApiStatus)
    except (HTTPError, OSError, ValueError):
        status = ApiStatus(reason=response.reason)
    finally:
        response.close()
        response.release_conn()
    status.code = response.status
    retry_after = response.headers.get("Retry-After", "").strip()
    return status.error(float(retry_after) if retry_after.isdecimal() else None)  # no date: the clocks may differ
