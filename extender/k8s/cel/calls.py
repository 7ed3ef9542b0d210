"""Calls of functions: which implementation, and what it costs (runtimecost.go and library/cost.go).

Rule: a function that is declared but implemented nowhere is not followed, and is named.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from extender.k8s.cel.declarations import Overload, functions
from extender.k8s.cel.library import formatting, kubernetes, lists, patterns, standard, strings, times
from extender.k8s.cel.types import Type
from extender.k8s.cel.values import (
    NO_SUCH_OVERLOAD,
    Aborted,
    CelError,
    Duration,
    NotFollowed,
    Optional,
    Run,
    Timestamp,
    Uint,
    go_name,
    size,
    type_name,
)

Evaluate = Callable[[Run], Any]
Cost = Callable[[Run, list[Any], Any], int]

_IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {
    **times.IMPLEMENTATIONS,
    **strings.IMPLEMENTATIONS,
    **lists.IMPLEMENTATIONS,
    **kubernetes.IMPLEMENTATIONS,
    **patterns.IMPLEMENTATIONS,
    "string_format": formatting.format_values,
}
"""By overload."""


def call(name: str, overloads: list[str], arguments: list[Evaluate], *, of_1_37: bool) -> Evaluate:
    """Return what evaluates a call; raises NotFollowed."""
    apply = _implementation(name, overloads, of_1_37=of_1_37)
    return call_of(apply, name, overloads, arguments, of_1_37=of_1_37)


def call_of(
    apply: Callable[..., Any], name: str, overloads: list[str], arguments: list[Evaluate], *, of_1_37: bool
) -> Evaluate:
    """Return what evaluates a call of an implementation."""
    cost = _cost(name, overloads, of_1_37=of_1_37)
    asserts = _ASSERTIONS.get(name) if len(overloads) == 1 else None
    if asserts is not None:
        arguments = [asserted(arguments[index]) for index, asserted in enumerate(asserts[: len(arguments)])]
    if len(arguments) == 1:
        return _unary(apply, cost, arguments[0])
    if len(arguments) == 2:
        return _binary(apply, cost, *arguments)

    def evaluate(run: Run) -> Any:
        values = [each(run) for each in arguments]
        result = apply(run, *values)
        run.cost += 1 if cost is None else cost(run, values, result)
        return result

    return evaluate


def both(run: Run, one: Evaluate, other: Evaluate) -> tuple[Any, Any]:
    """Return the values of two operands; the second one beside an error of the first costs, too, and may panic."""
    try:
        left = one(run)
    except CelError:
        with suppress(CelError):
            other(run)
        raise
    return left, other(run)


def _unary(apply: Callable[..., Any], cost: Cost | None, argument: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Any:
        value = argument(run)
        if cost is None:
            run.cost += 1
            return apply(run, value)
        result = apply(run, value)
        run.cost += cost(run, [value], result)
        return result

    return evaluate


def _binary(apply: Callable[..., Any], cost: Cost | None, one: Evaluate, other: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Any:
        left, right = both(run, one, other)
        if cost is None:
            run.cost += 1
            return apply(run, left, right)
        result = apply(run, left, right)
        run.cost += cost(run, [left, right], result)
        run.check()
        return result

    return evaluate


def _implementation(name: str, overloads: list[str], *, of_1_37: bool) -> Callable[..., Any]:
    if name == "matches":
        return _matches
    for whole in (standard.OPERATORS, standard.UNGUARDED, lists.UNGUARDED):
        if name in whole:
            return whole[name]
    declared = functions(of_1_37=of_1_37)[name]
    chosen = [each for each in declared if each.id == overloads[0]] if len(overloads) == 1 else list(declared)
    bound = [(each, _bound(name, each)) for each in chosen]

    def apply(run: Run, *values: Any) -> Any:
        for overload, implementation in bound:
            if len(values) == len(overload.arguments) and all(map(_fits, overload.arguments, values)):
                return implementation(run, *values)
        raise CelError(f"{NO_SUCH_OVERLOAD}: {name}({', '.join(map(type_name, values))})")

    return apply


def _bound(name: str, overload: Overload) -> Callable[..., Any]:
    if name in standard.CONVERSIONS and not overload.id.startswith(("ip_", "cidr_")):
        return standard.CONVERSIONS[name]
    implementation = _IMPLEMENTATIONS.get(overload.id)
    if implementation is not None:
        return implementation
    target = overload.arguments[0] if overload.arguments else None
    if target is not None and target[0] in ("struct", "opaque") and target[1] != "optional_type":
        return _unreachable  # of a type whose values only functions that are not followed make
    raise NotFollowed(f"{name}()")


def _unreachable(_run: Run, *_values: Any) -> Any:
    raise AssertionError("no value of this type can be made")


def _matches(run: Run, text: Any, pattern: Any) -> bool:
    if type(text) is not str:
        raise standard.wanted("matches", text)
    return patterns.matches(run, text, pattern)


_KINDS: dict[str, str] = {
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "null": "null_type",
}


def _fits(wanted: Type, value: Any) -> bool:
    """Return whether a value is of a type, as far as its first element shows (IsAssignableRuntimeType)."""
    kind = wanted[0]
    if kind in ("dyn", "any", "param"):
        return True
    if kind == "list":
        return type(value) is list and (not value or _fits(wanted[1], value[0]))
    if kind == "map":
        if not isinstance(value, dict):
            return False
        return all(_fits(wanted[1], key) and _fits(wanted[2], value[key]) for key in list(value)[:1])
    if kind == "opaque" and wanted[1] == "optional_type":
        return type(value) is Optional
    name = wanted[1] if kind in ("opaque", "struct") else _KINDS.get(kind, kind)
    return type_name(value) == name


# --- panics ---------------------------------------------------------------------------------------------------------


def _panic(what: str) -> Aborted:
    return Aborted(f"internal error: interface conversion: {what}")


def _value_or_panic(run: Run, argument: Evaluate, what: str) -> Any:
    """Return the value of an argument; `what` panics where it is an error."""
    try:
        return argument(run)
    except CelError:
        raise _panic(what) from None


_ERROR_IS_NO_LIST = "*types.Err is not traits.Lister: missing method Add"


def _list_or_panic(argument: Evaluate) -> Evaluate:
    """Return what evaluates an argument that the cost's tracker takes for a list, whatever it is."""

    def evaluate(run: Run) -> Any:
        value = _value_or_panic(run, argument, _ERROR_IS_NO_LIST)
        if type(value) is not list:
            method = "Contains" if type(value) in _ADDERS else "Add"
            raise _panic(f"{go_name(value)} is not traits.Lister: missing method {method}")
        return value

    return evaluate


