"""A logging handler that writes to standard error from a thread of its own.

If the reader of the pipe stops, only that thread blocks. Lines that do not fit into the queue are dropped and counted;
a line reports their number when the queue is empty again, and every LOG_INTERVAL_SECONDS until then.

Rule: logging never blocks, except for FLUSH_TIMEOUT_SECONDS when the process ends.
"""

import logging
import os
import sys
import threading
from collections.abc import Iterator

from extender.server.observability.writer_thread import WriterThread, write_some
from extender.utilities.log_throttle import LOG_INTERVAL_SECONDS, Throttle

MAX_QUEUED_BYTES = 1 << 20
"""Maximum size of all lines that wait to be written; an empty queue accepts a line of any size."""

FLUSH_TIMEOUT_SECONDS = 1.0
"""Longest wait at the end of the process for the queued lines to be written."""

STDERR = 2


class QueuedHandler(logging.Handler):
    """Queues lines for a daemon thread; any thread may log."""

    def __init__(self, fd: int = STDERR, max_bytes: int = MAX_QUEUED_BYTES) -> None:
        """`fd`: file descriptor to write to; `max_bytes`: maximum size of the queue."""
        super().__init__()
        self._fd, self._process = fd, os.getpid()
        # `_refused` is written under the handler's lock, the others by the thread, so that neither waits for the other.
        self._refused = 0
        self._failed = self._reported = 0
        self._throttle = Throttle(LOG_INTERVAL_SECONDS)
        self._thread: WriterThread[bytes | threading.Event] = WriterThread("log", max_bytes, self._write_queued)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Number of lines lost because the queue was full or writing failed."""
        return self._refused + self._failed

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
        else:
            self._put(line)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the base's name
        """Log the error of a log call that could not be formatted."""
        # The base class prints it, which may block.
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
        if os.getpid() != self._process:  # a forked child has no writer thread
            self._write(line)
        elif not self._thread.put(line, len(line)):
            self._refused += 1

    def flush(self) -> None:
        """Wait until the currently queued lines are written, for at most FLUSH_TIMEOUT_SECONDS."""
        if os.getpid() == self._process:
            written = threading.Event()
            self.acquire()
            self._thread.put(written, 0)
            self.release()
            written.wait(FLUSH_TIMEOUT_SECONDS)

    def close(self) -> None:
        """End the thread when it has written the queued lines; `logging.shutdown` calls `flush` first."""
        self._thread.end()
        super().close()

    def _write_queued(self, items: Iterator[bytes | threading.Event]) -> None:
        for item in items:
            try:
                if isinstance(item, bytes):
                    self._write(item)
                self._report_dropped()
            except OSError:
                self._failed += 1
            if isinstance(item, threading.Event):
                item.set()

    def _report_dropped(self) -> None:
        """Write the number of lines dropped since the last report, at once if the queue is empty."""
        lost = self.dropped - self._reported
        if lost and (self._throttle.is_due() or not self._thread.has_queued):
            text = f"{lost} log lines dropped: standard error was not read, or failed"
            report = logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)
            self._write(f"{self.format(report)}\n".encode())
            self._reported += lost

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[write_some(self._fd, rest) :]


def installed_handler() -> QueuedHandler | None:
    """Return the handler of this process; None before logging is configured."""
    return next((one for one in logging.getLogger().handlers if isinstance(one, QueuedHandler)), None)
