"""The audit log: no line is lost silently, and no answer waits for a blocked disk or pipe."""

import errno
import logging
import os
import stat
import time
from pathlib import Path

import pytest

from extender.errors import ConfigError
from extender.server.observability import audit_log
from extender.server.observability.audit_log import AuditLog, check_writable


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.log"


@pytest.fixture
def started(path, monkeypatch):
    monkeypatch.setattr(audit_log, "MAX_WAIT_SECONDS", 60.0)  # on a busy machine
    log = AuditLog(path)
    log.start()
    yield log
    log.stop()


def until(condition, seconds=10.0):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it has not come about"
        time.sleep(0.005)


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_line_is_there_when_the_call_returns(started, path):
    for number in range(20):
        started.write(b"%d\n" % number)
        assert path.read_bytes().endswith(b"%d\n" % number)
    assert path.read_bytes() == b"".join(b"%d\n" % number for number in range(20))


def test_the_counts_follow(started):
    started.write(b"one\n")
    started.stop()
    assert (started.written, started.dropped) == (1, 0)


def test_the_file_is_its_owner_s_and_is_added_to(path):
    path.write_bytes(b"before\n")
    path.chmod(0o640)
    log = AuditLog(path)
    log.start()
    log.write(b"after\n")
    log.stop()
    assert path.read_bytes() == b"before\nafter\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640  # what was there stays as it is

    path.unlink()
    log.start()
    log.stop()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_child_process_does_not_inherit_it(started, path):
    started.write(b"one\n")
    (fd,) = [int(one.name) for one in Path("/proc/self/fd").iterdir() if one.is_symlink() and one.resolve() == path]
    assert not os.get_inheritable(fd)


def test_a_file_that_is_rotated_is_opened_again(started, path):
    started.write(b"one\n")
    path.rename(path.with_suffix(".1"))
    started.write(b"two\n")
    assert path.with_suffix(".1").read_bytes() == b"one\n"
    assert path.read_bytes() == b"two\n"


def test_a_file_that_is_removed_is_made_again(started, path):
    started.write(b"one\n")
    path.unlink()
    started.write(b"two\n")
    assert path.read_bytes() == b"two\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_where_no_new_file_can_be_made_the_moved_one_is_written_on(started, path):
    started.write(b"one\n")
    path.parent.rename(path.parent.with_name("moved"))
    started.write(b"two\n")
    assert (path.parent.with_name("moved") / path.name).read_bytes() == b"one\ntwo\n"
    assert started.dropped == 0


@pytest.mark.parametrize(
    ("name", "why"), [("missing/audit.log", "No such file or directory"), (".", "Is a directory"), ("pipe", "No such")]
)
def test_an_unwritable_target_is_an_error_at_the_start(tmp_path, name, why):
    os.mkfifo(tmp_path / "pipe")  # without a reader
    with pytest.raises(ConfigError, match=rf"audit.path: cannot write to .*: {why}"):
        check_writable(tmp_path / name)
    with pytest.raises(ConfigError):
        AuditLog(tmp_path / name).start()


def test_before_the_start_and_after_the_end_nothing_is_written(path):
    log = AuditLog(path)
    log.write(b"before\n")
    log.start()
    log.stop()
    log.write(b"after\n")
    assert path.read_bytes() == b""
    assert not log.is_on


# --- a disk that is full ----------------------------------------------------------------------------------------------


class Time:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_full_disk_is_counted_and_logged_every_ten_seconds(caplog, monkeypatch):
    monkeypatch.setattr(audit_log, "MAX_WAIT_SECONDS", 60.0)  # on a busy machine
    clock = Time()
    log = AuditLog(full := Path("/dev/full"), clock=clock)
    log.start()
    for _ in range(5):
        log.write(b"lost\n")
    clock.now = 11.0
    log.write(b"lost\n")
    log.stop()
    assert (log.written, log.dropped) == (0, 6)
    assert caplog.messages == [
        f"audit: dropped 1 lines for {full}: No space left on device",
        f"audit: dropped 5 lines for {full}: No space left on device",
    ]


def test_after_half_a_line_the_next_one_begins_anew(path, monkeypatch):
    """The disk has room for a part only: what is there stays one line, however broken."""
    log = AuditLog(path)
    log.start()
    write, room = os.write, [2, 0]

    def nearly_full(fd, data):
        if not room:
            return write(fd, data)
        left = room.pop(0)
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[:left])

    monkeypatch.setattr(os, "write", nearly_full)
    log.write(b"one\n")
    log.write(b"two\n")
    log.stop()
    assert path.read_bytes() == b"on\ntwo\n"
    assert (log.written, log.dropped) == (1, 1)


# --- a pipe that is stuck ---------------------------------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path):
    """(path, file descriptor to read from), of a pipe that is full."""
    path = tmp_path / "stuck"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    filling = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(filling, b"." * 4096)
    except BlockingIOError:
        pass
    yield path, reading
    os.close(filling)
    os.close(reading)


def read_all(fd):
    found = []
    while True:
        try:
            piece = os.read(fd, 1 << 16)
        except BlockingIOError:
            break
        if not piece:
            break
        found.append(piece)
    return b"".join(found)


def test_only_the_first_call_waits_for_a_pipe_that_is_stuck(pipe, caplog):
    path, reading = pipe
    log = AuditLog(path)
    log.start()
    took = []
    for number in range(50):
        began = time.monotonic()
        log.write(b"%d\n" % number)
        took.append(time.monotonic() - began)
    assert took[0] >= audit_log.MAX_WAIT_SECONDS
    assert sum(one >= audit_log.MAX_WAIT_SECONDS for one in took[1:]) < 25  # a busy machine may stop us once or twice
    assert [record.levelno for record in caplog.records] == [logging.WARNING]

    found = bytearray()

    def is_all_there():
        found.extend(read_all(reading))
        return log.written == 50 and found.endswith(b"49\n")

    until(is_all_there)
    assert bytes(found).lstrip(b".") == b"".join(b"%d\n" % number for number in range(50))
    assert log.dropped == 0
    log.stop()


def test_once_it_has_caught_up_calls_wait_again(pipe, monkeypatch):
    path, reading = pipe
    log = AuditLog(path)
    log.start()
    log.write(b"one\n")
    until(lambda: read_all(reading) is not None and log.written == 1)
    until(lambda: log._thread is not None and log._thread.size == 0)
    monkeypatch.setattr(audit_log, "MAX_WAIT_SECONDS", 60.0)
    log.write(b"two\n")
    assert log.written == 2  # when the call returns
    log.stop()


def test_what_does_not_fit_into_the_queue_is_counted(pipe, monkeypatch, caplog):
    path, _ = pipe
    monkeypatch.setattr(audit_log, "MAX_QUEUED_BYTES", 1000)
    monkeypatch.setattr(audit_log, "MAX_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(audit_log, "STOP_TIMEOUT_SECONDS", 0.05)
    log = AuditLog(path)
    log.start()
    for _ in range(50):
        log.write(b"x" * 99 + b"\n")
    assert log.dropped >= 40
    log.stop()
    assert (log.written, log.dropped) == (0, 50)
    assert "the queue is full" in caplog.text
    assert "shutdown timed out" in caplog.text


def test_standard_output_is_the_target_without_a_path(capfd):
    log = AuditLog()
    log.start()
    log.write(b'{"event":"audit"}\n')
    log.stop()
    out, err = capfd.readouterr()
    assert (out, err) == ('{"event":"audit"}\n', "")


def test_the_thread_does_not_keep_the_process_alive(started):
    assert started._thread is not None
    assert started._thread.daemon
