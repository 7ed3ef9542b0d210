"""H5: the bodies of all calls in flight are limited together, and a late call is not decoded."""

import asyncio
import contextlib

import pytest

from extender.server.app import create_app
from extender.server.http import body
from tests.server.conftest import configuration, filled_cache, filter_body
from tests.server.sockets import post, served, talking

pytestmark = pytest.mark.anyio

MIB = 1 << 20
HALF = b"{" + b" " * (MIB // 2)


def app_with(**server):
    return create_app(filled_cache(), configuration(server={"maxBodyBytes": "1Mi", **server}))


async def until(is_true):
    async with asyncio.timeout(10):
        while not is_true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def overload(talk):
    """The message of an answer that refuses the call as overload."""
    status, headers, content = await talk.answer()
    assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
    return content.decode()


@pytest.fixture
def all_counted(monkeypatch):
    monkeypatch.setattr(body, "UNCOUNTED_BODY_BYTES", 0)


async def test_H5_a_body_that_would_be_too_much_is_refused_before_it_is_read(all_counted):
    app = app_with()
    async with served(app) as listener, talking(listener) as first, talking(listener) as second:
        await first.say(post(HALF * 2, length=MIB - 1)[: -MIB // 100])
        await until(lambda: app.bodies.bytes > 0.9 * MIB)
        await second.say(post(b"{", length=MIB - 1))
        assert "more than 1572864 bytes of request bodies in flight" in await overload(second)


async def test_H5_the_largest_body_gives_way_if_the_length_was_not_told(all_counted):
    """The memory of what is refused is free at once; small calls are answered meanwhile."""
    app = app_with()
    async with served(app) as listener, contextlib.AsyncExitStack() as stack:
        large, second, small = [await stack.enter_async_context(talking(listener)) for _ in range(3)]
        chunk = b"%x\r\n%b\r\n" % (len(HALF), HALF)
        await large.say(b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunk, b"70000\r\n")
        await large.say(b" " * 0x70000)
        await until(lambda: app.bodies.bytes > 0.9 * MIB)
        await second.say(b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunk)
        await second.say(b"20000\r\n", b" " * 0x20000)
        assert "bytes of request bodies" in await overload(large)
        assert app.bodies.bytes < 0.7 * MIB
        await small.say(post(filter_body()))
        assert (await small.answer())[0] == 200


async def test_H5_calls_with_node_names_are_never_refused_because_of_large_bodies():
    app = app_with()
    async with served(app) as listener, talking(listener) as small:
        app.bodies.bytes = 3 * MIB // 2  # the limit
        await small.say(post(filter_body()))
        assert (await small.answer())[0] == 200


async def test_H5_of_too_many_calls_a_slow_one_gives_way_to_a_new_one(monkeypatch):
    monkeypatch.setattr(body, "SLOW_BODY_SECONDS", 0.1)
    app = app_with(maxInFlight=1)
    async with served(app) as listener, talking(listener) as slow, talking(listener) as other:
        await slow.say(post(b"{", length=100))
        await until(lambda: app.server_context.metrics.in_flight == 1)
        await other.say(post(filter_body()))
        assert "more than 1 calls in flight" in await overload(other)  # the first one is not slow yet
        await asyncio.sleep(0.1)
        async with talking(listener) as call:
            await call.say(post(filter_body()))
            assert (await call.answer())[0] == 200
        assert "more than 1 calls in flight" in await overload(slow)


async def test_H5_a_body_that_came_too_late_is_not_decoded():
    """It is no JSON: decoded, it would be answered with 400."""
    app = app_with(httpTimeout="250ms")
    async with served(app) as listener, talking(listener) as talk:
        await talk.say(post(b"{", length=3))
        await asyncio.sleep(0.3)
        await talk.say(b"xx")
        status, _, content = await talk.answer()
        assert status == 503
        assert b"deadline exceeded" in content


async def test_H5_nothing_is_in_flight_once_all_calls_are_answered():
    app = app_with()
    async with served(app) as listener, talking(listener) as talk, talking(listener) as left:
        await talk.say(post(filter_body() + b" " * 800_000))
        assert (await talk.answer())[0] == 200
        await left.say(post(HALF, length=MIB))
        await until(lambda: app.bodies.bytes > 0)
    await until(lambda: app.bodies.bytes == 0)
    assert not app.bodies._bodies
