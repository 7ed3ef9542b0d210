"""When a request arrived and whether its caller still waits, on sockets that the event loop reads late."""

import asyncio
import socket
import ssl
import sys
import time

import pytest

from extender.server.http import caller
from extender.server.http.caller import CALLER_KEY, caller_now
from extender.server.http.tls import TLSFiles
from tests.fakes.certificates import Certificates
from tests.server.conftest import configuration
from tests.server.sockets import port_of, post, served

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs TCP_INFO of Linux"),
]

WAIT_SECONDS = 0.2
"""Seconds for which the event loop does not run: the behaviour under test, many ticks of the kernel."""


class Callers:
    """An application that notes its callers, and whether each had gone when it was asked."""

    def __init__(self):
        self.seen = []
        self.called = asyncio.Event()

    async def __call__(self, scope, receive, send):
        one = scope[CALLER_KEY]
        self.seen.append((one.read_at - one.arrived_at, one.is_gone()))
        self.called.set()
        await send({"type": "http.response.start", "status": 204, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


@pytest.mark.parametrize("is_new", [True, False], ids=["in the backlog", "on an open connection"])
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "waiting"])
async def test_D7_a_request_arrives_when_the_kernel_has_it(is_new, closes):
    app = Callers()
    async with served(app) as listener:
        address = ("127.0.0.1", port_of(listener))
        with socket.create_connection(address) as client:
            if not is_new:
                client.sendall(post(b""))
                await app.called.wait()
                app.called.clear()
            client.sendall(post(b""))
            if closes:
                client.close()
            time.sleep(WAIT_SECONDS)  # noqa: ASYNC251  # nothing is read meanwhile
            await app.called.wait()
    waited, is_gone = app.seen[-1]
    assert waited >= WAIT_SECONDS - 2 * caller._TICK_SECONDS
    assert is_gone == closes


async def test_D7_under_TLS_too(tmp_path):
    certificates, app = Certificates(tmp_path), Callers()
    pair = certificates.server("a")
    context = ssl.create_default_context(cafile=certificates.ca_file)
    section = configuration(server={"tls": {"certificate": str(pair.certificate), "key": str(pair.key)}}).server.tls
    async with served(app, TLSFiles("server", section)) as listener:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port_of(listener), ssl=context, server_hostname="localhost"
        )
        writer.write(post(b""))
        await app.called.wait()
        assert app.seen.pop()[1] is False
        await reader.readuntil(b"\r\n\r\n")
        app.called.clear()
        writer.write(post(b""))
        writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
        time.sleep(WAIT_SECONDS)  # noqa: ASYNC251
        await app.called.wait()
        writer.transport.abort()
    waited, is_gone = app.seen[-1]
    assert waited >= WAIT_SECONDS - 2 * caller._TICK_SECONDS
    assert is_gone


class Transport(asyncio.Transport):
    """A transport without a socket, as a platform without TCP_INFO shows it."""

    is_closed = False

    def is_closing(self):
        return self.is_closed


def test_D7_without_TCP_INFO_the_event_loop_says_what_it_sees():
    transport = Transport()
    one = caller_now(transport, 12.5)
    assert (one.arrived_at, one.read_at, one.is_gone()) == (12.5, 12.5, False)
    transport.is_closed = True
    assert one.is_gone()
