"""Quantities and semantic versions (k8s.io/apiserver/pkg/cel/library/quantity.go and semverlib.go, v1.36).

Rule: a quantity keeps upstream's representation, which determines whether a whole number is an integer.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from extender.k8s.cel.values import MAX_INT, MAX_UINT, MIN_INT, CelError, Run, UnsupportedFeature
from extender.k8s.limits.limits import MAX_QUANTITY_EXPONENT, TOO_LARGE_EXPONENT
from extender.k8s.quantity import BINARY_SUFFIXES, DECIMAL_SUFFIXES, MAX_NANO, NANO, SHAPE, QuantityError, parse

_FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_MAX_FACTORS = 18


class Quantity:
    """A quantity; `scaled` is int64Amount's (value, power of ten), None if upstream holds an inf.Dec.

    An inf.Dec is a multiple of ten to the `power`.
    """

    __slots__ = ("nano", "pointer", "power", "scaled")
    type_name: Final = "kubernetes.Quantity"

    def __init__(self, nano: int, scaled: tuple[int, int] | None, *, power: int = -9, pointer: bool = False) -> None:
        self.nano = nano
        self.scaled = scaled
        self.power = power if scaled is None else scaled[1]
        self.pointer = pointer
        """Whether add() or sub() made it: a pointer in Go, which upstream's equality rejects as the right operand."""

    @property
    def go_name(self) -> str:
        return "*cel.Quantity" if self.pointer else "cel.Quantity"

    def equals(self, other: object) -> bool | None:
        if type(other) is not Quantity or other.pointer:
            return None
        return self.nano == other.nano


