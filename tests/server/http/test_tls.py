"""RELIABILITY: TLS from 1.2 on, who may call, and certificates that change while calls are answered."""

import asyncio
import contextlib
import datetime
import gc
import logging
import os
import shutil
import socket
import ssl
import time
import warnings
import weakref

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from extender.config.serving import TLSSection
from extender.errors import ConfigError
from extender.server.app import create_app
from extender.server.http import acceptor
from extender.server.http import tls as tls_module
from extender.server.http.tls import TLSFiles
from extender.utilities import file_watch
from tests.fakes.certificates import Certificates
from tests.server.conftest import configuration, filled_cache, filter_body
from tests.server.sockets import post, served, talking

pytestmark = pytest.mark.anyio

NOW = datetime.datetime.now(datetime.UTC)
YESTERDAY = NOW - datetime.timedelta(days=1)

ALLOWED = ["kube-scheduler", "scheduler.kube-system.svc", "10.1.2.3", "fd00::7", "spiffe://cluster.local/scheduler"]


@pytest.fixture(scope="module")
def app():
    return create_app(filled_cache(), configuration())


@pytest.fixture
def certificates(tmp_path):
    directory = tmp_path / "ca"
    directory.mkdir()
    return Certificates(directory)


class Mounted:
    """The files as Kubernetes mounts a Secret: links to a directory that is swapped as a whole."""

    def __init__(self, directory):
        self._directory = directory
        self._number = 0
        self.names = {name: directory / name for name in ("tls.crt", "tls.key", "ca.crt")}
        for name, path in self.names.items():
            path.symlink_to(f"..data/{name}")

    def put(self, pair, ca_file):
        self._number += 1
        data = self._directory / f"..{self._number}"
        data.mkdir()
        for path, name in zip((*pair, ca_file), self.names, strict=True):
            shutil.copy(path, data / name)
        link = self._directory / "..data_tmp"
        link.symlink_to(data.name)
        os.replace(link, self._directory / "..data")

    def section(self, allowed=(), mutual=True):
        certificate, key, authorities = map(str, self.names.values())
        who = {"clientCA": authorities, "allowedNames": list(allowed)} if mutual else {}
        return TLSSection.model_validate({"certificate": certificate, "key": key, **who})


@pytest.fixture
def mounted(tmp_path, certificates):
    directory = tmp_path / "mounted"
    directory.mkdir()
    mounted = Mounted(directory)
    mounted.put(certificates.server(), certificates.ca_file)
    return mounted


def client(certificates, pair=None):
    """The CA that a client trusts, and the certificate that it shows."""
    context = ssl.create_default_context(cafile=str(certificates.ca_file))
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


async def ask(port, context):
    """The answer to a /filter over a connection of its own, by address, as kube-scheduler asks."""
    async with httpx.AsyncClient(verify=context, headers={"Content-Type": "application/json"}) as http:
        return await http.post(f"{port.address}/filter", content=filter_body())


async def is_let_in(port, context):
    try:
        return (await ask(port, context)).status_code == 200
    except (httpx.ReadError, httpx.ConnectError, httpx.RemoteProtocolError):
        return False


# --- who may call ---------------------------------------------------------------------------------------------------


async def test_security_a_client_needs_no_certificate_where_none_is_asked_for(app, certificates, mounted):
    async with served(app, TLSFiles("server", mounted.section(mutual=False))) as port:
        assert port.address.startswith("https://")
        assert await is_let_in(port, client(certificates))


async def test_security_mtls_every_certificate_of_the_authorities_where_no_names_are_given(app, certificates, mounted):
    async with served(app, TLSFiles("server", mounted.section())) as port:
        assert await is_let_in(port, client(certificates, certificates.client("anybody")))


async def test_security_mtls_no_certificate(app, certificates, mounted, caplog):
    files = TLSFiles("server", mounted.section())
    async with served(app, files) as port:
        assert not await is_let_in(port, client(certificates))
    assert files.refused == 1
    assert "server.tls: handshake failed: PEER_DID_NOT_RETURN_A_CERTIFICATE" in caplog.text


