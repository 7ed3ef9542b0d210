"""Strings (ext/strings.go, version 2, cel-go v0.26).

Rule: a result is at most as large as its arguments, or its size is spent from the budget before it is made.
"""

from collections.abc import Callable
from typing import Any

from extender.k8s.cel.values import CelError, Run, written
from extender.k8s.quantity import SPACE

_ESCAPES = {ord(one): f"\\{letter}" for one, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def quoted(text: str) -> str:
    """Return a text as Go's %q quotes it."""
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(character: str) -> str:
    code = ord(character)
    if code in _ESCAPES:
        return _ESCAPES[code]
    if character.isprintable():
        return character
    return f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def _within(text: str, index: int) -> int:
    """Return the index if it is within the text or at its end; raises CelError."""
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return index


def _check_offset(run: Run, text: str, part: str, offset: int) -> int | None:
    """Return the index of an empty part; None for any other part. Raises CelError."""
    if offset < 0 and (part or run.of_1_37):
        raise CelError(f"index out of range: {offset}")
    if part:
        return None
    return min(offset, len(text)) if run.of_1_37 else offset


def _index_of(run: Run, text: str, part: str, offset: int = 0) -> int:
    found = _check_offset(run, text, part, offset)
    if found is not None:
        return found
    run.work(len(text) // 16)
    return text.find(part, offset)


def _last_index_of(run: Run, text: str, part: str, offset: int | None = None) -> int:
    found = _check_offset(run, text, part, len(text) if offset is None else offset)
    if found is not None:
        return found
    run.work(len(text) // 16)
    if offset is None:
        return text.rfind(part)
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _replace(run: Run, text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old)
    if count >= 0:
        found = min(found, count)
    run.work((len(text) + found * max(len(new) - len(old), 0)) // 16)
    return text.replace(old, new, count)


def _split(run: Run, text: str, separator: str, count: int = -1) -> list[str]:
    run.work(len(text) // 4)
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if 0 < count < len(text):
        return [*text[: count - 1], text[count - 1 :]]
    return list(text)


def _substring(run: Run, text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = max(start, len(text))
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    start, end = _within(text, start), _within(text, end)
    run.work((end - start) // 16)
    return text[start:end]


def _join(run: Run, parts: list[Any], separator: str = "") -> str:
    for each in parts:
        if type(each) is not str:
            raise CelError(f"join: invalid input: {written(each)}")
    run.work((sum(map(len, parts)) + len(separator) * len(parts)) // 16 + len(parts))
    return separator.join(parts)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "charAt: string.(int) -> string": lambda _run, text, index: text[_within(text, index) :][:1],
    "indexOf: string.(string) -> int; string.(string, int) -> int": _index_of,
    "lastIndexOf: string.(string) -> int; string.(string, int) -> int": _last_index_of,
    "lowerAscii: string.() -> string": lambda _run, text: text.translate(_LOWER),
    "upperAscii: string.() -> string": lambda _run, text: text.translate(_UPPER),
    "replace: string.(string, string) -> string; string.(string, string, int) -> string": _replace,
    "split: string.(string) -> list<string>; string.(string, int) -> list<string>": _split,
    "substring: string.(int) -> string; string.(int, int) -> string": _substring,
    "trim: string.() -> string": lambda _run, text: text.strip(SPACE),
    "strings.quote: (string) -> string": lambda _run, text: f'"{text.translate(_ESCAPES)}"',
    "join: list<string>.() -> string; list<string>.(string) -> string": _join,
}
