"""Where audit lines go: standard output or a file, by a thread of their own.

Whoever hands a line over waits until the operating system has it, at most 100 ms. After one such wait was in vain
nobody waits any more until the thread has caught up. What cannot be written is counted, and said in the log every 10 s.

Rule: neither a stuck pipe nor a full disk keeps an answer back, and no line is lost in silence.
"""

import logging
import os
import select
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

from extender.errors import ConfigError
from extender.server.observability.backlog import Backlog

log = logging.getLogger(__name__)

PATIENCE = 0.1
"""Seconds for which an answer waits for its line."""

MOST_WAITING = 16 << 20
"""Bytes of lines that may wait for the disk."""

SAY_EVERY = 10.0
"""Seconds between two lines of the log about lines that were not written."""

STOP_SECONDS = 2.0
"""How long what waits may take to be written at the end."""

_STDOUT = 1
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class _Line:
    """A line on its way."""

    __slots__ = ("data", "done")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.done = threading.Event()
        """It is written, or never will be."""


class AuditLog:
    """Nothing is written before `start`. `write` is called by one thread, the one that decides."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Without a path: standard output."""
        self.path = path
        self._clock = clock
        self._target: Target | None = None
        self._backlog: Backlog[_Line] = Backlog(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._is_behind = False
        self._handed_over = 0
        self._written = 0
        self._failed = 0
        self._refused = 0
        self._said_at: float | None = None
        self._said = 0

    @property
    def is_on(self) -> bool:
        return self._thread is not None

    @property
    def written(self) -> int:
        """Lines that the operating system has."""
        return self._written

    @property
    def dropped(self) -> int:
        """Lines that were lost; the log says why."""
        return self._failed + self._refused

    def start(self) -> None:
        """ConfigError if it cannot be written."""
        if self._thread is None:
            self._target = Target(self.path)
            self._backlog = Backlog(MOST_WAITING)
            self._thread = threading.Thread(
                target=self._run, args=(self._target, self._backlog), name="audit", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """What waits is written, if that does not take too long."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._backlog.end()
        thread.join(STOP_SECONDS)
        if thread.is_alive():
            self._backlog.clear()
            lost = self._handed_over - self._written - self._failed
            self._refused += lost
            log.error("audit: at the end %d lines were not written, and the last one perhaps not as a whole", lost)

    def write(self, data: bytes) -> None:
        """Hand over one line, with its newline."""
        if self._thread is None:
            return
        line = _Line(data)
        if not self._backlog.put(line, len(data)):
            self._refused += 1
            self._say("too many lines wait for it")
            return
        self._handed_over += 1
        if not self._is_behind and not line.done.wait(PATIENCE):
            self._is_behind = True
            log.warning("audit: %s takes too long; answers do not wait for it until it has caught up", self._place)

    def count_lost(self) -> None:
        """One line was never handed over."""
        self._refused += 1

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self, target: "Target", backlog: Backlog[_Line]) -> None:
        try:
            while lines := backlog.take():
                for line in lines:
                    self._write_one(target, line)
                if not backlog.is_waiting:
                    self._is_behind = False
        finally:
            target.close()

    def _write_one(self, target: "Target", line: _Line) -> None:
        try:
            target.write(line.data)
            self._written += 1
        except OSError as error:
            self._failed += 1
            self._say(error.strerror or str(error))
        finally:
            line.done.set()

    @property
    def _place(self) -> str:
        return str(self.path or "standard output")

    def _say(self, why: str) -> None:
        now, lost = self._clock(), self.dropped
        if self._said_at is None or now - self._said_at >= SAY_EVERY:
            log.error("audit: %d lines were not written to %s: %s", lost - self._said, self._place, why)
            self._said_at, self._said = now, lost


class Target:
    """A file that is opened again when it was moved or removed, or standard output. Raises OSError as it comes."""

    def __init__(self, path: Path | None) -> None:
        """ConfigError if it cannot be written."""
        self._path = path
        self._is_torn = False
        """The last line was written in part: the next one must not be glued to it."""
        try:
            self._fd = os.dup(_STDOUT) if path is None else _open(path)
        except OSError as error:
            where = "standard output" if path is None else path
            raise ConfigError(f"audit.path: cannot write to {where}: {error.strerror or error}") from error

    def close(self) -> None:
        os.close(self._fd)

    def write(self, data: bytes) -> None:
        """All of it."""
        if self._path is not None:
            self._follow(self._path)
        rest = memoryview(b"\n" + data if self._is_torn else data)
        begun = False
        try:
            while rest:
                try:
                    rest = rest[os.write(self._fd, rest) :]
                    begun = True
                except BlockingIOError:
                    _wait_for_room(self._fd)
        finally:
            self._is_torn = bool(rest) and (begun or self._is_torn)

    def _follow(self, path: Path) -> None:
        """Whoever rotates files moves or removes this one: then go on with a new one."""
        held = os.fstat(self._fd)
        if not stat.S_ISREG(held.st_mode):
            return
        try:
            there = os.stat(path)
            if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino):
                return
        except FileNotFoundError:
            pass
        try:
            fresh = _open(path)
        except OSError:
            if held.st_nlink:  # the old one is still somewhere: better there than nowhere
                return
            raise
        os.close(self._fd)
        self._fd, self._is_torn = fresh, False


def check(path: Path | None) -> None:
    """ConfigError if no line can be written there."""
    Target(path).close()


def _open(path: Path) -> int:
    return os.open(path, _FLAGS, 0o600)


def _wait_for_room(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll()
