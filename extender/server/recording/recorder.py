"""Notes every call and every change of the picture between two calls, for a thread that writes them down.

What the event loop does for it is put references into a queue; all work is the other thread's. A segment is begun, with
the whole picture, at the first call, when the store holds another snapshot, when settings change, when the segment has
its size, and after something had to be dropped.

Rule: a recording is right as far as it goes. Where the disk cannot follow, what waits is dropped, a segment ends, and
the next one begins with a new picture.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from extender.cluster.cache.cache import ClusterCache
from extender.config.serving import RecordingSection
from extender.core.eviction_history import EvictionHistory
from extender.core.explain.schema import Verb
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import NotReady, RecordingError
from extender.k8s.kinds import Key
from extender.k8s.objects import Value
from extender.server.observability.backlog import Backlog
from extender.server.recording.disk import Disk, prepare
from extender.server.recording.writer import Begin, Changed, Item, Noted, NowUnread, Writer
from extender.server.scheduler.passthrough import NO_SCORES, VETO
from extender.server.settings import Settings

log = logging.getLogger(__name__)

MOST_WAITING = 128 << 20
"""Bytes that may wait for the disk."""

STOP_SECONDS = 10.0
"""How long what waits may take to be written at the end."""

# About what an item takes beside the bytes that it holds; most objects that changed are still in the picture.
_CALL = 1 << 10
_CHANGE = 2 << 10
_PICTURE = 1 << 20

_WITHOUT_PICTURE = frozenset({NO_SCORES, VETO})
"""What is also answered where nothing could be decided."""

NO_DIRECTORY = "recording needs a directory: set recording.directory, or start with --record DIR"


class Recorder:
    """Off until `start`. Used by the thread that decides."""

    def __init__(
        self,
        cache: ClusterCache,
        config: RecordingSection,
        problem: Callable[[], str | None] = lambda: None,
        *,
        disk: Disk | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """`problem`: why nothing may be decided on the picture now (Source.problem)."""
        self._cache = cache
        self._config = config
        self._problem = problem
        self._disk = disk or Disk()
        self._most_waiting = most_waiting
        self._backlog: Backlog[Item] = Backlog(most_waiting)
        self._writer: Writer | None = None
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
        """Is what is noted written down?"""
        return self._is_wanted and self._writer is not None and self._writer.failure is None

    def start(self, directory: Path | None = None) -> None:
        """Record from now on, into the configured directory if none is given; RecordingError if that cannot be done."""
        if self.is_on:
            return
        if directory is None and self._config.directory is None:
            raise RecordingError(NO_DIRECTORY)
        into = directory or Path(self._config.directory or "")
        check_directory(into)
        self._backlog = Backlog(self._most_waiting)
        self._writer = Writer(
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
        """Record no more, and wait until what was noted is written; from any thread."""
        writer, backlog = self._writer, self._backlog
        if writer is None or not self._is_wanted:
            return
        self._is_wanted = self._is_begun = False
        self._observe(None)
        backlog.end()
        writer.join(STOP_SECONDS)
        if writer.is_alive():
            lost = self._count_dropped(backlog.clear())
            log.warning("recording: the disk cannot follow: at the end %d calls were not written", lost)
        elif writer.failure is None:
            log.info("recording has ended: %d calls", writer.calls)

    def status(self) -> dict[str, Any]:
        """How it stands, for people."""
        writer = self._writer
        return {
            "enabled": self.is_on,
            "directory": str(writer.directory) if writer is not None else self._config.directory,
            "segment": writer.segment.path.name if writer is not None and writer.segment is not None else None,
            "size": writer.size if writer is not None else 0,
            "calls": writer.calls if writer is not None else 0,
            "dropped": self._dropped + (writer.left_out if writer is not None else 0),
            "waiting": self._backlog.size,
            "error": writer.failure if writer is not None else None,
        }

    def note(
        self,
        key: str,
        verb: Verb,
        body: bytes,
        status: int,
        answer: bytes,
        moment: EvictionHistory,
        settings: Settings,
    ) -> None:
        """A call was decided by this moment and these settings; what follows from it comes after this.

        `key` names the call; `status`: of HTTP; `answer`: the body that is sent.
        """
        if not self.is_on:
            self._observe(None)
            return
        snapshot = self._picture()
        if not (self._goes_on(snapshot, settings) or self._begin(snapshot, moment, settings)):
            self._dropped += 1
            return
        if snapshot is not None and snapshot.unread != self._unread:
            self._unread = snapshot.unread
            self._put(NowUnread(tuple(sorted(snapshot.unread))), _CHANGE)
        problem = self._problem() if status != 200 or answer in _WITHOUT_PICTURE else None
        self._put(Noted(key, verb, body, status, answer, moment, problem), _CALL + len(body) + len(answer))

    # --- segments ---------------------------------------------------------------------------------------------

    def _picture(self) -> Snapshot | None:
        try:
            return self._cache.changing()
        except NotReady:
            return None

    def _goes_on(self, snapshot: Snapshot | None, settings: Settings) -> bool:
        """Does the call belong to the segment that the one before belongs to?"""
        return (
            self._is_begun
            and snapshot is self._observed
            and (settings is self._settings or settings == self._settings)
            and self._writer is not None
            and self._writer.full < self._number
        )

    def _begin(self, snapshot: Snapshot | None, moment: EvictionHistory, settings: Settings) -> bool:
        """A new segment, unless what the disk could not follow with is not written yet."""
        if self._is_behind and self._backlog.size:
            return False
        self._is_behind, self._is_begun = False, True
        self._number += 1
        self._observe(snapshot)
        self._settings = settings
        self._unread = snapshot.unread if snapshot is not None else frozenset()
        self._put(Begin(self._number, moment.now, snapshot.frozen() if snapshot else None, settings), _PICTURE)
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
            self._put(Changed(kind, key, one), _CHANGE)
        else:
            self._observe(None)

    def _put(self, item: Item, size: int) -> None:
        if not self._is_begun or self._backlog.put(item, size):
            return
        self._is_begun, self._is_behind = False, True
        self._observe(None)
        lost = self._count_dropped([*self._backlog.clear(), item])
        log.warning("recording: the disk cannot follow: %d calls were dropped, and all until it has caught up", lost)

    def _count_dropped(self, items: list[Item]) -> int:
        """How many calls there are among them."""
        calls = sum(isinstance(item, Noted) for item in items)
        self._dropped += calls
        return calls


def check_directory(directory: Path) -> None:
    """Make it if it is not there; RecordingError if nothing can be written into it."""
    try:
        prepare(directory)
    except OSError as error:
        raise RecordingError(f"{directory}: cannot record into it: {error.strerror or error}") from error
