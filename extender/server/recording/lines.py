"""The file format of a segment of a recording.

    20261121T101500.000000Z/
      settings.json     SegmentHeader: settings and version of the extender
      cluster.json.gz   the cluster at the start of the segment, for --cluster; missing if the cache was not ready
      calls.jsonl       one line per object change and per call, in order

Rule: these types are the format; decoding a written line yields an equal value.
"""

from typing import Any, Literal

import msgspec
from msgspec import Raw

from extender.core.eviction_history import EvictionHistory
from extender.report.schema import VerbName
from extender.server.settings import Settings

FORMAT: Literal["extender/recording/v3"] = "extender/recording/v3"

SETTINGS = "settings.json"
CLUSTER = "cluster.json.gz"
CALLS = "calls.jsonl"


class SegmentHeader(msgspec.Struct, frozen=True):
    """Settings and version of all calls of a segment."""

    format: Literal["extender/recording/v3"]
    version: str
    """Version of the extender."""
    settings: Settings
    """Settings, with kube-scheduler's version and its profiles as they took effect."""


class SegmentFormat(msgspec.Struct, frozen=True):
    """The one key of the header that every version of the format has."""

    format: str


class PutLine(msgspec.Struct, frozen=True, tag_field="type", tag="put"):
    """Addition or update of an object."""

    kind: str
    """A key of KINDS."""
    object: Raw


class DeleteLine(msgspec.Struct, frozen=True, tag_field="type", tag="delete"):
    """Deletion of an object."""

    kind: str
    namespace: str
    name: str


class UnreadableLine(msgspec.Struct, frozen=True, tag_field="type", tag="unreadable"):
    """Change of the kinds that the extender may not read."""

    fields: tuple[str, ...]
    """Fields of ObjectTables that are unreadable from now on."""


class CallLine(msgspec.Struct, frozen=True, tag_field="type", tag="call", omit_defaults=True):
    """A call and its answer, redacted when the line is written."""

    id: str
    time: str
    """Time of the call, such as 2026-11-21T10:15:00.123456Z."""
    verb: VerbName
    status: int
    history: EvictionHistory
    request: Raw
    answer: Raw
    problem: str | None = None
    """Reason why the cluster cache was not ready for the decision."""


ChangeLine = PutLine | DeleteLine | UnreadableLine
RecordingLine = ChangeLine | CallLine

LINE_DECODER = msgspec.json.Decoder(RecordingLine)
FORMAT_DECODER = msgspec.json.Decoder(SegmentFormat)
HEADER_DECODER = msgspec.json.Decoder(SegmentHeader)


def encode_line(value: Any) -> bytes:
    """Encode one line of JSON, with sets in alphabetical order."""
    return msgspec.json.encode(value, order="deterministic") + b"\n"