def _int_or_panic(argument: Evaluate) -> Evaluate:
    def evaluate(run: Run) -> Any:
        value = _value_or_panic(run, argument, "ref.Val is *types.Err, not types.Int")
        if type(value) is not int:
            raise _panic(f"ref.Val is {go_name(value)}, not types.Int")
        return value

    return evaluate


def _error_panics(argument: Evaluate) -> Evaluate:
    """Return what evaluates the target of sortBy(): its error is also that of the keys."""
    return lambda run: _value_or_panic(run, argument, _ERROR_IS_NO_LIST)


_ADDERS = frozenset((int, Uint, float, str, bytes, Duration, Timestamp))
_ASSERTIONS: dict[str, tuple[Callable[[Evaluate], Evaluate], ...]] = {
    "sort": (_list_or_panic,),
    "distinct": (_list_or_panic,),
    "flatten": (lambda argument: argument, _int_or_panic),
    "@sortByAssociatedKeys": (_error_panics, _list_or_panic),
}
"""By function: what cel-go's cost tracker assumes of the arguments, errors too; else it panics, which nothing absorbs.

Only where the checker has found the one overload: the tracker is that overload's."""

# --- costs ---------------------------------------------------------------------------------------------------------


def _up(amount: float) -> int:
    return math.ceil(amount)


def _traversed(_run: Run, values: list[Any], _result: Any) -> int:
    return _up(size(values[0]) * 0.1)


