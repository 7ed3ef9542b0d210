"""Bad input over a socket: bytes that are nearly HTTP, sent to the listener as it is; no 5xx, no redirect.

What is announced may be longer or shorter than what comes, as no client library would send it. After each connection a
good request on another one is answered as before.
"""

import asyncio
import contextlib

import httptools
import pytest
from hypothesis import strategies as st

from tests.property.fuzz.corpus import corpus
from tests.property.fuzz.served import Answer, Served, assert_has_shape, assert_is_error
from tests.property.fuzz.test_bodies import run
from tests.server.sockets import LIMIT, port_of
from tests.server.sockets import served as listening

BODY = corpus("filter")[0]
GOOD = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)

LINES = st.sampled_from(
    [
        *(b"POST /filter HTTP/1.1", b"POST /filter HTTP/1.0", b"post /filter HTTP/1.1", b"POST /filter HTTP/2.0"),
        *(
            b"GET /livez HTTP/1.1",
            b"POST  /filter  HTTP/1.1",
            b"POST /filter",
            b"PRI * HTTP/2.0",
            b"CONNECT x:1 HTTP/1.1",
        ),
        *(
            b"POST http://x/filter HTTP/1.1",
            b"POST /filter?" + b"x" * 20_000 + b" HTTP/1.1",
            b"OPTIONS * HTTP/1.1",
            b"",
        ),
        *(b"POST /\xff HTTP/1.1", b"POST /%ff%00 HTTP/1.1", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00"),
    ]
)
LENGTHS = st.sampled_from([b"%d" % (len(BODY) + more) for more in (-2046, -1, 0, 0, 0, 1, 10_000)])
HEADERS = st.lists(
    st.one_of(
        LENGTHS.map(lambda length: b"Content-Length: " + length),
        st.sampled_from(
            [
                *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity"),
                *(b"Content-Length: -1", b"Content-Length: 1, 1", b"Content-Length: +5", b"Content-Length: 0x10"),
                *(b"Connection: close", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"Upgrade: websocket"),
                *(b"Expect: 100-continue", b"Host: a\r\nHost: b", b"X: " + b"y" * 40_000, b" folded: x", b"no colon"),
                *(b"Content-Type: application/json", b"Content-Encoding: gzip", b"\xff: \xff", b"X\x00: 1", b": x"),
            ]
        ),
    ),
    max_size=4,
)
ENDS = st.sampled_from([b"\r\n"] * 6 + [b"\n", b"\r", b""])
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
BODIES = st.sampled_from(
    [
        BODY,
        BODY,
        BODY,
        b"",
        BODY[:-1],
        BODY + GOOD,
        CHUNKED,
        CHUNKED[:-4],
        b"zz\r\n" + BODY,
        b"ffffffffffffffff1\r\nx\r\n",
        b"-1\r\n",
    ]
)


@st.composite
def requests(draw):
    """A request that may be right, and what comes after it."""
    end = draw(ENDS)
    parts = [draw(LINES), b"Host: x", *draw(HEADERS)]
    return end.join(parts) + end + end + draw(BODIES) + draw(st.sampled_from([b"", b"", GOOD, b"\r\n\r\n", b"\x00"]))


class Parsed:
    """The answers on a connection, one after another."""

    def __init__(self, received: bytes) -> None:
        self.answers: list[Answer] = []
        self.parser = httptools.HttpResponseParser(self)
        self.parser.feed_data(received)

    def on_message_begin(self) -> None:
        self.answers.append(Answer())

    def on_header(self, name: bytes, value: bytes) -> None:
        self.answers[-1].headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self.answers[-1].status = self.parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.answers[-1].body += body


async def answers_to(port: int, request: bytes, *, closes: bool = True) -> list[Answer]:
    """All that comes back, until the other side closes; ours `closes` when it has nothing more to say."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(request)
            await writer.drain()
            if closes:
                writer.write_eof()
        received = b""
        async with asyncio.timeout(LIMIT):
            with contextlib.suppress(ConnectionError):
                while more := await reader.read(1 << 16):
                    received += more
    finally:
        writer.close()
    return [one for one in Parsed(received).answers if one.status != 100] if received else []


@pytest.fixture(scope="module")
def service():
    one = Served()
    yield one
    one.close()


def test_no_bytes_get_a_5xx_or_a_redirect(service):
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
        context = listening(service.scheduler)
        listener = runner.run(context.__aenter__())
        stack.callback(lambda: runner.run(context.__aexit__(None, None, None)))
        port = port_of(listener)

        def check(request):
            for answer in runner.run(answers_to(port, request)):
                if answer.status == 200:
                    assert_has_shape("/filter", answer)
                elif answer.status == 503:
                    assert b"the caller closed the connection" in answer.body
                else:
                    assert answer.status in (400, 404, 405, 408, 413, 415, 431)
                    assert_is_error(answer)
            (good,) = runner.run(
                answers_to(port, GOOD.replace(b"Host: x", b"Host: x\r\nConnection: close"), closes=False)
            )
            assert good.status == 200

        run(requests(), check)
    service.assert_as_before()
