"""RELIABILITY 6: how the process ends. A real process on loopback, and the signals that Kubernetes and people send."""

import contextlib
import gc
import resource
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from extender.errors import ConfigError, ListenError
from extender.server import run
from extender.server.admin.decision_thread import DecisionThread
from extender.server.app import create_app
from extender.server.http.listener import log as log_of_listeners
from tests.fakes.certificates import Certificates
from tests.server.conftest import configuration, filled_cache
from tests.server.processes import LIMIT, running
from tests.server.sockets import post

BODY = b'{"Pod":{"metadata":{"name":"p","namespace":"n","uid":"u"},"spec":{"containers":[]}},"NodeNames":["worker-a1"]}'


def ask(connection):
    connection.request("POST", "/filter", BODY, {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    return response


def until(is_true):
    ends = time.monotonic() + LIMIT
    while not is_true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_sigterm_with_100_calls_a_second_none_fails_and_the_exit_code_is_0():
    """Callers go away a while after /readyz says no, as endpoints do; each answer until then closes its connection."""
    with running(SERVER__DRAIN_TIME="5s") as process, ThreadPoolExecutor(6) as threads:
        gone, statuses, closing = threading.Event(), [], []

        def call(kept):
            connection = process.connection()
            while not gone.is_set():
                response = ask(connection)
                statuses.append(response.status)
                closing.append(response.getheader("connection") == "close")
                if not kept:
                    connection.close()
                time.sleep(0.03)
            connection.close()

        def leave():
            until(lambda: process.readyz() == 503)
            unready = time.monotonic()
            time.sleep(1)
            gone.set()
            return unready

        idle = process.connection()
        assert ask(idle).status == 200
        callers = [threads.submit(call, number % 2) for number in range(4)]
        until(lambda: len(statuses) > 50)
        assert not any(closing)
        leaving = threads.submit(leave)
        asked = time.monotonic()
        process.say(signal.SIGTERM)
        assert leaving.result(LIMIT) - asked < 4  # at once, and not when the time is over
        for caller in callers:
            caller.result(LIMIT)
        assert any(closing)
        assert ask(idle).getheader("connection") == "close"  # it was not cut while it idled
        assert process.ends() == 0
        assert time.monotonic() - asked >= 5
        assert set(statuses) == {200}


def test_sigterm_a_call_under_way_when_the_time_is_over_is_answered():
    with running(SERVER__DRAIN_TIME="0.3s") as process, process.connect() as late, process.connect() as idle:
        begin(late)
        process.say(signal.SIGTERM)
        assert idle.recv(1) == b""  # closed: the time is over
        with pytest.raises(ConnectionError):
            process.connect()
        assert process.readyz() == 503
        late.sendall(BODY)
        answer = b"".join(iter(lambda: late.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"connection: close" in answer
        assert process.ends() == 0


def test_sigterm_twice_does_not_wait():
    with running(SERVER__DRAIN_TIME="60s") as process:
        began = time.monotonic()
        process.say(signal.SIGTERM)
        until(lambda: process.readyz() == 503)
        with contextlib.closing(process.connection()) as connection:
            until(lambda: ask(connection).getheader("connection") == "close")
        process.say(signal.SIGTERM)
        assert process.ends() == 0
        assert time.monotonic() - began < 50


def test_H8_sighup_drains_and_sigusr1_and_sigusr2_are_ignored_with_a_line():
    """All three end a process at once by default."""
    with running(SERVER__DRAIN_TIME="60s") as process:
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            process.say(number)
        until(lambda: any("signal ignored: SIGUSR" in line for line in process.lines))
        assert process.readyz() == 200
        process.say(signal.SIGHUP)
        until(lambda: process.readyz() == 503)
        with contextlib.closing(process.connection()) as connection:
            until(lambda: ask(connection).getheader("connection") == "close")  # still answered
        until(lambda: any("SIGHUP received, not ready, still answering calls" in line for line in process.lines))
        process.say(signal.SIGHUP)
        assert process.ends() == 0


def test_sigterm_a_call_that_does_not_end_is_cut_off_by_another_signal():
    with running(SERVER__DRAIN_TIME="0s") as process, process.connect() as slow:
        begin(slow)
        process.say(signal.SIGTERM)
        until(lambda: any("draining in-flight requests" in line for line in process.lines))
        process.say(signal.SIGTERM)
        began = time.monotonic()
        assert process.ends() == 0
        assert time.monotonic() - began < 4.5
        assert b"503" in slow.recv(65536)


def begin(connection):
    """Ask without sending the body; returns when that is waited for."""
    connection.sendall(post(b"", "Expect: 100-continue", length=len(BODY)))
    assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_sigint_ends_a_process_that_was_started_in_the_background_of_a_script():
    """Shells start such a process with SIGINT ignored."""
    with running(prefix=("bash", "-c", 'trap "" INT; exec "$@"', "bash")) as process:
        process.say(signal.SIGINT)
        assert process.ends() == 0


def test_sigint_does_not_wait_and_L6_500_idle_connections_do_not_refuse_a_call():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2048:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))
    with running(SERVER__DRAIN_TIME="60s") as process, contextlib.ExitStack() as stack:
        for which in ("scheduler", "admin"):
            for number in range(500):
                idle = stack.enter_context(process.connect(which))
                if number % 2:
                    idle.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
                    assert idle.recv(4096)
        with contextlib.closing(process.connection()) as connection:
            assert ask(connection).status == 200
        assert process.readyz() == 200
        began = time.monotonic()
        process.say(signal.SIGINT)
        assert process.ends() == 0
        assert time.monotonic() - began < 50


def test_a_lost_cluster_ends_it_without_waiting(monkeypatch):
    """Without a synced cache, no call can be answered during `drainTime` either."""
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)  # not for all the tests that come after this one
    monkeypatch.setattr(gc, "freeze", lambda: None)
    config = configuration(server={"port": 0, "drainTime": "60s"}, admin={"port": 0})
    app, opened = create_app(filled_cache(), config), threading.Event()
    monkeypatch.setattr(log_of_listeners, "info", lambda *_: opened.set())
    serving = threading.Thread(target=run.serve, args=(app, config))
    serving.start()
    assert opened.wait(LIMIT)
    app.stop()
    serving.join(10)
    assert not serving.is_alive()


def test_H3_an_error_in_the_thread_of_the_admin_listener_ends_the_process(monkeypatch, caplog):
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(DecisionThread, "_count_silence", lambda _: 1 // 0)
    config = configuration(server={"port": 0, "drainTime": "60s"}, admin={"port": 0})
    with ThreadPoolExecutor(1) as threads:
        serving = threads.submit(run.serve, create_app(filled_cache(), config), config)
        assert isinstance(serving.exception(LIMIT), ZeroDivisionError)
    assert "the admin listener has ended" in caplog.text


# --- the start ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("section", ["server", "admin"])
def test_a_port_that_is_taken_is_said(section):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = configuration(**{"server": {"port": 0}, "admin": {"port": 0}, section: {"port": port}})
        words = rf"{section}.host and {section}.port \(EXTENDER_{section.upper()}__PORT\)"
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}: Address already in use; .* {words}"):
            run.serve(create_app(filled_cache(), config), config)


def test_security_a_key_that_does_not_fit_ends_the_start(tmp_path):
    certificates = Certificates(tmp_path)
    pair, other = certificates.server("a"), certificates.server("b")
    tls = {"certificate": str(pair.certificate), "key": str(other.key)}
    config = configuration(server={"port": 0, "tls": tls}, admin={"port": 0})
    with pytest.raises(ConfigError, match=r"server.tls.key: .*b.key: does not belong to the certificate in .*a.crt"):
        run.serve(create_app(filled_cache(), config), config)
