"""Messages of HTTP/1.1 as raw bytes, for programs between a client and a server.

Rule: what is passed on is byte for byte what came.
"""

from asyncio import IncompleteReadError, StreamReader
from collections.abc import AsyncIterator
from typing import NamedTuple


class Head(NamedTuple):
    """Request or status line and headers."""

    raw: bytes
    line: str
    headers: dict[str, str]
    """Lower-case name -> value."""

    @property
    def status(self) -> int:
        return int(self.line.split(" ", 2)[1])


async def read_head(reader: StreamReader) -> Head | None:
    """Read a head; None at the end of the connection."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (IncompleteReadError, ConnectionError):
        return None
    line, *rest = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (one.partition(":") for one in rest)
    return Head(raw, line, {name.lower(): value.strip() for name, _, value in pairs})


async def read_body(reader: StreamReader, head: Head, *, has_body: bool = True) -> AsyncIterator[bytes]:
    """Yield the raw pieces of a body: each chunk of a chunked one with its frame, otherwise what has arrived."""
    if not has_body:
        return
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        while True:
            size = await reader.readuntil(b"\r\n")
            length = int(size.split(b";")[0], 16)
            yield size + await reader.readexactly(length + 2)
            if length == 0:
                return
    left = int(head.headers.get("content-length", "0"))
    while left:
        piece = await reader.read(min(left, 1 << 16))
        if not piece:
            raise ConnectionError("the connection ended within a body")
        left -= len(piece)
        yield piece


def content(pieces: list[bytes], head: Head) -> bytes:
    """Return the body that raw pieces carry, without the frames of chunks."""
    if head.headers.get("transfer-encoding", "").lower() != "chunked":
        return b"".join(pieces)
    return b"".join(piece.partition(b"\r\n")[2][:-2] for piece in pieces)
