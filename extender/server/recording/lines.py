"""What the files of a segment hold.

    20261121T101500.000000Z/
      settings.json     Head: by which settings it was decided, by which version
      cluster.json.gz   the picture at the start of the segment, a file as --cluster reads it; none where there was none
      calls.jsonl       a line per change of the picture and per call, in their order

Rule: these types are the format; what is written is read back equal.
"""

import re
from typing import Any, Literal

import msgspec
from msgspec import Raw

from extender.core.eviction_history import EvictionHistory
from extender.core.explain.schema import Verb
from extender.k8s.time import format_time, parse_time
from extender.server.settings import Settings

FORMAT: Literal["extender/recording/v1"] = "extender/recording/v1"

SETTINGS = "settings.json"
CLUSTER = "cluster.json.gz"
CALLS = "calls.jsonl"

_SEGMENT_NAME = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d\.\d{6})Z", re.ASCII)


class Head(msgspec.Struct, frozen=True):
    """By what all calls of a segment were decided."""

    format: Literal["extender/recording/v1"]
    version: str
    """Of the extender."""
    settings: Settings


class PutLine(msgspec.Struct, frozen=True, tag_field="type", tag="put"):
    """An object came or changed."""

    kind: str
    """A key of KINDS."""
    object: Raw


class GoneLine(msgspec.Struct, frozen=True, tag_field="type", tag="gone"):
    """An object went."""

    kind: str
    namespace: str
    name: str


class UnreadLine(msgspec.Struct, frozen=True, tag_field="type", tag="unread"):
    """What may not be read is something else now."""

    fields: tuple[str, ...]
    """Of ObjectTables."""


class CallLine(msgspec.Struct, frozen=True, tag_field="type", tag="call", omit_defaults=True):
    """A call, and what it was answered."""

    id: str
    time: str
    verb: Verb
    status: int
    moment: EvictionHistory
    request: Raw
    answer: Raw
    problem: str | None = None
    """Why nothing was decided on the picture."""


Line = PutLine | GoneLine | UnreadLine | CallLine

LINE = msgspec.json.Decoder(Line)
HEAD = msgspec.json.Decoder(Head)


def encode(value: Any) -> bytes:
    """One line of JSON; sets in alphabetical order."""
    return msgspec.json.encode(value, order="deterministic") + b"\n"


def name_of_segment(now: int) -> str:
    """Nanoseconds since 1970 -> the name of a segment's directory, 20261121T101500.000000Z: names sort by time."""
    return format_time(now, 6).replace("-", "").replace(":", "")


def time_of_segment(name: str) -> int:
    """Nanoseconds since 1970; ValueError if the name is not one that `name_of_segment` gives."""
    time = _SEGMENT_NAME.fullmatch(name)
    if time is None:
        raise ValueError(f"expected the name of a segment such as 20261121T101500.000000Z, got {name!r}")
    return parse_time("{}-{}-{}T{}:{}:{}Z".format(*time.groups()))
