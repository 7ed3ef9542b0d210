"""Row 10: a standard error that is a pipe whose reader stopped, as that of a log collector that hangs."""

import contextlib
import json
import signal
import threading

import pytest

from tests.abuse.service import MeasuredService, until

NAME = "p" * 253
PLUGINS = {"filter": {"enabled": [{"name": "Quota"}]}}
PROFILES = json.dumps([{"schedulerName": "default-scheduler", "plugins": PLUGINS}])
FILTER = {
    "Pod": {"metadata": {"name": NAME, "namespace": "n", "uid": "u"}, "spec": {"containers": []}},
    "NodeNames": ["worker-a1"],
}
"""A call about which at level Debug two lines of more than 300 bytes are logged."""

CALLS_PER_PIPE = 300
"""Calls whose lines have no room in a pipe (64 KiB), but in the queue."""

MAX_CALLS = 20 * CALLS_PER_PIPE
"""More than three times as many as fill the pipe and the queue."""


class Unread(MeasuredService):
    """The service, with a standard error that is read until it listens, and then only when a test says so."""

    def _read(self):
        while len(self.ports) < 2 and (line := self._said.readline()):
            self.note(line)
        self._are_known.set()

    def read_on(self):
        self._reading = threading.Thread(target=super()._read)
        self._reading.start()


@pytest.fixture
def unread():
    settings = {"LOG__LEVEL": "Debug", "SERVER__DRAIN_TIME": "0s", "SCHEDULER__PROFILES": PROFILES}
    with contextlib.closing(Unread(**settings)) as service:
        yield service
        service.process.kill()
        service.read_on()


def lost(service):
    _, metrics = service.get("/metrics")
    (line,) = [line for line in metrics.decode().splitlines() if line.startswith("extender_log_lines_dropped_total ")]
    return int(float(line.split()[1]))


def call(service, calls):
    body = json.dumps(FILTER).encode()
    with contextlib.closing(service.connection()) as connection:
        for _ in range(calls):
            connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert (response.status, bool(response.read())) == (200, True)


def test_H8_calls_are_answered_and_lines_are_counted_while_standard_error_is_not_read(unread):
    before = unread.rss
    for _ in range(MAX_CALLS // CALLS_PER_PIPE):
        call(unread, CALLS_PER_PIPE)
        if lost(unread):
            break
    assert lost(unread)
    assert unread.seconds_of("/livez") < 1
    assert unread.rss - before < 20
    unread.read_on()
    until(lambda: any("log lines dropped: standard error was not read" in line for line in unread.lines))
    call(unread, 1)
    until(lambda: NAME in unread.lines[-1])
    unread.say(signal.SIGTERM)
    assert unread.ends() == 0
    assert "shutdown complete" in unread.lines[-1]


def test_H8_sigterm_ends_the_process_while_standard_error_is_not_read(unread):
    call(unread, CALLS_PER_PIPE)
    unread.say(signal.SIGTERM)
    assert unread.process.wait(20) == 0
