"""Calls of functions: the implementation and its cost (runtimecost.go and library/cost.go).

Rule: planning a call of a function that is declared but not implemented raises UnsupportedFeature with its name.
"""

import operator
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from math import ceil
from typing import Any, Final

from extender.k8s.cel.functions import Overload, functions
from extender.k8s.cel.types import DYN, Type, is_optional, name_of
from extender.k8s.cel.values import (
    NO_SUCH_OVERLOAD,
    Aborted,
    CelError,
    Duration,
    Run,
    Timestamp,
    Uint,
    UnsupportedFeature,
    go_name,
    size,
    type_name,
)

Evaluate = Callable[[Run], Any]
Cost = Callable[[Run, list[Any], Any], int]


def call(
    name: str,
    overloads: list[Overload],
    arguments: list[Evaluate],
    *,
    of_1_37: bool,
    apply: Callable[..., Any] | None = None,
) -> Evaluate:
    """Return the closure that calls a function, or `apply` in its place; raises UnsupportedFeature."""
    apply = apply or _implementation(name, overloads, of_1_37=of_1_37)
    cost = _cost(name, overloads, of_1_37=of_1_37)
    if len(overloads) == 1:  # the cost tracker knows the overload, and asserts its types
        asserted = _ASSERTIONS.get(name, ())
        arguments = [_asserting(each, *asserted[index : index + 1]) for index, each in enumerate(arguments)]
    if len(arguments) == 2:
        return _binary(apply, cost, *arguments)

    def evaluate(run: Run) -> Any:
        values = [each(run) for each in arguments]
        if cost is None:
            run.cost += 1
            return apply(run, *values)
        result = apply(run, *values)
        run.cost += cost(run, values, result)
        return result

    return evaluate


def both(run: Run, one: Evaluate, other: Evaluate) -> tuple[Any, Any]:
    """Return the values of two operands."""
    # The right operand is evaluated even if the left one fails: it costs, too, and may panic.
    try:
        left = one(run)
    except CelError:
        with suppress(CelError):
            other(run)
        raise
    return left, other(run)


