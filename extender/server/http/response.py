"""A response in JSON: status, body and further headers, as plain values.

Rule: an ASGI application sends it with `send`; `server.http.protocol` writes `head` and body to the connection itself.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
from starlette import responses
from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

Header = tuple[bytes, bytes]

CLOSE: Header = (b"connection", b"close")
"""Closes the connection after the response."""


def nothing_to_write() -> None:
    """Do nothing: the default of `after_send`."""


class Response(NamedTuple):
    """A response in JSON."""

    status: int
    body: bytes
    headers: Sequence[Header] = ()
    """Headers besides Content-Type and Content-Length, in printable ASCII."""
    after_send: Callable[[], None] = nothing_to_write
    """Writes logs and records that the client need not wait for. Call it once, in the turn that made the response."""

    @property
    def raw_headers(self) -> list[Header]:
        length = (b"content-length", b"%d" % len(self.body))
        return [(b"content-type", b"application/json"), length, *self.headers]

    def head(self, more: Iterable[Header]) -> bytes:
        """Return the status line, `more` and all headers, up to the body."""
        lines = [b"%b: %b\r\n" % header for header in (*more, *self.raw_headers)]
        return b"".join([STATUS_LINE[self.status], *lines, b"\r\n"])

    async def send(self, send: Send) -> None:
        """Send the response in one piece."""
        await self.send_head(send)
        await send({"type": "http.response.body", "body": self.body})

    async def send_head(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.raw_headers})


def json_response(value: object) -> responses.Response:
    """Return the response of a FastAPI route with the value as JSON."""
    return responses.Response(msgspec.json.encode(value), media_type="application/json")
