"""A logging handler that writes to standard error from a thread of its own.

A pipe that its reader stopped reading blocks that thread and nothing else. Lines wait in a queue that is bounded in
bytes; what it has no room for is dropped and counted. A line reports the number once the queue is empty again, and
every LOG_INTERVAL_SECONDS while it is not.

The queue is not a WriterThread's, which has a lock: a garbage collection while the lock is held may log, and would wait
for the handler's lock, whose holder waits for the queue's.

Rule: logging never blocks, except for FLUSH_TIMEOUT_SECONDS when the process ends.
"""

import logging
import os
import select
import sys
import threading
from queue import SimpleQueue

from extender.utilities.log_throttle import LOG_INTERVAL_SECONDS, Throttle

MAX_QUEUED_BYTES = 1 << 20
"""Limit of the lines that wait to be written; a line of any size is accepted while no other waits."""

FLUSH_TIMEOUT_SECONDS = 1.0
"""Time for which the end of the process waits for the lines that are still queued."""

STDERR = 2


class QueuedHandler(logging.Handler):
    """Queues lines for a daemon thread; any thread may log."""

    def __init__(self, fd: int = STDERR, max_bytes: int = MAX_QUEUED_BYTES) -> None:
        """`fd`: file descriptor to write to; `max_bytes`: limit of the queue."""
        super().__init__()
        self._fd, self._max_bytes, self._process = fd, max_bytes, os.getpid()
        self._queue: SimpleQueue[bytes | threading.Event | None] = SimpleQueue()
        # Each counter has one writer (the lock of the handler, or the thread), so that neither waits for the other.
        self._queued_bytes = self._refused = 0
        self._written_bytes = self._failed = self._reported = 0
        self._throttle = Throttle(LOG_INTERVAL_SECONDS)
        threading.Thread(target=self._write_queued, name="log", daemon=True).start()

    @property
    def dropped(self) -> int:
        """Number of lines lost: the queue was full, or the operating system refused them."""
        return self._refused + self._failed

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
        else:
            self._put(line)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the base's name
        """Log the error with which a line could not be formatted; the base prints it, which may block."""
        args = record.name, logging.ERROR, record.pathname, record.lineno, "invalid log call: %.200r", (record.msg,)
        self._put(self.format(logging.LogRecord(*args, exc_info=sys.exc_info())))

    def echo(self, text: str) -> None:
        """Write text as it is, after the lines that were logged before."""
        self.acquire()
        try:
            self._put(text)
        finally:
            self.release()

    def _put(self, text: str) -> None:
        line = f"{text}\n".encode(errors="backslashreplace")
        if os.getpid() != self._process:  # a forked child has no thread that writes
            _write_all(self._fd, line)
            return
        waiting = self._queued_bytes - self._written_bytes
        if waiting and waiting + len(line) > self._max_bytes:
            self._refused += 1
            return
        self._queued_bytes += len(line)
        self._queue.put(line)

    def flush(self) -> None:
        """Wait until the lines that are queued now are written, for at most FLUSH_TIMEOUT_SECONDS."""
        if os.getpid() == self._process:
            written = threading.Event()
            self._queue.put(written)
            written.wait(FLUSH_TIMEOUT_SECONDS)

    def close(self) -> None:
        """End the thread once it has written the queued lines; `logging.shutdown` calls `flush` first."""
        self._queue.put(None)
        super().close()

    def _write_queued(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                if isinstance(item, bytes):
                    _write_all(self._fd, item)
                self._report_dropped()
            except OSError:
                self._failed += 1
            if isinstance(item, bytes):
                self._written_bytes += len(item)
            else:
                item.set()

    def _report_dropped(self) -> None:
        """Write how many lines were dropped since the last report, at once if no line waits any more."""
        lost = self.dropped - self._reported
        if lost and (self._throttle.is_due() or self._queue.empty()):
            text = f"{lost} log lines dropped: standard error was not read, or failed"
            report = logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)
            _write_all(self._fd, f"{self.format(report)}\n".encode())
            self._reported += lost


def installed_handler() -> QueuedHandler | None:
    """Return the handler that writes the log lines of this process; None before logging is configured."""
    return next((one for one in logging.getLogger().handlers if isinstance(one, QueuedHandler)), None)


def _write_all(fd: int, data: bytes) -> None:
    """Write all of it, waiting as long as it takes, also where another process made the pipe non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            full_pipe = select.poll()
            full_pipe.register(fd, select.POLLOUT)
            full_pipe.poll()
