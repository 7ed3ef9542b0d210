"""A proxy of the API server that delays watch events, as a process of its own.

Rule: every byte arrives unchanged and in order; only responses to watches are late. HTTP/1.1 alone is offered, and
clients authenticate with bearer tokens, because a client certificate ends at the proxy.
"""

import argparse
import asyncio
import contextlib
import json
import random
import socket
import ssl
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.e2e.control_plane.lab.http11 import Head, read_body, read_head
from tests.e2e.control_plane.lab.process import Process, free_port
from tests.fakes.certificates import KeyPair

_ROOT = Path(__file__).parents[4]


class DelayedApi(Process):
    """The proxy at `url`: each watch event is late by a random time between two `seconds`, in order."""

    def __init__(
        self, directory: Path, api_url: str, ca_file: Path, server: KeyPair, seconds: tuple[float, float]
    ) -> None:
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        self._delay_file = directory / f"delay-{port}.json"
        self.set_delay(*seconds)
        argv = [
            sys.executable, "-m", "tests.e2e.control_plane.lab.delayed_api", str(port), api_url, ca_file,
            server.certificate, server.key, self._delay_file,
        ]  # fmt: skip

        def is_listening() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        super().__init__(f"delayed-api-{port}", argv, directory, is_listening)
        self.environment["PYTHONPATH"] = str(_ROOT)

    def set_delay(self, least: float, most: float) -> None:
        """Delay every watch event from now on by a random time in this range."""
        beside = self._delay_file.with_suffix(".new")
        beside.write_text(json.dumps([least, most]))
        beside.replace(self._delay_file)


class _Proxy:
    def __init__(self, upstream: str, ca_file: str, delay_file: Path) -> None:
        address = urlsplit(upstream)
        self._host, self._port = address.hostname, address.port
        self._context = ssl.create_default_context(cafile=ca_file)
        self._delay_file = delay_file
        self._read_at = 0
        self._range = (0.0, 0.0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on, request by request."""
        upstream: asyncio.StreamWriter | None = None
        try:
            answers, upstream = await asyncio.open_connection(self._host, self._port, ssl=self._context, limit=1 << 20)
            while (request := await read_head(reader)) is not None:
                upstream.write(request.raw)
                async for piece in read_body(reader, request):
                    upstream.write(piece)
                await upstream.drain()
                if not await self._answer(request, reader, answers, writer):
                    break
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            for one in filter(None, (upstream, writer)):
                one.transport.abort()

    async def _answer(
        self, request: Head, reader: asyncio.StreamReader, answers: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Pass the answer on, late if it is to a watch; False if the connection is over."""
        head = await read_head(answers)
        if head is None:
            return False
        writer.write(head.raw)
        has_body = head.status not in (204, 304) and not request.line.startswith("HEAD ")
        pieces = read_body(answers, head, has_body=has_body)
        if _is_watch(request) and head.status == 200:
            await self._pass_late(pieces, reader, writer)
        else:
            async for piece in pieces:
                writer.write(piece)
        await writer.drain()
        return head.headers.get("connection", "").lower() != "close"

    async def _pass_late(self, pieces, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()

        async def receive() -> None:
            due = 0.0
            try:
                async for piece in pieces:
                    due = max(due, loop.time() + self._delay())
                    queue.put_nowait((due, piece))
            finally:
                queue.put_nowait(None)

        receiving = asyncio.create_task(receive())
        gone = asyncio.create_task(reader.read(1))  # a client sends nothing during a watch: it has left
        sending = asyncio.create_task(_send(queue, writer))
        done, pending = await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        if gone in done:
            receiving.cancel()
        for task in pending:
            task.cancel()
        await asyncio.gather(receiving, *pending, return_exceptions=True)
        if gone in done:
            raise ConnectionError("the client has left")
        await sending
        with contextlib.suppress(asyncio.CancelledError):
            receiving.result()  # an end within a chunk ends the connection too

    def _delay(self) -> float:
        changed = self._delay_file.stat().st_mtime_ns
        if changed != self._read_at:
            self._read_at = changed
            least, most = json.loads(self._delay_file.read_text())
            self._range = (least, most)
        return random.uniform(*self._range)


async def _send(queue: "asyncio.Queue[tuple[float, bytes] | None]", writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    while (item := await queue.get()) is not None:
        due, piece = item
        if due > loop.time():
            await asyncio.sleep(due - loop.time())
        writer.write(piece)
        await writer.drain()


def _is_watch(request: Head) -> bool:
    method, target, _ = request.line.split(" ", 2)
    return method == "GET" and parse_qs(urlsplit(target).query).get("watch", ["0"])[0] in ("1", "true")


async def _main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("port", "upstream", "ca_file", "certificate", "key", "delay_file"):
        parser.add_argument(name)
    given = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(given.certificate, given.key)
    context.set_alpn_protocols(["http/1.1"])
    proxy = _Proxy(given.upstream, given.ca_file, Path(given.delay_file))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", int(given.port), ssl=context, limit=1 << 20)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
