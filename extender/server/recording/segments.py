"""Segments, read again: their settings, their picture, their lines.

The picture is read as it was written, without the checks of cluster files: a recording shows what the service knew, not
what it should have known.

Rule: a last line that was not written to its end is left out, and that is said; anything else that cannot be read is a
RecordingError that names the file and the line.
"""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from extender.cluster.files.manifests import UNREAD
from extender.errors import RecordingError
from extender.k8s.kinds import KINDS, ClusterObjects, name_of
from extender.k8s.objects import Value
from extender.server.recording.disk import SEGMENT, segments_in
from extender.server.recording.lines import CALLS, CLUSTER, HEAD, LINE, SETTINGS, Head, Line


class _ListMetadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] = {}


class _List(msgspec.Struct):
    items: list[Raw]
    metadata: _ListMetadata = _ListMetadata()


class _Type(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str


_LIST = msgspec.json.Decoder(_List)
_TYPE = msgspec.json.Decoder(_Type)
_KINDS = {(name_of(kind), of.api_version): kind for kind, of in KINDS.items()}


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """One segment."""

    path: Path
    notes: list[str] = field(default_factory=list)
    """What is not as it should be, once that has been met."""

    @property
    def size(self) -> int:
        """Bytes of its lines."""
        try:
            return (self.path / CALLS).stat().st_size
        except OSError as error:
            raise _unreadable(self.path / CALLS, error) from error

    def head(self) -> Head:
        """By what its calls were decided."""
        path = self.path / SETTINGS
        try:
            return HEAD.decode(path.read_bytes())
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error

    def picture(self) -> ClusterObjects | None:
        """The cluster at its start; None if nothing was known of it."""
        path = self.path / CLUSTER
        try:
            return _objects(gzip.decompress(path.read_bytes())) if path.exists() else None
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise _unreadable(path, error) from error

    def lines(self) -> Iterator[tuple[int, int, Line]]:
        """(number from 1, bytes with all lines before, line)."""
        path, read = self.path / CALLS, 0
        try:
            with path.open("rb") as file:
                for number, text in enumerate(file, start=1):
                    read += len(text)
                    if not text.endswith(b"\n"):
                        self._note(f"{_shown(path)}: line {number} ends in the middle and is left out")
                        return
                    yield number, read, _line(path, number, text)
        except OSError as error:
            raise _unreadable(path, error) from error

    def _note(self, what: str) -> None:
        """It may be read more than once."""
        if what not in self.notes:
            self.notes.append(what)


def segments_of(path: Path) -> list[SegmentFiles]:
    """The segments of a recording, or the one that the path is, the oldest first; RecordingError if there is none."""
    try:
        if (path / SETTINGS).exists() or SEGMENT.fullmatch(path.name):
            return [SegmentFiles(path)]
        found = segments_in(path)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error
    if not found:
        raise RecordingError(f"{path}: no recording: there is no directory with a {SETTINGS} in it")
    return [SegmentFiles(one) for one in found]


def object_of(kind: str, raw: bytes | Raw) -> Value:
    """An object of a kind of KINDS; ValueError if it is none."""
    one: Value = _decoder(kind).decode(raw)
    return one


def _line(path: Path, number: int, text: bytes) -> Line:
    try:
        line: Line = LINE.decode(text)
        return line
    except ValueError as error:
        raise RecordingError(f"{_shown(path)}: line {number}: {error}") from error


@cache
def _decoder(kind: str) -> "msgspec.json.Decoder[Any]":
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}")
    return msgspec.json.Decoder(KINDS[kind].type)


def _objects(data: bytes) -> ClusterObjects:
    listed = _LIST.decode(data)
    found: dict[str, list[Value]] = {of.field: [] for of in KINDS.values()}
    for item in listed.items:
        head = _TYPE.decode(item)
        kind = _KINDS.get((head.kind, head.api_version))
        if kind is None:
            raise ValueError(f"unknown kind {head.kind!r} of {head.api_version!r}")
        found[KINDS[kind].field].append(object_of(kind, item))
    unread = listed.metadata.annotations.get(UNREAD)
    return ClusterObjects(
        **{name: tuple(objects) for name, objects in found.items()},  # type: ignore[arg-type]
        unread=tuple(unread.split(",")) if unread else (),
    )


def _unreadable(path: Path, error: Exception) -> RecordingError:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return RecordingError(f"{_shown(path)}: {said}")


def _shown(path: Path) -> str:
    """With its segment."""
    return f"{path.parent.name}/{path.name}"
