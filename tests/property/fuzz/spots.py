"""Where the values of a JSON text stand, so that one can be cut out and another put in, byte by byte.

Rule: for right JSON only, as it was recorded; what is made of it may be anything.
"""

import re
from dataclasses import dataclass
from functools import cache

_SPACE = re.compile(rb"[ \t\r\n]*")
_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|[^\s,:\]}]+')


@dataclass(frozen=True, slots=True)
class Spot:
    """A value, from `start` to before `end`; that of a member begins at `key`, an element's or the whole at `start`."""

    start: int
    end: int
    key: int
    key_end: int
    """The end of the key with its quotes; `key` where there is none."""

    @property
    def is_member(self) -> bool:
        return self.key_end > self.key


@cache
def spots(text: bytes) -> tuple[Spot, ...]:
    """Every value of the text, the outermost last."""
    found: list[Spot] = []
    end = _value(text, _skip(text, 0), None, found)
    if _skip(text, end) != len(text):
        raise ValueError("more than one JSON value")
    return tuple(found)


def _value(text: bytes, start: int, key: tuple[int, int] | None, found: list[Spot]) -> int:
    """Adds the value that begins at `start`, after all that is in it -> its end."""
    opening = text[start : start + 1]
    if opening not in (b"{", b"["):
        scalar = _SCALAR.match(text, start)
        if scalar is None:
            raise ValueError(f"no JSON value at byte {start}")
        end = scalar.end()
    else:
        end = _skip(text, start + 1)
        while text[end : end + 1] not in (b"}", b"]"):
            name = None
            if opening == b"{":
                quoted = _SCALAR.match(text, end)
                if quoted is None:
                    raise ValueError(f"no key at byte {end}")
                name, end = quoted.span(), _skip(text, _skip(text, quoted.end()) + 1)
            end = _skip(text, _value(text, end, name, found))
            if text[end : end + 1] == b",":
                end = _skip(text, end + 1)
        end += 1
    found.append(Spot(start, end, *(key or (start, start))))
    return end


def _skip(text: bytes, start: int) -> int:
    space = _SPACE.match(text, start)
    return space.end() if space else start
