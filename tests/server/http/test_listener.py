"""The sockets that are listened on."""

import asyncio
import socket

import pytest
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from extender.server.http.errors import error_response
from extender.server.http.listener import bind, uvicorn_config
from extender.server.http.protocol import ListenerState

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


async def test_the_undocumented_attributes_of_uvicorn_and_asyncio_that_the_limits_need_are_there():
    """What LimitedProtocol reads, sets or overrides; an upgrade that renames one of them fails here first."""
    config = uvicorn_config(error_response(404, "unused"), keep_alive=5.0)
    config.load()
    protocol = HttpToolsProtocol(config, ListenerState(), {}, asyncio.get_running_loop())
    for name in (
        *("app", "cycle", "pipeline", "flow", "parser", "transport", "client", "timeout_keep_alive_task"),
        *("scope", "headers", "expect_100_continue"),
    ):
        assert name in vars(protocol), name
    for name in ("_unset_keepalive_if_required", "timeout_keep_alive_handler", "on_response_complete", "shutdown"):
        assert callable(getattr(HttpToolsProtocol, name)), name
    fields = RequestResponseCycle.__init__.__code__.co_names
    assert {"body", "keep_alive", "message_event", "disconnected", "response_started", "transport"} <= set(fields)
    assert {"more_body", "response_complete"} <= set(fields)
    assert STATUS_LINE[400] == b"HTTP/1.1 400 Bad Request\r\n"


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