async def test_security_mtls_another_authority(app, certificates, mounted, tmp_path, caplog):
    files = TLSFiles("server", mounted.section())
    (tmp_path / "other").mkdir()
    theirs = Certificates(tmp_path / "other").client()
    async with served(app, files) as port:
        assert not await is_let_in(port, client(certificates, theirs))
    assert files.refused == 1
    assert "unable to get local issuer certificate" in caplog.text


async def test_security_mtls_expired(app, certificates, mounted, caplog):
    expired = certificates.client_with("late", common_name="kube-scheduler", ends=YESTERDAY)
    async with served(app, TLSFiles("server", mounted.section())) as port:
        assert not await is_let_in(port, client(certificates, expired))
    assert "certificate has expired" in caplog.text


async def test_security_mtls_a_wrong_name_is_answered_with_403(app, certificates, mounted, caplog):
    files = TLSFiles("server", mounted.section(ALLOWED))
    mallory = certificates.client_with("m", "kube-scheduler.example", "10.1.2.4", common_name="kube-scheduler\x1b[31m")
    async with served(app, files) as port:
        for _ in range(3):
            answer = await ask(port, client(certificates, mallory))
            assert answer.status_code == 403
            assert answer.headers["connection"] == "close"
            assert answer.json() == {"Error": "no name of this certificate is in server.tls.allowedNames"}
    assert files.refused == 3
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.endswith(r"kube-scheduler\x1b[31m, kube-scheduler.example, 10.1.2.4")


@pytest.mark.parametrize(
    ("names", "also"),
    [
        ((), {"common_name": "kube-scheduler"}),
        (("other.example", "scheduler.kube-system.svc"), {}),
        (("10.1.2.3",), {}),
        (("fd00:0::0:7",), {}),
        ((), {"uri": "spiffe://cluster.local/scheduler"}),
    ],
    ids=["common name", "DNS name", "address", "address, spelled differently", "URI"],
)
async def test_security_mtls_the_right_name(app, certificates, mounted, names, also):
    right = certificates.client_with("right", *names, **also)
    async with served(app, TLSFiles("server", mounted.section(ALLOWED))) as port:
        assert await is_let_in(port, client(certificates, right))


@pytest.mark.parametrize("allowed", ["*.kube-system.svc", "kube-scheduler.example", "KUBE-SCHEDULER", "*"])
async def test_security_mtls_allowed_names_are_no_patterns(app, certificates, mounted, allowed):
    shown = certificates.client_with("one", "scheduler.kube-system.svc", common_name="kube-scheduler")
    async with served(app, TLSFiles("server", mounted.section([allowed]))) as port:
        assert (await ask(port, client(certificates, shown))).status_code == 403


async def test_security_a_name_with_a_wildcard_does_not_stand_for_others(app, certificates, mounted):
    shown = certificates.client_with("one", "*.kube-system.svc")
    async with served(app, TLSFiles("server", mounted.section(ALLOWED))) as port:
        assert (await ask(port, client(certificates, shown))).status_code == 403


# --- the protocol ---------------------------------------------------------------------------------------------------


async def test_security_TLS_before_1_2_is_refused(app, certificates, mounted):
    old = client(certificates)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    async with served(app, TLSFiles("server", mounted.section(mutual=False))) as port:
        assert not await is_let_in(port, old)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = client(certificates)
            context.minimum_version = context.maximum_version = version
            assert await is_let_in(port, context)


async def test_security_plain_http_at_the_port_of_tls_is_closed_without_a_traceback(app, mounted, caplog):
    async with served(app, TLSFiles("server", mounted.section())) as port, talking(port) as talk:
        await talk.say(b"GET / HTTP/1.1\r\n\r\n")
        assert await talk.is_closed()
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING]


async def test_L5_a_handshake_that_does_not_come_is_given_up(app, mounted, monkeypatch):
    assert acceptor.HANDSHAKE_TIMEOUT_SECONDS == 10
    monkeypatch.setattr(acceptor, "HANDSHAKE_TIMEOUT_SECONDS", 0.2)
    async with served(app, TLSFiles("server", mounted.section())) as port, talking(port) as talk:
        await talk.say(b"\x16\x03\x01")
        assert await talk.is_closed()


