"""Read YAML as kubectl does, within limits on nesting, aliases, scalars and nodes: files may be mistakes or attacks.

PyYAML recurses once per level, in C until the process crashes, and expands merge keys without a limit. Values are
therefore built from the parser's events, without recursion: for manifests (`read_documents`), and for a configuration,
together with the lines of its keys (`read_document`). The limits are far above what the API server accepts.

Scalars, keys, tags and merge keys of manifests are those of sigs.k8s.io/yaml v1.6.0 (go.yaml.in/yaml/v2 v2.4.4), by
which kubectl, the API server and kube-scheduler turn YAML into JSON: YAML 1.1 with 010 = 8 and `on` = true, but times
and 1:30 are text. Divergences, all on what kubectl refuses or drops in silence:

- What follows a document without `---` (after `...`, or less indented) is an error; kubectl drops it.
- Directives, a document on the line of its `---`, an escaped slash, an empty key, keys of 2^63 or more, `!!int 1.0` and
  a !!timestamp that is none are read; kubectl refuses them.
- A plain y or n is text in an object that `is_stored`: PyYAML writes names like these without quotation marks.
- Keys .inf and .nan are errors, as such values are; kubectl takes them.

Rule: every error is a YAMLError; a LimitError means that a limit is exceeded, not that the file is not YAML.
"""

import base64
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import yaml

from extender.utilities.text import shortened

MAX_DEPTH = 100  # Levels of nested mappings and sequences
MAX_SCALAR_BYTES = 3 << 20  # Size of one scalar or comment: the API server's limit for a whole request
MAX_REPEATED_NODES = 1_000_000  # Nodes that aliases expand to; a scalar counts once more per 64 characters
MAX_REPEATED_CONFIG_NODES = 10_000  # Nodes that the aliases of a configuration expand to
MAX_NODES = 10_000_000  # Nodes of a file of manifests, with aliases expanded
MAX_TAG_DIRECTIVES = 100  # `%TAG` lines: libyaml compares each with all others, and manifests need none

_EventParser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_CONSTANTS: dict[str, Any] = {"": None, "~": None} | {
    spelling: value
    for value, words in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off")), (None, ("null",)))
    for word in words
    for spelling in (word, word.capitalize(), word.upper())
}
_SIGNS_AND_DIGITS = frozenset("+-.0123456789")
# Go's strconv.ParseInt with base 0, then the floats that goyaml accepts. Both fit a number of 64 bits or are given up.
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_INTEGER_CHARACTERS = 70  # Sign, prefix and 64 binary digits, with some zeros before them
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


def read_documents(
    data: bytes, max_repeated: int = MAX_REPEATED_NODES, is_stored: Callable[[dict[str, Any]], bool] = lambda _: False
) -> Iterator[Any]:
    """Yield the value of each document; an alias yields the same object as its anchor, not a copy.

    `is_stored`: whether a mapping, with all that is in it, was written from what an API server stores.
    """
    builder = _Builder()
    # The last line is complete for kubectl, which matters to a block scalar at the end.
    for event in _checked_events(data if data.endswith(b"\n") else data + b"\n", max_repeated):
        if builder.add(event):
            yield _resolved(builder.root, is_stored, as_text=False) if builder.has_y_or_n else builder.root


class _YOrN(str):
    """A plain y or n, before it is known whether it is a boolean."""


def _resolved(value: Any, is_stored: Callable[[dict[str, Any]], bool], *, as_text: bool) -> Any:
    if isinstance(value, _YOrN):
        return str(value) if as_text else _CONSTANTS[value]
    if isinstance(value, list):
        return [_resolved(one, is_stored, as_text=as_text) for one in value]
    if isinstance(value, dict):
        as_text = as_text or is_stored(value)
        return {key: _resolved(one, is_stored, as_text=as_text) for key, one in value.items()}
    return value


