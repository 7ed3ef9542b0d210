"""Operators and conversions of cel-go's standard library (common/stdlib/standard.go, v0.26).

Rule: as in cel-go, the operation depends on the values, not on the checker's overload; errors have cel-go's messages.
"""

import math
import operator
import re
from collections.abc import Callable
from typing import Any

from extender.k8s.cel.library.times import (
    checked_duration,
    checked_timestamp,
    duration_text,
    parse_timestamp,
    read_duration,
    timestamp_text,
)
from extender.k8s.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NO_SUCH_OVERLOAD,
    CelError,
    Duration,
    Run,
    Timestamp,
    TypeValue,
    Uint,
    UnsupportedFeature,
    compare,
    contains,
    has_key,
    is_comparable,
    scalar_text,
    type_name,
)

Implementation = Callable[..., Any]


_RECEIVERS = (str, Duration, Timestamp)


def wanted(name: str, value: Any) -> CelError:
    """Return the error for an operand without the operator; some types omit its name (evalUnary, evalBinary)."""
    return CelError(NO_SUCH_OVERLOAD if type(value) in _RECEIVERS else f"{NO_SUCH_OVERLOAD}: {name}")


def _int(value: int) -> int:
    if not MIN_INT <= value <= MAX_INT:
        raise CelError("integer overflow")
    return value


def _uint(value: int) -> Uint:
    if not 0 <= value <= MAX_UINT:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _divided(one: int, other: int) -> int:
    # Go truncates, Python rounds down.
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) is (other < 0) else -quotient


def _numbers(
    name: str, apply: Callable[[Any, Any], Any], kinds: frozenset[type], others: Implementation | None = None
) -> Implementation:
    """Return an operator of two numbers of one type; `others` implements it for other types."""

    def evaluate(run: Run, one: Any, other: Any) -> Any:
        kind = type(one)
        if kind in kinds:
            if type(other) is not kind:
                raise CelError(NO_SUCH_OVERLOAD)
            if kind is float:
                return apply(one, other)
            found = apply(int(one), int(other))
            return _int(found) if kind is int else _uint(found)
        if others is not None:
            return others(run, one, other)
        raise wanted(name, one)

    return evaluate


def _added(run: Run, one: Any, other: Any) -> Any:
    kind, other_kind = type(one), type(other)
    if kind in (str, bytes, list):
        if other_kind is not kind:
            raise CelError(NO_SUCH_OVERLOAD)
        run.work((len(one) + len(other)) // (1 if kind is list else 16))
        return one + other
    if kind is Duration and other_kind is Duration:
        return checked_duration(one.nanos + other.nanos)
    if kind is Duration and other_kind is Timestamp:
        return checked_timestamp(one.nanos + other.nanos, other.offset)
    if kind is Timestamp and other_kind is Duration:
        return checked_timestamp(one.nanos + other.nanos, one.offset)
    raise wanted("_+_", one)


def _subtracted(_run: Run, one: Any, other: Any) -> Any:
    kind, other_kind = type(one), type(other)
    if kind is Duration and other_kind is Duration:
        return checked_duration(one.nanos - other.nanos)
    if kind is Timestamp and other_kind is Duration:
        return checked_timestamp(one.nanos - other.nanos, one.offset)
    if kind is Timestamp and other_kind is Timestamp:
        return checked_duration(one.nanos - other.nanos)
    raise wanted("_-_", one)


def _float_division(one: float, other: float) -> float:
    if other != 0:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


def _quotient(one: Any, other: Any) -> Any:
    if type(one) is float:
        return _float_division(one, other)
    if other == 0:
        raise CelError("division by zero")
    return _divided(one, other)


def _remainder(one: int, other: int) -> int:
    if other == 0:
        raise CelError("modulus by zero")
    if one == MIN_INT and other == -1:
        raise CelError("integer overflow")
    return one - other * _divided(one, other)


def _negate(_run: Run, value: Any) -> Any:
    kind = type(value)
    if kind is int:
        return _int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return checked_duration(-value.nanos)
    raise CelError(NO_SUCH_OVERLOAD) if kind is bool else wanted("-_", value)


def _not(_run: Run, value: Any) -> bool:
    if type(value) is not bool:
        raise CelError(NO_SUCH_OVERLOAD)
    return not value


def _order(name: str, holds: Callable[[int], bool]) -> Implementation:
    def evaluate(_run: Run, one: Any, other: Any) -> bool:
        if type(one) is int and type(other) is int:
            return holds((one > other) - (one < other))
        if not is_comparable(one):
            raise wanted(name, one)
        return holds(compare(one, other))

    return evaluate


def _is_in(run: Run, item: Any, within: Any) -> bool:
    if type(within) is list:
        return contains(within, item, run)
    if isinstance(within, dict):
        return has_key(within, item)
    raise CelError(NO_SUCH_OVERLOAD)


def _size(_run: Run, value: Any) -> int:
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    raise wanted("size", value)


_NUMBERS = frozenset((int, Uint, float))
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)"
    r"[pP][+-]?[0-9]+|inf|infinity|nan)",
    re.IGNORECASE,
)
_MAX_NUMBER_CHARACTERS = 400  # longer texts are out of range, and Python converts them in quadratic time


