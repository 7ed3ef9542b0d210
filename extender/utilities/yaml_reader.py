"""Read YAML within limits on nesting, aliases, scalars and nodes: a file may be a mistake or an attack.

PyYAML recurses once per level, in C until the process crashes, and expands merge keys without a limit. Values are
therefore built from the parser's events, without recursion: for manifests (`read_documents`), and for a configuration,
together with the lines of its keys (`read_document`). The limits are far above what the API server accepts.

Rule: every error is a YAMLError; a LimitError means that a limit is exceeded, not that the file is not YAML.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from extender.utilities.text import shortened

MAX_DEPTH = 100  # Levels of nested mappings and sequences
MAX_SCALAR_BYTES = 3 << 20  # Size of one scalar or comment: the API server's limit for a whole request
MAX_REPEATED_NODES = 1_000_000  # Nodes that aliases expand to; a scalar counts once more per 64 characters
MAX_REPEATED_CONFIG_NODES = 10_000  # Nodes that the aliases of a configuration expand to
MAX_NODES = 10_000_000  # Nodes of a file of manifests, with aliases expanded
MAX_TAG_DIRECTIVES = 100  # `%TAG` lines: libyaml compares each with all others, and manifests need none
MAX_INTEGER_DIGITS = 4000  # Python converts at most 4,300 digits

_EventParser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_CONSTANTS: dict[str, Any] = (
    dict.fromkeys(("", "~", "null", "Null", "NULL"))
    | dict.fromkeys(("true", "True"), True)
    | dict.fromkeys(("false", "False"), False)
)
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_STANDARD_TAG = "tag:yaml.org,2002:"

Path = tuple[str | int, ...]  # Keys and indices that lead to a value


class YAMLError(ValueError):
    """The file is not YAML, or uses an unsupported part of it."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        self.problem = problem
        self.line = mark.line + 1 if mark else None
        super().__init__(f"{problem} at line {self.line}" if mark else problem)


class LimitError(YAMLError):
    """The file is YAML but exceeds a limit."""


def read_documents(data: bytes, max_repeated: int = MAX_REPEATED_NODES) -> Iterator[Any]:
    """Yield the value of each document; an alias yields the same object as its anchor, not a copy.

    Only null, true, false and decimal integers are resolved; every other plain scalar stays a string. Timestamps are
    strings in the API, `0.5` must stay exact for quantities, and YAML 1.1's `on`, `no` and `0x1` are neither booleans
    nor numbers in Kubernetes manifests.
    """
    builder = _Builder()
    for event in _checked_events(data, max_repeated):
        if builder.add(event):
            yield builder.root


def read_document(text: str, resolve: Callable[[str], Any]) -> tuple[Any, dict[Path, int]]:
    """Return the value of a single document, None if it is empty, and path -> line of its keys and items.

    `resolve`: plain scalar -> value. Keys are strings and must be unique, also those merged by `<<`. A trailing `---`
    does not begin another document.
    """
    builder, values, start = _ConfigBuilder(resolve), list[Any](), None
    for event in _checked_events(text.encode("utf-8", "surrogatepass"), MAX_REPEATED_CONFIG_NODES):
        if event.__class__ is yaml.DocumentStartEvent:
            start = event.start_mark
        if builder.add(event):
            if values and builder.root is not None:
                raise LimitError("contains more than one document", start)
            values.append(builder.root)
    return values[0] if values else None, builder.lines


# --- events ---------------------------------------------------------------------------------------------------------


class _Chunks:
    """The bytes of a file in chunks, between which other threads run: libyaml holds the GIL while it scans."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.since_event = 0  # Bytes read since the last event
        self.is_scalar_too_long = False

    def read(self, size: int) -> bytes:
        """Return the next bytes; none once a scalar is too long, which ends the scan."""
        self.is_scalar_too_long = self.is_scalar_too_long or self.since_event > MAX_SCALAR_BYTES
        if self.is_scalar_too_long:
            return b""
        part = self._data[self._position : self._position + size]
        self._position += len(part)
        self.since_event += len(part)
        return part


def _checked_events(data: bytes, max_repeated: int) -> Iterator[Any]:
    """Yield the parser's events; YAMLError as soon as a limit is exceeded."""
    if data.count(b"%TAG") > MAX_TAG_DIRECTIVES:
        raise LimitError(f"has more than {MAX_TAG_DIRECTIVES} %TAG directives")
    chunks, size = _Chunks(data), _ExpandedSize(max_repeated)
    mark = None
    try:
        for event in iter(_EventParser(chunks).get_event, None):
            if chunks.is_scalar_too_long:  # the event is truncated
                break
            chunks.since_event = 0
            mark = event.start_mark
            size.count(event)
            yield event
    except yaml.YAMLError as error:
        if not chunks.is_scalar_too_long:
            # A ReaderError, for bytes that are not text, has a reason instead of a problem, and no mark.
            problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
            raise YAMLError(problem, getattr(error, "problem_mark", None)) from None
    if chunks.is_scalar_too_long:
        raise LimitError(f"a scalar or comment is longer than {MAX_SCALAR_BYTES >> 20} MiB", mark)


