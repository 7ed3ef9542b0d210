"""H5: the bodies of all calls in flight are limited together, and a late call is not decoded."""

import asyncio
import contextlib

import pytest

from extender.server.app import create_app
from extender.server.http import body
from extender.server.scheduler import routes, verbs
from extender.server.scheduler.result import Answer
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


async def test_H5_bodies_that_stop_give_way_to_one_that_arrives(all_counted):
    """However large they are; what is refused is free at once, and small calls are answered meanwhile."""
    app = app_with()
    async with served(app) as listener, contextlib.AsyncExitStack() as stack:
        stopped = [await stack.enter_async_context(talking(listener)) for _ in range(3)]
        for one in stopped:
            await one.say(post(b" " * 500_000, length=MIB))
        await until(lambda: app.bodies.bytes > 1_400_000)
        arrives, small = [await stack.enter_async_context(talking(listener)) for _ in range(2)]
        await arrives.say(post(filter_body() + b" " * 900_000))
        assert (await arrives.answer())[0] == 200
        for one in stopped[:2]:
            assert "more than 1572864 bytes of request bodies in flight" in await overload(one)
        assert app.bodies.bytes == 500_000
        await small.say(post(filter_body()))
        assert (await small.answer())[0] == 200


async def test_H5_a_body_is_refused_if_all_others_are_complete(all_counted):
    app = app_with()
    with app.bodies.track() as complete:
        app.bodies.resize(complete, MIB)
        async with served(app) as listener, talking(listener) as talk:
            await talk.say(post(b" " * 600_000, length=700_000))
            assert "bytes of request bodies in flight" in await overload(talk)
        assert app.bodies.bytes == MIB


@pytest.fixture
def unread(monkeypatch):
    """Sends a call that is answered with 8 MiB, and does not read the answer."""

    async def many(*_):
        return Answer(b" " * (8 * MIB), "decided")

    monkeypatch.setattr(verbs, "answer_live", many)

    async def send(talk):
        talk._writer.transport.pause_reading()
        await talk.say(post(filter_body()))

    return send


async def test_H5_an_answer_counts_until_it_is_read(unread):
    """It is sent whole, although it alone is above the limit."""
    app = app_with()
    async with served(app) as listener, talking(listener) as talk:
        await unread(talk)
        await until(lambda: app.bodies.bytes > 7 * MIB)
        talk._writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert (await talk.answer())[2] == b" " * (8 * MIB)
        await until(lambda: app.bodies.bytes == 0)


async def test_H5_answers_that_are_not_read_give_way(unread, caplog):
    app = app_with(maxBodyBytes="6Mi")
    async with served(app) as listener, talking(listener) as first, talking(listener) as second:
        await unread(first)
        await until(lambda: app.bodies.bytes > 7 * MIB)
        await unread(second)
        await until(lambda: len(listener.state.connections) == 1)
        assert 7 * MIB < app.bodies.bytes < 9 * MIB
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_H5_an_answer_is_read_in_time_or_its_connection_is_closed(unread, monkeypatch, caplog):
    """Also if the client reads a little of it all the time."""
    monkeypatch.setattr(routes, "WRITE_TIMEOUT_SECONDS", 0.3)
    app = app_with()
    async with served(app) as listener, talking(listener) as talk:
        await unread(talk)
        await until(lambda: app.bodies.bytes)
        await until(lambda: not listener.state.connections and not app.bodies.bytes)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_H5_calls_with_node_names_are_never_refused_because_of_large_bodies():
    app = app_with()
    async with served(app) as listener, talking(listener) as small:
        app.bodies.bytes = 3 * MIB // 2  # the limit
        await small.say(post(filter_body()))
        assert (await small.answer())[0] == 200


async def test_H5_calls_whose_body_has_not_arrived_refuse_no_other():
    app = app_with(maxInFlight=1)
    async with served(app) as listener, contextlib.AsyncExitStack() as stack:
        for _ in range(5):
            slow = await stack.enter_async_context(talking(listener))
            await slow.say(post(b"{", length=100))
        await until(lambda: len(listener.state.tasks) == 5)
        assert app.server_context.metrics.in_flight == 0
        call = await stack.enter_async_context(talking(listener))
        await call.say(post(filter_body()))
        assert (await call.answer())[0] == 200


async def test_H5_a_body_that_came_too_late_is_not_decoded():
    """It is not JSON: decoded, it would be answered with 400."""
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
