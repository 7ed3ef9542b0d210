"""Lists, sets and optional values (ext/lists.go 3, ext/sets.go, optional types, and Kubernetes' list library).

Rule: every element read or copied is spent from the budget.
"""

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from extender.k8s.cel.library.standard import add, wanted
from extender.k8s.cel.values import (
    NO_SUCH_OVERLOAD,
    NONE,
    CelError,
    Duration,
    Optional,
    Run,
    Timestamp,
    Uint,
    UnsupportedFeature,
    compare,
    contains,
    equal,
    is_comparable,
    type_name,
    written,
)


def _is_sorted(run: Run, items: list[Any]) -> bool:
    run.work(len(items))
    for index, each in enumerate(items):
        if not is_comparable(each):
            raise CelError(NO_SUCH_OVERLOAD)
        if index and _compared(items[index - 1], each) == 1:
            return False
    return True


def _compared(one: Any, other: Any) -> int | None:
    """Compare two values: -1, 0 or 1; None if they have no order, which cel-go's list functions ignore."""
    try:
        return compare(one, other)
    except CelError:
        return None


def _sum(zero: Any) -> Callable[..., Any]:
    def implementation(run: Run, items: list[Any]) -> Any:
        run.work(len(items))
        total = zero
        for each in items:
            total = add(run, total, each)
        return total

    return implementation


def _extreme(name: str, replaced_by: int) -> Callable[..., Any]:
    def implementation(run: Run, items: list[Any]) -> Any:
        run.work(len(items))
        if not items:
            raise CelError(f"{name} called on empty list")
        found = items[0]
        for each in items:
            if not is_comparable(each):
                raise CelError(NO_SUCH_OVERLOAD)
            if _compared(found, each) == replaced_by:
                found = each
        return found

    return implementation


def _index_of(run: Run, items: list[Any], item: Any, indices: range) -> int:
    run.work(len(items))
    return next((index for index in indices if equal(items[index], item, run)), -1)


def _slice(run: Run, items: list[Any], start: int, end: int) -> list[Any]:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelError(f"{call}, negative indexes not supported")
    if start > end:
        raise CelError(f"{call}, start index must be less than or equal to end index")
    if len(items) < end:
        raise CelError(f"{call}, list is length {len(items)}")
    run.work(end - start)
    return items[start:end]


def _flatten(run: Run, items: Any, depth: int | None = None) -> list[Any]:
    if type(items) is not list:  # the message depends on how far cel-go's dispatcher gets
        parameters = "(dyn, dyn)" if isinstance(items, dict) else ""
        if type(items) is Optional and run.of_1_37:
            parameters = "(dyn)"
        call = f"flatten({'' if depth is None else 'int'})"
        raise CelError(f"{NO_SUCH_OVERLOAD}: {type_name(items)}{parameters}.{call}")
    return _flattened(run, items, 1 if depth is None else depth)


def _flattened(run: Run, items: list[Any], depth: int) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    run.work(len(items))
    found: list[Any] = []
    for each in items:
        if type(each) is list and depth > 0:
            nested = _flattened(run, each, depth - 1)
            run.work(len(nested))
            found += nested
        else:
            found.append(each)
    return found


def _sort_by_keys(run: Run, items: Any, keys: Any = None) -> list[Any]:
    """Return the items sorted by their keys, or by value if there are no keys."""
    if type(items) is not list:
        raise wanted("sort" if keys is None else "@sortByAssociatedKeys", items)
    if not items:
        return items
    by, count = items if keys is None else keys, len(items)
    run.work(count * count.bit_length())
    if not is_comparable(by[0]):
        raise CelError("list elements must be comparable")
    if count > 1 and any(type_name(each) != type_name(by[0]) for each in by):
        raise CelError("list elements must have the same type")
    by_key: Callable[[int, int], int] = lambda one, other: _compared(by[one], by[other]) or 0  # noqa: E731
    order = sorted(range(count), key=cmp_to_key(by_key))
    # Go sorts up to 12 items by insertion, which is stable; for sort() the order of equal values does not matter.
    if count > 12 and keys is not None and any(by_key(one, other) == 0 for one, other in pairwise(order)):
        raise UnsupportedFeature("sortBy() with equal keys, whose order is not defined")
    return [items[index] for index in order]


_MAX_RANGE = 1_000_000


def _range(run: Run, count: int) -> list[int]:
    if run.of_1_37 and count < 0:
        raise CelError(f"lists.range: size must be non-negative, got {count}")
    if run.of_1_37 and count > _MAX_RANGE:
        raise CelError(f"lists.range: size {count} exceeds maximum allowed ({_MAX_RANGE})")
    run.work(max(count, 0))
    return list(range(count))


