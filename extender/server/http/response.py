"""A response in JSON: status, body and further headers, as plain values.

Rule: whoever has the connection writes it: an ASGI application sends it (`send`), `server.http.protocol` writes `head`
and the body at once.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

Header = tuple[bytes, bytes]

CLOSE: Header = (b"connection", b"close")
"""The connection ends with this response."""


def nothing_to_write() -> None:
    """Nothing to write after the response."""


class Response(NamedTuple):
    """A response in JSON."""

    status: int
    body: bytes
    headers: Sequence[Header] = ()
    """Headers besides Content-Type and Content-Length, in printable ASCII."""
    after_send: Callable[[], None] = nothing_to_write
    """Writes what the client does not wait for; to be called once, in the event loop's turn that has the response."""

    @property
    def raw_headers(self) -> list[Header]:
        """Return all headers."""
        length = (b"content-length", b"%d" % len(self.body))
        return [(b"content-type", b"application/json"), length, *self.headers]

    def head(self, more: Iterable[Header]) -> bytes:
        """Return the status line, all headers and `more`, up to the body."""
        lines = [b"%b: %b\r\n" % header for header in (*more, *self.raw_headers)]
        return b"".join([STATUS_LINE[self.status], *lines, b"\r\n"])

    async def send(self, send: Send) -> None:
        """Send the response in one piece."""
        await self.send_head(send)
        await send({"type": "http.response.body", "body": self.body})

    async def send_head(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.raw_headers})
