"""A listener of the service on loopback, in the test's own event loop, and clients that misbehave."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.types import ASGIApp

from extender.server.http.listener import Listener
from extender.server.http.protocol import Begin
from extender.server.http.tls import TLSFiles
from extender.server.scheduler.routes import SchedulerApp

LIMIT = 10.0
"""Seconds that nothing here takes."""


@contextlib.asynccontextmanager
async def served(
    app: ASGIApp,
    tls: TLSFiles | None = None,
    keep_alive: float = 120.0,
    at_once: Mapping[bytes, Begin] | None = None,
) -> AsyncIterator[Listener]:
    """The application behind a listener; the scheduler's with what it answers at once."""
    listening = socket.create_server(("127.0.0.1", 0))
    at_once = app.at_once if isinstance(app, SchedulerApp) else at_once
    listener = Listener("scheduler", app, listening, keep_alive, 128, tls, at_once)
    await listener.open()
    try:
        yield listener
    finally:
        await listener.close(timeout_seconds=0.2)


def port_of(listener: Listener) -> int:
    return int(listener.address.rpartition(":")[2])


class Talk:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, *parts: bytes) -> None:
        self._writer.write(b"".join(parts))
        await self._writer.drain()

    def certificate(self) -> dict[str, Any]:
        """What the other side shows."""
        certificate: dict[str, Any] = self._writer.get_extra_info("peercert")
        return certificate

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        async with asyncio.timeout(LIMIT):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await self._reader.readexactly(int(headers["content-length"]))
        return int(head[0].split()[1]), headers, body

    async def error(self) -> tuple[int, str]:
        """Status and message of an answer that is the connection's last one, and an error in the usual shape."""
        status, headers, body = await self.answer()
        assert headers["content-type"] == "application/json"
        assert headers["connection"] == "close"
        error: dict[str, Any] = json.loads(body)
        assert list(error) == ["Error"]
        return status, error["Error"]

    async def rest(self) -> bytes:
        """What comes until the other side closes the connection, however it does."""
        async with asyncio.timeout(LIMIT):
            with contextlib.suppress(ConnectionResetError):
                return await self._reader.read()
        return b""

    async def is_closed(self) -> bool:
        """Has the other side closed it, without another word?"""
        return await self.rest() == b""


@contextlib.asynccontextmanager
async def talking(listener: Listener, **options: Any) -> AsyncIterator[Talk]:
    """A connection to the listener."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener), **options)
    try:
        yield Talk(reader, writer)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def post(body: bytes, *headers: str, path: str = "/filter", length: int | None = None) -> bytes:
    """A request; `length`: what it says of its body."""
    size = len(body) if length is None else length
    lines = [f"POST {path} HTTP/1.1", "Host: extender", f"Content-Length: {size}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body