def _traversed_twice(_run: Run, values: list[Any], _result: Any) -> int:
    return _up(size(values[0]) * 2 * 0.1)


def _compared(_run: Run, values: list[Any], _result: Any) -> int:
    return _up(min(size(values[0]), size(values[1])) * 0.1)


def _joined(_run: Run, values: list[Any], _result: Any) -> int:
    return _up((size(values[0]) + size(values[1])) * 0.1)


def _matched(_run: Run, values: list[Any], _result: Any) -> int:
    return _up((1.0 + size(values[0])) * 0.1) * _up(size(values[1]) * 0.25)


def _tree(run: Run, value: Any) -> int:
    """Return the cost of going through a value (traversalCost), which is work: a value may be in another many times."""
    run.work(1)
    if isinstance(value, (str, bytes)):
        length = len(value) if isinstance(value, bytes) else len(value.encode("utf-8", "surrogatepass"))
        return int(length * 0.1)
    if type(value) is list:
        return sum(_tree(run, each) for each in value)
    if isinstance(value, dict):
        return sum(_tree(run, key) + _tree(run, each) for key, each in value.items())
    return 1


def _self_compared(items: Any) -> int:
    factor = 2.1 if items and type(items[0]) in (str, bytes) else 2.0
    return int(len(items) * len(items) * factor) + 11


_BY_FUNCTION: dict[str, Cost] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), lambda run, values, _result: _tree(run, values[0])
    ),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traversed),
    **dict.fromkeys(("replace", "split"), _traversed_twice),
    **dict.fromkeys(("find", "findAll"), _matched),
    "join": lambda _run, _values, result: _up(size(result) * 2 * 0.1),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _traversed),
}
_BY_OVERLOAD: dict[str, Cost] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _traversed),
    **dict.fromkeys(("strings_quote", "string_format"), _traversed),
    "in_list": lambda _run, values, _result: size(values[1]),
    **{
        f"{name}_{kind}": _compared
        for name in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
    **dict.fromkeys(("add_string", "add_bytes"), _joined),
    "matches_string": _matched,
    "contains_string": lambda _run, values, _result: _up(size(values[0]) * 0.1) * _up(size(values[1]) * 0.1),
    "list_slice": lambda _run, _values, result: size(result) + 11,
    "lists_range": lambda _run, _values, result: size(result) + 11,
    "list_reverse": lambda _run, _values, result: size(result) + 11,
    "list_flatten": lambda _run, values, _result: size(values[0]) + 11,
    "list_flatten_int": lambda _run, values, _result: size(values[0]) * values[1] + 11,
    "list_distinct": lambda _run, values, _result: _self_compared(values[0]),
    "list_sets_contains_list": lambda _run, values, _result: 1 + size(values[0]) * size(values[1]),
    "list_sets_intersects_list": lambda _run, values, _result: 1 + size(values[0]) * size(values[1]),
    "list_sets_equivalent_list": lambda _run, values, _result: 1 + 2 * size(values[0]) * size(values[1]),
}


_SINCE_1_37: dict[str, Cost] = {
    "includes": lambda run, values, _result: _tree(run, values[0]),
    "matches": _matched,
    **dict.fromkeys(("startsWith", "endsWith"), lambda _run, values, _result: _up(size(values[1]) * 0.1)),
}
"""By function: what costs otherwise than up to v1.36."""


def _cost(name: str, overloads: list[str], *, of_1_37: bool) -> Cost | None:
    """Return what a call costs, None for one; a call whose overload the checker could not tell has none of its own."""
    overload = overloads[0] if len(overloads) == 1 else ""
    if of_1_37 and name in _SINCE_1_37:
        return _SINCE_1_37[name]
    if overload.endswith("_sort"):
        return lambda _run, values, _result: _self_compared(values[0])
    if overload.endswith("_sortByAssociatedKeys"):
        return lambda _run, values, _result: _self_compared(values[1])
    return _BY_FUNCTION.get(name) or _BY_OVERLOAD.get(overload)