def _no_conversion(value: Any, to: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{to}'")


def _to_int(_run: Run, value: Any) -> int:
    kind = type(value)
    if kind is str and re.fullmatch("[+-]?[0-9]+", value) and len(value) <= _MAX_NUMBER_CHARACTERS:
        number = int(value)
        if MIN_INT <= number <= MAX_INT:
            return number
    elif kind is int or kind is Uint:
        return _int(int(value))
    elif kind is float:
        if not -(2.0**63) < value < 2.0**63:  # the smallest int itself is refused, too
            raise CelError("integer overflow")
        return int(value)
    elif kind is Duration:
        return int(value.nanos)
    elif kind is Timestamp:
        return int(value.nanos // 10**9)
    raise _no_conversion(value, "int")


def _to_uint(_run: Run, value: Any) -> Uint:
    kind = type(value)
    if kind is str and re.fullmatch("[0-9]+", value) and len(value) <= _MAX_NUMBER_CHARACTERS:
        if int(value) <= MAX_UINT:
            return Uint(value)
    elif kind is int or kind is Uint:
        return _uint(int(value))
    elif kind is float:
        if not 0 <= value < 2.0**64:
            raise CelError("unsigned integer overflow")
        return Uint(value)
    raise _no_conversion(value, "uint")


def _to_double(_run: Run, value: Any) -> float:
    kind = type(value)
    if kind is str and "_" in value:  # Go accepts some of them
        raise UnsupportedFeature("a number with underscores in a text")
    if kind is str and len(value) <= _MAX_NUMBER_CHARACTERS and _FLOAT.fullmatch(value):
        if "x" in value.lower():
            return float.fromhex(value)
        number = float(value)
        if not math.isinf(number) or "inf" in value.lower():
            return number
    elif kind in _NUMBERS:
        return float(value)
    raise _no_conversion(value, "double")


_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


def _to_bool(_run: Run, value: Any) -> bool:
    if type(value) is bool:
        return value
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise _no_conversion(value, "bool")


def to_string(_run: Run, value: Any) -> str:
    text = scalar_text(value)
    if text is not None:
        return text
    if type(value) is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    return duration_text(value) if type(value) is Duration else timestamp_text(value)


def to_duration(_run: Run, value: Any) -> Duration:
    found = value if type(value) is Duration else read_duration(value) if type(value) is str else None
    if found is None:
        raise _no_conversion(value, "google.protobuf.Duration")
    return found


def to_timestamp(_run: Run, value: Any) -> Timestamp:
    if type(value) is int:
        return checked_timestamp(value * 10**9)
    found = value if type(value) is Timestamp else parse_timestamp(value) if type(value) is str else None
    if found is None:
        raise _no_conversion(value, "google.protobuf.Timestamp")
    return found


def _text_test(test: Callable[[str, str], bool]) -> Implementation:
    def implementation(run: Run, text: Any, part: Any) -> bool:
        if type(text) is not str or type(part) is not str:
            raise CelError(NO_SUCH_OVERLOAD)
        run.work(len(text) // 64)
        return test(text, part)

    return implementation


add = _numbers("_+_", operator.add, _NUMBERS, _added)

_COMPARED = (
    "(bool, bool) -> bool; (int, int) -> bool; (int, uint) -> bool; (int, double) -> bool; (uint, uint) -> bool; "
    "(uint, int) -> bool; (uint, double) -> bool; (double, double) -> bool; (double, int) -> bool; "
    "(double, uint) -> bool; (string, string) -> bool; (bytes, bytes) -> bool; (timestamp, timestamp) -> bool; "
    "(duration, duration) -> bool"
)

OPERATORS: dict[str, Implementation] = {
    "_+_: (bytes, bytes) -> bytes; (double, double) -> double; (duration, duration) -> duration; "
    "(duration, timestamp) -> timestamp; (timestamp, duration) -> timestamp; (int, int) -> int; "
    "(list<A>, list<A>) -> list<A>; (string, string) -> string; (uint, uint) -> uint": add,
    "_-_: (double, double) -> double; (duration, duration) -> duration; (int, int) -> int; "
    "(timestamp, duration) -> timestamp; (timestamp, timestamp) -> duration; (uint, uint) -> uint": _numbers(
        "_-_", operator.sub, _NUMBERS, _subtracted
    ),
    "_*_: (double, double) -> double; (int, int) -> int; (uint, uint) -> uint": _numbers("_*_", operator.mul, _NUMBERS),
    "_/_: (double, double) -> double; (int, int) -> int; (uint, uint) -> uint": _numbers("_/_", _quotient, _NUMBERS),
    "_%_: (int, int) -> int; (uint, uint) -> uint": _numbers("_%_", _remainder, frozenset((int, Uint))),
    "-_: (double) -> double; (int) -> int": _negate,
    "!_: (bool) -> bool": _not,
    f"_<_: {_COMPARED}": _order("_<_", lambda sign: sign < 0),
    f"_<=_: {_COMPARED}": _order("_<=_", lambda sign: sign <= 0),
    f"_>_: {_COMPARED}": _order("_>_", lambda sign: sign > 0),
    f"_>=_: {_COMPARED}": _order("_>=_", lambda sign: sign >= 0),
    "@in: (A, list<A>) -> bool; (A, map<A, B>) -> bool": _is_in,
    "size: (bytes) -> int; bytes.() -> int; (list<A>) -> int; list<A>.() -> int; (map<A, B>) -> int; "
    "map<A, B>.() -> int; (string) -> int; string.() -> int": _size,
    "dyn: (A) -> dyn": lambda _run, value: value,
    "type: (A) -> type<A>": lambda _run, value: TypeValue(type_name(value)),
    "contains: string.(string) -> bool": _text_test(lambda text, part: part in text),
    "endsWith: string.(string) -> bool": _text_test(lambda text, part: text.endswith(part)),
    "startsWith: string.(string) -> bool": _text_test(lambda text, part: text.startswith(part)),
}
"""Functions that accept values of any type and report wrong types themselves."""

FUNCTIONS: dict[str, Implementation] = {
    "bool: (bool) -> bool; (string) -> bool": _to_bool,
    "bytes: (bytes) -> bytes; (string) -> bytes": lambda _run, value: value if type(value) is bytes else value.encode(),
    "double: (double) -> double; (int) -> double; (string) -> double; (uint) -> double": _to_double,
    "duration: (duration) -> duration; (string) -> duration": to_duration,
    "int: (int) -> int; (double) -> int; (duration) -> int; (string) -> int; (timestamp) -> int; "
    "(uint) -> int": _to_int,
    "string: (string) -> string; (bool) -> string; (bytes) -> string; (double) -> string; (duration) -> string; "
    "(int) -> string; (timestamp) -> string; (uint) -> string": to_string,
    "timestamp: (timestamp) -> timestamp; (int) -> timestamp; (string) -> timestamp": to_timestamp,
    "uint: (uint) -> uint; (double) -> uint; (int) -> uint; (string) -> uint": _to_uint,
}

FUNCTIONS_UNTIL_1_36: dict[str, Implementation] = {"duration: (int) -> duration": to_duration}
