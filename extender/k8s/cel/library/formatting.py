"""Function format() (ext/formatting.go of cel-go, strings 2), and the check of its literal arguments.

Rule: both parse format strings with `interpolate`; evaluation checks values, the validator checks types.
"""

import math
import re
from collections.abc import Callable
from typing import Any, Final

from extender.k8s.cel.library.standard import to_string
from extender.k8s.cel.library.strings import quoted
from extender.k8s.cel.values import (
    MAX_INT,
    CelError,
    Duration,
    Run,
    Timestamp,
    TypeValue,
    Uint,
    UnsupportedFeature,
    type_name,
)
from extender.k8s.limits.limits import MAX_FORMAT_PRECISION, TOO_HIGH_PRECISION

_CLAUSE = re.compile(r"%(?:\.([0-9]*))?(.?)", re.DOTALL)
_DIGITS: Final = 6
_NUMBER_TEXTS = frozenset(("NaN", "Infinity", "-Infinity"))
_SUPERSCRIPTS = str.maketrans(
    "+-0123456789", "\u207a\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)

_INTEGERS, _DOUBLES, _HEX = ("int", "uint"), ("double", "string"), ("int", "uint", "string", "bytes")
_TEXTS = ("list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null")
_TEXTS_SHOWN = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
CLAUSES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "s": (_TEXTS, f"string clause can only be used on {_TEXTS_SHOWN}"),
    "d": (_INTEGERS, "decimal clause can only be used on integers"),
    "f": (_DOUBLES, "fixed-point clause can only be used on doubles"),
    "e": (_DOUBLES, "scientific clause can only be used on doubles"),
    "b": ((*_INTEGERS, "bool"), "only integers and bools can be formatted as binary"),
    "x": (_HEX, "only integers, byte buffers, and strings can be formatted as hex"),
    "X": (_HEX, "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (_INTEGERS, "octal clause can only be used on integers"),
}
"""Clause -> (kinds of types that it accepts besides dyn, error for a value of any other type)."""

Clause = Callable[[int, str, int | None], str]
"""(index of the argument, clause, precision) -> text; raises CelError."""


def interpolate(text: str, count: int, clause: Clause, *, checks: bool = False) -> tuple[str, int]:
    """Return the text with its clauses replaced, and the number of arguments used; raises CelError.

    With `checks`, as in the validator, an unexpected end is reported before a missing argument.
    """
    found: list[str] = []
    at = taken = 0
    while (start := text.find("%", at)) >= 0:
        found.append(text[at:start])
        if text.startswith("%%", start):
            found.append("%")
            at = start + 2
            continue
        ends = start + 1 == len(text)
        if taken >= count and not (checks and ends):
            raise CelError(f"index {taken} out of range")
        if ends:
            raise CelError("unexpected end of string")
        match = _CLAUSE.match(text, start)
        assert match is not None
        kind, precision = _clause(*match.groups())
        found.append(clause(taken, kind, precision))
        taken += 1
        at = match.end()
    return "".join([*found, text[at:]]), taken


def _clause(digits: str | None, kind: str) -> tuple[str, int | None]:
    """Parse a clause into (clause, precision); raises CelError."""
    wrong = "could not parse formatting clause: "
    if digits is not None and not kind:
        raise CelError(f"{wrong}error while parsing precision: could not find end of precision specifier")
    if digits is not None and (not digits or int(digits[:20]) > MAX_INT):
        why = "value out of range" if digits else "invalid syntax"
        number = f'strconv.Atoi: parsing "{digits}": {why}'
        raise CelError(f"{wrong}error while parsing precision: error while converting precision to integer: {number}")
    if kind not in CLAUSES:
        byte = kind.encode("utf-8", "surrogatepass")[0]  # upstream takes the first byte for the whole character
        raise CelError(f'{wrong}unrecognized formatting clause "{chr(byte)}"')
    if digits and int(digits) > MAX_FORMAT_PRECISION:
        raise UnsupportedFeature(TOO_HIGH_PRECISION)
    return kind, int(digits) if digits else None


def _format(run: Run, text: str, values: list[Any]) -> str:
    def clause(index: int, kind: str, precision: int | None) -> str:
        try:
            return _formatted(run, values[index], kind, precision)
        except CelError as error:
            raise CelError(f"error during formatting: {error}") from None

    found, _ = interpolate(text, len(values), clause)
    run.work(len(found) // 16)
    return found


def _formatted(run: Run, value: Any, kind: str, precision: int | None) -> str:
    of = type(value)
    if kind == "s":
        return _text(run, value)
    if kind in "fe" and (of is float or (of is str and value in _NUMBER_TEXTS)):
        number, digits = float(value), _DIGITS if precision is None else precision
        if kind == "f":
            return _fixed(number, digits)
        # In scientific notation upstream uses the precision as the width.
        if math.isnan(number) or math.isinf(number):
            return _fixed(number, 0).rjust(digits)
        mantissa, _, exponent = f"{number or 0.0:.{_DIGITS}e}".partition("e")
        return f"{mantissa}\u00d710{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}".rjust(digits)
    if of is int or of is Uint or (kind == "b" and of is bool):
        if kind in "dbxXo":
            return format(int(value), kind)
    elif kind in "xX" and of in (str, bytes):
        found = (value if of is bytes else value.encode("utf-8", "surrogatepass")).hex()
        return found.upper() if kind == "X" else str(found)
    raise CelError(f"{CLAUSES[kind][1]}, was given {type_name(value)}")


def _fixed(value: float, digits: int) -> str:
    """Return a double with commas, in the English locale of golang.org/x/text/message."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "\u221e" if value > 0 else "-\u221e"
    return f"{value or 0.0:,.{digits}f}"


_CONVERTED = frozenset((int, Uint, float, bool, str, bytes, Duration, Timestamp))


def _text(run: Run, value: Any) -> str:
    """Return a value as %s formats it (FormatString)."""
    of = type(value)
    if of is list:
        run.work(len(value))
        return f"[{', '.join([_element(run, each) for each in value])}]"
    if isinstance(value, dict):
        run.work(len(value))
        for key in value:
            if type(key) not in (str, bool, int, Uint):
                raise CelError(f"no formatting function for map key of type {type_name(key)}")
        pairs = [(_element(run, key), _element(run, each)) for key, each in value.items()]
        return f"{{{', '.join(f'{key}:{each}' for key, each in sorted(pairs, key=lambda pair: pair[0].encode()))}}}"
    if value is None:
        return "null"
    if of is TypeValue:
        return str(value.name)
    if of not in _CONVERTED:
        raise CelError(f"{CLAUSES['s'][1]}, was given {type_name(value)}")
    try:
        return to_string(run, value)
    except CelError as error:
        raise CelError(f'could not convert argument "{error}" to string') from None


def _element(run: Run, value: Any) -> str:
    """Return an element of a list or map as a literal (clauseForType, quoteForCEL)."""
    of = type(value)
    if of is float:
        if math.isnan(value) or math.isinf(value):
            return '"NaN"' if math.isnan(value) else '"+Inf"' if value > 0 else '"-Inf"'
        return f"{value:.{_DIGITS}f}"
    if of is Timestamp or of is Duration:
        return f"{'timestamp' if of is Timestamp else 'duration'}({quoted(_text(run, value))})"
    if of is str or of is bytes:
        return f"{'b' if of is bytes else ''}{quoted(_text(run, value))}"
    if of in _CONVERTED or of in (list, TypeValue, type(None)) or isinstance(value, dict):
        return _text(run, value)
    raise CelError(f"no formatting function for {type_name(value)}")


FUNCTIONS: dict[str, Callable[..., Any]] = {"format: string.(list<dyn>) -> string": _format}
