"""The audit log: a thread that writes audit lines to standard output or a file.

An answer waits up to 100 ms for its line to be written. After a timeout, answers do not wait until the thread has
caught up. Lost lines are counted, and reported every 10 s.

Rule: neither a blocked pipe nor a full disk delays an answer further, and no line is lost silently.
"""

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from extender.errors import ConfigError
from extender.server.observability.writer_thread import WriterThread, write_some
from extender.utilities.log_throttle import LOG_INTERVAL_SECONDS, Throttle

log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 0.1
"""Longest wait of an answer for its audit line."""

MAX_QUEUED_BYTES = 16 << 20
"""Maximum size of all queued lines."""

STOP_TIMEOUT_SECONDS = 2.0
"""Time limit for writing the queued lines at shutdown."""

_STDOUT = 1
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class _QueuedLine(NamedTuple):
    data: bytes
    done: threading.Event
    """Set when the line is written or lost."""


class AuditLog:
    """The audit log; off until `start`. Only the thread that decides calls `write`."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`path`: the file to write; None for standard output."""
        self.written = 0
        """Number of lines written."""
        self.path = path
        self._throttle = Throttle(LOG_INTERVAL_SECONDS, clock)
        self._thread: WriterThread[_QueuedLine] | None = None
        self._is_behind = False
        self._queued = 0
        self._refused = 0
        """Number of lines lost in the thread that decides."""
        self._failed = 0
        """Number of lines lost in the thread that writes."""
        self._logged_dropped = 0

    @property
    def is_on(self) -> bool:
        return self._thread is not None

    @property
    def dropped(self) -> int:
        """Number of lines lost; the log has the reasons."""
        return self._failed + self._refused

    def start(self) -> None:
        """Open the target and start the thread; ConfigError if the target is not writable."""
        if self._thread is None:
            target = AuditTarget(self.path)
            self._thread = WriterThread("audit", MAX_QUEUED_BYTES, partial(self._write_lines, target), target.close)
            self._thread.start()

    def stop(self) -> None:
        """Write the queued lines, for at most STOP_TIMEOUT_SECONDS, and stop the thread."""
        thread, self._thread = self._thread, None
        if thread is not None and not thread.finish(STOP_TIMEOUT_SECONDS):
            # The line that is being written when the process ends counts as lost, too.
            thread.clear()
            lost = self._queued - self.written - self._failed
            self._refused += lost
            log.error("audit: shutdown timed out: dropped %d lines, the last one may be incomplete", lost)

    def write(self, data: bytes) -> None:
        """Queue one line, with its newline, and wait until it is written, for at most MAX_WAIT_SECONDS."""
        thread = self._thread  # read once: `stop` runs on another thread
        if thread is None:
            return
        # 1. Has the thread caught up since a wait timed out?
        self._is_behind = self._is_behind and thread.size > 0
        # 2. Queue the line.
        line = _QueuedLine(data, threading.Event())
        if not thread.put(line, len(data)):
            self._refused += 1
            self._log_dropped("the queue is full")
            return
        self._queued += 1
        # 3. Wait for it, unless the thread is behind.
        if not self._is_behind and not line.done.wait(MAX_WAIT_SECONDS):
            self._is_behind = True
            log.warning("audit: writing to %s is slow, answers do not wait for it until it has caught up", self._place)

    def count_lost(self) -> None:
        """Count a line that could not be encoded."""
        self._refused += 1

    def _write_lines(self, target: "AuditTarget", lines: Iterator[_QueuedLine]) -> None:
        for line in lines:
            try:
                target.write(line.data)
                self.written += 1
            except OSError as error:
                self._failed += 1
                self._log_dropped(error.strerror or str(error))
            finally:
                line.done.set()

    @property
    def _place(self) -> str:
        return str(self.path or "standard output")

    def _log_dropped(self, why: str) -> None:
        if self._throttle.is_due():
            log.error("audit: dropped %d lines for %s: %s", self.dropped - self._logged_dropped, self._place, why)
            self._logged_dropped = self.dropped


class AuditTarget:
    """Standard output, or a file that is reopened after log rotation has moved or removed it. Raises OSError."""

    def __init__(self, path: Path | None) -> None:
        """Open the target; ConfigError if it is not writable."""
        self._path = path
        self._is_torn = False
        """True if the last line was written in part: a newline has to separate the next one from it."""
        try:
            self._fd = os.dup(_STDOUT) if path is None else os.open(path, _FLAGS, 0o600)
        except OSError as error:
            where = "standard output" if path is None else path
            raise ConfigError(f"audit.path: cannot write to {where}: {error.strerror or error}") from error

    def close(self) -> None:
        os.close(self._fd)

    def write(self, data: bytes) -> None:
        """Write the whole line; wait while a pipe is full."""
        # 1. Log rotation may have moved the file.
        if self._path is not None:
            self._follow(self._path)
        # 2. Separate the line from one that was written in part, as on a full disk.
        rest = memoryview(b"\n" + data if self._is_torn else data)
        begun = False
        try:
            while rest:
                rest = rest[write_some(self._fd, rest) :]
                begun = True
        finally:
            self._is_torn = bool(rest) and (begun or self._is_torn)

    def _follow(self, path: Path) -> None:
        """Open a new file if log rotation has moved or removed the current one."""
        # No signal announces a rotation, so compare the path with the open file, which costs two system calls.
        held = os.fstat(self._fd)
        try:
            if not stat.S_ISREG(held.st_mode) or os.path.samestat(held, os.stat(path)):
                return
        except FileNotFoundError:
            pass
        try:
            fresh = os.open(path, _FLAGS, 0o600)
        except OSError:
            if held.st_nlink:  # rather than lose the line, write it into the moved file, which still exists
                return
            raise
        os.close(self._fd)
        self._fd, self._is_torn = fresh, False


def check_writable(path: Path | None) -> None:
    """Raise ConfigError if the target is not writable."""
    AuditTarget(path).close()
