"""Parse resource quantities such as "1500m", "1.5Gi" and "2e3" (resource.ParseQuantity, apimachinery v1.36).

An amount is an int in nano-units (10^-9), the finest that Kubernetes keeps, so sums and comparisons are exact and only
the last step, `value` or `milli_value`, rounds.

Divergences, all outside what an int64 holds or what an API server accepts:

- Every amount is capped at +-(2^63 - 1) units. Upstream documents the cap, but up to v1.37 applies it to binary
  suffixes only; a larger decimal amount ("10E") has a Value() of 0 or wraps around, depending on the parser's path.
- An exponent beyond int32 is a very large or very small number ("1e4294967296" is the cap); upstream wraps it to 1.
- A text of more than 1,000 characters is rejected.
- A negative amount with a fraction is always rounded away from zero, as Value() documents; up to v1.37 upstream rounds
  some spellings (more than 18 digits, a fraction with a binary suffix) towards zero or past it.

Rule: the only parser of quantities.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from extender.k8s.limits.limits import MAX_QUANTITY_CHARACTERS, TOO_LONG_QUANTITY

if TYPE_CHECKING:  # commands that ask a service start without the objects of Kubernetes
    from extender.k8s.objects import QuantityText

NANO: Final = 10**9
"""Nano-units in one unit (one core, one byte, one device)."""

MAX_INT64: Final = 2**63 - 1
MAX_NANO: Final = MAX_INT64 * NANO
"""The largest amount that `parse` returns."""

# Maximum length of cached texts; an API server writes at most 20 digits and a suffix.
_MAX_CACHED_CHARACTERS = 32
_MAX_ECHOED_CHARACTERS = 80

# Go's unicode.IsSpace, which strings.TrimSpace removes; str.strip() would also remove \x1c to \x1f.
SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

SHAPE: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
"""Sign, whole digits, digits of the fraction, and suffix or exponent of a quantity."""
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")

DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
"""Suffix -> power of ten."""
BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
"""Suffix -> power of two."""
# Suffixes that upstream parses digit by digit (inf.Dec), where text without digits is an error.
_SLOW_PATH_SUFFIXES = ("Pi", "Ei")


class QuantityError(ValueError):
    """Raised for an invalid quantity; the message has the truncated value, the reason and, if known, the resource."""

    def __init__(self, text: object, reason: str, of: str = "") -> None:
        what = f"a quantity of {truncated(of)}" if of else "a quantity"
        super().__init__(f"{truncated(repr(text))} is not {what}: {reason}")
        self.reason = reason


def truncated(text: str) -> str:
    """Return at most 80 characters of a client's text, for an error message."""
    return text if len(text) <= _MAX_ECHOED_CHARACTERS else text[:_MAX_ECHOED_CHARACTERS] + "…"


def parse(text: "QuantityText") -> int:
    """Return the amount in nano-units, finer amounts rounded away from zero, between -MAX_NANO and MAX_NANO.

    JSON and YAML numbers are parsed in their shortest spelling; null is 0. Raises QuantityError. Mirrors
    resource.ParseQuantity and Quantity.UnmarshalJSON (apimachinery, v1.36), except for the divergences above.
    """
    if isinstance(text, str):
        return _parse_cached(text) if len(text) <= _MAX_CACHED_CHARACTERS else _parse_text(text)
    if text is None:
        return 0
    if isinstance(text, bool):  # a bool is an int in Python
        raise QuantityError(text, "a boolean is not a number")
    if isinstance(text, int):
        return max(-MAX_NANO, min(text * NANO, MAX_NANO))
    return _parse_text(repr(text))


def value(nano: int) -> int:
    """Return whole units (bytes, devices, pods), rounded away from zero: -1.5 is -2 (Quantity.Value, v1.36)."""
    return _rounded(nano, NANO)


def milli_value(nano: int) -> int:
    """Return thousandths (millicores), rounded as in `value`.

    Mirrors Quantity.MilliValue (v1.36), but an overflow is the largest int64 instead of 0 or a wrapped number.
    """
    return _rounded(nano, 10**6)


def _parse_text(text: str) -> int:
    if len(text) > MAX_QUANTITY_CHARACTERS:
        raise QuantityError(text[:_MAX_ECHOED_CHARACTERS], f"it has {len(text)} characters, {TOO_LONG_QUANTITY}")
    trimmed = text.strip(SPACE)
    if not trimmed:
        raise QuantityError(text, "it is empty")
    shape = SHAPE.fullmatch(trimmed)
    if shape is None:
        raise QuantityError(text, "it must be a number with at most one suffix, such as 2, 500m, 1.5Gi or 1e3")
    sign, whole, fraction, suffix = shape.groups(default="")
    # The sign comes last: Go rounds the magnitude up, so that negative amounts are rounded away from zero, too.
    amount = min(_magnitude(text, whole, fraction, suffix), MAX_NANO)
    return -amount if sign == "-" else amount


_parse_cached = lru_cache(maxsize=16384)(_parse_text)


def _magnitude(text: str, whole: str, fraction: str, suffix: str) -> int:
    """Return `whole.fraction` times the suffix, in nano-units, rounded up."""
    digits = (whole + fraction).lstrip("0")
    places = len(fraction)
    exponent = _decimal_exponent(text, suffix)
    # A bare sign, point or suffix ("-", ".", "Ki", "m") is 0, except on upstream's slow path.
    if not whole and not fraction and (suffix in _SLOW_PATH_SUFFIXES or exponent < -9):
        raise QuantityError(text, "it has no digits")
    if not digits:
        return 0
    if suffix in BINARY_SUFFIXES:
        return _ceil_div(int(digits) * NANO << BINARY_SUFFIXES[suffix], 10**places)
    return _shifted(digits, exponent - places + 9)


def _decimal_exponent(text: str, suffix: str) -> int:
    """Return the power of ten of a suffix; 0 for a binary suffix."""
    if suffix in BINARY_SUFFIXES:
        return 0
    if suffix in DECIMAL_SUFFIXES:
        return DECIMAL_SUFFIXES[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise QuantityError(text, f"unknown suffix {suffix[:_MAX_ECHOED_CHARACTERS]!r}")
    power = int(exponent[1])
    if not -MAX_INT64 - 1 <= power <= MAX_INT64:
        raise QuantityError(text, "its exponent is out of range")
    return power


def _shifted(digits: str, shift: int) -> int:
    """Return `digits` times 10^shift, rounded up, at most MAX_NANO."""
    # Compared by length first: 10^shift may be too large to compute.
    if len(digits) + shift > len(str(MAX_NANO)):
        return MAX_NANO
    if shift >= 0:
        return int(digits + "0" * shift)
    if -shift > len(digits):
        return 1  # any positive amount below a nano-unit is rounded up to one
    return _ceil_div(int(digits), 10**-shift)


def _ceil_div(amount: int, divisor: int) -> int:
    return -(-amount // divisor)


def _rounded(nano: int, divisor: int) -> int:
    whole = min(_ceil_div(abs(nano), divisor), MAX_INT64)
    return -whole if nano < 0 else whole
