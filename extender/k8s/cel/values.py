"""Values of expressions in Python, their equality and order (common/types, cel-go v0.26).

null, bool, int, double, string, bytes, list and map are Python's own, a uint is a `Uint`. Numeric map keys are equal in
CEL if they are equal in Python.

Rule: a value is never changed after it is made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from extender.k8s.limits.limits import WorkBudget, WorkLimitReached

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1
NO_SUCH_OVERLOAD: Final = "no such overload"


class UnsupportedFeature(Exception):
    """Raised for a CEL feature that is not evaluated; the message names the feature."""


class CelError(Exception):
    """A runtime error, with cel-go's message."""


class Aborted(Exception):
    """A panic of cel-go, with its message: it ends the evaluation, unlike an error, which || may absorb."""


class CostLimitReached(Exception):
    """Raised when an evaluation exceeds its cost limit; unlike an error, nothing absorbs it."""


class Run:
    """One evaluation: the value of the declared variable, loop variables (`slots`), the cost so far and its limits."""

    __slots__ = ("budget", "converted", "cost", "cost_limit", "limit", "of_1_37", "slots", "variable")

    def __init__(self, variable: Any, slots: int, budget: WorkBudget, cost_limit: int, *, of_1_37: bool) -> None:
        self.variable = variable
        self.of_1_37 = of_1_37
        self.slots: list[Any] = [None] * slots
        self.budget = budget
        self.cost = 0
        self.converted: dict[int, Any] | None = None
        """Quantities, by id(), whose representation upstream changes when it compares them."""
        self.cost_limit = cost_limit
        self.limit = min(cost_limit, budget.left)

    def check(self) -> None:
        """Raise CostLimitReached or WorkLimitReached if the cost so far exceeds a limit."""
        if self.cost > self.limit:
            if self.cost > self.cost_limit:
                raise CostLimitReached
            raise WorkLimitReached(self.budget.exceeded)

    def work(self, steps: int) -> None:
        """Spend work that cel-go's cost does not count."""
        # The rest of the budget also bounds the cost, which is spent only at the end.
        self.budget.spend(steps)
        self.limit = min(self.cost_limit, self.budget.left)


