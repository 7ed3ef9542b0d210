"""The audit log: no record is lost silently, and no answer waits for a blocked disk or pipe."""

import errno
import json
import logging
import os
import socket
import stat
import time
from pathlib import Path

import msgspec
import pytest

from extender.errors import ConfigError
from extender.report.audit.schema import LostRecord, ProcessRecord
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


def encode(process, sequence):
    """Like a decision, as far as the log looks at it."""
    return b'{"event":"audit","process":"%b","sequence":%d}\n' % (process.encode(), sequence)


def write(log, count=1):
    for _ in range(count):
        log.write(encode)


def records(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def numbers(path):
    """Sequence numbers of the records in the order of the file; of lost ones, the range."""
    return [one.get("sequence", f"{one.get('first')}-{one.get('last')}") for one in records(path)]


# --- records ----------------------------------------------------------------------------------------------------------


def test_starts_and_stops_are_records_and_every_record_has_a_number(path):
    log = AuditLog(path)
    log.start()
    write(log, 2)
    log.stop()
    log.stop()
    start, _, _, stop = path.read_bytes().splitlines()
    for line, event, number in ((start, "auditStarted", 0), (stop, "auditStopped", 3)):
        record = msgspec.json.decode(line, type=ProcessRecord, strict=True)
        assert (record.event, record.process, record.sequence) == (event, log.process, number)
    assert numbers(path) == [0, 1, 2, 3]
    assert {one["process"] for one in records(path)} == {log.process}
    assert (log.written, log.dropped) == (4, 0)


def test_the_id_of_a_process_has_the_host_s_name_and_is_another_one_with_each_start():
    ids = {AuditLog().process for _ in range(20)}
    assert len(ids) == 20
    assert {one.rpartition("_")[0] for one in ids} == {socket.gethostname()}


def test_what_cannot_be_encoded_is_counted_and_leaves_a_gap_with_a_record(path, caplog):
    def fails(process, sequence):
        raise ValueError("a bug")

    log = AuditLog(path)
    log.start()
    with pytest.raises(ValueError, match="a bug"):
        log.write(fails)
    log.count_lost()
    write(log)
    log.stop()
    assert numbers(path) == [0, "1-2", 3, 4]
    lost = msgspec.json.decode(path.read_bytes().splitlines()[1], type=LostRecord, strict=True)
    assert (lost.process, lost.reason, lost.sequence) == (log.process, "an internal error", None)
    assert (log.written, log.dropped) == (3, 2)
    assert sum(record.args[0] for record in caplog.records) == 2


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_line_is_there_when_the_call_returns(started, path):
    for number in range(1, 20):
        write(started)
        assert path.read_bytes().endswith(encode(started.process, number))
    assert numbers(path) == [*range(20)]


def test_the_file_is_its_owner_s_and_is_added_to(path):
    path.write_bytes(b"before\n")
    path.chmod(0o640)
    log = AuditLog(path)
    log.start()
    log.stop()
    assert path.read_bytes().startswith(b'before\n{"event":"auditStarted"')
    assert stat.S_IMODE(path.stat().st_mode) == 0o640  # what was there stays as it is

    path.unlink()
    log = AuditLog(path)
    log.start()
    log.stop()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_after_a_process_that_was_killed_within_a_line_the_first_record_begins_anew(path):
    path.write_bytes(b'{"event":"aud')
    log = AuditLog(path)
    log.start()
    log.stop()
    torn, *whole = path.read_bytes().splitlines()
    assert torn == b'{"event":"aud'
    assert [json.loads(line)["sequence"] for line in whole] == [0, 1]


def test_a_child_process_does_not_inherit_it(started, path):
    write(started)
    (fd,) = [int(one.name) for one in Path("/proc/self/fd").iterdir() if one.is_symlink() and one.resolve() == path]
    assert not os.get_inheritable(fd)


def test_a_file_that_is_rotated_is_opened_again(started, path):
    write(started)
    path.rename(path.with_suffix(".1"))
    write(started)
    assert numbers(path.with_suffix(".1")) == [0, 1]
    assert numbers(path) == [2]


def test_a_file_that_is_removed_is_made_again(started, path):
    write(started)
    path.unlink()
    write(started)
    assert numbers(path) == [2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_where_no_new_file_can_be_made_the_moved_one_is_written_on(started, path):
    write(started)
    path.parent.rename(path.parent.with_name("moved"))
    write(started)
    assert numbers(path.parent.with_name("moved") / path.name) == [0, 1, 2]
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


def test_before_the_start_nothing_is_written_and_after_the_stop_what_comes_is_counted_and_logged(path, caplog):
    log = AuditLog(path)
    log.write(encode)
    assert (log.is_on, log.dropped, path.exists()) == (False, 0, False)
    log.start()
    log.stop()
    write(log)
    assert numbers(path) == [0, 1]
    assert log.dropped == 1
    assert caplog.messages == [f"audit: dropped 1 lines for {path}: the process was stopping"]


# --- a disk that is full ----------------------------------------------------------------------------------------------


class Time:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_full_disk_is_counted_and_logged_every_ten_seconds_and_at_the_stop(caplog, monkeypatch):
    monkeypatch.setattr(audit_log, "MAX_WAIT_SECONDS", 60.0)  # on a busy machine
    clock = Time()
    log = AuditLog(full := Path("/dev/full"), clock=clock)
    log.start()
    write(log, 5)
    clock.now = 11.0
    write(log, 150)
    log.stop()
    assert (log.written, log.dropped) == (0, 157)
    assert caplog.messages == [  # the start, five and one; 149 and the stop
        f"audit: dropped 1 lines for {full}: No space left on device",
        f"audit: dropped 6 lines for {full}: No space left on device",
        f"audit: dropped 150 lines for {full}: No space left on device",
    ]


class Disk:
    """Stands before os.write, with room for as many bytes as a test says."""

    def __init__(self, monkeypatch):
        self._write, self.room = os.write, None
        monkeypatch.setattr(os, "write", self.write)

    def write(self, fd, data):
        if self.room is None:
            return self._write(fd, data)
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(fd, data[: self.room])
        self.room -= written
        return written


def test_once_there_is_room_again_a_record_says_how_many_were_lost_and_why(started, path, monkeypatch, caplog):
    disk = Disk(monkeypatch)
    write(started, 2)
    disk.room = 0
    write(started, 149)
    disk.room = None
    write(started)
    assert numbers(path) == [0, 1, 2, "3-151", 152]
    assert records(path)[3]["reason"] == "No space left on device"
    started.stop()
    assert started.dropped == 149
    assert sum(record.args[0] for record in caplog.records) == 149


def test_a_record_about_lost_ones_that_fails_itself_comes_later_and_counts_all(started, path, monkeypatch):
    disk = Disk(monkeypatch)
    until(lambda: started.written == 1)
    disk.room = 0
    write(started, 2)
    disk.room = 20  # less than the record needs
    write(started)
    disk.room = None
    write(started)
    disk.room = 0
    write(started)
    disk.room = None
    started.stop()
    (torn,) = [line for line in path.read_bytes().splitlines() if len(line) == 20]
    path.write_bytes(path.read_bytes().replace(torn + b"\n", b""))
    assert numbers(path) == [0, "1-3", 4, "5-5", 6]


def test_after_half_a_line_the_next_one_begins_anew(started, path, monkeypatch):
    """The disk has room for a part only: what is there stays one line, however broken."""
    disk = Disk(monkeypatch)
    until(lambda: started.written == 1)
    disk.room = 2
    write(started)
    disk.room = None
    write(started)
    torn = path.read_bytes().splitlines()[1]
    assert torn == b'{"'
    assert (started.written, started.dropped) == (2, 1)


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


def reads_into(found, fd):
    found.extend(read_all(fd))
    return True


def test_only_the_first_call_waits_for_a_pipe_that_is_stuck(pipe, caplog):
    path, reading = pipe
    log = AuditLog(path)
    log.start()
    took = []
    for _ in range(50):
        began = time.monotonic()
        write(log)
        took.append(time.monotonic() - began)
    assert took[0] >= audit_log.MAX_WAIT_SECONDS
    assert sum(one >= audit_log.MAX_WAIT_SECONDS for one in took[1:]) < 25  # a busy machine may stop us once or twice
    assert [record.levelno for record in caplog.records] == [logging.WARNING]

    found = bytearray()

    def is_all_there():
        found.extend(read_all(reading))
        return log.written == 51 and found.endswith(encode(log.process, 50))

    until(is_all_there)
    lines = bytes(found).lstrip(b".").splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == [*range(51)]
    assert log.dropped == 0
    log.stop()


def test_once_it_has_caught_up_calls_wait_again(pipe, monkeypatch):
    path, reading = pipe
    log = AuditLog(path)
    log.start()
    write(log)
    until(lambda: read_all(reading) is not None and log.written == 2)
    until(lambda: log._thread is not None and log._thread.size == 0)
    monkeypatch.setattr(audit_log, "MAX_WAIT_SECONDS", 60.0)
    write(log)
    assert log.written == 3  # when the call returns
    log.stop()


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(audit_log, "MAX_QUEUED_BYTES", 1000)
    monkeypatch.setattr(audit_log, "MAX_WAIT_SECONDS", 0.01)


def test_what_does_not_fit_into_the_queue_is_counted_and_so_is_what_is_left_at_the_stop(
    pipe, small, monkeypatch, caplog
):
    path, _ = pipe
    monkeypatch.setattr(audit_log, "STOP_TIMEOUT_SECONDS", 0.05)
    log = AuditLog(path)
    log.start()
    write(log, 50)
    assert 30 <= log.dropped < 50
    assert "the queue is full" in caplog.text
    log.stop()
    assert (log.written, log.dropped) == (0, 52)
    assert "shutdown timed out" in caplog.messages[-1]
    assert sum(record.args[0] for record in caplog.records if "dropped" in record.msg) == 52


def test_a_full_queue_leaves_a_record_where_the_lost_ones_would_be(pipe, small):
    path, reading = pipe
    log = AuditLog(path)
    log.start()
    write(log, 50)
    lost, found = log.dropped, bytearray()
    until(lambda: reads_into(found, reading) and log.written == 51 - lost)
    write(log)
    log.stop()
    found.extend(read_all(reading))
    lines = [json.loads(line) for line in bytes(found).lstrip(b".").splitlines()]
    (place,) = [place for place, one in enumerate(lines) if one["event"] == "auditLost"]
    assert (lines[place]["first"], lines[place]["last"]) == (51 - lost, 50)
    assert lines[place]["reason"] == "the queue is full"
    there = [one["sequence"] for one in lines if "sequence" in one]
    assert there == [*range(51 - lost), 51, 52]


def test_standard_output_is_the_target_without_a_path(capfd):
    log = AuditLog()
    log.start()
    write(log)
    log.stop()
    out, err = capfd.readouterr()
    assert [json.loads(line)["sequence"] for line in out.splitlines()] == [0, 1, 2]
    assert err == ""


def test_the_thread_does_not_keep_the_process_alive(started):
    assert started._thread is not None
    assert started._thread.daemon
