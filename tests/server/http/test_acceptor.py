"""H5: which connections are accepted, and which give way to new ones."""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import resource
import socket
import ssl
from asyncio.sslproto import SSLProtocol

import pytest

from extender.config.serving import TLSSection
from extender.server.app import create_app
from extender.server.http import acceptor
from extender.server.http.tls import TLSFiles
from tests.fakes.certificates import Certificates
from tests.server.conftest import configuration, filled_cache, filter_body
from tests.server.sockets import port_of, post, served, talking

pytestmark = pytest.mark.anyio

LIMIT = 16


@pytest.fixture
def app():
    return create_app(filled_cache(), configuration())


@pytest.fixture
def few(monkeypatch):
    """A listener has at most LIMIT connections."""
    monkeypatch.setattr(acceptor, "MAX_CONNECTIONS", LIMIT)


@contextlib.asynccontextmanager
async def silent(listener, count):
    """Connections that send nothing; each is accepted before the next is opened."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", port_of(listener)))))
            await asyncio.sleep(0.002)
        yield opened


async def until(is_true):
    async with asyncio.timeout(10):
        while not is_true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def status_of_call(listener, **options):
    async with talking(listener, **options) as talk:
        await talk.say(post(filter_body()))
        return (await talk.answer())[0]


def open_connections(listener):
    return listener._acceptor._count()


async def test_H5_a_new_connection_gets_in_however_many_send_nothing(app, few):
    async with served(app) as listener, silent(listener, 3 * LIMIT):
        assert await status_of_call(listener) == 200
        assert open_connections(listener) <= LIMIT


async def test_H5_a_connection_that_has_been_answered_outlives_those_that_have_not(app, few):
    async with served(app) as listener, talking(listener) as kept:
        await kept.say(post(filter_body()))
        assert (await kept.answer())[0] == 200
        async with silent(listener, 3 * LIMIT) as others:
            for one in others:
                with contextlib.suppress(OSError):
                    one.send(b"POST /filter HTTP/1.1\r\n")
            await asyncio.sleep(0.05)
            assert await status_of_call(listener) == 200
            await kept.say(post(filter_body()))
            assert (await kept.answer())[0] == 200


async def test_H5_an_idle_connection_gives_way_if_all_have_been_answered(app, few):
    async with served(app) as listener, contextlib.AsyncExitStack() as stack:
        talks = [await stack.enter_async_context(talking(listener)) for _ in range(LIMIT)]
        for talk in talks:
            await talk.say(post(filter_body()))
            assert (await talk.answer())[0] == 200
        assert await status_of_call(listener) == 200
        assert await talks[0].is_closed()
        await talks[-1].say(post(filter_body()))
        assert (await talks[-1].answer())[0] == 200


async def test_H5_a_connection_that_is_being_answered_is_never_closed(few, monkeypatch):
    """The next ones wait until there is room."""
    monkeypatch.setattr(acceptor, "ACCEPT_PAUSE_SECONDS", 0.01)
    ready = asyncio.Event()

    async def app(scope, receive, send):
        await ready.wait()
        await send({"type": "http.response.start", "status": 204, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async with served(app) as listener, contextlib.AsyncExitStack() as stack:
        talks = []
        for _ in range(2 * LIMIT):
            talks.append(await stack.enter_async_context(talking(listener)))
            await talks[-1].say(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        await until(lambda: len(listener.state.tasks) == LIMIT)
        await asyncio.sleep(0.05)
        assert open_connections(listener) == LIMIT
        ready.set()
        for talk in talks:
            assert (await talk.answer())[0] == 204


async def test_H5_tls_handshakes_under_way_are_limited_and_a_real_one_gets_in(app, tmp_path, monkeypatch):
    monkeypatch.setattr(acceptor, "MAX_HANDSHAKES", 4)
    monkeypatch.setattr(acceptor, "HANDSHAKES_PER_TURN", 2)
    certificates = Certificates(tmp_path)
    pair = certificates.server()
    section = TLSSection.model_validate({"certificate": str(pair.certificate), "key": str(pair.key)})
    context = acceptor_client(certificates)
    async with served(app, TLSFiles("server", section)) as listener, silent(listener, 30) as others:
        assert not listener._acceptor._starting  # no SSL object before the first byte
        for one in others:
            one.send(b"\x16")
        await until(lambda: len(listener._acceptor._starting) == 4 and not listener._acceptor._ready)
        assert await status_of_call(listener, ssl=context, server_hostname="localhost") == 200
        await until(lambda: len(gc_objects(acceptor._TLSProtocol)) <= 4)


async def test_the_undocumented_tls_protocol_of_asyncio_has_the_smaller_buffer():
    """An upgrade of Python that changes what `Acceptor` needs of it fails here first."""
    loop, context = asyncio.get_running_loop(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    done = loop.create_future()
    protocol = acceptor._TLSProtocol(
        loop, asyncio.Protocol(), context, done, server_side=True, ssl_handshake_timeout=10, ssl_shutdown_timeout=2
    )
    assert len(protocol.get_buffer(-1)) == acceptor.TLS_READ_BYTES < SSLProtocol.max_size
    protocol.connection_lost(None)


def acceptor_client(certificates):
    return ssl.create_default_context(cafile=str(certificates.ca_file))


def gc_objects(kind):
    return [one for one in gc.get_objects() if isinstance(one, kind)]


async def test_H5_a_process_without_descriptors_says_so_once_and_accepts_later(app, monkeypatch, caplog):
    monkeypatch.setattr(acceptor, "ACCEPT_PAUSE_SECONDS", 0.01)

    class Exhausted:
        """A listening socket whose accept fails."""

        attempts = 0

        def __init__(self, real):
            self._real = real

        def accept(self):
            Exhausted.attempts += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        def __getattr__(self, name):
            return getattr(self._real, name)

    async with served(app) as listener:
        real = listener._acceptor._listening
        monkeypatch.setattr(listener._acceptor, "_listening", Exhausted(real))
        calling = asyncio.create_task(status_of_call(listener))
        await until(lambda: Exhausted.attempts > 5)
        monkeypatch.setattr(listener._acceptor, "_listening", real)
        assert await calling == 200
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == ["scheduler: cannot accept connections: Too many open files"]


@pytest.mark.parametrize(("descriptors", "most"), [(128, 32), (1024, 480), (65536, 512), (resource.RLIM_INFINITY, 512)])
def test_H5_connections_stay_below_the_limit_of_descriptors(monkeypatch, descriptors, most):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    monkeypatch.setattr(os, "listdir", lambda _: ["0"] * 10)
    assert acceptor.MIN_CONNECTIONS <= acceptor.max_connections() <= most


async def test_H5_a_request_that_has_arrived_is_answered_although_the_listener_closes(app):
    async with served(app) as listener, talking(listener) as talk:
        await talk.say(post(filter_body()))
        await listener.close(timeout_seconds=5)
        assert (await talk.answer())[0] == 200
        assert await talk.is_closed()


async def test_calls_in_the_backlog_are_answered_when_the_listener_closes(app):
    """The kernel would reset what it has connected and nothing has accepted."""
    async with served(app) as listener:
        with contextlib.ExitStack() as stack:
            address = ("127.0.0.1", port_of(listener))
            clients = [stack.enter_context(socket.create_connection(address)) for _ in range(100)]
            for client in clients:
                client.send(post(filter_body()))
            await listener.close(timeout_seconds=10)
            answers = [client.recv(12) for client in clients]
        assert answers == [b"HTTP/1.1 200"] * len(clients)


async def test_a_handshake_that_stops_does_not_delay_the_end_of_the_listener(app, tmp_path, monkeypatch):
    monkeypatch.setattr(acceptor, "HANDSHAKE_SECONDS_AT_CLOSE", 0.1)
    pair = Certificates(tmp_path).client()
    section = TLSSection(certificate=str(pair.certificate), key=str(pair.key))
    async with served(app, TLSFiles("server", section)) as listener:
        with socket.create_connection(("127.0.0.1", port_of(listener))) as client:
            client.send(b"\x16\x03\x01\x02\x00")
            await until(lambda: listener._acceptor.is_starting)
            closing = asyncio.create_task(listener.close(timeout_seconds=60))
            timeout = asyncio.create_task(asyncio.sleep(acceptor.HANDSHAKE_TIMEOUT_SECONDS / 2))
            await asyncio.wait((closing, timeout), return_when=asyncio.FIRST_COMPLETED)
            assert closing.done()
            timeout.cancel()