@lru_cache(maxsize=4096)  # thousands of devices share a few capacities: 0.1 us instead of 8
def _parsed(text: str) -> Quantity:
    """Parse a quantity as resource.ParseQuantity does. Raises CelError."""
    match = SHAPE.fullmatch(text)
    if match is None or not text:
        raise CelError(_FORMAT_WRONG)
    try:
        nano = parse(text)
    except QuantityError as error:
        if "suffix" in error.reason:
            raise CelError("unable to parse quantity's suffix") from None
        raise UnsupportedFeature("the error of an invalid quantity") from None
    sign, whole, fraction, suffix = match.groups(default="")
    bits = BINARY_SUFFIXES.get(suffix)
    exponent = 0 if bits is not None else DECIMAL_SUFFIXES[suffix] if suffix in DECIMAL_SUFFIXES else int(suffix[1:])
    power, digits = exponent - len(fraction), int(f"{sign}{whole}{fraction}" if whole + fraction else 0)
    # Upstream holds an int64Amount if the number of digits guarantees that it fits.
    length = len(whole.lstrip("0") or "0")
    spare = _MAX_FACTORS - length - len(fraction)
    if bits is not None:
        spare = -1 if fraction else 15 - length - bits * 3 // 10 - 1
        digits <<= bits
    if spare >= 0 and power >= -9 and abs(digits) <= MAX_INT:
        scale = 0 if bits is not None else power
        if scale > MAX_QUANTITY_EXPONENT:
            raise UnsupportedFeature(TOO_LARGE_EXPONENT)
        return Quantity(nano if scale < 0 else digits * 10**scale * NANO, (digits, scale))  # upstream does not cap it
    if nano == 0:
        return Quantity(0, None, power=power)
    if abs(nano) < MAX_NANO or bits is not None:  # only quantities with a binary suffix are capped
        return Quantity(nano, None, power=0 if abs(nano) == MAX_NANO else -9)
    if power > MAX_QUANTITY_EXPONENT:
        raise UnsupportedFeature(TOO_LARGE_EXPONENT)
    exact = abs(digits) * 10 ** (power + 9) if power >= -9 else -(-abs(digits) // 10 ** -(power + 9))
    return Quantity(-exact if sign == "-" else exact, None)


def quantity(text: Any) -> Quantity:
    """Parse a quantity of an object, which an API server has validated."""
    if isinstance(text, str):
        return _copied(_parsed(text))
    return Quantity(parse(text), (int(text), 0) if isinstance(text, int) else None)


def _copied(amount: Quantity) -> Quantity:
    """Copy a quantity: comparing it changes its representation, see `_compare`."""
    return Quantity(amount.nano, amount.scaled, power=amount.power)


def _held(run: Run, amount: Quantity) -> tuple[int, int] | None:
    """Return `Quantity.scaled` after the comparisons so far."""
    return None if run.converted is not None and id(amount) in run.converted else amount.scaled


def _compare(run: Run, one: Quantity, other: Quantity) -> int:
    """Return -1, 0 or 1 (Quantity.Cmp)."""
    # Compared with an inf.Dec, the first quantity becomes an inf.Dec, too, and is no longer an integer.
    if one.scaled is not None and _held(run, other) is None:
        run.converted = {**(run.converted or {}), id(one): one}
    return _sign(one.nano - other.nano)


def _as_integer(run: Run, amount: Quantity) -> int | None:
    scaled = _held(run, amount)
    if scaled is None or scaled[1] < 0:
        return None
    value = scaled[0] * 10 ** min(scaled[1], 40)
    return value if MIN_INT <= value <= MAX_INT else None


def _to_integer(run: Run, amount: Quantity) -> int:
    found = _as_integer(run, amount)
    if found is None:
        raise CelError("cannot convert value to integer")
    return found


def _to_float(_run: Run, amount: Quantity) -> float:
    value, scale = amount.scaled or (amount.nano // 10 ** (amount.power + 9), amount.power)
    return float(value) if scale == 0 else float(value) * float(f"1e{scale}")


def _sum(run: Run, one: Quantity, sign: int, other: Quantity | int) -> Quantity:
    """Return the first quantity plus or minus the second (Quantity.Add, Quantity.Sub)."""
    if isinstance(other, int):
        other = Quantity(other * NANO, (other, 0))
    nano = one.nano + sign * other.nano
    one_scaled, other_scaled = _held(run, one), _held(run, other)
    if one_scaled is None and not run.of_1_37:  # upstream changes it in place
        raise UnsupportedFeature("add() and sub() of a quantity with a fraction")
    if one_scaled is None or other_scaled is None:
        return Quantity(nano, None, power=min(one.power, other.power), pointer=True)
    (first, first_scale), (second, second_scale) = one_scaled, other_scaled
    second *= sign
    exact = nano
    if second > MAX_INT:  # the negative of the smallest int is itself
        second -= 2**64
        nano -= 2**64 * 10 ** (second_scale + 9)
    if second == 0 or first == 0:
        return Quantity(nano, one.scaled if second == 0 else (second, second_scale), pointer=True)
    scale = min(first_scale, second_scale)
    total = first * 10 ** (first_scale - scale) + second * 10 ** (second_scale - scale)
    if MIN_INT <= total <= MAX_INT:
        return Quantity(nano, (total, scale), pointer=True)
    return Quantity(exact, None, power=scale, pointer=True)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _tests(parser: Callable[..., Any]) -> Callable[..., bool]:
    """Return a function that reports whether the parser accepts a text."""

    def implementation(run: Run, text: str, *rest: Any) -> bool:
        try:
            parser(run, text, *rest)
        except CelError:
            return False
        return True

    return implementation


# --- semantic versions ---------------------------------------------------------------------------------------------

_NUMBERS = frozenset("0123456789")
_ALPHANUMERIC = _NUMBERS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


_Order = tuple[tuple[int, int, int], bool, tuple[tuple[bool, int, str], ...]]


class Semver:
    """A semantic version; build metadata does not affect its order (github.com/blang/semver v4)."""

    __slots__ = ("core", "order")
    type_name: Final = "kubernetes.Semver"
    go_name: Final = "cel.Semver"

    def __init__(self, core: tuple[int, int, int], prerelease: tuple[int | str, ...]) -> None:
        self.core = core
        # A prerelease comes before its release, a number before a text, and a shorter prerelease before a longer one.
        parts = ((False, one, "") if isinstance(one, int) else (True, 0, one) for one in prerelease)
        self.order: _Order = core, not prerelease, tuple(parts)

    def equals(self, other: object) -> bool | None:
        return self.order == other.order if type(other) is Semver else None


def _compare_versions(_run: Run, one: Semver, other: Semver) -> int:
    return (one.order > other.order) - (one.order < other.order)


def _quoted(text: str) -> str:
    if not text.isprintable() or not text.isascii():
        raise UnsupportedFeature("the error of a version with unusual characters")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _number(text: str, name: str) -> int:
    if not _NUMBERS.issuperset(text):
        raise CelError(f"Invalid character(s) found in {name.lower()} number {_quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelError(f"{name} number must not contain leading zeroes {_quoted(text)}")
    return _unsigned(text)


def _unsigned(text: str) -> int:
    if not text:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > MAX_UINT:
        raise CelError(f"strconv.ParseUint: parsing {_quoted(text)}: value out of range")
    return int(text)


def _prerelease(text: str) -> int | str:
    if not text:
        raise CelError("Prerelease is empty")
    if _NUMBERS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise CelError(f"Numeric PreRelease version must not contain leading zeroes {_quoted(text)}")
        return _unsigned(text)
    if not _ALPHANUMERIC.issuperset(text):
        raise CelError(f"Invalid character(s) found in prerelease {_quoted(text)}")
    return text


def semver(text: str) -> Semver:
    """Parse a semantic version as semver.Parse does. Raises CelError."""
    return (_remembered if len(text) <= _MAX_REMEMBERED else _version)(text)


def _version(text: str) -> Semver:
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    patch, has_build, build = parts[2].partition("+")
    patch, has_prerelease, prerelease = patch.partition("-")
    core = (major, minor, _number(patch, "Patch"))
    parsed = tuple(_prerelease(each) for each in prerelease.split(".")) if has_prerelease else ()
    for each in build.split(".") if has_build else ():
        if not each:
            raise CelError("Build meta data is empty")
        if not _ALPHANUMERIC.issuperset(each):
            raise CelError(f"Invalid character(s) found in build meta data {_quoted(each)}")
    return Semver(core, parsed)


# Thousands of devices share a few versions: a cached version takes 0.1 us instead of 10.
_remembered = lru_cache(maxsize=4096)(_version)
_MAX_REMEMBERED = 128
"""Maximum length of a text whose version is cached, in characters."""


def _to_semver(_run: Run, text: str, normalize: bool = False) -> Semver:
    return semver(_normalized(text) if normalize else text)


def _normalized(text: str) -> str:
    """Return a version without "v" and leading zeroes, and with three numbers (normalizeAndParse)."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped and stripped[0] in _NUMBERS else "0" + stripped
    if len(parts) < 3 and any(each in parts[-1] for each in "+-"):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3] if len(parts) < 3 else parts)


def _as_int64(number: int) -> int:
    """Return a component of a version as an int64; upstream's conversion wraps around."""
    return number if number <= MAX_INT else number - 2**64


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity: (string) -> Quantity": lambda _run, text: _copied(_parsed(text)),
    "isQuantity: (string) -> bool": _tests(lambda _run, text: _parsed(text)),
    "sign: (Quantity) -> int": lambda _run, amount: _sign(amount.nano),
    "isGreaterThan: Quantity.(Quantity) -> bool": lambda run, one, other: _compare(run, one, other) > 0,
    "isLessThan: Quantity.(Quantity) -> bool": lambda run, one, other: _compare(run, one, other) < 0,
    "compareTo: Quantity.(Quantity) -> int": _compare,
    "asApproximateFloat: Quantity.() -> double": _to_float,
    "asInteger: Quantity.() -> int": _to_integer,
    "isInteger: Quantity.() -> bool": lambda run, amount: _as_integer(run, amount) is not None,
    "add: Quantity.(Quantity) -> Quantity; Quantity.(int) -> Quantity": lambda run, one, by: _sum(run, one, 1, by),
    "sub: Quantity.(Quantity) -> Quantity; Quantity.(int) -> Quantity": lambda run, one, by: _sum(run, one, -1, by),
    "semver: (string) -> Semver; (string, bool) -> Semver": _to_semver,
    "isSemver: (string) -> bool; (string, bool) -> bool": _tests(_to_semver),
    "isGreaterThan: Semver.(Semver) -> bool": lambda run, one, other: _compare_versions(run, one, other) > 0,
    "isLessThan: Semver.(Semver) -> bool": lambda run, one, other: _compare_versions(run, one, other) < 0,
    "compareTo: Semver.(Semver) -> int": _compare_versions,
    "major: Semver.() -> int": lambda _run, version: _as_int64(version.core[0]),
    "minor: Semver.() -> int": lambda _run, version: _as_int64(version.core[1]),
    "patch: Semver.() -> int": lambda _run, version: _as_int64(version.core[2]),
}
