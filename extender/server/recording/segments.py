"""Read segments: settings, cluster and lines.

The cluster is decoded without the validation of cluster files: a recording shows what the cluster cache held, valid or
not.

Rule: an incomplete last line is skipped with a warning; anything else that cannot be read is a RecordingError that
names the file and the line.
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

from extender.cluster.files.manifests import UNREAD_ANNOTATION
from extender.errors import RecordingError
from extender.k8s.kinds import KINDS, ClusterObjects, kind_without_group
from extender.k8s.objects import Value
from extender.server.recording.disk import SEGMENT_NAME, segments_in
from extender.server.recording.lines import (
    CALLS,
    CLUSTER,
    HEADER_DECODER,
    LINE_DECODER,
    SETTINGS,
    RecordingLine,
    SegmentHeader,
)


class _ClusterListMetadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] = {}


class _ClusterList(msgspec.Struct):
    items: list[Raw]
    metadata: _ClusterListMetadata = _ClusterListMetadata()


class _Type(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str


_CLUSTER_LIST_DECODER = msgspec.json.Decoder(_ClusterList)
_TYPE_DECODER = msgspec.json.Decoder(_Type)
_KINDS = {(kind_without_group(kind), of.api_version): kind for kind, of in KINDS.items()}


@dataclass(frozen=True, slots=True)
class RecordedSegment:
    """The files of one segment."""

    path: Path
    notes: list[str] = field(default_factory=list)
    """Warnings about the lines that have been read."""

    @property
    def size(self) -> int:
        """Size of the segment's lines in bytes."""
        try:
            return (self.path / CALLS).stat().st_size
        except OSError as error:
            raise _unreadable(self.path / CALLS, error) from error

    def header(self) -> SegmentHeader:
        """Return the settings and the version of the calls."""
        path = self.path / SETTINGS
        try:
            return HEADER_DECODER.decode(path.read_bytes())
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error

    def cluster(self) -> ClusterObjects | None:
        """Return the cluster at the start of the segment; None if the cluster cache was not ready."""
        path = self.path / CLUSTER
        try:
            return _objects(gzip.decompress(path.read_bytes())) if path.exists() else None
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise _unreadable(path, error) from error

    def lines(self) -> Iterator[tuple[int, int, RecordingLine]]:
        """Iterate over (line number from 1, bytes read so far, line)."""
        path, read = self.path / CALLS, 0
        try:
            with path.open("rb") as file:
                for number, text in enumerate(file, start=1):
                    read += len(text)
                    if not text.endswith(b"\n"):
                        self._note(f"{_display_path(path)}: line {number} is incomplete, skipping it")
                        return
                    yield number, read, _line(path, number, text)
        except OSError as error:
            raise _unreadable(path, error) from error

    def _note(self, warning: str) -> None:
        """Add a warning once, even if the segment is read more than once."""
        if warning not in self.notes:
            self.notes.append(warning)


def open_segments(path: Path) -> list[RecordedSegment]:
    """Open the segments of a recording, oldest first, or the segment at `path`; RecordingError if there is none."""
    try:
        if (path / SETTINGS).exists() or SEGMENT_NAME.fullmatch(path.name):
            return [RecordedSegment(path)]
        found = segments_in(path)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error
    if not found:
        raise RecordingError(f"{path}: not a recording: no directory with a {SETTINGS} in it")
    return [RecordedSegment(one) for one in found]


def decode_object(kind: str, raw: bytes | Raw) -> Value:
    """Decode an object of a kind of KINDS; ValueError if it does not match the kind."""
    one: Value = _decoder(kind).decode(raw)
    return one


def _line(path: Path, number: int, text: bytes) -> RecordingLine:
    try:
        line: RecordingLine = LINE_DECODER.decode(text)
        return line
    except ValueError as error:
        raise RecordingError(f"{_display_path(path)}: line {number}: {error}") from error


@cache
def _decoder(kind: str) -> "msgspec.json.Decoder[Any]":
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}")
    return msgspec.json.Decoder(KINDS[kind].type)


def _objects(data: bytes) -> ClusterObjects:
    listed = _CLUSTER_LIST_DECODER.decode(data)
    found: dict[str, list[Value]] = {of.field: [] for of in KINDS.values()}
    for item in listed.items:
        head = _TYPE_DECODER.decode(item)
        kind = _KINDS.get((head.kind, head.api_version))
        if kind is None:
            raise ValueError(f"unknown kind {head.kind!r} of {head.api_version!r}")
        found[KINDS[kind].field].append(decode_object(kind, item))
    unread = listed.metadata.annotations.get(UNREAD_ANNOTATION)
    return ClusterObjects(
        **{name: tuple(objects) for name, objects in found.items()},  # type: ignore[arg-type]
        unreadable_tables=tuple(unread.split(",")) if unread else (),
    )


def _unreadable(path: Path, error: Exception) -> RecordingError:
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return RecordingError(f"{_display_path(path)}: {message}")


def _display_path(path: Path) -> str:
    """Return `segment/file`."""
    return f"{path.parent.name}/{path.name}"