async def test_L5_limits_hold_under_tls(app, certificates, mounted):
    async with (
        served(app, TLSFiles("server", mounted.section(mutual=False))) as port,
        talking(port, ssl=client(certificates)) as talk,
    ):
        await talk.say(b"GET / HTTP/1.1\r\nA: " + b"a" * (33 << 10))
        assert (await talk.error())[0] == 431


# --- change ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def often(monkeypatch):
    """Files are looked at all the time."""
    assert file_watch.POLL_INTERVAL_SECONDS * (file_watch.MAX_UNSETTLED_POLLS + 1) <= 10
    monkeypatch.setattr(tls_module, "POLL_INTERVAL_SECONDS", 0.01)


async def until(is_true):
    async with asyncio.timeout(10):
        while not is_true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def shown(port, context):
    """The common name of the certificate that a new connection is shown."""
    async with talking(port, ssl=context) as talk:
        subject = talk.certificate()["subject"]
    return dict(part[0] for part in subject)["commonName"]


@pytest.mark.slow
async def test_security_rotated_while_100_calls_a_second_are_answered_none_fails(app, certificates, mounted, often):
    """On connections that are kept and on new ones; six certificates, shown within a moment of the change."""
    files = TLSFiles("server", mounted.section(mutual=False))
    context, statuses, seen = client(certificates), [], ["server"]
    async with served(app, files) as port, httpx.AsyncClient(verify=context) as kept:
        done = asyncio.Event()

        async def call_kept():
            while not done.is_set():
                answer = await kept.post(f"{port.address}/filter", content=filter_body())
                statuses.append(answer.status_code)
                await asyncio.sleep(0.01)

        async def call_anew():
            while not done.is_set():
                statuses.append((await ask(port, context)).status_code)
                await asyncio.sleep(0.01)

        callers = [asyncio.create_task(call()) for call in (call_kept, call_kept, call_anew, call_anew)]
        for number in range(5):
            before = len(statuses)
            mounted.put(certificates.server(f"server-{number}"), certificates.ca_file)
            async with asyncio.timeout(10):
                while await shown(port, context) != f"server-{number}":  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            seen.append(f"server-{number}")
            await until(lambda before=before: len(statuses) > before + 20)
        done.set()
        await asyncio.gather(*callers)
    assert set(statuses) == {200}
    assert len(seen) == 6


async def test_security_mtls_an_authority_that_is_gone_is_gone(app, certificates, mounted, tmp_path, often):
    """Also for a client of TLS 1.2 that would like to go on with a session of before."""
    (tmp_path / "new").mkdir()
    new = Certificates(tmp_path / "new")
    old, young = client(certificates, certificates.client()), client(certificates, new.client())
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    files = TLSFiles("server", mounted.section())
    async with served(app, files) as port:
        assert await is_let_in(port, old)
        assert not await is_let_in(port, young)
        session, _ = await asyncio.to_thread(session_of, port, old)
        assert session is not None  # whether it is gone on with here is up to OpenSSL: the authority is the same
        before = files.context
        mounted.put(certificates.server(), new.ca_file)
        await until(lambda: files.context is not before)
        await until_refused(port, old)
        assert await is_let_in(port, young)
        assert await asyncio.to_thread(session_of, port, old, session) == (None, False)


