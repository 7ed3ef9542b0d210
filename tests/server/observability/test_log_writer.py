"""H8: a standard error that nothing reads, or that fails, delays no log call, and no line is lost silently."""

import contextlib
import logging
import os
import re
import threading
import time

import pytest

from extender.server.observability import log_writer
from extender.server.observability.log_writer import QueuedHandler
from extender.server.observability.writer_thread import WriterThread

MAX_BYTES = 20_000


class Pipe:
    """A pipe that only a test reads, and a logger whose lines go there."""

    def __init__(self, max_bytes=MAX_BYTES):
        self.reading, self.writing = os.pipe()
        self.handler = QueuedHandler(self.writing, max_bytes)
        self.log = logging.getLogger(f"to pipe {self.writing}")
        self.log.handlers, self.log.propagate = [self.handler], False

    def fill(self):
        """Leave no room in the pipe."""
        os.set_blocking(self.writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.writing, b"." * 4096)
        os.set_blocking(self.writing, True)

    def read_until(self, last):
        """All lines, up to one that the pattern matches; dots are what `fill` wrote."""
        text = ""
        while not re.search(last, text):
            text += os.read(self.reading, 1 << 16).decode()
        return text.lstrip(".").splitlines()

    def more(self):
        """What can be read at once."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self.reading, 1 << 16).decode()
        return ""

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.reading)
        self.handler.close()


@pytest.fixture
def pipe():
    with contextlib.closing(Pipe()) as pipe:
        yield pipe
    os.close(pipe.writing)


def wait_for(is_true):
    ends = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_H8_lines_come_out_in_order_whichever_thread_logs_them(pipe):
    threads = [threading.Thread(target=count, args=(pipe.log, name)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.log.warning("end")
    lines = pipe.read_until("end\n")
    for name in ("one", "two"):
        assert [line for line in lines if line.startswith(name)] == [f"{name} {number}" for number in range(50)]


def count(log, name):
    for number in range(50):
        log.warning("%s %d", name, number)


def test_H8_a_full_pipe_blocks_no_call_and_what_has_no_room_is_counted_and_reported(pipe):
    pipe.fill()
    for number in range(100):
        pipe.log.warning("%04d %s", number, "x" * 994)
    dropped = pipe.handler.dropped
    assert dropped == 100 - MAX_BYTES // 1000
    first, report, *lines = pipe.read_until(f"{99 - dropped:04d} x+\n")
    assert [int(line[:4]) for line in (first, *lines)] == list(range(100 - dropped))
    assert report == f"{dropped} log lines dropped: standard error was not read, or failed"
    pipe.log.warning("flows again")
    assert pipe.read_until("again\n") == ["flows again"]
    assert pipe.handler.dropped == dropped


def test_H8_dropped_lines_are_reported_also_while_the_queue_never_gets_empty(monkeypatch):
    monkeypatch.setattr(WriterThread, "has_queued", True)  # a flood that goes on
    with contextlib.closing(Pipe()) as pipe:
        pipe.fill()
        for _ in range(100):
            pipe.log.warning("x" * 999)
        os.set_blocking(pipe.reading, False)
        wait_for(lambda: "log lines dropped" in pipe.more())
    os.close(pipe.writing)


def test_a_line_of_any_size_is_written_while_no_other_waits(pipe):
    pipe.log.warning("x" * 10 * MAX_BYTES)
    assert pipe.read_until("\n") == ["x" * 10 * MAX_BYTES]
    assert pipe.handler.dropped == 0


def test_H8_the_end_of_the_process_waits_for_the_last_lines_but_not_for_ever(pipe, monkeypatch):
    pipe.log.warning("last")
    pipe.handler.flush()
    assert os.read(pipe.reading, 100) == b"last\n"
    pipe.fill()
    pipe.log.warning("never read")
    monkeypatch.setattr(log_writer, "FLUSH_TIMEOUT_SECONDS", 0.01)
    pipe.handler.flush()


def test_H8_lines_that_the_operating_system_refuses_are_counted(pipe):
    os.close(pipe.reading)
    pipe.log.warning("to a closed pipe")
    wait_for(lambda: pipe.handler.dropped == 1)


def test_H8_a_pipe_that_another_process_made_non_blocking_is_waited_for(pipe):
    pipe.fill()
    os.set_blocking(pipe.writing, False)
    pipe.log.warning("complete")
    assert pipe.read_until("complete\n") == ["complete"]
    assert pipe.handler.dropped == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_which_has_no_thread_writes_itself(pipe):
    pid = os.fork()
    if pid == 0:
        pipe.log.warning("of the child")
        os._exit(0)
    os.waitpid(pid, 0)
    pipe.log.warning("of the parent")
    assert pipe.read_until("parent\n") == ["of the child", "of the parent"]