def _binary(apply: Callable[..., Any], cost: Cost | None, one: Evaluate, other: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Any:
        left, right = both(run, one, other)
        if cost is None:
            run.cost += 1
            return apply(run, left, right)
        result = apply(run, left, right)
        run.cost += cost(run, [left, right], result)
        run.check()  # joining two values can double their size each time
        return result

    return evaluate


def _implementation(name: str, overloads: list[Overload], *, of_1_37: bool) -> Callable[..., Any]:
    first = overloads[0]
    # All overloads of an unguarded function have the same implementation.
    if not first.guarded and first.apply is not None:
        return first.apply
    # If the checker finds several overloads, cel-go tries all overloads of the function, not only the ones found.
    chosen = overloads if len(overloads) == 1 else functions(of_1_37=of_1_37)[name]
    bound = [(list(map(_test, each.arguments)), _bound(name, each)) for each in chosen]

    def apply(run: Run, *values: Any) -> Any:
        for tests, implementation in bound:
            if len(values) == len(tests) and all(map(operator.call, tests, values)):
                return implementation(run, *values)
        raise CelError(f"{NO_SUCH_OVERLOAD}: {name}({', '.join(map(type_name, values))})")

    return apply


def _bound(name: str, overload: Overload) -> Callable[..., Any]:
    if overload.apply is not None:
        return overload.apply
    target = overload.arguments[0] if overload.arguments else DYN
    if target[0] in ("struct", "opaque") and not is_optional(target):
        # Only unevaluated functions return values of this type, so no value passes the test.
        return lambda _run, *_values: None
    raise UnsupportedFeature(f"{name}()")


def _test(wanted: Type) -> Callable[[Any], bool]:
    """Return a predicate on a value's type that checks only the first element (IsAssignableRuntimeType)."""
    kind = wanted[0]
    if kind in ("dyn", "any", "param"):
        return lambda _value: True
    if kind == "list":
        element = _test(wanted[1])
        return lambda value: type(value) is list and (not value or element(value[0]))
    if kind == "map":
        of_key, of_value = _test(wanted[1]), _test(wanted[2])
        return lambda value: (
            isinstance(value, dict) and all(of_key(key) and of_value(value[key]) for key in islice(value, 1))
        )
    name = name_of(wanted)
    return lambda value: type_name(value) == name


# --- panics ---------------------------------------------------------------------------------------------------------

_ADDERS = frozenset((int, Uint, float, str, bytes, Duration, Timestamp))
_ASSERTIONS: dict[str, tuple[str, ...]] = {
    "sort": ("list",),
    "distinct": ("list",),
    "flatten": ("", "int"),
    "@sortByAssociatedKeys": ("no error", "list"),
}
"""Function -> types that cel-go's cost tracker asserts its arguments have; it panics on other types and on errors."""
# An error of sortBy()'s target also comes from its keys, so the type of the target needs no assertion.


def _asserting(argument: Evaluate, kind: str = "") -> Evaluate:
    """Return the closure of an argument whose type the cost tracker asserts."""
    if not kind:
        return argument
    error_is_no = "ref.Val is *types.Err, not types.Int" if kind == "int" else f"*types.Err{_NO_LIST}Add"

    def evaluate(run: Run) -> Any:
        try:
            value = argument(run)
        except CelError:
            raise _panic(error_is_no) from None
        if kind == "list" and type(value) is not list:
            raise _panic(f"{go_name(value)}{_NO_LIST}{'Contains' if type(value) in _ADDERS else 'Add'}")
        if kind == "int" and type(value) is not int:
            raise _panic(f"ref.Val is {go_name(value)}, not types.Int")
        return value

    return evaluate


_NO_LIST = " is not traits.Lister: missing method "


def _panic(what: str) -> Aborted:
    return Aborted(f"internal error: interface conversion: {what}")


# --- costs ---------------------------------------------------------------------------------------------------------


def _matched(_run: Run, values: list[Any], _result: Any) -> int:
    return ceil((1.0 + size(values[0])) * 0.1) * ceil(size(values[1]) * 0.25)


def _sorted_by(_run: Run, values: list[Any], _result: Any) -> int:
    """Return the cost of comparing all pairs of elements of the last list: the keys, or the list itself."""
    items = values[-1]
    factor = 2.1 if items and type(items[0]) in (str, bytes) else 2.0
    return int(len(items) * len(items) * factor) + 11


def _tree(run: Run, value: Any) -> int:
    """Return the cost of traversing a value (traversalCost)."""
    run.work(1)  # a value can be nested many times, so a small list can have a huge tree
    if isinstance(value, (str, bytes)):
        length = len(value) if isinstance(value, bytes) else len(value.encode("utf-8", "surrogatepass"))
        return int(length * 0.1)
    if type(value) is list:
        return sum(_tree(run, each) for each in value)
    if isinstance(value, dict):
        return sum(_tree(run, key) + _tree(run, each) for key, each in value.items())
    return 1


_TRAVERSED: Final[Cost] = lambda _run, values, _result: ceil(size(values[0]) * 0.1)  # noqa: E731
_SEARCHED: Final[Cost] = lambda run, values, _result: _tree(run, values[0])  # noqa: E731

_BY_FUNCTION: dict[str, Cost] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _SEARCHED),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "startsWith", "endsWith"), _TRAVERSED),
    **dict.fromkeys(("strings.quote", "format", "quantity", "isQuantity", "semver", "isSemver"), _TRAVERSED),
    **dict.fromkeys(("replace", "split"), lambda _run, values, _result: ceil(size(values[0]) * 2 * 0.1)),
    **dict.fromkeys(("find", "findAll"), _matched),
    **dict.fromkeys(("slice", "lists.range", "reverse"), lambda _run, _values, result: size(result) + 11),
    **dict.fromkeys(
        ("sets.contains", "sets.intersects"), lambda _run, values, _result: 1 + size(values[0]) * size(values[1])
    ),
    "sets.equivalent": lambda _run, values, _result: 1 + 2 * size(values[0]) * size(values[1]),
    "distinct": _sorted_by,
    "join": lambda _run, _values, result: ceil(size(result) * 2 * 0.1),
    "contains": lambda _run, values, _result: ceil(size(values[0]) * 0.1) * ceil(size(values[1]) * 0.1),
}
_BY_OVERLOAD: dict[str, Cost] = {
    **dict.fromkeys(("bytes(string)", "string(bytes)"), _TRAVERSED),
    **dict.fromkeys(
        [f"{name}({kind})" for name in ("_<_", "_<=_", "_>_", "_>=_") for kind in ("string", "bytes")],
        lambda _run, values, _result: ceil(min(size(values[0]), size(values[1])) * 0.1),
    ),
    **dict.fromkeys(
        ("_+_(string)", "_+_(bytes)"), lambda _run, values, _result: ceil((size(values[0]) + size(values[1])) * 0.1)
    ),
    **dict.fromkeys((".sort(list)", ".@sortByAssociatedKeys(list)"), _sorted_by),
    "@in(list)": lambda _run, values, _result: size(values[1]),
    ".matches(string)": _matched,
    ".flatten(list)": lambda _run, values, _result: size(values[0]) + 11,
    ".flatten(int)": lambda _run, values, _result: size(values[0]) * values[1] + 11,
}
"""`name(type of the last argument)` -> cost; member functions have a leading dot."""

_SINCE_1_37: dict[str, Cost] = {
    "includes": _SEARCHED,
    "matches": _matched,
    **dict.fromkeys(("startsWith", "endsWith"), lambda _run, values, _result: ceil(size(values[1]) * 0.1)),
}
"""Function -> cost since v1.37, where it changed."""


def _cost(name: str, overloads: list[Overload], *, of_1_37: bool) -> Cost | None:
    """Return the cost function of a call, None for a cost of 1; `_BY_OVERLOAD` needs a single overload."""
    if of_1_37 and name in _SINCE_1_37:
        return _SINCE_1_37[name]
    if name in _BY_FUNCTION or len(overloads) != 1 or not overloads[0].arguments:
        return _BY_FUNCTION.get(name)
    only = overloads[0]
    return _BY_OVERLOAD.get(f"{'.' if only.member else ''}{name}({only.arguments[-1][0]})")