def kubernetes_scalar(text: str) -> Any:
    """Return the value of a plain scalar (resolve of goyaml, then encoding/json): null, boolean, number or text.

    A float that is a whole number below 1e21 is an int, as it is written in JSON.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _SIGNS_AND_DIGITS:
        return text
    # After a point, Go takes an underscore between digits only.
    plain = re.sub(r"(?<=[0-9])_(?=[0-9])", "", text) if text[0] == "." else text.replace("_", "")
    if len(plain) <= _MAX_INTEGER_CHARACTERS and (found := _INTEGER.fullmatch(plain)):
        sign, *digits = found.groups()
        base, magnitude = next((base, one) for base, one in zip((16, 2, 8, 10), digits, strict=True) if one)
        value = int(sign + magnitude, base)
        if -(2**63) <= value < 2**63 or (value < 2**64 and not sign):
            return value
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if math.isinf(number):  # Go's ParseFloat fails, and the text stays
            return text
        return int(Decimal(repr(number))) if number.is_integer() and abs(number) < 1e21 else number
    return float(text.replace(".", "")) if _NOT_FINITE.fullmatch(text) else text


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


def read_first_document(text: str, resolve: Callable[[str], Any]) -> tuple[Any, dict[Path, int], int | None]:
    """Return the first document as `read_document` does, and the line of the next one that is not empty, or None.

    What follows the first document need not be YAML: most readers in Go stop there (yaml.Unmarshal).
    """
    builder, next_line = _ConfigBuilder(resolve), None
    events = _checked_events(text.encode("utf-8", "surrogatepass"), MAX_REPEATED_CONFIG_NODES)
    for event in events:
        if builder.add(event):
            break
    try:
        for event in events:
            if event.__class__ is yaml.DocumentStartEvent:
                next_line = YAMLError("", event.start_mark).line
            elif event.__class__ is yaml.DocumentEndEvent:
                next_line = None
            elif event.__class__ is not yaml.ScalarEvent or event.value:
                break
    except YAMLError as error:
        next_line = next_line or error.line
    return builder.root, builder.lines, next_line


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
_KEY_OF_BOOLEAN = {True: "true", False: "false"}


class _Builder:
    """Builds the values of documents from events, without recursion, so that nesting cannot exhaust the stack."""

    def __init__(self) -> None:
        self.root: Any = None  # Value of the last complete document
        self.has_y_or_n = False  # Whether any document so far has a plain y or n
        self._collection: Any = None  # The innermost open list or dict
        self._key: Any = _NO_KEY  # Key in an open dict whose value comes next
        self._outer: list[tuple[Any, Any, str | None]] = []
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
            self._collection, self._key, anchor = self._outer.pop()
            self._put(value, anchor, event)
        elif kind is yaml.AliasEvent:
            self._put(self._anchors[event.anchor], None, event)
        elif kind is yaml.DocumentStartEvent:
            self._anchors.clear()
        return kind is yaml.DocumentEndEvent

    def _open(self, event: Any, *, is_mapping: bool) -> None:
        self._outer.append((self._collection, self._key, event.anchor))
        self._collection, self._key = {} if is_mapping else [], _NO_KEY

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
        if key is _MERGE_KEY:
            self._key = key
            return
        if key.__class__ is not str:
            if key is None or isinstance(key, list | dict):
                raise YAMLError("a key must be a string", event.start_mark)
            key = _KEY_OF_BOOLEAN[key] if isinstance(key, bool) else f"{key:g}" if isinstance(key, float) else str(key)
        self._key = self._keys.setdefault(key, key)

    def _merge(self, value: Any, event: Any) -> None:
        # Unlike the language says, a merge replaces keys that were written before it in the mapping.
        for one in self._mappings(value, event):
            self._collection.update(one)

    def _mappings(self, value: Any, event: Any) -> list[dict[Any, Any]]:
        """Return the mappings to merge; the last takes precedence."""
        found = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in found):
            raise YAMLError("<< must name a mapping, or a list of mappings", event.start_mark)
        return found[::-1]

    def _scalar(self, event: Any) -> Any:
        is_plain = event.tag is None and event.implicit[0]
        if self._is_key() and (event.tag == f"{_STANDARD_TAG}merge" or (is_plain and event.value == "<<")):
            return _MERGE_KEY
        if event.tag is not None:
            return _tagged_scalar(event)
        return self._plain_scalar(event.value, event) if is_plain else event.value

    def _is_key(self) -> bool:
        return self._key is _NO_KEY and self._collection.__class__ is dict

    def _plain_scalar(self, text: str, event: Any) -> Any:
        if text in ("y", "Y", "n", "N") and not self._is_key():
            self.has_y_or_n = True
            return _YOrN(text)
        value = kubernetes_scalar(text)
        if value.__class__ is float and not math.isfinite(value):
            raise YAMLError(f"{text} is not a number in JSON", event.start_mark)
        return value


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
        outer = (len(inner) if isinstance(inner, list) else at for inner, at, _ in self._outer if inner is not None)
        self.lines[*outer, key] = event.start_mark.line + 1

    def _add_key(self, key: Any, event: Any) -> None:
        super()._add_key(key, event)
        if key in self._collection:
            raise YAMLError(f"duplicate key {shortened(key, 60)!r}", event.start_mark)
        self._note(key, event)

    def _merge(self, value: Any, event: Any) -> None:
        for merged in self._mappings(value, event):
            for key, inner in merged.items():
                self._add_key(key, event)
                self._collection[key] = inner

    def _scalar(self, event: Any) -> Any:
        # Tags are ignored: the schema decides the type, and error messages show the text of the file.
        if event.style in ("'", '"', "|", ">"):
            return event.value
        return _MERGE_KEY if event.value == "<<" and self._is_key() else self._plain_scalar(event.value, event)

    def _plain_scalar(self, text: str, event: Any) -> Any:
        return text if self._is_key() else self._resolve(text)


_TYPES_OF_TAG = {"null": (type(None),), "bool": (bool,), "int": (int,), "float": (int, float), "timestamp": (str,)}


def _tagged_scalar(event: Any) -> Any:
    """Return the value of a scalar with a tag; a tag that YAML does not define makes it text."""
    tag = event.tag.removeprefix(_STANDARD_TAG)
    value = event.value if tag not in _TYPES_OF_TAG else kubernetes_scalar(event.value)
    try:
        if tag == "binary":
            return base64.b64decode(value.replace("\n", ""), validate=True).decode(errors="replace")
    except ValueError:
        raise YAMLError("!!binary without base64 data", event.start_mark) from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if tag in _TYPES_OF_TAG and (type(value) not in _TYPES_OF_TAG[tag] or (is_number and not math.isfinite(value))):
        raise YAMLError(f"{shortened(event.value, 60)!r} is not a !!{tag}", event.start_mark)
    return value
