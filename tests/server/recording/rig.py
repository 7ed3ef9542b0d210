"""Fixtures for recordings: a service that records, and disks that fail or block.

Rule: no test sleeps. `until` waits for a condition, and fails on a timeout.
"""

import errno
import gzip
import io
import os
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Raw

from extender.cluster.cache.cache import Change, ClusterCache
from extender.config.serving import RecordingSection
from extender.core.eviction_history import EvictionHistory
from extender.k8s.kinds import KINDS
from extender.k8s.time import SECOND, format_time
from extender.server.context import ServerContext
from extender.server.observability.cache_status import NO_SOURCE, ClusterSource
from extender.server.recording.disk import Disk
from extender.server.recording.lines import CallLine
from extender.server.recording.recorder import Recorder
from extender.server.replay import ReplayResult, open_recording
from extender.server.scheduler import verbs
from extender.server.scheduler.result import Answer
from extender.server.settings import LiveSettings
from tests.builders import stored_cluster
from tests.server.conftest import CLUSTER, configuration, filled_cache

FAILS_AFTER = 20.0
"""Seconds after which a wait fails."""

NOW = 1_790_000_000 * SECOND


def until(condition: Any) -> None:
    ends = time.monotonic() + FAILS_AFTER
    while not condition():
        assert time.monotonic() < ends, "it has taken too long"
        time.sleep(0)  # the other threads' turn


class Rig:
    """A service on the small cluster, or on another cache, with a recorder for a directory."""

    def __init__(
        self,
        directory: Path,
        cache: ClusterCache | None = None,
        source: ClusterSource = NO_SOURCE,
        *,
        disk: Disk | None = None,
        max_queued_bytes: int = 64 << 20,
        sizes: dict[str, int] | None = None,
        **sections: Any,
    ) -> None:
        self.directory = directory
        self.cache = filled_cache(CLUSTER) if cache is None else cache
        section = RecordingSection(directory=str(directory), **(sizes or {}))
        self.recorder = Recorder(self.cache, section, disk=disk, max_queued_bytes=max_queued_bytes)
        self.server_context = ServerContext(
            self.cache, LiveSettings(configuration(**sections)), source, recorder=self.recorder
        )
        self.cache.prepare_for(self.server_context.settings.scheduler)

    def ask(self, verb: str, body: bytes | dict[str, Any]) -> Answer:
        """Answer as the route does."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return verbs.answer(verbs.VERBS[verb], self.server_context, raw)

    def note(self, key: str = "filter-1", body: bytes = b"", seconds: int = 0) -> None:
        """Record a call without answering it."""
        request = body or b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":[]}'
        history = EvictionHistory(NOW + seconds * SECOND)
        line = CallLine(key, format_time(history.now, 6), "filter", 200, history, Raw(request), Raw(b"{}"))
        self.recorder.record(line, history.now, self.server_context.settings)

    def results(self) -> list[ReplayResult]:
        """Stop the recording and replay it."""
        self.recorder.stop()
        return list(open_recording(self.directory).results())

    def replays(self, *calls: str) -> None:
        """These calls were recorded, and all are answered again as they were."""
        results = self.results()
        assert [result.call.verb for result in results] == list(calls)
        assert [result.differences for result in results] == [()] * len(calls)

    def segments(self) -> list[Path]:
        return sorted(path for path in self.directory.iterdir() if not path.name.startswith("."))


def applied(cache: ClusterCache, raw: dict[str, Any], *, deleted: bool = False) -> None:
    """A pod or a node came, changed or went."""
    kind = raw["kind"]
    (one,) = getattr(stored_cluster({"kind": "List", "items": [raw]}), KINDS[kind].field)
    cache.apply(Change(kind, one, deleted))


def everything_in(directory: Path) -> dict[str, bytes]:
    """File -> what is in it, gzip undone."""
    found = {}
    for path in directory.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found[str(path)] = gzip.decompress(data) if path.suffix == ".gz" else data
    return found


class FullDisk(Disk):
    """Has room for so many bytes of calls, and says so like any disk."""

    def __init__(self, room: int, name: str = "calls.jsonl") -> None:
        self.room = room
        self.name = name

    def create(self, path: Path) -> BinaryIO:
        if path.name != self.name:
            return super().create(path)
        disk = self

        class Raw(io.FileIO):
            def write(self, data: Any, /) -> int:
                disk.room -= len(data)
                if disk.room < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(data)

        return io.BufferedWriter(Raw(path, "xb"))


class WaitingDisk(Disk):
    """Does nothing until it may."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.may_go_on = threading.Event()

    def make_directory(self, path: Path) -> None:
        self.is_asked.set()
        assert self.may_go_on.wait(FAILS_AFTER)
        super().make_directory(path)
