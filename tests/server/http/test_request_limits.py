"""What a connection may cost: L4 to L7, on sockets. Where a limit is a time, it is a shorter one here."""

import asyncio
import json
import logging

import pytest

from extender.server.admin.app import create_admin_app
from extender.server.app import create_app
from extender.server.http import body, caller, listener, protocol
from extender.server.http.listener import uvicorn_config
from extender.server.run import SCHEDULER_BACKLOG
from tests.server.conftest import configuration, filled_cache, filter_body
from tests.server.sockets import post, served, talking

pytestmark = pytest.mark.anyio

SOON = 0.3
"""Seconds, instead of 10."""

CHUNKED = b"POST /filter HTTP/1.1\r\nHost: extender\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def app():
    return create_app(filled_cache(), configuration(server={"maxBodyBytes": "64Ki"}))


@pytest.fixture
def soon(monkeypatch):
    """All limits in seconds are short ones."""
    assert (body.READ_TIMEOUT_SECONDS, protocol.WRITE_TIMEOUT_SECONDS) == (10, 10)
    for module, name in (
        (protocol, "READ_TIMEOUT_SECONDS"),
        (body, "READ_TIMEOUT_SECONDS"),
        (protocol, "WRITE_TIMEOUT_SECONDS"),
    ):
        monkeypatch.setattr(module, name, SOON)
    monkeypatch.setattr(protocol, "LINGER_SECONDS", SOON)


async def get(talk, path="/nowhere"):
    await talk.say(f"GET {path} HTTP/1.1\r\nHost: extender\r\n\r\n".encode())
    return await talk.answer()


# --- L4: bodies -----------------------------------------------------------------------------------------------------


async def test_L4_a_chunked_body_is_refused_as_soon_as_it_is_too_large(app):
    """It names no length, and never ends."""
    async with served(app) as port, talking(port) as talk:
        await talk.say(CHUNKED)
        await talk.say(*[b"1000\r\n" + b" " * 4096 + b"\r\n"] * 17)
        status, error = await talk.error()
        assert status == 413
        assert "65536 bytes" in error


async def test_L4_a_chunked_body_that_is_not_too_large_is_read(app):
    async with served(app) as port, talking(port) as talk:
        await talk.say(CHUNKED)
        for byte in filter_body():
            await talk.say(b"1\r\n%c\r\n" % byte)
        await talk.say(b"0\r\n\r\n")
        status, headers, _ = await talk.answer()
        assert (status, headers.get("connection")) == (200, None)


@pytest.mark.parametrize("first", [1, 40], ids=["small pieces", "a large piece and then small ones"])
async def test_L4_of_a_body_that_comes_in_pieces_at_once_nothing_is_lost(app, first):
    body = filter_body()
    pieces = [body[:first], *(body[at : at + 3] for at in range(first, len(body), 3))]
    async with served(app) as port, talking(port) as talk:
        await talk.say(post(body))
        status, _, whole = await talk.answer()
        assert status == 200
        await talk.say(CHUNKED, *(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n")
        assert (await talk.answer())[::2] == (200, whole)


async def test_L4_who_sends_far_too_much_is_told_so_and_not_only_cut_off(app):
    """32 MiB are on their way before the answer is read: closed at once, the connection would be reset."""
    async with served(app) as port, talking(port) as talk:
        await talk.say(post(b" " * (32 << 20)))
        assert (await talk.error())[0] == 413


# --- L5: headers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nA: " + b"a" * protocol.MAX_HEADER_BYTES + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: a\r\n" * 6000 + b"\r\n",
        b"GET /" + b"a" * protocol.MAX_HEADER_BYTES + b" HTTP/1.1\r\n\r\n",
    ],
    ids=["a long value", "many headers", "a long path"],
)
async def test_L5_headers_above_32_KiB_are_refused(app, head):
    async with served(app) as port, talking(port) as talk:
        await talk.say(head)
        status, error = await talk.error()
        assert status == 431
        assert "32768 bytes" in error


async def test_L5_headers_below_32_KiB_are_read(app):
    async with served(app) as port, talking(port) as talk:
        for _ in range(2):
            await talk.say(post(filter_body(), "A: " + "a" * (31 << 10)))
            assert (await talk.answer())[0] == 200


async def test_L5_headers_are_counted_while_they_arrive(app):
    """Their end is never sent."""
    async with served(app) as port, talking(port) as talk:
        await talk.say(b"GET / HTTP/1.1\r\nA: ")
        for _ in range(33):
            await talk.say(b"a" * 1024)
            await asyncio.sleep(0)
        assert (await talk.error())[0] == 431


async def test_L5_what_follows_a_body_is_counted_too(app):
    async with served(app) as port, talking(port) as talk:
        await talk.say(CHUNKED, b"1\r\n{\r\n0\r\nA: ")
        await until(lambda: is_receiving(port))
        await talk.say(b"a" * (33 << 10))
        assert (await talk.error())[0] == 431


