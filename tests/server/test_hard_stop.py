"""The hard stop: when it ends the process, and what its line says. `faulthandler` is C's part of it."""

import asyncio
import contextlib
import faulthandler
import logging
import threading

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.watch import source
from extender.config import Configuration
from extender.server import run, shutdown
from extender.server.app import create_app
from extender.server.http.listener import CANCELLED_CALLS_TIMEOUT_SECONDS
from extender.server.observability import audit_log, tracing
from extender.server.observability.cache_status import ClusterSource
from extender.server.recording import recorder
from extender.server.shutdown import HardStop
from extender.utilities.daemon_thread import run_in_daemon_thread

LIMIT = 30.0

EXIT_SECONDS = 20.0
"""docs/install.md, Shutdown: the time from SIGTERM to the end of the process, whatever hangs."""


@pytest.fixture
def ended(monkeypatch):
    """Exit codes; and the seconds of the C timer, which runs here no more than the end of logging does."""
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, **_: None)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    return Ended()


class Ended:
    def __init__(self):
        self.code, self._has_ended = None, threading.Event()

    def __call__(self, code):
        self.code = code
        self._has_ended.set()

    def wait(self, seconds=LIMIT):
        return self._has_ended.wait(seconds)


@contextlib.contextmanager
def hanging():
    """A thread that does not end."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="reload")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_H8_it_ends_the_process_in_its_time_and_names_what_runs(ended, caplog):
    with hanging():
        HardStop(ended).arm(0.01)
        assert ended.wait()
    assert ended.code == 1
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("shutdown not complete in time, ending the process; still running: thread MainThread at ")
    assert "; thread reload at " in line


def test_H8_its_time_only_comes_nearer(ended):
    stop = HardStop(ended)
    stop.arm(LIMIT)
    stop.arm(2 * LIMIT)
    stop.arm(0.01)
    stop.arm(LIMIT)
    assert ended.wait(LIMIT / 2)


def test_H8_after_a_complete_shutdown_threads_have_little_time_and_the_exit_code_stays(ended, monkeypatch):
    monkeypatch.setattr(shutdown, "EXIT_SECONDS", 0.01)
    stop = HardStop(ended)
    stop.arm(LIMIT)
    with hanging():
        stop.complete(0)
        assert ended.wait()
    assert ended.code == 0


def test_after_a_complete_shutdown_without_threads_the_interpreter_ends_by_itself(ended, monkeypatch):
    monkeypatch.setattr(shutdown, "EXIT_SECONDS", 0.01)
    monkeypatch.setattr(shutdown, "running_threads", lambda **_: [])
    stop = HardStop(ended)
    stop.arm(LIMIT)
    stop.complete(0)
    assert not ended.wait(0.1)


def test_without_a_request_to_stop_it_ends_nothing(ended):
    HardStop(ended).complete(0)
    assert not ended.wait(0.05)


def test_H8_the_hard_stop_leaves_each_part_of_a_shutdown_its_time():
    writers = [one.STOP_TIMEOUT_SECONDS for one in (recorder, audit_log, tracing)]
    side_by_side = max(source.JOIN_SECONDS, *writers)
    listeners = run.SHUTDOWN_TIMEOUT_SECONDS + run.ADMIN_SHUTDOWN_TIMEOUT_SECONDS
    parts = listeners + 2 * CANCELLED_CALLS_TIMEOUT_SECONDS + side_by_side
    assert parts < run.EXIT_LIMIT_SECONDS <= EXIT_SECONDS - Configuration().server.drain_time


@pytest.mark.anyio
async def test_H8_recordings_and_audit_log_are_ended_side_by_side_with_the_source(monkeypatch):
    """So that a slow disk of one takes no time from the others: each waits here for all of them."""
    together = threading.Barrier(3)

    class Source(ClusterSource):
        async def run(self):
            try:
                await asyncio.Event().wait()
            finally:
                await run_in_daemon_thread(together.wait, LIMIT)

    for kind in (recorder.Recorder, audit_log.AuditLog):
        monkeypatch.setattr(kind, "start", lambda _: None)
        monkeypatch.setattr(kind, "stop", lambda _: together.wait(LIMIT))
    app = create_app(ClusterCache(), Configuration.model_validate({"audit": {"enabled": True}}), Source())
    async with app.lifespan():
        await asyncio.sleep(0)
    assert not together.broken
