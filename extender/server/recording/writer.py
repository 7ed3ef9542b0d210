"""The writer thread of recordings: redacts queued items, writes them into segments, and deletes the oldest segments.

Rule: the thread stops at the first error and reports it, because a segment with a missing object change would replay
wrongly. Only a call that cannot be redacted is skipped, as no other line depends on it.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from extender.cluster.files.dump import encode_list
from extender.cluster.watch.decode import strip_unread_fields
from extender.config.serving import RecordingSection
from extender.errors import INTERNAL
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Value
from extender.server.observability.writer_thread import WriterThread
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


@dataclass(slots=True)
class SegmentStart:
    """Begin a new segment; the items that follow belong to it."""

    now: int
    """Nanoseconds since the Unix epoch."""
    cluster: ClusterObjects | None
    settings: Settings
    is_full: bool = False
    """True once the thread has written so many lines that the next segment is due."""


class ObjectChange(NamedTuple):
    """An object was added or updated; it is not redacted yet."""

    kind: str
    object: Value


WriterItem = SegmentStart | ObjectChange | DeleteLine | UnreadableLine | CallLine
"""An item of the queue; request and answer of a CallLine are not redacted yet."""


class SegmentWriter(WriterThread[WriterItem]):
    """Writes queued items into segments."""

    def __init__(self, directory: Path, config: RecordingSection, max_queued_bytes: int, disk: Disk) -> None:
        super().__init__("recording", max_queued_bytes, self._write_items, self._close_segment)
        self.directory = directory
        self.failure: str | None = None
        """Reason why the thread has stopped; None: it has not failed."""
        self.segment: OpenSegment | None = None
        self.calls = 0
        """Number of calls written."""
        self.skipped = 0
        """Number of calls skipped because they could not be redacted."""
        self.older = [(path, size_of(path)) for path in segments_in(directory)]
        """(path, size) of the segments before the current one, oldest first."""
        self._config = config
        self._disk = disk
        self._current_start: SegmentStart | None = None

    @property
    def size_on_disk(self) -> int:
        """Size of all segments in bytes."""
        return sum(size for _, size in self.older) + (self.segment.size if self.segment is not None else 0)

    def _write_items(self, items: list[WriterItem]) -> None:
        if self.failure is not None:
            return
        try:
            for item in items:
                self._write_item(item)
            if self.segment is not None:
                self.segment.flush()
            while self.older and self.size_on_disk > self._config.total_size:  # the current segment always stays
                delete_segment(self.older.pop(0)[0])
        except OSError as error:
            self._fail(f"{self.directory}: {error.strerror or error}")
        except Exception:
            log.exception("recording: internal error")
            self._fail(INTERNAL)

    def _fail(self, why: str) -> None:
        self.failure = why
        self.clear()
        self.end()
        log.error("recording stopped: %s", why)

    def _close_segment(self) -> None:
        try:
            if self.segment is not None:
                self.segment.close()
        except OSError as error:  # flushed lines are safe
            if self.failure is None:
                self._fail(f"{self.directory}: {error.strerror or error}")

    def _write_item(self, item: WriterItem) -> None:
        if isinstance(item, SegmentStart):
            self._begin(item)
            return
        if self.segment is None or self._current_start is None:
            raise RuntimeError("a line was queued before the first segment")
        annotations = self._current_start.settings.profile.preemption.annotations
        line: DeleteLine | UnreadableLine | PutLine | CallLine
        if isinstance(item, ObjectChange):
            kept_annotations = annotations if item.kind == "Pod" else frozenset[str]()
            redacted = strip_unread_fields(item.kind, item.object, kept_annotations)
            line = PutLine(item.kind, Raw(msgspec.json.encode(redacted)))
        elif isinstance(item, CallLine):
            try:
                request = redact.redact_request(item.verb, item.request, annotations)
                line = replace(item, request=request, answer=redact.redact_answer(item.verb, item.answer))
            except (ValueError, RecursionError) as error:
                self.skipped += 1
                log.warning("recording: skipping call %s: %s", item.id, error)
                return
        else:
            line = item
        self.segment.write(encode_line(line))
        self.calls += isinstance(item, CallLine)
        self._current_start.is_full = self.segment.line_bytes >= self._config.segment_size

    def _begin(self, start: SegmentStart) -> None:
        if self.segment is not None:
            self.segment.close()
            self.older.append((self.segment.path, self.segment.size))
            self.segment = None
        self._current_start = start
        header = encode_line(SegmentHeader(FORMAT, __version__, start.settings))
        annotations = start.settings.profile.preemption.annotations
        cluster = None if start.cluster is None else encode_list(start.cluster, annotations)
        self.segment = OpenSegment(self.directory, start.now, header, cluster, self._disk)
