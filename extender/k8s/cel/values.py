"""Values of expressions: which Python value stands for which of CEL's, equality and order (common/types, cel-go v0.26).

null, bool, int, float, str and bytes are themselves, `Uint` is a uint, a list is a list and a map is a dict: Python's
own equality of numbers is that of CEL's map keys.

Rule: a value is never changed after it was made.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from extender.k8s.cost.budget import WorkBudget, WorkLimitReached

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1
COST_LIMIT: Final = 1_000_000
"""Cost of one evaluation (resource.k8s.io CELSelectorExpressionMaxCost)."""

NO_SUCH_OVERLOAD: Final = "no such overload"


class NotFollowed(Exception):
    """A CEL feature that is not evaluated; the text names it."""


class CelError(Exception):
    """A runtime error, in cel-go's words."""


class Aborted(Exception):
    """An error that ends an evaluation whatever surrounds it, in cel-go's words."""


class CostLimitReached(Exception):
    """An evaluation cost more than COST_LIMIT; unlike an error, nothing absorbs it."""


class Run:
    """One evaluation: what it has cost, and its variables."""

    __slots__ = ("budget", "converted", "cost", "device", "limit", "of_1_37", "slots", "spent")

    def __init__(self, device: Any, slots: int, budget: WorkBudget, *, of_1_37: bool) -> None:
        self.device = device
        self.of_1_37 = of_1_37
        self.slots: list[Any] = [None] * slots
        self.budget = budget
        self.cost = 0
        self.converted: dict[int, Any] | None = None
        """Quantities, by identity, that upstream holds otherwise since they were compared."""
        self.spent = 0
        self.limit = min(COST_LIMIT, budget.left)

    def check(self) -> None:
        """Raise CostLimitReached or WorkLimitReached where the cost so far is too much."""
        if self.cost > self.limit:
            if self.cost > COST_LIMIT:
                raise CostLimitReached
            raise WorkLimitReached

    def work(self, steps: int) -> None:
        """Spend work that cel-go's cost does not have."""
        self.budget.spend(steps)
        self.limit = min(COST_LIMIT, self.budget.left)


class Uint(int):
    __slots__ = ()


class Duration:
    """Nanoseconds."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return type(other) is Duration and other.nanos == self.nanos

    def __hash__(self) -> int:
        return hash(("duration", self.nanos))


class Timestamp:
    """Nanoseconds since 1970; `offset` are the seconds east of UTC of the text that it was parsed from."""

    __slots__ = ("nanos", "offset")

    def __init__(self, nanos: int, offset: int = 0) -> None:
        self.nanos = nanos
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return type(other) is Timestamp and other.nanos == self.nanos

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanos))


class TypeValue:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return type(other) is TypeValue and other.name == self.name

    def __hash__(self) -> int:
        return hash(("type", self.name))


class Optional:
    __slots__ = ("present", "value")

    def __init__(self, value: Any, *, present: bool = True) -> None:
        self.value = value
        self.present = present


NONE: Final = Optional(None, present=False)


class DeviceMap(dict[Any, Any]):
    """A map of the device's own, whose keys are strings: a key of any other type is none of it."""

    __slots__ = ()


class Domains(DeviceMap):
    """The device's attributes or capacity by domain: a domain that it lacks reads as an empty map."""

    __slots__ = ()


_EMPTY: Final = DeviceMap()


def find(within: dict[Any, Any], key: Any) -> tuple[Any, bool]:
    """Return a map's value of a key and whether it has one (Mapper.Find)."""
    if has_key(within, key):
        return within[key], True
    return (_EMPTY, True) if type(within) is Domains else (None, False)


def has_key(within: dict[Any, Any], key: Any) -> bool:
    """Return whether a map has a key; a domain that the device lacks is none (Mapper.Contains)."""
    if type(within) is dict and within:
        check_key(key)
    try:
        return key in within and (type(key) is bool) is _bool_keys(within)
    except TypeError:  # a list or a map, which no map has as a key
        return False