def _distinct(run: Run, items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for each in items:
        run.work(len(found) + 1)
        if not any(equal(each, other, run) for other in found):
            found.append(each)
    return found


def _contains_all(run: Run, items: list[Any], others: list[Any]) -> bool:
    run.work(len(others))
    return all(contains(items, each, run) for each in others)


def _intersects(run: Run, one: list[Any], other: list[Any]) -> bool:
    run.work(len(one))
    return any(contains(other, each, run) for each in one)


def _reversed(run: Run, items: list[Any]) -> list[Any]:
    run.work(len(items))
    return items[::-1]


def _insert_all(run: Run, within: dict[Any, Any], entries: dict[Any, Any]) -> dict[Any, Any]:
    run.work(len(within) + len(entries))
    for key in entries:
        if key in within:
            raise CelError(f"insert failed: key {written(key)} already exists")
    return {**within, **entries}


_ZERO_TIME = -62135596800 * 10**9


def _is_zero(value: Any) -> bool:
    kind = type(value)
    if kind is Duration:
        return bool(value.nanos == 0)
    if kind is Timestamp:
        return bool(value.nanos == _ZERO_TIME)
    return value is None or (isinstance(value, (bool, int, float, str, bytes, list, dict)) and not value)


def _unwrap(run: Run, items: list[Any]) -> list[Any]:
    run.work(len(items))
    for each in items:
        if type(each) is not Optional:
            raise CelError(f"value {written(each)} is not optional")
    return [each.value for each in items if each.present]


def _value(_run: Run, optional: Optional) -> Any:
    if not optional.present:
        raise CelError("optional.none() dereference")
    return optional.value


_MAX_VALUES = 48
"""Maximum number of values that includes() examines up to v1.36 (ResourceSliceMaxAttributeValuesPerDevice)."""


def _includes(run: Run, value: Any, item: Any) -> bool:
    """Return whether a list contains the item or a value equals it (compile.go includesFunc, since v1.37 lists.go)."""
    if type(value) is not list:
        return equal(value, item, run) is True
    if run.of_1_37:
        return contains(value, item, run)
    for each in value[:_MAX_VALUES]:
        if equal(each, item, run):
            return True
    if len(value) > _MAX_VALUES:
        raise CelError(f"'includes' function cannot be applied to lists longer than {_MAX_VALUES} values")
    return False


_ZERO: dict[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _of_each(declaration: str) -> str:
    """Return a declaration with one overload per ordered type, which replaces `#`."""
    name, _, overload = declaration.partition(": ")
    return f"{name}: {'; '.join(overload.replace('#', each) for each in _COMPARABLE)}"


OPERATORS: dict[str, Callable[..., Any]] = {
    "flatten: list<list<T>>.() -> list<T>; list<dyn>.(int) -> list<dyn>": _flatten,
    _of_each("sort: list<#>.() -> list<#>"): _sort_by_keys,
    _of_each("@sortByAssociatedKeys: list<T>.(list<#>) -> list<T>"): _sort_by_keys,
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    _of_each("isSorted: list<#>.() -> bool"): _is_sorted,
    _of_each("max: list<#>.() -> #"): _extreme("max", -1),
    _of_each("min: list<#>.() -> #"): _extreme("min", 1),
    **{f"sum: list<{each}>.() -> {each}": _sum(zero) for each, zero in _ZERO.items()},
    "indexOf: list<A>.(A) -> int": lambda run, items, item: _index_of(run, items, item, range(len(items))),
    "lastIndexOf: list<A>.(A) -> int": lambda run, items, item: _index_of(
        run, items, item, range(len(items) - 1, -1, -1)
    ),
    "slice: list<T>.(int, int) -> list<T>": _slice,
    "lists.range: (int) -> list<int>": _range,
    "reverse: list<T>.() -> list<T>": _reversed,
    "distinct: list<T>.() -> list<T>": _distinct,
    "sets.contains: (list<T>, list<T>) -> bool": _contains_all,
    "sets.equivalent: (list<T>, list<T>) -> bool": lambda run, one, other: (
        _contains_all(run, one, other) and _contains_all(run, other, one)
    ),
    "sets.intersects: (list<T>, list<T>) -> bool": _intersects,
    "cel.@mapInsert: (map<K, V>, K, V) -> map<K, V>": lambda run, within, key, value: _insert_all(
        run, within, {key: value}
    ),
    "cel.@mapInsert: (map<K, V>, map<K, V>) -> map<K, V>": _insert_all,
    "includes: dyn.(dyn) -> bool": _includes,
    "last: list<V>.() -> optional<V>": lambda _run, items: Optional(items[-1]) if items else NONE,
    "first: list<V>.() -> optional<V>": lambda _run, items: Optional(items[0]) if items else NONE,
    "optional.of: (V) -> optional<V>": lambda _run, value: Optional(value),
    "optional.ofNonZeroValue: (V) -> optional<V>": lambda _run, value: NONE if _is_zero(value) else Optional(value),
    "optional.none: () -> optional<V>": lambda _run: NONE,
    "value: optional<V>.() -> V": _value,
    "hasValue: optional<V>.() -> bool": lambda _run, optional: optional.present,
    "optional.unwrap: (list<optional<V>>) -> list<V>": _unwrap,
    "unwrapOpt: list<optional<V>>.() -> list<V>": _unwrap,
}
