"""One request and its response, as an ASGI application receives and sends them; and the transport that they share.

Rule: once a response has begun, an error can only close the connection.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from enum import Enum, auto

from starlette.types import ASGIApp, Message, Scope

from extender.errors import INTERNAL
from extender.server.http.errors import error_response
from extender.server.http.response import CLOSE, Header, status_line

log = logging.getLogger(__name__)

WRITE_TIMEOUT_SECONDS = 10.0
"""Seconds that a client may stop reading its response once the write buffer is full."""

MAX_UNREAD_BYTES = 64 << 10
"""Part of a body that the application has not taken yet, above which no more is read from the client."""

_CONTROL_CHARACTER = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class Flow:
    """A transport with both directions' pauses; a client that stops reading has WRITE_TIMEOUT_SECONDS."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.is_reading_paused = False
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._write_timer: asyncio.TimerHandle | None = None

    def pause_reading(self) -> None:
        if not self.is_reading_paused:
            self.is_reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.is_reading_paused:
            self.is_reading_paused = False
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self.may_write.clear()
        if self._write_timer is None:
            loop = asyncio.get_running_loop()
            self._write_timer = loop.call_later(WRITE_TIMEOUT_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self.may_write.set()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


class Progress(Enum):
    """How much of a response is written."""

    NOTHING = auto()
    HEAD = auto()
    """Status line and headers; the body is missing, or a part of it."""
    ALL = auto()


class Exchange:
    """One request and its response; `run` lets an application answer."""

    def __init__(
        self,
        scope: Scope,
        flow: Flow,
        default_headers: Iterable[Header],
        on_end: Callable[["Exchange"], None],
        *,
        keep_alive: bool,
        expects_continue: bool,
    ) -> None:
        """`default_headers`: headers of every response. `on_end`: called when nothing more will be written."""
        self.scope = scope
        self.keep_alive = keep_alive
        """False: the connection ends with this response."""
        self.progress = Progress.NOTHING
        self._flow = flow
        self._default_headers = default_headers
        self._on_end = on_end
        self._expects_continue = expects_continue
        self._body: bytes | bytearray = b""
        """Part of the request's body that the application has not taken."""
        self._is_body_complete = False
        self._is_disconnected = False
        self._may_receive = asyncio.Event()
        """Set when `receive` has something to return."""
        self._bytes_left: int | None = None
        """Bytes of the response's body that are missing; None: it is sent in chunks."""

    # --- the request ---

    def add_body(self, data: bytes) -> None:
        """Add a part of the request's body."""
        if not self._body:  # no copy: most bodies arrive in one piece
            self._body = data
        elif isinstance(self._body, bytes):  # in place from now on, so that many small pieces take linear time
            self._body = bytearray(self._body)
            self._body += data
        else:
            self._body += data
        if len(self._body) > MAX_UNREAD_BYTES:
            self._flow.pause_reading()
        self._may_receive.set()

    def end_body(self) -> None:
        """Note that the request is complete."""
        self._is_body_complete = True
        self._may_receive.set()

    def disconnect(self) -> None:
        """Tell the application that the client is gone; what it sends from now on is dropped."""
        self._is_disconnected = True
        self._may_receive.set()

    async def receive(self) -> Message:
        """Return the next part of the body, or `http.disconnect` after the response (ASGI)."""
        if self._expects_continue and not self._flow.transport.is_closing():
            self._flow.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._expects_continue = False
        if not self._is_disconnected and self.progress is not Progress.ALL:
            self._flow.resume_reading()
            await self._may_receive.wait()
            self._may_receive.clear()
        if self._is_disconnected or self.progress is Progress.ALL:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), b""
        return {"type": "http.request", "body": body, "more_body": not self._is_body_complete}

    # --- the response ---

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer. A failure is logged, and answered if no response has begun."""
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            await self._fail(503, "shutting down")
        except Exception:
            log.exception("the application failed")
            await self._fail(500, INTERNAL)
        else:
            if self.progress is not Progress.ALL and not self._is_disconnected:
                log.error("the application did not complete its response")
                await self._fail(500, INTERNAL)

    async def _fail(self, status: int, message: str) -> None:
        if self.progress is Progress.NOTHING:
            await error_response(status, message, {"Connection": "close"})(self.scope, self.receive, self.send)
        else:
            self.keep_alive = False
            self._on_end(self)

    async def send(self, message: Message) -> None:
        """Write a part of the response once the client has read enough of the earlier ones (ASGI)."""
        if not self._is_disconnected:
            await self._flow.may_write.wait()
        if self._is_disconnected:
            return
        if self.progress is Progress.NOTHING and message["type"] == "http.response.start":
            self._send_head(message["status"], message.get("headers", ()))
        elif self.progress is Progress.HEAD and message["type"] == "http.response.body":
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(
                f"unexpected ASGI message {message['type']}: {self.progress.name} of the response is sent"
            )

    def _send_head(self, status: int, headers: Iterable[Header]) -> None:
        lines = [status_line(status)]
        closes = False
        for name, value in (*self._default_headers, *headers):
            if _CONTROL_CHARACTER.search(name) or _CONTROL_CHARACTER.search(value):
                raise RuntimeError("a header has a control character")
            if name.lower() == b"content-length":
                self._bytes_left = int(value)
            closes = closes or (name.lower(), value.lower()) == CLOSE
            lines.append(b"%b: %b\r\n" % (name.lower(), value))
        if closes:
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if self.scope["method"] == "HEAD" or status in (204, 304):
            self._bytes_left = 0
        elif self._bytes_left is None:
            lines.append(b"transfer-encoding: chunked\r\n")
        self._flow.transport.write(b"".join([*lines, b"\r\n"]))
        self.progress, self._expects_continue = Progress.HEAD, False

    def _send_body(self, body: bytes | memoryview, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            pass
        elif self._bytes_left is None:
            chunk = [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
            self._flow.transport.write(b"".join(chunk if more else [*chunk, b"0\r\n\r\n"]))
        elif len(body) > self._bytes_left:
            raise RuntimeError("the response is longer than its Content-Length")
        else:
            self._bytes_left -= len(body)
            self._flow.transport.write(body)
        if not more:
            if self._bytes_left:
                raise RuntimeError("the response is shorter than its Content-Length")
            self.progress = Progress.ALL
            self._may_receive.set()
            self._on_end(self)
