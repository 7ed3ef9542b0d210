"""The audit log: a thread that writes audit records to standard output or a file.

An answer waits up to 100 ms for its record to be written. After a timeout, answers do not wait until the thread has
caught up. Each record has a sequence number, so that a reader sees which ones are missing. Lost records are counted,
logged every 10 s and at the stop, and a record stands in their place once writing works again.

Rule: neither a blocked pipe nor a full disk delays an answer further, and no record is lost silently.
"""

import contextlib
import logging
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from extender.errors import ConfigError
from extender.k8s.time import format_time
from extender.report.audit.schema import LostRecord, ProcessRecord
from extender.server.observability.audit import encode_line
from extender.server.observability.writer_thread import WriterThread, write_some
from extender.utilities.log_throttle import LOG_INTERVAL_SECONDS, Throttle
from extender.version import __version__

log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 0.1
"""Longest wait of an answer for its audit record."""

MAX_QUEUED_BYTES = 16 << 20
"""Maximum size of all queued records."""

STOP_TIMEOUT_SECONDS = 2.0
"""Time limit for writing the queued records at shutdown."""

_STDOUT = 1
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

Encode = Callable[[str, int], bytes]
"""Function from the ID of the process and the record's sequence number to the line, with its newline."""


class _QueuedRecord(NamedTuple):
    sequence: int
    data: bytes
    done: threading.Event
    """Set when the record is written or lost."""


class AuditLog:
    """The audit log of this process, which starts once; only the thread that decides calls `write`."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`path`: the file to write; None for standard output."""
        self.path = path
        # As the identity of a replica in client-go's leader election: in Kubernetes the host name is that of the pod.
        self.process = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self.written = self.dropped = 0
        """Numbers of records written, and lost: the log has the reasons."""
        self._throttle = Throttle(LOG_INTERVAL_SECONDS, clock)
        self._thread: WriterThread[_QueuedRecord] | None = None
        self._lock = threading.Lock()
        """Held while a record is numbered and queued, as `stop` runs on another thread, and while one is counted."""
        self._next = self._next_written = 0
        """Sequence number of the next record, and of the next one that is neither written nor reported as lost."""
        self._is_behind = False
        self._reason = ""
        """Why the last lost record was lost."""
        self._logged_dropped = 0

    @property
    def is_on(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        """Open the target, start the thread and write the first record; ConfigError if the target is not writable."""
        target = AuditTarget(self.path)
        self._thread = WriterThread("audit", MAX_QUEUED_BYTES, partial(self._write_records, target), target.close)
        self._thread.start()
        self._put(self._thread, partial(_encode_process_record, "auditStarted"))

    def stop(self) -> None:
        """Write the queued records and the last one, for at most STOP_TIMEOUT_SECONDS, and stop the thread."""
        thread = self._thread
        if thread is None or thread.is_ending:
            return
        self._put(thread, partial(_encode_process_record, "auditStopped"), is_last=True)
        if not thread.finish(STOP_TIMEOUT_SECONDS):
            thread.clear()
            # The records that the thread has taken count as lost, too: the process ends soon.
            lost = self._next - self.written - self.dropped
            self._lose("shutdown timed out, the last one may be incomplete", lost)
        self._log_dropped(is_final=True)

    def write(self, encode: Encode) -> None:
        """Queue one record and wait until it is written, for at most MAX_WAIT_SECONDS."""
        thread = self._thread
        if thread is None:
            return
        # 1. Has the thread caught up since a wait timed out?
        self._is_behind = self._is_behind and thread.size > 0
        # 2. Queue the record.
        done = self._put(thread, encode)
        # 3. Wait for it, unless the thread is behind.
        if done is not None and not self._is_behind and not done.wait(MAX_WAIT_SECONDS):
            self._is_behind = True
            log.warning("audit: writing to %s is slow, answers do not wait for it until it has caught up", self._place)

    def count_lost(self) -> None:
        """Count a record that could not be made."""
        with self._lock:
            self._next += 1
        self._lose("an internal error")

    def _put(
        self, thread: WriterThread[_QueuedRecord], encode: Encode, *, is_last: bool = False
    ) -> threading.Event | None:
        """Number and queue a record; return an event that is set when it is written or lost, None if it is lost now."""
        lost = "an internal error"
        try:
            with self._lock:
                sequence, done = self._next, threading.Event()
                self._next += 1
                data = encode(self.process, sequence)
                # A full queue takes a record of size 0.
                size = 0 if is_last else len(data)
                is_queued = not thread.is_ending and thread.put(_QueuedRecord(sequence, data, done), size)
                lost = "" if is_queued else "the process was stopping" if thread.is_ending else "the queue is full"
                if is_last:
                    thread.end()
        finally:
            if lost:
                self._lose(lost)
        return None if lost else done

    def _write_records(self, target: "AuditTarget", records: Iterator[_QueuedRecord]) -> None:
        for record in records:
            try:
                if (first := self._next_written) < record.sequence:
                    last, why = record.sequence - 1, self._reason
                    lost = LostRecord(
                        event="auditLost", timestamp=_now(), process=self.process, first=first, last=last, reason=why
                    )
                    target.write(encode_line(lost))
                    self._next_written = record.sequence
                target.write(record.data)
                self._next_written += 1
                self.written += 1
            except OSError as error:
                self._lose(error.strerror or str(error))
            else:
                self._log_dropped()
            record.done.set()

    @property
    def _place(self) -> str:
        return str(self.path or "standard output")

    def _lose(self, reason: str, count: int = 1) -> None:
        with self._lock:
            self.dropped += count
            self._reason = reason
        self._log_dropped()

    def _log_dropped(self, *, is_final: bool = False) -> None:
        """Log the number of records lost since the last such line, if it is due; `is_final`: in any case."""
        lost = self.dropped - self._logged_dropped
        if lost and (self._throttle.is_due() or is_final):
            log.error("audit: dropped %d lines for %s: %s", lost, self._place, self._reason)
            self._logged_dropped += lost


def _encode_process_record(event: Literal["auditStarted", "auditStopped"], process: str, sequence: int) -> bytes:
    record = ProcessRecord(event=event, timestamp=_now(), process=process, sequence=sequence, version=__version__)
    return encode_line(record)


def _now() -> str:
    return format_time(time.time_ns(), 6)


class AuditTarget:
    """Standard output, or a file that is reopened after log rotation has moved or removed it. Raises OSError."""

    def __init__(self, path: Path | None) -> None:
        """Open the target; ConfigError if it is not writable."""
        self._path = path
        try:
            self._fd = os.dup(_STDOUT) if path is None else os.open(path, _FLAGS, 0o600)
        except OSError as error:
            where = "standard output" if path is None else path
            raise ConfigError(f"audit.path: cannot write to {where}: {error.strerror or error}") from error
        self._is_torn = path is not None and _is_torn(path)
        """True if the last line was written in part: a newline has to separate the next one from it."""

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


def _is_torn(path: Path) -> bool:
    """Return whether the last line of a file has no newline, as after a kill; False if we may not read the file."""
    with contextlib.suppress(OSError):
        if path.is_file() and path.stat().st_size:  # nothing else has an end to seek
            with path.open("rb") as file:
                file.seek(-1, os.SEEK_END)
                return file.read() != b"\n"
    return False


def check_writable(path: Path | None) -> None:
    """Raise ConfigError if the target is not writable."""
    AuditTarget(path).close()
