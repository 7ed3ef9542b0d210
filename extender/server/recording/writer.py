"""The writer thread of recordings: redacts queued items, writes them into segments, and deletes the oldest segments.

Rule: the thread stops at the first error and reports it, because a segment with a missing object change would replay
wrongly. Only a call that cannot be redacted is skipped, as no other line depends on it.
"""

import logging
import threading
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Raw

from extender.cluster.files.dump import encode_list
from extender.core.eviction_history import EvictionHistory
from extender.core.explain.schema import VerbName
from extender.errors import INTERNAL
from extender.k8s.kinds import ClusterObjects, Key
from extender.k8s.objects import Value
from extender.k8s.time import format_time
from extender.server.observability.backlog import Backlog
from extender.server.recording import redact
from extender.server.recording.disk import Disk, OpenSegment, delete_segment, segments_in, size_of
from extender.server.recording.lines import (
    FORMAT,
    CallLine,
    DeleteLine,
    PutLine,
    SegmentHeader,
    UnreadableLine,
    encode_line,
)
from extender.server.settings import Settings
from extender.version import __version__

log = logging.getLogger(__name__)


class SegmentStart(NamedTuple):
    """Begin a new segment; the items that follow belong to it."""

    number: int
    now: int
    """Nanoseconds since the Unix epoch."""
    cluster: ClusterObjects | None
    settings: Settings


class ObjectChange(NamedTuple):
    """An object was added or updated; `object` None: it was deleted."""

    kind: str
    key: Key
    object: Value | None


class UnreadableChange(NamedTuple):
    """The set of unreadable kinds changed."""

    fields: tuple[str, ...]


class CallRecord(NamedTuple):
    """A call and its answer, not redacted yet."""

    id: str
    verb: VerbName
    body: bytes
    status: int
    answer: bytes
    history: EvictionHistory
    problem: str | None


WriterItem = SegmentStart | ObjectChange | UnreadableChange | CallRecord


class SegmentWriter(threading.Thread):
    """Writes the items of the backlog into segments until the backlog ends."""

    def __init__(
        self, directory: Path, backlog: Backlog[WriterItem], *, segment_size: int, total_size: int, disk: Disk
    ) -> None:
        super().__init__(name="recording", daemon=True)
        self.directory = directory
        self.failure: str | None = None
        """Reason why the thread has stopped; None: it has not failed."""
        self.full = 0
        """Number of the last segment that reached its size limit."""
        self.segment: OpenSegment | None = None
        self.calls = 0
        """Number of calls written."""
        self.skipped = 0
        """Number of calls skipped because they could not be redacted."""
        self.older = [(path, size_of(path)) for path in segments_in(directory)]
        """(path, size) of the segments before the current one, oldest first."""
        self._backlog = backlog
        self._segment_size = segment_size
        self._total_size = total_size
        self._disk = disk
        self._number = 0
        self._annotations: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Size of all segments in bytes."""
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
            log.exception("recording: internal error")
            self._fail(INTERNAL)
        finally:
            self._close()

    def _fail(self, why: str) -> None:
        self.failure = why
        self._backlog.clear()
        log.error("recording stopped: %s", why)

    def _close(self) -> None:
        try:
            if self.segment is not None:
                self.segment.close()
        except OSError as error:  # flushed lines are safe
            if self.failure is None:
                self._fail(f"{self.directory}: {error.strerror or error}")

    def _write(self, item: WriterItem) -> None:
        if isinstance(item, SegmentStart):
            self._begin(item)
        elif isinstance(item, CallRecord):
            self._write_call(item)
        elif isinstance(item, UnreadableChange):
            self._add(encode_line(UnreadableLine(item.fields)))
        elif item.object is None:
            self._add(encode_line(DeleteLine(item.kind, *item.key)))
        else:
            one = redact.redact_object(item.kind, item.object, self._annotations)
            self._add(encode_line(PutLine(item.kind, Raw(msgspec.json.encode(one)))))

    def _write_call(self, call: CallRecord) -> None:
        try:
            request = redact.redact_request(call.verb, call.body, self._annotations)
            answer = redact.redact_answer(call.verb, call.answer)
        except (ValueError, RecursionError) as error:
            self.skipped += 1
            log.warning("recording: skipping call %s: %s", call.id, error)
            return
        time = format_time(call.history.now, 6)
        self._add(
            encode_line(
                CallLine(call.id, time, call.verb, call.status, call.history, Raw(request), Raw(answer), call.problem)
            )
        )
        self.calls += 1

    def _add(self, line: bytes) -> None:
        segment = self._current()
        segment.write(line)
        if segment.written >= self._segment_size:
            self.full = self._number

    def _current(self) -> OpenSegment:
        if self.segment is None:
            raise RuntimeError("a line was queued before the first segment")
        return self.segment

    def _flush(self) -> None:
        if self.segment is not None:
            self.segment.flush()
        self._trim()

    # --- segments ---------------------------------------------------------------------------------------------

    def _begin(self, begin: SegmentStart) -> None:
        if self.segment is not None:
            self.segment.close()
            self.older.append((self.segment.path, self.segment.size))
            self.segment = None
        self._number = begin.number
        self._annotations = begin.settings.profile.preemption.annotations
        header = encode_line(SegmentHeader(FORMAT, __version__, begin.settings))
        cluster = None if begin.cluster is None else encode_list(begin.cluster, self._annotations)
        self.segment = OpenSegment.begin(self.directory, begin.now, header, cluster, self._disk)

    def _trim(self) -> None:
        """Delete the oldest segments above the total size, but never the one being written."""
        while self.older and self.size > self._total_size:
            path, _ = self.older.pop(0)
            delete_segment(path)