async def test_L5_headers_of_a_request_that_follows_another_are_counted_by_themselves(app):
    async with served(app) as port, talking(port) as talk:
        await talk.say(post(filter_body()), b"GET / HTTP/1.1\r\nA: " + b"a" * (33 << 10) + b"\r\n\r\n")
        assert (await talk.answer())[0] == 200
        assert (await talk.error())[0] == 431
        assert await talk.is_closed()


# --- L5: time -------------------------------------------------------------------------------------------------------


async def test_L5_headers_that_do_not_arrive_are_answered_with_408(app, soon):
    async with served(app) as port, talking(port) as talk:
        await talk.say(b"POST /filter HTTP/1.1\r\nHos")
        status, error = await talk.error()
        assert status == 408
        assert error == "the request did not arrive within 0 seconds"
        assert await talk.is_closed()


async def test_L5_headers_that_trickle_do_not_gain_time(app, soon):
    async with served(app) as port, talking(port) as talk:
        trickling = asyncio.create_task(trickle(talk, b"GET / HTTP/1.1\r\nA: ", b"a"))
        assert (await talk.error())[0] == 408
        trickling.cancel()


async def test_L5_a_body_that_does_not_arrive_is_answered_with_408(app, soon):
    async with served(app) as port, talking(port) as talk:
        await talk.say(post(b"{", length=100))
        status, error = await talk.error()
        assert status == 408
        assert "body" in error
        assert await talk.is_closed()


async def test_L5_the_time_of_a_body_counts_from_the_first_byte_of_the_request(app, soon, monkeypatch):
    monkeypatch.setattr(protocol, "READ_TIMEOUT_SECONDS", 60)
    monkeypatch.setattr(body, "READ_TIMEOUT_SECONDS", 2.0)
    request = post(b"{", length=100)
    async with served(app) as port, talking(port) as talk:
        began = asyncio.get_running_loop().time()
        await talk.say(request[:10])
        await asyncio.sleep(1.0)
        await talk.say(request[10:])
        assert (await talk.error())[0] == 408
        assert asyncio.get_running_loop().time() - began < 3.0  # 2 s from the first byte, 3 s from the headers


async def test_L5_a_connection_that_trickles_on_after_its_answer_is_closed(app, soon):
    """The body of a request for an unknown path is not read."""
    async with served(app) as port, talking(port) as talk:
        await talk.say(post(b"{", path="/nowhere", length=1 << 20))
        assert (await talk.answer())[0] == 404
        trickling = asyncio.create_task(trickle(talk, b"", b" "))
        assert await talk.is_closed()
        trickling.cancel()


async def trickle(talk, first, then):
    await talk.say(first)
    while True:
        await asyncio.sleep(0.02)
        await talk.say(then)


async def test_L5_a_connection_that_never_says_anything_is_closed(app):
    async with served(app, keep_alive=1) as port, talking(port) as talk:
        assert await talk.is_closed()


async def test_L5_empty_lines_do_not_keep_a_connection_from_being_closed(app):
    async with served(app, keep_alive=1) as port, talking(port) as talk:
        assert (await get(talk))[0] == 404
        await talk.say(b"\r\n\r\n")
        assert await talk.is_closed()


async def test_L5_who_does_not_read_an_answer_is_cut_off(soon):
    async def endless(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b" " * 65536, "more_body": True})
            await asyncio.sleep(0)
            if not port.state.connections:
                return

    async with served(endless) as port, talking(port, limit=1) as talk:
        await talk.say(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: port.state.connections)
        await until(lambda: not port.state.connections)


def is_receiving(listener):
    """Has the first byte of a request come, and not all of it?"""
    return any(connection.is_receiving for connection in listener.state.connections)


