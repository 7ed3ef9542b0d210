"""Record every call, and every object change between two calls, through a thread that writes them to disk.

The event loop only puts references into a queue; redaction, encoding and writing happen on the thread. A new segment,
with the whole cluster, begins at the first call, when the cluster cache has a new snapshot, when the settings change,
when the segment has reached its size, and after items were dropped.

Rule: a recording has no gaps within a segment. If the disk is too slow, the queued items are dropped, the segment ends,
and the next one begins with the whole cluster.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from extender.cluster.cache.cache import ClusterCache
from extender.config.serving import RecordingSection
from extender.core.eviction_history import EvictionHistory
from extender.core.explain.schema import VerbName
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import NotReady, RecordingError
from extender.k8s.kinds import Key
from extender.k8s.objects import Value
from extender.server.observability.backlog import Backlog
from extender.server.recording.disk import Disk, prepare_directory
from extender.server.recording.writer import (
    CallRecord,
    ObjectChange,
    SegmentStart,
    SegmentWriter,
    UnreadableChange,
    WriterItem,
)
from extender.server.scheduler.passthrough import NO_SCORES, NO_VICTIMS
from extender.server.settings import Settings

log = logging.getLogger(__name__)

MAX_QUEUED_BYTES = 128 << 20
"""Limit of the items that are queued for the disk."""

STOP_TIMEOUT_SECONDS = 10.0
"""Time limit for writing the queued items when recording stops."""

# Estimated memory of an item beyond the bytes of the call. An object change is cheap: the cluster cache usually holds
# the object too.
_CALL_OVERHEAD_BYTES = 1 << 10
_CHANGE_OVERHEAD_BYTES = 2 << 10
_SNAPSHOT_OVERHEAD_BYTES = 1 << 20

_ANSWERS_WITHOUT_CACHE = frozenset({NO_SCORES.body, NO_VICTIMS.body})
"""Answers that are also given without a decision, when the cluster cache is not ready."""

NO_DIRECTORY = "recording needs a directory: set recording.directory, or start with --record DIR"


class Recorder:
    """The recorder of calls; off until `start`. Only the thread that decides uses it, except for `stop`."""

    def __init__(
        self,
        cache: ClusterCache,
        config: RecordingSection,
        problem: Callable[[], str | None] = lambda: None,
        *,
        disk: Disk | None = None,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
    ) -> None:
        """`problem` returns why the cluster cache is not ready, or None (ClusterSource.problem)."""
        self._cache = cache
        self._config = config
        self._problem = problem
        self._disk = disk or Disk()
        self._max_queued_bytes = max_queued_bytes
        self._backlog: Backlog[WriterItem] = Backlog(max_queued_bytes)
        self._writer: SegmentWriter | None = None
        self._is_wanted = False
        self._is_begun = False
        self._is_behind = False
        self._number = 0
        self._dropped = 0
        self._observed: Snapshot | None = None
        self._unread: frozenset[str] = frozenset()
        self._settings: Settings | None = None

    @property
    def is_on(self) -> bool:
        """Return whether calls are being recorded."""
        return self._is_wanted and self._writer is not None and self._writer.failure is None

    def start(self, directory: Path | None = None) -> None:
        """Start recording, by default into the configured directory; RecordingError if it is not writable."""
        if self.is_on:
            return
        if directory is None and self._config.directory is None:
            raise RecordingError(NO_DIRECTORY)
        into = directory or Path(self._config.directory or "")
        check_directory(into)
        self._backlog = Backlog(self._max_queued_bytes)
        self._writer = SegmentWriter(
            into,
            self._backlog,
            segment_size=self._config.segment_size,
            total_size=self._config.total_size,
            disk=self._disk,
        )
        self._is_wanted, self._is_begun, self._is_behind, self._number, self._dropped = True, False, False, 0, 0
        self._writer.start()
        log.info("recording into %s", into)

    def stop(self) -> None:
        """Stop recording and wait until the queued items are written; callable from any thread."""
        writer, backlog = self._writer, self._backlog
        if writer is None or not self._is_wanted:
            return
        self._is_wanted = self._is_begun = False
        self._observe(None)
        backlog.end()
        writer.join(STOP_TIMEOUT_SECONDS)
        if writer.is_alive():
            lost = self._count_dropped(backlog.clear())
            log.warning("recording: shutdown timed out: dropped %d calls", lost)
        elif writer.failure is None:
            log.info("recording stopped after %d calls", writer.calls)

    def status(self) -> dict[str, Any]:
        """Return the status of the recording for the admin listener."""
        writer = self._writer
        return {
            "enabled": self.is_on,
            "directory": str(writer.directory) if writer is not None else self._config.directory,
            "segment": writer.segment.path.name if writer is not None and writer.segment is not None else None,
            "size": writer.size if writer is not None else 0,
            "calls": writer.calls if writer is not None else 0,
            "dropped": self._dropped + (writer.skipped if writer is not None else 0),
            "waiting": self._backlog.size,
            "error": writer.failure if writer is not None else None,
        }

    def record_call(
        self,
        key: str,
        verb: VerbName,
        body: bytes,
        status: int,
        answer: bytes,
        history: EvictionHistory,
        settings: Settings,
    ) -> None:
        """Record a call decided with this history and these settings, before it is applied to the cluster cache.

        `key`: ID of the call; `status`: HTTP status; `answer`: body of the answer.
        """
        if not self.is_on:
            self._observe(None)
            return
        snapshot = self._snapshot()
        if not (self._continues_segment(snapshot, settings) or self._begin(snapshot, history, settings)):
            self._dropped += 1
            return
        if snapshot is not None and snapshot.unreadable_tables != self._unread:
            self._unread = snapshot.unreadable_tables
            self._put(UnreadableChange(tuple(sorted(snapshot.unreadable_tables))), _CHANGE_OVERHEAD_BYTES)
        problem = self._problem() if status != 200 or answer in _ANSWERS_WITHOUT_CACHE else None
        self._put(
            CallRecord(key, verb, body, status, answer, history, problem),
            _CALL_OVERHEAD_BYTES + len(body) + len(answer),
        )

    # --- segments ---------------------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot | None:
        try:
            return self._cache.mutable_snapshot()
        except NotReady:
            return None

    def _continues_segment(self, snapshot: Snapshot | None, settings: Settings) -> bool:
        """Return whether the call belongs to the current segment."""
        return (
            self._is_begun
            and snapshot is self._observed
            and (settings is self._settings or settings == self._settings)
            and self._writer is not None
            and self._writer.full < self._number
        )

    def _begin(self, snapshot: Snapshot | None, history: EvictionHistory, settings: Settings) -> bool:
        """Begin a new segment; return False while the writer is still behind after items were dropped."""
        if self._is_behind and self._backlog.size:
            return False
        self._is_behind, self._is_begun = False, True
        self._number += 1
        self._observe(snapshot)
        self._settings = settings
        self._unread = snapshot.unreadable_tables if snapshot is not None else frozenset()
        self._put(
            SegmentStart(self._number, history.now, snapshot.frozen() if snapshot else None, settings),
            _SNAPSHOT_OVERHEAD_BYTES,
        )
        return True

    def _observe(self, snapshot: Snapshot | None) -> None:
        if self._observed is not snapshot:
            if self._observed is not None:
                self._observed.observer = None
            if snapshot is not None:
                snapshot.observer = self._changed
            self._observed = snapshot

    def _changed(self, kind: str, key: Key, one: Value | None) -> None:
        if self.is_on:
            self._put(ObjectChange(kind, key, one), _CHANGE_OVERHEAD_BYTES)
        else:
            self._observe(None)

    def _put(self, item: WriterItem, size: int) -> None:
        if not self._is_begun or self._backlog.put(item, size):
            return
        self._is_begun, self._is_behind = False, True
        self._observe(None)
        lost = self._count_dropped([*self._backlog.clear(), item])
        log.warning(
            "recording: the disk is too slow: dropped %d calls, and drops all calls until the writer has caught up",
            lost,
        )

    def _count_dropped(self, items: list[WriterItem]) -> int:
        """Count the calls among the dropped items, and return their number."""
        calls = sum(isinstance(item, CallRecord) for item in items)
        self._dropped += calls
        return calls


def check_directory(directory: Path) -> None:
    """Create the directory if missing; RecordingError if it is not writable."""
    try:
        prepare_directory(directory)
    except OSError as error:
        raise RecordingError(f"{directory}: cannot record into it: {error.strerror or error}") from error
