"""The thread that writes: takes what was noted, redacts it, puts it into segments, and deletes the oldest ones.

Rule: it ends at the first error, and says which: a recording with a hole in it would be a wrong one. Only a call that
cannot be redacted is left out, as no other line depends on it.
"""

import logging
import threading
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Raw

from extender.cluster.files.dump import pieces
from extender.core.eviction_history import EvictionHistory
from extender.core.explain.schema import Verb
from extender.errors import INTERNAL
from extender.k8s.kinds import ClusterObjects, Key
from extender.k8s.objects import Value
from extender.k8s.time import format_time
from extender.server.observability.backlog import Backlog
from extender.server.recording import redact
from extender.server.recording.disk import Disk, Segment, delete, segments_in, size_of
from extender.server.recording.lines import (
    FORMAT,
    CallLine,
    GoneLine,
    Head,
    PutLine,
    UnreadLine,
    encode,
)
from extender.server.settings import Settings
from extender.version import __version__

log = logging.getLogger(__name__)


class Begin(NamedTuple):
    """A new segment: what follows belongs to it."""

    number: int
    now: int
    """Nanoseconds since 1970."""
    picture: ClusterObjects | None
    settings: Settings


class Changed(NamedTuple):
    """An object came or changed; None: it went."""

    kind: str
    key: Key
    object: Value | None


class NowUnread(NamedTuple):
    """Other kinds may not be read from now on."""

    fields: tuple[str, ...]


class Noted(NamedTuple):
    """A call."""

    id: str
    verb: Verb
    body: bytes
    status: int
    answer: bytes
    moment: EvictionHistory
    problem: str | None


Item = Begin | Changed | NowUnread | Noted


class Writer(threading.Thread):
    """Writes what is in the backlog into a directory until that ends."""

    def __init__(
        self, directory: Path, backlog: Backlog[Item], *, segment_size: int, total_size: int, disk: Disk
    ) -> None:
        super().__init__(name="recording", daemon=True)
        self.directory = directory
        self.failure: str | None = None
        """Why nothing is written any more."""
        self.full = 0
        """Number of the last segment that has reached its size."""
        self.segment: Segment | None = None
        self.calls = 0
        """How many were written."""
        self.left_out = 0
        """How many could not be redacted."""
        self.older = [(path, size_of(path)) for path in segments_in(directory)]
        """Segments before the current one, the oldest first, and their sizes."""
        self._backlog = backlog
        self._segment_size = segment_size
        self._total_size = total_size
        self._disk = disk
        self._number = 0
        self._annotations: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(size for _, size in self.older) + (self.segment.size if self.segment is not None else 0)

    def run(self) -> None:
        try:
            while items := self._backlog.take():
                for item in items:
                    self._write(item)
                self._flush()
        except OSError as error:
            self._fail(f"{self.directory}: {error.strerror or error}")
        except Exception:
            log.exception("recording: a bug")
            self._fail(INTERNAL)
        finally:
            self._close()

    def _fail(self, why: str) -> None:
        self.failure = why
        self._backlog.clear()
        log.error("recording ends: %s", why)

    def _close(self) -> None:
        try:
            if self.segment is not None:
                self.segment.close()
        except OSError as error:  # what was flushed is there
            if self.failure is None:
                self._fail(f"{self.directory}: {error.strerror or error}")

    def _write(self, item: Item) -> None:
        if isinstance(item, Begin):
            self._begin(item)
        elif isinstance(item, Noted):
            self._write_call(item)
        elif isinstance(item, NowUnread):
            self._add(encode(UnreadLine(item.fields)))
        elif item.object is None:
            self._add(encode(GoneLine(item.kind, *item.key)))
        else:
            one = redact.private(item.kind, item.object, self._annotations)
            self._add(encode(PutLine(item.kind, Raw(msgspec.json.encode(one)))))

    def _write_call(self, call: Noted) -> None:
        try:
            request = redact.request(call.verb, call.body, self._annotations)
            answer = redact.answer(call.verb, call.answer)
        except (ValueError, RecursionError) as error:
            self.left_out += 1
            log.warning("recording: call %s is left out: %s", call.id, error)
            return
        time = format_time(call.moment.now, 6)
        self._add(
            encode(
                CallLine(call.id, time, call.verb, call.status, call.moment, Raw(request), Raw(answer), call.problem)
            )
        )
        self.calls += 1

    def _add(self, line: bytes) -> None:
        segment = self._current()
        segment.write(line)
        if segment.written >= self._segment_size:
            self.full = self._number

    def _current(self) -> Segment:
        if self.segment is None:
            raise RuntimeError("a line came before the first segment")
        return self.segment

    def _flush(self) -> None:
        if self.segment is not None:
            self.segment.flush()
        self._trim()

    # --- segments ---------------------------------------------------------------------------------------------

    def _begin(self, begin: Begin) -> None:
        if self.segment is not None:
            self.segment.close()
            self.older.append((self.segment.path, self.segment.size))
            self.segment = None
        self._number = begin.number
        self._annotations = begin.settings.profile.preemption.annotations
        head = encode(Head(FORMAT, __version__, begin.settings))
        held = begin.picture
        picture = None if held is None else pieces(held, self._annotations)
        self.segment = Segment.begin(self.directory, begin.now, head, picture, self._disk)

    def _trim(self) -> None:
        """Delete the oldest while all are too large; never the one that is being written."""
        while self.older and self.size > self._total_size:
            path, _ = self.older.pop(0)
            delete(path)