async def until(is_true):
    async with asyncio.timeout(10):
        while not is_true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_L5_a_slow_reader_that_does_read_is_not_cut_off(soon, monkeypatch):
    monkeypatch.setattr(protocol, "WRITE_TIMEOUT_SECONDS", 5.0)
    whole = 8 << 20

    async def large(scope, receive, send):
        headers = [(b"content-length", b"%d" % whole)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(whole >> 16):
            await send({"type": "http.response.body", "body": b" " * 65536, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with served(large) as port, talking(port) as talk:
        await talk.say(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        await asyncio.sleep(SOON / 2)
        assert len(await talk.rest()) > whole


async def test_L5_the_limits_hold_on_the_admin_listener_too(app, soon):
    admin = create_admin_app(app.server_context, configuration())
    async with served(admin) as port:
        async with talking(port) as talk:
            await talk.say(b"GET / HTTP/1.1\r\nA: " + b"a" * protocol.MAX_HEADER_BYTES + b"\r\n\r\n")
            assert (await talk.error())[0] == 431
        async with talking(port) as talk:
            await talk.say(b"GET /livez HTTP/1.1\r\n")
            assert (await talk.error())[0] == 408


# --- L7, and where requests come from -------------------------------------------------------------------------------


async def test_L7_connections_outlive_those_of_go_which_gives_one_up_after_90_seconds(app):
    kept = uvicorn_config(app, configuration().server.keep_alive)
    assert kept.timeout_keep_alive == 120
    assert not kept.server_header
    assert not kept.access_log
    assert SCHEDULER_BACKLOG == 2048


async def test_security_a_header_does_not_change_where_a_request_comes_from(monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["client"][0])
        await send({"type": "http.response.start", "status": 204, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async with served(app) as port, talking(port) as talk:
        await talk.say(b"GET / HTTP/1.1\r\nX-Forwarded-For: 10.9.8.7\r\nForwarded: for=10.9.8.7\r\n\r\n")
        assert (await talk.answer())[0] == 204
    assert seen == ["127.0.0.1"]


async def test_E11_a_request_says_when_its_first_byte_came():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope[caller.CALLER_KEY].read_at)
        await send({"type": "http.response.start", "status": 204, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    loop = asyncio.get_running_loop()
    async with served(app) as port, talking(port) as talk:
        for _ in range(2):
            before = loop.time()
            await talk.say(b"GET /")
            await until(lambda: is_receiving(port))
            between = loop.time()
            await talk.say(b" HTTP/1.1\r\n\r\n")
            await talk.answer()
            assert before <= seen[-1] < between
    assert len(seen) == 2


# --- not HTTP ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        "GET /ü HTTP/1.1\r\n\r\n".encode(),
        b"POST /filter HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /filter HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"POST /filter HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"POST /filter HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\nx\r\n",
    ],
    ids=["a word", "TLS", "HTTP/2", "HTTP/9.9", "no ASCII", "two lengths", "smuggling", "a wrong chunk", "later chunk"],
)
async def test_what_is_no_http_is_answered_with_400_in_the_usual_shape(app, garbage, caplog):
    async with served(app) as port, talking(port) as talk:
        await talk.say(garbage)
        assert (await talk.error())[0] == 400
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING]


async def test_two_host_headers_are_refused_on_both_listeners(app):
    """RFC 9112, 3.2: what is in front may have read the other one."""
    for one in (app, create_admin_app(app.server_context, configuration())):
        async with served(one) as port, talking(port) as talk:
            await talk.say(b"GET /livez HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n")
            assert await talk.error() == (400, "more than one Host header")


async def test_garbage_after_a_request_is_not_answered_in_its_stead():
    """Who asked would take the 400 for the answer."""
    ready = asyncio.Event()

    async def app(scope, receive, send):
        await ready.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with served(app) as port, talking(port) as talk:
        await talk.say(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.05)
        await talk.say(b"garbage\r\n\r\n")
        await asyncio.sleep(0.05)
        ready.set()
        status, headers, answer = await talk.answer()
        assert (status, headers["connection"], answer) == (200, "close", b"ok")
        assert await talk.is_closed()


async def test_requests_that_do_not_wait_for_each_other_are_answered_in_their_order(app):
    async with served(app) as port, talking(port) as talk:
        await talk.say(post(filter_body()), b"GET /nowhere HTTP/1.1\r\n\r\n", post(filter_body(["worker-1"])))
        answers = [await talk.answer() for _ in range(3)]
    assert [status for status, _, _ in answers] == [200, 404, 200]
    assert json.loads(answers[2][2])["NodeNames"] == ["worker-1"]


async def test_H5_requests_that_do_not_wait_for_each_other_are_limited(app):
    """Each takes some 2 KB until the earlier ones are answered; the connection ends with their answers."""
    async with served(app) as port, talking(port) as talk:
        await talk.say(b"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n" * 5000)
        rest = await talk.rest()
    answers = rest.count(b"HTTP/1.1 404 ")
    assert 1 <= answers <= protocol.MAX_PIPELINED_REQUESTS + 1
    assert rest.count(b"HTTP/1.1 ") == answers


async def test_garbage_is_logged_but_not_as_often_as_it_comes(app, caplog):
    async with served(app) as port:
        for _ in range(5):
            async with talking(port) as talk:
                await talk.say(b"hello\r\n\r\n")
                await talk.error()
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
async def test_a_request_that_asks_for_another_protocol_is_answered_in_this_one(app, upgrade, caplog):
    admin = create_admin_app(app.server_context, configuration())
    async with served(admin) as port, talking(port) as talk:
        await talk.say(f"GET /livez HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n".encode())
        status, headers, answer = await talk.answer()
        assert (status, headers["connection"], answer) == (200, "close", b"ok")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_security_a_body_behind_a_request_for_another_protocol_is_not_taken_for_a_request(app):
    async with served(app) as port, talking(port) as talk:
        await talk.say(post(b"", "Connection: Upgrade", "Upgrade: h2c", length=100))
        await talk.say(b"GET /nowhere HTTP/1.1\r\n\r\n")
        status, error = await talk.error()
        assert status == 400
        assert "Upgrade" in error
        assert await talk.is_closed()


# --- the end --------------------------------------------------------------------------------------------------------


async def test_a_call_that_takes_too_long_at_the_end_is_told_so(monkeypatch, caplog):
    async def app(scope, receive, send):
        await asyncio.sleep(60)

    monkeypatch.setattr(listener, "CANCELLED_CALLS_TIMEOUT_SECONDS", 2)
    async with served(app) as port, talking(port) as talk:
        await talk.say(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.05)
        await port.close(timeout_seconds=0.1)
        assert await talk.error() == (503, "shutting down")
    assert "cancelling 1 in-flight requests" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]