class _ExpandedSize:
    """Counts nodes as if aliases were copies, because readers visit a shared value once per alias."""

    def __init__(self, max_repeated: int) -> None:
        self._max_repeated = max_repeated
        self._nodes = 0
        self._repeated = 0
        self._size_of: dict[str, int] = {}  # Anchor -> nodes, for collections that are complete
        self._open: list[tuple[str | None, int]] = []  # For each open collection: anchor, number of nodes before it

    def count(self, event: Any) -> None:
        kind = event.__class__
        if kind is yaml.ScalarEvent:
            size = 1 + (len(event.value) >> 6)
            self._nodes += size
            if event.anchor is not None:
                self._size_of[event.anchor] = size
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._open_collection(event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            anchor, before = self._open.pop()
            if anchor is not None:
                self._size_of[anchor] = self._nodes - before
        elif kind is yaml.AliasEvent:
            self._repeat(event)
        elif kind is yaml.DocumentStartEvent:
            self._size_of.clear()

    def _open_collection(self, event: Any) -> None:
        self._open.append((event.anchor, self._nodes))
        self._size_of.pop(event.anchor, None)
        self._nodes += 1
        if len(self._open) > MAX_DEPTH:
            raise LimitError(f"is nested deeper than {MAX_DEPTH} levels", event.start_mark)
        if self._nodes > MAX_NODES:
            raise LimitError(f"has more than {MAX_NODES:,} values", event.start_mark)

    def _repeat(self, event: Any) -> None:
        size = self._size_of.get(event.anchor)
        if size is None:
            is_recursive = any(anchor == event.anchor for anchor, _ in self._open)
            problem = "found unconstructable recursive node" if is_recursive else "found undefined alias"
            raise YAMLError(problem, event.start_mark)
        self._nodes += size
        self._repeated += size
        if self._repeated > self._max_repeated:
            raise LimitError(f"its aliases expand to more than {self._max_repeated:,} values", event.start_mark)


# --- values ---------------------------------------------------------------------------------------------------------

_NO_KEY: Any = object()
_MERGE_KEY: Any = object()


class _Builder:
    """Builds the values of documents from events, without recursion, so that nesting cannot exhaust the stack."""

    def __init__(self) -> None:
        self.root: Any = None  # Value of the last complete document
        self._collection: Any = None  # The innermost open list or dict
        self._key: Any = _NO_KEY  # Key in an open dict whose value comes next
        self._merged: list[dict[Any, Any]] = []  # Mappings merged into the open dict by `<<`; the last takes precedence
        self._outer: list[tuple[Any, Any, list[dict[Any, Any]], str | None]] = []
        self._anchors: dict[str, Any] = {}
        self._keys: dict[str, str] = {}  # Interned keys: a file repeats them for every object

    def add(self, event: Any) -> bool:
        """Add one event; return whether a document has ended."""
        kind = event.__class__
        if kind is yaml.ScalarEvent:
            self._put(self._scalar(event), event.anchor, event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._open(event, is_mapping=kind is yaml.MappingStartEvent)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            value = self._collection
            if self._merged:  # the dict's own keys take precedence
                value = {key: inner for one in (*self._merged, value) for key, inner in one.items()}
            self._collection, self._key, self._merged, anchor = self._outer.pop()
            self._put(value, anchor, event)
        elif kind is yaml.AliasEvent:
            self._put(self._anchors[event.anchor], None, event)
        elif kind is yaml.DocumentStartEvent:
            self._anchors.clear()
        return kind is yaml.DocumentEndEvent

    def _open(self, event: Any, *, is_mapping: bool) -> None:
        if event.tag not in (None, "!", f"{_STANDARD_TAG}{'map' if is_mapping else 'seq'}"):
            raise YAMLError(f"unsupported tag {shortened(event.tag, 60)!r}", event.start_mark)
        self._outer.append((self._collection, self._key, self._merged, event.anchor))
        self._collection, self._key, self._merged = {} if is_mapping else [], _NO_KEY, []

    def _put(self, value: Any, anchor: str | None, event: Any) -> None:
        if anchor is not None:
            self._anchors[anchor] = "<<" if value is _MERGE_KEY else value
        if self._collection.__class__ is list:
            self._collection.append(value)
        elif self._collection is None:
            self.root = value
        elif self._key is _NO_KEY:
            self._add_key(value, event)
        elif self._key is _MERGE_KEY:
            self._merge(value, event)
            self._key = _NO_KEY
        else:
            self._collection[self._key] = value
            self._key = _NO_KEY

    def _add_key(self, key: Any, event: Any) -> None:
        if key.__class__ is str:
            key = self._keys.setdefault(key, key)
        elif isinstance(key, list | dict):
            raise YAMLError("a key must be a string", event.start_mark)
        self._key = key

    def _merge(self, value: Any, event: Any) -> None:
        found = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in found):
            raise YAMLError("<< must name a mapping, or a list of mappings", event.start_mark)
        self._merged += reversed(found)

    def _scalar(self, event: Any) -> Any:
        if event.tag not in (None, "!"):
            return _tagged_scalar(event)
        if not event.implicit[0]:
            return event.value
        return _MERGE_KEY if event.value == "<<" and self._is_key() else self._plain_scalar(event.value, event)

    def _is_key(self) -> bool:
        return self._key is _NO_KEY and self._collection.__class__ is dict

    def _plain_scalar(self, text: str, event: Any) -> Any:
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text[0] not in "-+0123456789" or not _INTEGER.fullmatch(text):
            return text
        if len(text) > MAX_INTEGER_DIGITS:
            raise LimitError(f"an integer has more than {MAX_INTEGER_DIGITS} digits", event.start_mark)
        return int(text)


class _ConfigBuilder(_Builder):
    """Builds the value of a configuration and records lines; duplicate keys are errors."""

    def __init__(self, resolve: Callable[[str], Any]) -> None:
        super().__init__()
        self._resolve = resolve
        self.lines: dict[Path, int] = {}

    def _open(self, event: Any, *, is_mapping: bool) -> None:
        self._note_item(event)
        super()._open(event, is_mapping=is_mapping)

    def _put(self, value: Any, anchor: str | None, event: Any) -> None:
        if event.__class__ in (yaml.ScalarEvent, yaml.AliasEvent):
            self._note_item(event)
        super()._put(value, anchor, event)

    def _note_item(self, event: Any) -> None:
        if self._collection.__class__ is list:
            self._note(len(self._collection), event)

    def _note(self, key: str | int, event: Any) -> None:
        outer = (len(inner) if isinstance(inner, list) else at for inner, at, *_ in self._outer if inner is not None)
        self.lines[*outer, key] = event.start_mark.line + 1

    def _add_key(self, key: Any, event: Any) -> None:
        super()._add_key(key, event)
        if key in self._collection:
            raise YAMLError(f"duplicate key {shortened(key, 60)!r}", event.start_mark)
        self._note(key, event)

    def _merge(self, value: Any, event: Any) -> None:
        super()._merge(value, event)
        for merged in self._merged:
            for key, inner in merged.items():
                self._add_key(key, event)
                self._collection[key] = inner
        self._merged = []

    def _scalar(self, event: Any) -> Any:
        # Tags are ignored: the schema decides the type, and error messages show the text of the file.
        if event.style in ("'", '"', "|", ">"):
            return event.value
        return _MERGE_KEY if event.value == "<<" and self._is_key() else self._plain_scalar(event.value, event)

    def _plain_scalar(self, text: str, event: Any) -> Any:
        return text if self._is_key() else self._resolve(text)


def _tagged_scalar(event: Any) -> Any:
    if event.tag == f"{_STANDARD_TAG}str":
        return event.value
    if event.tag in (f"{_STANDARD_TAG}{name}" for name in ("null", "bool", "int", "float", "binary", "timestamp")):
        node = yaml.ScalarNode(event.tag, event.value, event.start_mark, event.end_mark)
        # All the exceptions that PyYAML raises for an invalid value.
        with contextlib.suppress(ValueError, KeyError, IndexError, AttributeError, yaml.YAMLError):
            return SafeConstructor().construct_object(node)
    raise YAMLError(f"unsupported tag {shortened(event.tag, 60)!r}", event.start_mark)
