"""A small request that arrives in one piece is answered without a task, with the answer that a task would give."""

import asyncio

import pytest

from extender.server.app import create_app
from extender.server.http.protocol import BEGUN_KEY, MAX_HEADER_BYTES, MAX_WHOLE_BYTES
from extender.server.http.response import CLOSE, Response
from tests.server.conftest import BODIES, configuration, filled_cache, filter_body
from tests.server.sockets import post, served, talking

pytestmark = pytest.mark.anyio


async def application(scope, receive, send):
    """Answers what was begun, or what it has read."""
    if BEGUN_KEY in scope:
        response = await scope[BEGUN_KEY]
    else:
        content, more = b"", True
        while more:
            message = await receive()
            content, more = content + message["body"], message["more_body"]
        response = Response(200, b"read " + content)
    await response.send(send)


async def whole(scope, content):
    return Response(200, b"whole " + content)


async def served_once(*parts, begin=whole):
    """The answer to a request of these parts."""
    async with served(application, at_once={b"/filter": begin}) as listener, talking(listener) as talk:
        for part in parts[:-1]:
            await talk.say(part)
            while not listener.state.tasks:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await talk.say(parts[-1])
        return await talk.answer()


async def test_a_request_in_one_piece_is_answered_at_once():
    status, headers, body = await served_once(post(b"abc"))
    assert (status, body) == (200, b"whole abc")
    assert headers["content-type"] == "application/json"
    assert headers["date"]
    assert "connection" not in headers


CHUNKS = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        (post(b"a", length=3), b"bc"),
        (CHUNKS,),
        (post(b"abc").replace(b"POST", b"PUT", 1),),
        (post(b"abc").replace(b"HTTP/1.1", b"HTTP/1.0", 1),),
        (post(b"abc", path="/filter?a=b"),),
        (post(b"abc", path="/other"),),
    ],
    ids=["in two pieces", "in chunks", "another method", "another version", "a query", "another path"],
)
async def test_any_other_request_is_read_by_the_application(parts):
    assert (await served_once(*parts))[2] == b"read abc"


async def test_a_large_request_is_read_by_the_application():
    body = b" " * (MAX_WHOLE_BYTES + 1)
    assert (await served_once(post(body)))[2] == b"read " + body


async def test_a_large_answer_is_sent_by_the_application():
    async def large(scope, content):
        return Response(200, b" " * (MAX_WHOLE_BYTES + 1))

    assert len((await served_once(post(b""), begin=large))[2]) == MAX_WHOLE_BYTES + 1


async def test_an_answer_that_waits_is_finished_in_a_task():
    tasks = []

    async def slow(scope, content):
        tasks.append(asyncio.current_task())
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())
        async with asyncio.timeout(10):
            await asyncio.sleep(0.001)
        raise_soon = asyncio.get_running_loop().create_future()
        raise_soon.set_exception(ValueError("seen"))
        try:
            await raise_soon
        except ValueError as error:
            return Response(200, str(error).encode())

    assert (await served_once(post(b"abc"), begin=slow))[2] == b"seen"
    assert tasks[0] is None
    assert tasks[1] is not None


async def test_an_answer_that_waits_is_cancelled_by_a_shutdown():
    cancelled = []

    async def endless(scope, content):
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(content)
            raise

    async with served(application, at_once={b"/filter": endless}) as listener, talking(listener) as talk:
        await talk.say(post(b"abc"))
        while not listener.state.tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await listener.close(timeout_seconds=0.01)
        assert await talk.error() == (503, "shutting down")
    assert cancelled == [b"abc"]


async def test_requests_on_one_connection_are_answered_in_order():
    """One of them at once, so that other connections have their turn."""
    async with served(application, at_once={b"/filter": whole}) as listener, talking(listener) as talk:
        await talk.say(*[post(b"%d" % number) for number in range(5)])
        assert [(await talk.answer())[2] for _ in range(5)] == [b"whole 0", *(b"read %d" % n for n in range(1, 5))]
        await talk.say(post(b"5"))
        assert (await talk.answer())[2] == b"whole 5"


async def test_nothing_is_answered_behind_an_answer_that_closes_the_connection():
    async def closing(scope, content):
        return Response(503, content, (CLOSE,))

    async with served(application, at_once={b"/filter": closing}) as listener, talking(listener) as talk:
        await talk.say(post(b"1"), post(b"2"), b"no HTTP")
        status, headers, body = await talk.answer()
        assert (status, headers["connection"], body) == (503, "close", b"1")
        assert await talk.is_closed()


async def test_a_rejected_request_does_not_reach_the_application():
    padding = b"A:" + b" " * MAX_HEADER_BYTES + b"a\r\nContent-Length:"
    async with served(application, at_once={b"/filter": whole}) as listener, talking(listener) as talk:
        await talk.say(post(b"", length=3).replace(b"Content-Length:", padding))
        assert (await talk.error())[0] == 431
        assert not listener.state.tasks


async def test_a_connection_is_closed_if_the_client_or_a_shutdown_wants_it():
    async with served(application, at_once={b"/filter": whole}) as listener:
        for is_draining, sent in ((False, post(b"", "Connection: close")), (True, post(b""))):
            async with talking(listener) as talk:
                listener.state.is_draining = is_draining
                await talk.say(sent)
                assert (await talk.answer())[1]["connection"] == "close"
                assert await talk.is_closed()


CALLS = {
    **{path: post(body, path=path) for path, body in BODIES.items()},
    "no JSON": post(b"{"),
    "no body": post(b""),
    "not JSON by its type": post(b"{}", "Content-Type: text/html"),
    "an unknown node": post(filter_body(["worker-9"])),
    "bind": post(b"{}", path="/bind"),
    "no such path": post(b"{}", path="/nowhere"),
}


@pytest.mark.parametrize("request_", CALLS.values(), ids=CALLS)
async def test_a_call_in_pieces_has_the_same_answer(request_):
    answers = []
    for pieces in ((request_,), (request_[:-1], request_[-1:])):
        app = create_app(filled_cache(), configuration())
        async with served(app) as listener, talking(listener) as talk:
            await talk.say(pieces[0])
            if len(pieces) > 1:
                while not any(connection.is_receiving for connection in listener.state.connections):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                await talk.say(pieces[1])
            status, headers, body = await talk.answer()
            del headers["date"]
            answers.append((status, headers, body))
    assert answers[0] == answers[1]
