"""Read segments: settings, cluster and lines.

The cluster is not validated like a cluster file: a recording shows what the cluster cache held, valid or not.

Rule: an incomplete last line is skipped with a warning; any other problem is a RecordingError that names the file and
the line. Only regular files are read, up to a size limit.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from extender.cluster.files.manifests import UNREAD_ANNOTATION
from extender.errors import RecordingError
from extender.k8s.kinds import KINDS, ClusterObjects, kind_without_group
from extender.k8s.objects import Object
from extender.server.recording.disk import SEGMENT_NAME, segments_in
from extender.server.recording.lines import (
    CALLS,
    CLUSTER,
    FORMAT,
    FORMAT_DECODER,
    HEADER_DECODER,
    LINE_DECODER,
    SETTINGS,
    RecordingLine,
    SegmentHeader,
)
from extender.utilities.regular_file import gunzip, open_regular_file, read_regular_file, size_text

MAX_SETTINGS_BYTES = 16 << 20
"""Maximum size of settings.json."""

MAX_CLUSTER_BYTES = 1 << 30
"""Maximum size of the cluster, compressed and decompressed; 100,000 pods take a tenth of it."""

MAX_LINE_BYTES = 384 << 20
"""Maximum size of one line: a call with a request and an answer of `server.maxBodyBytes` (128 MiB) each."""

_TOO_DEEP = "nested too deeply"


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
    """A segment that was opened for reading."""

    path: Path
    notes: list[str] = field(default_factory=list)
    """Warnings about the lines read so far."""

    @property
    def size(self) -> int:
        """Size of the segment's lines in bytes."""
        with _reading(self.path / CALLS) as path, open_regular_file(path) as file:
            return os.fstat(file.fileno()).st_size

    def header(self) -> SegmentHeader:
        with _reading(self.path / SETTINGS) as path:
            content = read_regular_file(path, MAX_SETTINGS_BYTES)
            written = FORMAT_DECODER.decode(content).format
            if written != FORMAT:
                raise ValueError(f"its format is {written!r}: this version reads {FORMAT!r} only, record again")
            return HEADER_DECODER.decode(content)

    def cluster(self) -> ClusterObjects | None:
        """Return the cluster at the start of the segment; None if the cluster cache was not ready."""
        with _reading(self.path / CLUSTER) as path:
            if not path.exists():
                return None
            return _decode_cluster(gunzip(read_regular_file(path, MAX_CLUSTER_BYTES), MAX_CLUSTER_BYTES))

    def lines(self) -> Iterator[tuple[int, int, RecordingLine]]:
        """Iterate over (line number from 1, bytes read so far, line)."""
        read = 0
        with _reading(self.path / CALLS) as path, open_regular_file(path) as file:
            for number, text in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1):
                read += len(text)
                if len(text) > MAX_LINE_BYTES:
                    raise ValueError(f"line {number}: is larger than {size_text(MAX_LINE_BYTES)}")
                if not text.endswith(b"\n"):
                    note = f"{path.parent.name}/{path.name}: line {number} is incomplete, skipping it"
                    if note not in self.notes:  # a segment may be read more than once
                        self.notes.append(note)
                    return
                try:
                    line = LINE_DECODER.decode(text)
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"line {number}: {_reason(error)}") from error
                yield number, read, line


@contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """Turn errors of reading a file into a RecordingError that names it."""
    try:
        yield path
    except (OSError, ValueError, RecursionError) as error:
        raise RecordingError(f"{path.parent.name}/{path.name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return _TOO_DEEP if isinstance(error, RecursionError) else str(error)


def open_segments(path: Path) -> list[RecordedSegment]:
    """Open the segments of a recording, oldest first, or the one at `path`; RecordingError if there is none."""
    try:
        is_segment = (path / SETTINGS).exists() or SEGMENT_NAME.fullmatch(path.name)
        found = [path] if is_segment else segments_in(path)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error
    if not found:
        raise RecordingError(f"{path}: not a recording: no directory with a {SETTINGS} in it")
    return [RecordedSegment(one) for one in found]


def decode_object(kind: str, raw: Raw) -> Object:
    """Decode an object of one of KINDS; ValueError if it does not match the kind."""
    try:
        one: Object = _decoder(kind).decode(raw)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    return one


@cache
def _decoder(kind: str) -> "msgspec.json.Decoder[Any]":
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}")
    return msgspec.json.Decoder(KINDS[kind].type)


def _decode_cluster(data: bytes) -> ClusterObjects:
    listed = _CLUSTER_LIST_DECODER.decode(data)
    found: dict[str, list[Object]] = {of.field: [] for of in KINDS.values()}
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