class Uint(int):
    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since 1970; `offset` is the UTC offset in seconds of the text it was parsed from."""

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    name: str


@dataclass(slots=True, eq=False)
class Optional:
    value: Any
    present: bool = True


NONE: Final = Optional(None, present=False)


class StringMap(dict[Any, Any]):
    """A map in the declared variable; all its keys are strings."""

    __slots__ = ()


class EndlessMap(StringMap):
    """A map that returns an empty map for a missing key (Kubernetes' own traits.Mapper)."""

    __slots__ = ()


_EMPTY: Final = StringMap()


def find(within: dict[Any, Any], key: Any) -> tuple[Any, bool]:
    """Return a map's value for a key, and whether it has one (Mapper.Find)."""
    if has_key(within, key):
        return within[key], True
    return (_EMPTY, True) if type(within) is EndlessMap else (None, False)


def has_key(within: dict[Any, Any], key: Any) -> bool:
    """Return whether a map contains a key; an `EndlessMap` contains only its own keys (Mapper.Contains)."""
    if type(within) is dict and within:
        check_key(key)
    try:
        # Python treats booleans as 0 and 1; all keys of a map have the type of the first key.
        return key in within and (type(key) is bool) is (type(next(iter(within))) is bool)
    except TypeError:  # a list or a map, which a map cannot have as a key
        return False


def check_key(key: Any) -> None:
    """Raise Aborted for a key that Go cannot hash."""
    if type(key) is bytes or getattr(key, "type_name", "") == "kubernetes.Semver":
        name = "types.Bytes" if type(key) is bytes else "cel.Semver"
        raise Aborted(f"internal error: runtime error: hash of unhashable type {name}")


def check_map_key(key: Any) -> None:
    """Raise Aborted or UnsupportedFeature for a key that a new map cannot have."""
    check_key(key)
    if type(key) is float or isinstance(key, (list, dict)):
        raise UnsupportedFeature("a map with keys that are doubles, lists or maps")


_NAMES: dict[type, tuple[str, str]] = {
    type(None): ("null_type", "types.Null"),
    bool: ("bool", "types.Bool"),
    int: ("int", "types.Int"),
    Uint: ("uint", "types.Uint"),
    float: ("double", "types.Double"),
    str: ("string", "types.String"),
    bytes: ("bytes", "types.Bytes"),
    list: ("list", ""),
    dict: ("map", "*types.baseMap"),
    StringMap: ("map", "*types.baseMap"),
    EndlessMap: ("map", "cel.mapper"),
    Duration: ("google.protobuf.Duration", "types.Duration"),
    Timestamp: ("google.protobuf.Timestamp", "types.Timestamp"),
    TypeValue: ("type", "*types.Type"),
    Optional: ("optional_type", "*types.Optional"),
}
"""Type -> (name in CEL, name in Go); other classes have `type_name` and `go_name`."""


def type_name(value: Any) -> str:
    """Return the name of a value's type (Type.TypeName)."""
    names = _NAMES.get(type(value))
    return names[0] if names is not None else str(value.type_name)


def go_name(value: Any) -> str:
    """Return the name of a value's type in Go (%T), for errors; raises UnsupportedFeature for a list."""
    if type(value) is list:  # upstream has several types of lists
        raise UnsupportedFeature("the text of a list's type in an error")
    names = _NAMES.get(type(value))
    return names[1] if names is not None else str(value.go_name)


_NUMBERS = frozenset((int, Uint, float))


def _order_of_numbers(one: Any, other: Any) -> int | None:
    """Compare two numbers: -1, 0 or 1; None for NaN."""
    # A number compared with a double is rounded to a double (compareDoubleInt).
    if type(one) is float or type(other) is float:
        one, other = float(one), float(other)
    if one < other:
        return -1
    return 1 if one > other else 0 if one == other else None


def equal(one: Any, other: Any, run: Run) -> bool | None:
    """Return whether the values are equal (types.Equal); None if cel-go reports "no such overload"."""
    kind = type(one)
    if kind is str or kind is bool:
        return type(other) is kind and bool(one == other)
    if kind in _NUMBERS:
        return type(other) in _NUMBERS and _order_of_numbers(one, other) == 0
    if kind is list:
        if type(other) is not list or len(one) != len(other):
            return False
        run.work(len(one) + 1)
        return all(equal(each, other_each, run) is not False for each, other_each in zip(one, other, strict=True))
    if isinstance(one, dict):
        return isinstance(other, dict) and _equal_maps(one, other, run)
    if kind is Optional:
        if type(other) is not Optional or one.present is not other.present:
            return False
        return not one.present or equal(one.value, other.value, run)
    if one is None or other is None:
        return one is other
    by_kind: Callable[[Any], bool | None] | None = getattr(one, "equals", None)
    if by_kind is not None:
        return by_kind(other)
    return type(other) is kind and bool(one == other)


def _equal_maps(one: dict[Any, Any], other: dict[Any, Any], run: Run) -> bool:
    if len(one) != len(other):
        return False
    run.work(len(one) + 1)
    for key, value in one.items():
        other_value, found = find(other, key)
        if not found or equal(value, other_value, run) is False:
            return False
    return True


def contains(within: list[Any], item: Any, run: Run) -> bool:
    """Return whether a list has an equal item."""
    run.work(len(within))
    return any(equal(item, each, run) for each in within)


_ORDERED = frozenset((bool, str, bytes, Duration, Timestamp))


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1; raises CelError if the values have no order (Comparer.Compare)."""
    kind, other_kind = type(one), type(other)
    if kind in _NUMBERS:
        if other_kind not in _NUMBERS:
            if kind is float and math.isnan(one):
                raise CelError("NaN values cannot be ordered")
            raise CelError(NO_SUCH_OVERLOAD)
        order = _order_of_numbers(one, other)
        if order is None:
            raise CelError("NaN values cannot be ordered")
        return order
    if kind is not other_kind or kind not in _ORDERED:
        raise CelError(NO_SUCH_OVERLOAD)
    # Go compares the bytes of strings, whose order in UTF-8 is that of the code points.
    return int(one > other) - int(one < other)


def is_comparable(value: Any) -> bool:
    return type(value) in _NUMBERS or type(value) in _ORDERED


def size(value: Any) -> int:
    """Return the size of a value for its cost: characters, bytes, elements or entries; 1 for any other value."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if type(value) is Optional and value.present:
        return size(value.value)
    counted: int = getattr(value, "size", 1)
    return counted


def written(value: Any) -> str:
    """Return a value as Go's %v formats it in an error message."""
    text = scalar_text(value)
    if text is not None:
        return text
    raise UnsupportedFeature(f"the text of a value of the type {type_name(value)} in an error")


def scalar_text(value: Any) -> str | None:
    """Return the text of a string, bool or number as string() and Go's %v format it; None for other types."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return go_float(value)
    return str(int(value)) if kind is int or kind is Uint else None


def go_float(value: float) -> str:
    """Return a double as Go's %g and %v format it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, power = "".join(map(str, digits)), int(exponent) + len(digits) - 1
    minus = "-" if sign else ""
    if power < -4 or power >= 6:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{fraction}e{power:+03d}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    text = text.ljust(power + 1, "0")
    return f"{minus}{text[: power + 1]}.{text[power + 1 :]}".removesuffix(".")