def session_of(port, context, session=None):
    """The session of a call, and whether it is the one that was to be gone on with; None, False if it was refused."""
    with socket.create_connection(("127.0.0.1", int(port.address.rpartition(":")[2])), timeout=10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection:
                connection.sendall(b"GET /nowhere HTTP/1.1\r\n\r\n")
                if connection.recv(1):
                    return connection.session, connection.session_reused
        except (ssl.SSLError, ConnectionError):
            pass
    return None, False


async def until_refused(port, context):
    async with asyncio.timeout(10):
        while await is_let_in(port, context):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_security_connections_that_are_open_stay_open(app, certificates, mounted, often):
    files = TLSFiles("server", mounted.section(mutual=False))
    async with served(app, files) as port, talking(port, ssl=client(certificates)) as talk:
        before = files.context
        mounted.put(certificates.server("next"), certificates.ca_file)
        await until(lambda: files.context is not before)
        await talk.say(b"GET /nowhere HTTP/1.1\r\n\r\n")
        assert (await talk.answer())[0] == 404


def break_key(mounted, certificates, tmp_path):
    mounted.put((certificates.server("a").certificate, certificates.server("b").key), certificates.ca_file)
    return r"server.tls.key: .*tls.key: does not belong to the certificate in .*tls.crt"


def break_half(mounted, certificates, tmp_path):
    pair, half = certificates.server("a"), tmp_path / "half"
    half.write_bytes(pair.certificate.read_bytes()[:300])
    mounted.put((half, pair.key), certificates.ca_file)
    return r"server.tls.certificate: .*tls.crt: holds no certificate in PEM form"


def break_half_key(mounted, certificates, tmp_path):
    pair, half = certificates.server("a"), tmp_path / "half"
    half.write_bytes(pair.key.read_bytes()[:100])
    mounted.put((pair.certificate, half), certificates.ca_file)
    return r"server.tls.key: .*tls.key: holds no private key in PEM form"


def break_authorities(mounted, certificates, tmp_path):
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    mounted.put(certificates.server("a"), empty)
    return r"server.tls.clientCA: .*ca.crt: holds no certificates in PEM form"


def remove_key(mounted, certificates, tmp_path):
    mounted.put(certificates.server("a"), certificates.ca_file)
    (mounted.names["tls.key"].resolve()).unlink()
    return r"server.tls.key: .*tls.key: No such file or directory"


BREAKING = [break_key, break_half, break_half_key, break_authorities, remove_key]


@pytest.mark.parametrize("break_files", BREAKING, ids=lambda function: function.__name__)
async def test_security_files_that_do_not_fit_keep_those_that_did(
    app, certificates, mounted, tmp_path, often, caplog, break_files
):
    files = TLSFiles("server", mounted.section())
    context, before = client(certificates, certificates.client()), files.context
    async with served(app, files) as port:
        message = break_files(mounted, certificates, tmp_path)
        await until(lambda: files.problem is not None)
        assert_matches(message, files.problem)
        assert files.warnings() == [f"certificate: {files.problem}; using the previous one"]
        assert await shown(port, context) == "server"
        assert await is_let_in(port, context)
        for _ in range(3):
            await files.poll()
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert len(errors) == 1  # once, not at every look
        assert files.context is before
        mounted.put(certificates.server("mended"), certificates.ca_file)
        await until(lambda: files.problem is None)
        await until(lambda: files.context is not before)
        assert files.warnings() == []
    assert "PRIVATE KEY" not in caplog.text


def assert_matches(pattern, text):
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)


@pytest.mark.parametrize("break_files", BREAKING, ids=lambda function: function.__name__)
def test_security_files_that_do_not_fit_end_the_start(certificates, mounted, tmp_path, break_files):
    message = break_files(mounted, certificates, tmp_path)
    with pytest.raises(ConfigError, match=message):
        TLSFiles("server", mounted.section())


def test_security_a_key_with_a_passphrase_is_refused_and_nobody_asked_for_it(certificates, mounted, tmp_path):
    pair, encrypted = certificates.server("a"), tmp_path / "encrypted"
    key = load_pem_private_key(pair.key.read_bytes(), None)
    secret = BestAvailableEncryption(b"hunter2")
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
    mounted.put((pair.certificate, encrypted), certificates.ca_file)
    with pytest.raises(ConfigError, match=r"server.tls.key: .*tls.key: encrypted private keys are not supported"):
        TLSFiles("server", mounted.section())


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
async def test_H7_a_fifo_in_place_of_a_file_is_reported_and_changes_nothing(certificates, mounted, name):
    files = TLSFiles("server", mounted.section())
    before, path = files.context, mounted.names[name]
    path.unlink()
    os.mkfifo(path)
    for _ in range(4):
        assert not await files.poll()
    assert files.problem is not None
    assert files.problem.endswith(f"{name}: is a FIFO, not a regular file")
    assert files.context is before
    path.unlink()
    path.symlink_to(f"..data/{name}")
    for _ in range(3):
        await files.poll()
    assert files.problem is None


