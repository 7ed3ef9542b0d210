"""Replay recordings: answer every recorded call again, on the cluster state and the settings of the recording.

    for replayed in open_recording("recording"):
        replayed.call.id, replayed.answer()

The cluster cache is built on first use, then updated by the recorded object changes. A recording is read as a stream,
never into memory as a whole.

Rule: live and replayed calls are answered by the same code, but a replayed answer has no effect on the cluster cache.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from msgspec import Raw

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.core.eviction_history import EvictionHistory
from extender.errors import NotReady, RecordingError, RequestError
from extender.k8s.objects import Pod
from extender.k8s.version.found import FoundVersion
from extender.report.schema import VerbName
from extender.server.context import ServerContext
from extender.server.observability.cache_status import NoSource
from extender.server.recording.answer_diff import Difference, RawAnswer, compare_answers
from extender.server.recording.lines import CALLS, CallLine, ChangeLine, DeleteLine, PutLine
from extender.server.recording.segments import RecordedSegment, decode_object, open_segments
from extender.server.scheduler import verbs
from extender.server.scheduler.result import Answer
from extender.server.settings import LiveSettings, Loaded, Settings


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A recorded call: request and answer, both redacted."""

    id: str
    time: str
    verb: VerbName
    request: bytes
    status: int
    answer: bytes
    history: EvictionHistory
    problem: str | None
    """Reason why the cluster cache was not ready for the decision; None if it was."""
    segment: str
    """Name of the segment's directory."""
    line: int
    """Line number in the segment, from 1."""

    @property
    def pod(self) -> str:
        """Return `namespace/name` of the request's pod; RecordingError if the request cannot be read."""
        with self.reading_request():
            sent = msgspec.json.decode(self.request, type=dict[str, Raw])
            raw = next((value for key, value in sent.items() if key.casefold() == "pod"), Raw(b"null"))
            return msgspec.json.decode(sent.get("Pod", raw), type=Pod).key

    @contextmanager
    def reading_request(self) -> Iterator[None]:
        """Turn errors of reading the request into a RecordingError that names file and line."""
        try:
            yield
        except (ValueError, RecursionError, RequestError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            raise RecordingError(f"{self.segment}/{CALLS}: line {self.line}: the request: {reason}") from error


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A recorded call, a new answer to it, and the differences between the two answers."""

    call: RecordedCall
    status: int
    answer: bytes
    differences: tuple[Difference, ...]
    """Differences between the two answers; none if they are equal."""

    def __str__(self) -> str:
        changes = "; ".join(map(str, self.differences)) or "as recorded"
        return f"{self.call.id} {self.call.pod}: {changes}"


@dataclass(frozen=True, slots=True)
class ReplayableCall:
    """A recorded call with the server context as it was before the call; valid until the iterator advances."""

    call: RecordedCall
    progress: float
    """Fraction of the recording that has been read, 0 to 1."""
    _state: "_ReplayState"
    _number: int

    @property
    def server_context(self) -> ServerContext:
        return self._state.server_context(self._number)

    def answer(self) -> RawAnswer:
        """Answer the call with the current code."""
        answered = self.answer_in(self.server_context)
        return RawAnswer(answered.status, answered.body)

    def answer_in(self, server_context: ServerContext) -> Answer:
        """Answer the call in the given server context; RecordingError if its request cannot be read."""
        call = self.call
        with call.reading_request():
            return verbs.answer(verbs.VERBS[call.verb], server_context, call.request, call.history)

    def result(self, answered: RawAnswer, *, exact: bool = True) -> ReplayResult:
        """Compare an answer with the recorded one: byte for byte, or, unless `exact`, as JSON."""
        recorded = RawAnswer(self.call.status, self.call.answer)
        found = compare_answers(self.call.verb, recorded, answered, self._pod_name, exact=exact)
        return ReplayResult(self.call, answered.status, answered.body, found)

    def _pod_name(self, uid: str) -> str:
        try:
            snapshot = self.server_context.cache.mutable_snapshot()
        except NotReady:
            return uid
        row = snapshot.pod_table.row_of.get(uid)
        return uid if row is None else snapshot.pods[row].key


CallFilter = Callable[[RecordedCall], bool]
SettingsOverride = Callable[[Settings], Settings]


@dataclass(frozen=True, slots=True)
class Recording:
    """The segments of a recording, oldest first."""

    segments: tuple[RecordedSegment, ...]

    @property
    def notes(self) -> list[str]:
        """Warnings about the lines read so far."""
        return [note for segment in self.segments for note in segment.notes]

    def versions(self) -> set[str]:
        """Return the versions of the extenders that wrote the recording."""
        return {segment.header().version for segment in self.segments}

    def calls(self) -> Iterator[RecordedCall]:
        """Iterate over all calls, in order."""
        return (replayed.call for replayed in self)

    def __iter__(self) -> Iterator[ReplayableCall]:
        return self.replayed()

    def replayed(
        self, wanted: CallFilter = lambda _: True, under: SettingsOverride = lambda settings: settings
    ) -> Iterator[ReplayableCall]:
        """Iterate over the wanted calls, in order; `under`: recorded settings -> settings to answer with."""
        total, before = sum(segment.size for segment in self.segments) or 1, 0
        for segment in self.segments:
            state = _ReplayState(segment, under(segment.header().settings))
            for number, read, line in segment.lines():
                # 1. Changes are applied when a wanted call needs them.
                if not isinstance(line, CallLine):
                    state.changes.append((number, line))
                    continue
                call = RecordedCall(
                    line.id,
                    line.time,
                    line.verb,
                    bytes(line.request),
                    line.status,
                    bytes(line.answer),
                    line.history,
                    line.problem,
                    segment.path.name,
                    number,
                )
                # 2. Offer the call, with the state as of its line.
                if wanted(call):
                    state.number, state.source.recorded_problem = number, call.problem
                    yield ReplayableCall(call, min(1.0, (before + read) / total), state, number)
            # 3. The segment ends, and with it the validity of its last call.
            before += segment.size
            state.number = 0

    def results(
        self, wanted: CallFilter = lambda _: True, under: SettingsOverride = lambda settings: settings
    ) -> Iterator[ReplayResult]:
        """Answer the wanted calls again, in order, and compare the answers."""
        return (replayed.result(replayed.answer()) for replayed in self.replayed(wanted, under))


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Open a recording, or one segment of it; RecordingError if the path holds no segment."""
    return Recording(tuple(open_segments(Path(path))))


def settings_of(config: Configuration) -> SettingsOverride:
    """Return an override that applies a configuration; ConfigError if the kube-scheduler file it names is not valid."""
    loaded = Loaded.from_config(config)

    def under(recorded: Settings) -> Settings:
        scheduler = recorded.scheduler
        # `scheduler.version: auto` finds the recorded version.
        found = FoundVersion(scheduler.minor, scheduler.version_source, scheduler.patch)
        return replace(loaded, found=found).settings()

    return under


# --- the recorded server state --------------------------------------------------------------------------------------


class _RecordedSource(NoSource):
    """A source with the recorded problem of the cluster cache."""

    recorded_problem: str | None = None

    def problem(self) -> str | None:
        return self.recorded_problem


@dataclass(slots=True)
class _ReplayState:
    """The server context at a position in a segment."""

    files: RecordedSegment
    settings: Settings
    number: int = 0
    """Line number of the current line."""
    changes: list[tuple[int, ChangeLine]] = field(default_factory=list)
    """Object changes that have not been applied yet, with their line numbers."""
    source: _RecordedSource = field(default_factory=_RecordedSource)
    _server_context: ServerContext | None = None

    def server_context(self, number: int) -> ServerContext:
        """Return the server context as of line `number`; RuntimeError if the replay has advanced beyond it."""
        if number != self.number:
            raise RuntimeError("the replay has advanced: a call is valid only until the iterator returns the next one")
        if self._server_context is None:
            self._server_context = self._start()
        changes, self.changes = self.changes, []
        for line, change in changes:
            try:
                snapshot = self._server_context.cache.mutable_snapshot()
                if isinstance(change, PutLine):
                    snapshot.put(change.kind, decode_object(change.kind, change.object))
                elif isinstance(change, DeleteLine):
                    snapshot.remove(change.kind, (change.namespace, change.name))
                else:
                    snapshot.unreadable_tables = frozenset(change.fields)
            except (ValueError, KeyError, NotReady) as error:
                problem = f"line {line} contradicts earlier lines: {error}"
                raise RecordingError(f"{self.files.path.name}: {problem}") from error
        return self._server_context

    def _start(self) -> ServerContext:
        cache, cluster = ClusterCache(), self.files.cluster()
        cache.prepare_for(self.settings.scheduler)
        try:
            if cluster is not None:
                cache.replace(cluster)
        except ValueError as error:
            raise RecordingError(f"{self.files.path.name}: inconsistent cluster: {error}") from error
        live_settings = LiveSettings(Configuration())
        live_settings.active = self.settings
        return ServerContext(
            cache, live_settings, self.source, max_node_names_body_bytes=sys.maxsize, max_body_bytes=sys.maxsize
        )
