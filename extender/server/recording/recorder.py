"""Record every call, and every object change between two calls, through a thread that writes them to disk.

The event loop only queues references; the thread redacts, encodes and writes. Each segment begins with the whole
cluster. A new segment begins at the first call, after a change of snapshot or settings, when the previous segment is
full, and after items were dropped.

Rule: a segment has no gaps. If the disk is too slow, the queued items are dropped and the segment ends. The thread
stops at the first error and reports it.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as replace_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files.dump import encode_list
from extender.cluster.watch.decode import strip_unread_fields
from extender.config.serving import RecordingSection
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import INTERNAL, NotReady, RecordingError
from extender.k8s.kinds import ClusterObjects, Key
from extender.k8s.limits.memory import memory_of
from extender.k8s.objects import Object
from extender.server.observability.writer_thread import WriterThread
from extender.server.recording import lines, redact
from extender.server.recording.disk import Disk, OpenSegment, delete_segment, prepare_directory, segments_in, size_of
from extender.server.settings import Settings
from extender.version import __version__

log = logging.getLogger(__name__)

MAX_QUEUED_BYTES = 128 << 20
"""Maximum memory of all queued items."""

STOP_TIMEOUT_SECONDS = 2.5
"""Time limit for writing the queued items when recording stops."""

# Estimated memory of an item, beside the bytes of a call or the memory of an object. An object counts although the
# cluster cache usually has it, too: the cache may replace it while it waits here.
_CALL_OVERHEAD_BYTES = 1 << 10
_CHANGE_OVERHEAD_BYTES = 2 << 10
_SNAPSHOT_OVERHEAD_BYTES = 1 << 20

NO_DIRECTORY = "recording needs a directory: set recording.directory, or start with --record DIR"


@dataclass(slots=True)
class SegmentStart:
    """The start of a segment, to which the following items belong."""

    now: int
    """Nanoseconds since the Unix epoch."""
    cluster: ClusterObjects | None
    settings: Settings
    is_full: bool = False
    """True when the thread has written `segment_size`: the next call begins a new segment."""


class ObjectChange(NamedTuple):
    """Addition or update of an object, not redacted yet."""

    kind: str
    object: Object


WriterItem = SegmentStart | ObjectChange | lines.DeleteLine | lines.UnreadableLine | lines.CallLine
"""An item of the queue. Request and answer of a call are not redacted yet."""


# --- on the event loop's thread --------------------------------------------------------------------------------------


class Recorder:
    """Records calls; off until `start`. Only the thread that decides uses it, but any thread may call `stop`."""

    def __init__(
        self,
        cache: ClusterCache,
        config: RecordingSection,
        *,
        disk: Disk | None = None,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
    ) -> None:
        self._cache = cache
        self._config = config
        self._disk = disk or Disk()
        self._max_queued_bytes = max_queued_bytes
        self._writer: SegmentWriter | None = None
        """The writer of the current recording, or of the last one."""
        self._segment: SegmentStart | None = None
        """The current segment; None if the next call begins one."""
        self._is_behind = False
        """True after items were dropped, until the queue is empty."""
        self._dropped = 0
        self._observed: Snapshot | None = None
        self._unreadable: frozenset[str] = frozenset()

    @property
    def is_on(self) -> bool:
        return self._writer is not None and not self._writer.is_ending

    def start(self) -> None:
        """Start recording into the configured directory; RecordingError if it is not writable."""
        if self.is_on:
            return
        if self._config.directory is None:
            raise RecordingError(NO_DIRECTORY)
        directory = Path(self._config.directory)
        check_directory(directory)
        self._writer = SegmentWriter(directory, self._config, self._max_queued_bytes, self._disk)
        self._segment, self._is_behind, self._dropped = None, False, 0
        self._writer.start()
        log.info("recording into %s", directory)

    def stop(self) -> None:
        """Stop recording and wait until the queued items are written, for at most STOP_TIMEOUT_SECONDS."""
        writer = self._writer
        if writer is None or writer.is_ending:
            return
        # 1. Turn the recorder off first, so that no call on another thread observes the snapshot again.
        writer.end()
        # 2. Stop observing changes of the cluster.
        self._observe(None)
        # 3. Wait for the writer.
        if not writer.finish(STOP_TIMEOUT_SECONDS):
            lost = self._count_dropped(writer.clear())
            log.warning("recording: shutdown timed out: dropped %d calls", lost)
        elif writer.failure is None:
            log.info("recording stopped after %d calls", writer.calls)

    def status(self) -> dict[str, Any]:
        """Return the answer to GET /recording."""
        writer = self._writer
        return {
            "enabled": self.is_on,
            "directory": self._config.directory,
            "segment": writer.segment.path.name if writer is not None and writer.segment is not None else None,
            "size": writer.size_on_disk if writer is not None else 0,
            "calls": writer.calls if writer is not None else 0,
            "dropped": self._dropped + (writer.skipped if writer is not None else 0),
            "waiting": writer.size if writer is not None else 0,
            "error": writer.failure if writer is not None else None,
        }

    def record(self, call: lines.CallLine, now: int, settings: Settings) -> None:
        """Record a call that was decided with these settings, before its effects change the cluster cache.

        `now`: time of the call in Unix nanoseconds. Call it only while recording is on.
        """
        # 1. Does the call continue the segment? The queue has all changes of this snapshot up to the call.
        try:
            snapshot = self._cache.mutable_snapshot()
        except NotReady:
            snapshot = None
        if not self._continues_segment(snapshot, settings):
            # 2. If not, begin one, but only when the writer has caught up: the whole cluster would be dropped again.
            if self._is_behind and self._writer is not None and self._writer.size:
                self._dropped += 1
                return
            self._begin_segment(snapshot, now, settings)
        # 3. Changes of the kinds that may not be read come without an object event.
        if snapshot is not None and snapshot.unreadable_tables != self._unreadable:
            self._unreadable = snapshot.unreadable_tables
            self._put(lines.UnreadableLine(tuple(sorted(self._unreadable))), _CHANGE_OVERHEAD_BYTES)
        # 4. The call itself.
        history = call.history
        remembered = 300 * len(history.evictions) + 100 * len(history.attempts) + 200 * len(history.recent_deletions)
        self._put(call, _CALL_OVERHEAD_BYTES + len(call.request) + len(call.answer) + remembered)

    def _continues_segment(self, snapshot: Snapshot | None, settings: Settings) -> bool:
        segment = self._segment
        return (
            segment is not None
            and not segment.is_full
            and snapshot is self._observed
            and (settings is segment.settings or settings == segment.settings)
        )

    def _begin_segment(self, snapshot: Snapshot | None, now: int, settings: Settings) -> None:
        self._is_behind = False
        self._observe(snapshot)
        self._unreadable = snapshot.unreadable_tables if snapshot is not None else frozenset()
        self._segment = SegmentStart(now, snapshot.frozen() if snapshot is not None else None, settings)
        self._put(self._segment, _SNAPSHOT_OVERHEAD_BYTES)

    def _observe(self, snapshot: Snapshot | None) -> None:
        if self._observed is not snapshot:
            if self._observed is not None:
                self._observed.observer = None
            if snapshot is not None:
                snapshot.observer = self._changed
            self._observed = snapshot

    def _changed(self, kind: str, key: Key, one: Object | None) -> None:
        if self.is_on:
            change = lines.DeleteLine(kind, *key) if one is None else ObjectChange(kind, one)
            self._put(change, _CHANGE_OVERHEAD_BYTES + (0 if one is None else memory_of(one)))
        else:
            self._observe(None)

    def _put(self, item: WriterItem, size: int) -> None:
        """Queue an item of the segment; if the queue is full, drop everything that is queued and end the segment."""
        writer = self._writer
        if writer is None or self._segment is None or writer.put(item, size):
            return
        self._segment, self._is_behind = None, True
        self._observe(None)
        lost = self._count_dropped([*writer.clear(), item])
        log.warning(
            "recording: the disk is too slow: dropped %d calls, dropping more until the writer has caught up",
            lost,
        )

    def _count_dropped(self, items: list[WriterItem]) -> int:
        """Return the number of calls among the dropped items, and add it to the status."""
        calls = sum(isinstance(item, lines.CallLine) for item in items)
        self._dropped += calls
        return calls


def check_directory(directory: Path) -> None:
    """Create the directory if it is missing; RecordingError if it is not writable."""
    try:
        prepare_directory(directory)
    except OSError as error:
        raise RecordingError(f"{directory}: cannot record into it: {error.strerror or error}") from error


# --- on the writer's thread ------------------------------------------------------------------------------------------


class SegmentWriter(WriterThread[WriterItem]):
    """The thread that writes queued items into segments."""

    def __init__(self, directory: Path, config: RecordingSection, max_queued_bytes: int, disk: Disk) -> None:
        super().__init__("recording", max_queued_bytes, self._write_items, self._close_segment)
        self.directory = directory
        self.failure: str | None = None
        """Reason why the thread failed; None if it did not."""
        self.segment: OpenSegment | None = None
        self.calls = 0
        """Number of calls written."""
        self.skipped = 0
        """Number of calls that could not be redacted."""
        self.older = [(path, size_of(path)) for path in segments_in(directory)]
        """(path, size in bytes) of the segments before the current one, oldest first."""
        self._config = config
        self._disk = disk
        self._current_start: SegmentStart | None = None

    @property
    def size_on_disk(self) -> int:
        return sum(size for _, size in self.older) + (self.segment.size if self.segment is not None else 0)

    def _write_items(self, items: Iterator[WriterItem]) -> None:
        if self.failure is not None:
            return
        try:
            for item in items:
                self._write_item(item)
            if self.segment is not None:
                self.segment.flush()
            # The current segment stays, even if it is larger than `totalSize` by itself.
            while self.older and self.size_on_disk > self._config.total_size:
                delete_segment(self.older.pop(0)[0])
        except OSError as error:
            self._fail(f"{self.directory}: {error.strerror or error}")
        except Exception:
            log.exception("recording: internal error")
            self._fail(INTERNAL)

    def _fail(self, why: str) -> None:
        self.failure = why
        self.end()
        log.error("recording stopped: %s", why)

    def _close_segment(self) -> None:
        try:
            if self.segment is not None:
                self.segment.close()
        except OSError as error:  # only lines that were not flushed are lost
            if self.failure is None:
                self._fail(f"{self.directory}: {error.strerror or error}")

    def _write_item(self, item: WriterItem) -> None:
        if isinstance(item, SegmentStart):
            self._begin(item)
            return
        if self.segment is None or self._current_start is None:
            raise RuntimeError("a line was queued before the first segment")
        annotations = self._current_start.settings.scheduler.preemption.annotations
        line: lines.RecordingLine
        if isinstance(item, ObjectChange):
            kept_annotations = annotations if item.kind == "Pod" else frozenset[str]()
            redacted = strip_unread_fields(item.kind, item.object, kept_annotations)
            line = lines.PutLine(item.kind, Raw(msgspec.json.encode(redacted)))
        elif isinstance(item, lines.CallLine):
            try:
                request = redact.redact_request(item.verb, item.request, annotations)
                line = replace(item, request=request, answer=redact.redact_answer(item.verb, item.answer))
            except (ValueError, RecursionError) as error:
                self.skipped += 1
                log.warning("recording: skipping call %s: %s", item.id, error)
                return
        else:
            line = item
        self.segment.write(lines.encode_line(line))
        self.calls += isinstance(item, lines.CallLine)
        self._current_start.is_full = self.segment.line_bytes >= self._config.segment_size

    def _begin(self, start: SegmentStart) -> None:
        if self.segment is not None:
            self.segment.close()
            self.older.append((self.segment.path, self.segment.size))
            self.segment = None
        self._current_start = start
        settings = replace_dataclass(start.settings, scheduler=start.settings.scheduler.for_calls())
        header = lines.encode_line(lines.SegmentHeader(lines.FORMAT, __version__, settings))
        annotations = start.settings.scheduler.preemption.annotations
        cluster = None if start.cluster is None else encode_list(start.cluster, annotations)
        self.segment = OpenSegment(self.directory, start.now, header, cluster, self._disk)
