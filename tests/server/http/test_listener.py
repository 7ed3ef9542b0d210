"""The sockets that are listened on."""

import asyncio
import socket

import pytest

from extender.server.http.listener import bind

pytestmark = pytest.mark.anyio


async def test_L1_answers_do_not_wait_for_an_acknowledgement():
    """Nagle's algorithm, against which a client that acknowledges late takes 40 ms for each answer."""
    accepted = asyncio.get_running_loop().create_future()

    async def note(_, writer):
        accepted.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with bind("server", "127.0.0.1", 0, backlog=1) as listening:
        server = await asyncio.start_server(note, sock=listening)
        async with server:
            _, writer = await asyncio.open_connection(*listening.getsockname())
            assert await asyncio.wait_for(accepted, 10)
            writer.close()


async def test_the_read_buffer_of_a_connection_can_be_enlarged():
    made = asyncio.get_running_loop().create_future()

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport):
            made.set_result(hasattr(transport, "max_size"))
            transport.close()

    with bind("server", "127.0.0.1", 0, backlog=1) as listening:
        server = await asyncio.get_running_loop().create_server(Accepting, sock=listening)
        async with server:
            _, writer = await asyncio.open_connection(*listening.getsockname())
            assert await asyncio.wait_for(made, 10)
            writer.close()
