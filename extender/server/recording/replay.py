"""Recordings, call by call, each with a service that knows what was known then.

    for replayed in open_recording("recording"):
        replayed.call.id, replayed.answer()

A picture is built only where somebody asks for it, and is then changed as the lines say; never is a recording read as a
whole.

Rule: calls are answered by the code that answered them; nothing follows from that.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Raw

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.core.eviction_history import EvictionHistory
from extender.core.explain.schema import Verb
from extender.errors import NotReady, RecordingError
from extender.k8s.kinds import ClusterObjects
from extender.server.observability.cache_status import NoSource
from extender.server.recording.differences import Answered, Difference, differences
from extender.server.recording.lines import CallLine, GoneLine, PutLine, UnreadLine
from extender.server.recording.segments import SegmentFiles, object_of, segments_of
from extender.server.scheduler import verbs
from extender.server.scheduler.verbs import ServerContext
from extender.server.settings import LiveSettings, Settings


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call as it came and was answered; both redacted."""

    id: str
    time: str
    """2026-11-21T10:15:00.123456Z."""
    verb: Verb
    request: bytes
    status: int
    answer: bytes
    moment: EvictionHistory
    problem: str | None
    """Why nothing was decided on the picture."""
    segment: str
    """Name of the directory that it stands in."""

    @property
    def pod(self) -> str:
        """namespace/name of the pod that it is about."""
        sent = msgspec.json.decode(self.request, type=dict[str, Raw])
        raw = sent.get("Pod") or next(value for key, value in sent.items() if key.casefold() == "pod")
        metadata = msgspec.json.decode(raw, type=_Pod).metadata
        return f"{metadata.namespace}/{metadata.name}"


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata


@dataclass(frozen=True, slots=True)
class Result:
    """A recorded call, and another answer to it."""

    call: RecordedCall
    status: int
    answer: bytes
    differences: tuple[Difference, ...]
    """What the other answer says differently; nothing: it is the same."""

    def __str__(self) -> str:
        said = "; ".join(map(str, self.differences)) or "as recorded"
        return f"{self.call.id} {self.call.pod}: {said}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """A call, and a service that stands where it was answered; good until the next one is asked for."""

    call: RecordedCall
    progress: float
    """How much of the recording has been read, 0 to 1."""
    _place: "_Place"
    _number: int

    @property
    def service(self) -> ServerContext:
        """What answered the call: that picture, those settings."""
        return self._place.service(self._number)

    def answer(self) -> Answered:
        """What the call is answered now."""
        answered = verbs.answer(verbs.VERBS[self.call.verb], self.service, self.call.request, self.call.moment)
        return Answered(answered.status, answered.body)

    def result(self, answered: Answered, *, exact: bool = True) -> Result:
        """How an answer compares with the recorded one: by its bytes, or by its JSON."""
        call = self.call
        recorded = Answered(call.status, call.answer)
        found = differences(call.verb, recorded, answered, self._pod_name, exact=exact)
        return Result(call, answered.status, answered.body, found)

    def _pod_name(self, uid: str) -> str:
        try:
            snapshot = self.service.cache.changing()
        except NotReady:
            return uid
        row = snapshot.running.row_of.get(uid)
        return uid if row is None else snapshot.pods[row].key


Wanted = Callable[[RecordedCall], bool]
Under = Callable[[Settings], Settings]


@dataclass(frozen=True, slots=True)
class Recording:
    """Segments, the oldest first."""

    segments: tuple[SegmentFiles, ...]

    @property
    def notes(self) -> list[str]:
        """What was not as it should be in what has been read so far."""
        return [note for segment in self.segments for note in segment.notes]

    def versions(self) -> set[str]:
        """Of the extenders that recorded it."""
        return {segment.head().version for segment in self.segments}

    def calls(self) -> Iterator[RecordedCall]:
        """Every call, in order."""
        return (replayed.call for replayed in self)

    def __iter__(self) -> Iterator[Replayed]:
        return self.replayed()

    def replayed(self, wanted: Wanted = lambda _: True, under: Under = lambda settings: settings) -> Iterator[Replayed]:
        """The calls that are wanted, in order; `under`: the settings of then -> those by which they are answered."""
        total, before = sum(segment.size for segment in self.segments) or 1, 0
        for segment in self.segments:
            place = _Place(segment, under(segment.head().settings))
            for number, read, line in segment.lines():
                if not isinstance(line, CallLine):
                    place.changes.append((number, line))
                    continue
                call = _call(line, segment)
                if wanted(call):
                    place.number, place.source.said = number, call.problem
                    yield Replayed(call, min(1.0, (before + read) / total), place, number)
            before += segment.size
            place.number = 0

    def results(self, wanted: Wanted = lambda _: True, under: Under = lambda settings: settings) -> Iterator[Result]:
        """The same calls, each with what it is answered now."""
        return (replayed.result(replayed.answer()) for replayed in self.replayed(wanted, under))


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """A recording, or one segment of it; RecordingError if there is none."""
    return Recording(tuple(segments_of(Path(path))))


def _call(line: CallLine, segment: SegmentFiles) -> RecordedCall:
    return RecordedCall(
        line.id,
        line.time,
        line.verb,
        bytes(line.request),
        line.status,
        bytes(line.answer),
        line.moment,
        line.problem,
        segment.path.name,
    )


# --- a service as it was ----------------------------------------------------------------------------------------------


class _Source(NoSource):
    """Says of the picture what was said then."""

    said: str | None = None

    def problem(self) -> str | None:
        return self.said


@dataclass(slots=True)
class _Place:
    """Where in a segment a replay stands."""

    files: SegmentFiles
    settings: Settings
    number: int = 0
    """Of the line."""
    changes: list[tuple[int, PutLine | GoneLine | UnreadLine]] = field(default_factory=list)
    """Those that are not made yet, with the numbers of their lines."""
    source: _Source = field(default_factory=_Source)
    _service: ServerContext | None = None

    def service(self, number: int) -> ServerContext:
        """With all changes up to that line made."""
        if number != self.number:
            raise RuntimeError("the replay has gone on: a call is good until the next one is asked for")
        if self._service is None:
            self._service = self._start()
        changes, self.changes = self.changes, []
        for line_number, change in changes:
            self._make(self._service.cache, line_number, change)
        return self._service

    def _start(self) -> ServerContext:
        cache, picture = ClusterCache(), self.files.picture()
        cache.prepare_for(self.settings.profile)
        if picture is not None:
            self._fill(cache, picture)
        configured = LiveSettings(Configuration())
        configured.settings = self.settings
        return ServerContext(cache, configured, self.source, max_body_names=sys.maxsize, max_body_full=sys.maxsize)

    def _fill(self, cache: ClusterCache, picture: ClusterObjects) -> None:
        try:
            cache.replace(picture)
        except ValueError as error:
            raise RecordingError(f"{self.files.path.name}: the picture does not hold together: {error}") from error

    def _make(self, cache: ClusterCache, number: int, change: PutLine | GoneLine | UnreadLine) -> None:
        try:
            snapshot = cache.changing()
            if isinstance(change, PutLine):
                snapshot.put(change.kind, object_of(change.kind, change.object))
            elif isinstance(change, GoneLine):
                snapshot.remove(change.kind, (change.namespace, change.name))
            else:
                snapshot.unread = frozenset(change.fields)
        except (ValueError, KeyError, NotReady) as error:
            raise RecordingError(
                f"{self.files.path.name}: line {number} does not fit the lines before: {error}"
            ) from error
