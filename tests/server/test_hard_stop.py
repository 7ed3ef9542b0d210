"""The hard stop: when it ends the process, and what its line says. `faulthandler` is C's part of it."""

import contextlib
import faulthandler
import logging
import threading

import pytest

from extender.server import shutdown
from extender.server.shutdown import HardStop

LIMIT = 30.0


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