def test_H7_a_key_of_more_than_a_mebibyte_is_refused(mounted):
    path = mounted.names["tls.key"]
    path.unlink()
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match=r"tls\.key: is larger than 1 MiB"):
        TLSFiles("server", mounted.section())


async def test_security_certificate_and_key_may_be_one_file(app, certificates, tmp_path):
    pair, both = certificates.server("a"), tmp_path / "both.pem"
    both.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
    section = TLSSection.model_validate({"certificate": str(both), "key": str(both)})
    async with served(app, TLSFiles("server", section)) as port:
        assert await is_let_in(port, client(certificates))


async def test_security_what_has_changed_is_in_effect_within_10_seconds_however_it_is_written(certificates, mounted):
    """By steps of the clock: it changes at each look, so it is loaded at the third."""
    files = TLSFiles("server", mounted.section())
    slept, changed_at, context = 0.0, [], files.context

    async def sleep(seconds):
        nonlocal slept, context
        if files.context is not context:
            changed_at.append(slept)
            context = files.context
        slept += seconds
        if slept > 30:
            raise asyncio.CancelledError
        mounted.put(certificates.server(f"at-{slept}"), certificates.ca_file)

    with contextlib.suppress(asyncio.CancelledError):
        await files.run(sleep)
    assert changed_at[:3] == [6, 12, 18]


# --- expiry ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "warning"), [(-1, "expired at"), (6, "expires at"), (8, None)], ids=["expired", "soon", "later"]
)
async def test_security_when_the_certificate_expires_is_known(certificates, mounted, days, warning, caplog):
    ends = (NOW + datetime.timedelta(days=days)).replace(microsecond=0)
    mounted.put(certificates.server("ending", ends), certificates.ca_file)
    files = TLSFiles("admin", mounted.section(mutual=False))
    assert files.expires == ends.timestamp()
    looks = 0

    async def sleep(_):
        nonlocal looks
        looks += 1
        if looks == 5:
            raise asyncio.CancelledError

    with contextlib.suppress(asyncio.CancelledError):
        await files.run(sleep)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    said = f"admin.tls.certificate: {warning} {ends:%Y-%m-%dT%H:%M:%SZ}"
    assert lines == ([said] if warning else [])
    assert files.warnings() == ([said] if warning else [])


def test_security_a_certificate_that_expires_is_warned_of_once_a_day(certificates, mounted, caplog):
    mounted.put(certificates.server("ending", NOW + datetime.timedelta(days=3)), certificates.ca_file)
    now = time.time()
    files = TLSFiles("server", mounted.section(mutual=False), lambda: now)
    for hours in range(60):
        now += 3600
        files._warn_of_expiry()
        assert len(caplog.records) == hours // 24 + 1


# --- and nothing of them stays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/filter", "/no-such-path"])
async def test_L3_a_connection_that_is_closed_takes_no_memory_without_the_collector(app, certificates, mounted, path):
    """Its buffers are 256 KiB, and the collector does not look at what was there when it last did."""
    context = client(certificates)
    async with served(app, TLSFiles("server", mounted.section(mutual=False))) as port:
        gc.collect()
        gc.disable()
        try:
            held: list[weakref.ref] = []
            for _ in range(3):
                async with talking(port, ssl=context, server_hostname="localhost") as talk:
                    await talk.say(post(filter_body(), path=path))
                    await talk.answer()
                    (connection,) = port.state.connections
                    held += [weakref.ref(connection), weakref.ref(connection.transport)]
                    del connection
                await until(lambda: not port.state.connections)
            await until(lambda: not any(ref() is not None for ref in held))
        finally:
            gc.enable()