def check_key(key: Any) -> None:
    """Raise Aborted for a key that Go cannot hash."""
    if type(key) is bytes or getattr(key, "type_name", "") == "kubernetes.Semver":
        name = "types.Bytes" if type(key) is bytes else "cel.Semver"
        raise Aborted(f"internal error: runtime error: hash of unhashable type {name}")


def _bool_keys(within: dict[Any, Any]) -> bool:
    """Return whether a map has boolean keys, which Python takes for 0 and 1; a map's keys are of one type."""
    for key in within:
        return type(key) is bool
    return False


_TYPE_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    DeviceMap: "map",
    Domains: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
}


def type_name(value: Any) -> str:
    """Return the name of a value's type (Type.TypeName)."""
    name = _TYPE_NAMES.get(type(value))
    return name if name is not None else str(value.type_name)


_GO_NAMES: dict[type, str] = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    dict: "*types.baseMap",
    DeviceMap: "*types.baseMap",
    Domains: "cel.mapper",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    TypeValue: "*types.Type",
    Optional: "*types.Optional",
}


def go_name(value: Any) -> str:
    """Return the name of a value's type in Go (%T), which some errors have; raises NotFollowed for a list's."""
    if type(value) is list:
        raise NotFollowed("the text of a list's type in an error")
    name = _GO_NAMES.get(type(value))
    return name if name is not None else str(value.go_name)


_NUMBERS = frozenset((int, Uint, float))


def _order_of_numbers(one: Any, other: Any) -> int | None:
    """Return -1, 0 or 1, None unless both are numbers; the other of a double is rounded (compareDoubleInt)."""
    if type(one) is float or type(other) is float:
        one, other = float(one), float(other)
    if one < other:
        return -1
    return 1 if one > other else 0 if one == other else None


def equal(one: Any, other: Any, run: Run) -> bool | None:
    """Return whether the values are equal; None: cel-go's "no such overload", which is neither (types.Equal)."""
    kind = type(one)
    if kind is str or kind is bool:
        return type(other) is kind and bool(one == other)
    if kind in _NUMBERS:
        return type(other) in _NUMBERS and _order_of_numbers(one, other) == 0
    if kind is list:
        return type(other) is list and _equal_lists(one, other, run)
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


def _equal_lists(one: list[Any], other: list[Any], run: Run) -> bool:
    if len(one) != len(other):
        return False
    run.work(len(one) + 1)
    return all(equal(each, other_each, run) is not False for each, other_each in zip(one, other, strict=True))


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
    """Return -1, 0 or 1; raises CelError where the values have no order (Comparer.Compare)."""
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
    if kind is Duration or kind is Timestamp:
        one, other = one.nanos, other.nanos
    elif kind is str and not (one.isascii() and other.isascii()):
        one, other = one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
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
    """Return a value as Go's %v writes it in an error message."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return go_float(value)
    if kind is int or kind is Uint:
        return str(int(value))
    raise NotFollowed(f"the text of a value of the type {type_name(value)} in an error")


def go_float(value: float) -> str:
    """Return a double as Go's %g and %v write it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    mantissa, _, exponent = f"{value!r}".partition("e")
    digits = mantissa.replace("-", "").replace(".", "").lstrip("0")
    point = mantissa.replace("-", "").find(".")
    whole = mantissa.replace("-", "")
    power = int(exponent) if exponent else 0
    position = (point if point >= 0 else len(whole)) + power
    leading = len(whole.replace(".", "")) - len(whole.replace(".", "").lstrip("0"))
    position -= leading
    digits = digits.rstrip("0") or "0"
    sign = "-" if value < 0 else ""
    if position - 1 < -4 or position - 1 >= 6:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if position - 1 < 0 else '+'}{abs(position - 1):02d}"
    if position <= 0:
        return f"{sign}0.{'0' * -position}{digits}"
    if position >= len(digits):
        return sign + digits + "0" * (position - len(digits))
    return f"{sign}{digits[:position]}.{digits[position:]}"
