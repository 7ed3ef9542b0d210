"""Chains of fields and keys behind a value (interpreter/attributes.go of cel-go).

Rule: a chain costs one for each field or key that it reads, besides its root.
"""

from dataclasses import dataclass
from typing import Any

from extender.k8s.cel.calls import Evaluate
from extender.k8s.cel.values import (
    NONE,
    CelError,
    Optional,
    Run,
    StringMap,
    TypeValue,
    Uint,
    UnsupportedFeature,
    find,
    go_name,
    type_name,
    written,
)

KEYS = frozenset((str, int, Uint, float, bool))
"""Types of the keys of maps and lists."""


@dataclass(slots=True)
class Qualifier:
    """A field or a key: `key`, or what `evaluate` returns."""

    key: Any
    evaluate: Evaluate | None = None
    optional: bool = False
    test_only: bool = False


def is_plain(qualifier: Qualifier) -> bool:
    return type(qualifier.key) is str and not qualifier.optional and not qualifier.test_only


def literal_path(get: Evaluate, keys: list[str], cost: int, otherwise: Evaluate) -> Evaluate:
    """Return what evaluates a field of the declared variable, and at most two literal keys of the maps in it.

    Nearly all selectors read these only: a typical one takes 7 microseconds, with chains 9.
    `otherwise` evaluates a path with a key that is missing: an error, or a map that has every key.
    """
    counted = cost + 1 + len(keys)

    def evaluate(run: Run) -> Any:
        try:
            value = get(run.variable)
            for key in keys:
                value = value[key]
        except KeyError:
            run.cost += cost
            return otherwise(run)
        run.cost += counted
        return value

    return evaluate


def chained(base: Evaluate, qualifiers: list[Qualifier], *, tested: bool) -> Evaluate:
    """Return what evaluates a chain behind a value; `tested`: whether it has the last field, for has()."""
    steps = [(each.key, each.evaluate, each.optional, each.test_only) for each in qualifiers]

    def evaluate(run: Run) -> Any:
        value = base(run)
        is_optional = type(value) is Optional
        if is_optional:
            if not value.present:
                return False if tested else value
            value = unwrapped(run, value)
        for key, key_of, optional, test_only in steps:
            is_optional = is_optional or optional
            if key_of is not None:
                key = key_of(run)
            value, present = _qualify(value, key, test=is_optional or test_only)
            if test_only:
                run.cost += 1
                return present
            if not present:
                return False if tested else NONE
            run.cost += 1
        return Optional(value) if is_optional else value

    return evaluate


def resolved(evaluate: Evaluate) -> Evaluate:
    """Return what evaluates a variable or a ternary, whose value may be an optional one."""

    def evaluate_resolved(run: Run) -> Any:
        value = evaluate(run)
        if type(value) is Optional and value.present:
            unwrapped(run, value)
        return value

    return evaluate_resolved


def unwrapped(run: Run, optional: Optional) -> Any:
    """Return an optional's value, which cel-go 0.26 makes a Go value and back: not every value stands that."""
    value = optional.value
    if run.of_1_37 or not (type(value) in (Optional, TypeValue) or hasattr(value, "type_name")):
        return value
    raise UnsupportedFeature(
        "an optional quantity, version, type or optional value that is a variable's or a ternary's"
    )


def _qualify(value: Any, key: Any, *, test: bool) -> tuple[Any, bool]:
    """Return the value of a field or a key, and whether it is there; without `test` a missing one is an error."""
    if type(key) not in KEYS:
        raise bad_key(key, CelError)
    if isinstance(value, dict):
        found, present = find(value, key)
        if present or test:
            return found, present
    elif type(value) is list:
        if type(key) is str or type(key) is bool:
            raise CelError(f"unsupported index type '{type_name(key)}' in list")
        if key % 1 != 0:
            raise CelError(f"unsupported index value {written(key)} in list")
        if 0 <= key < len(value):
            return value[int(key)], True
        if not test:
            raise CelError(f"index out of bounds: {written(key)}")
        return None, False
    elif test:
        return None, False
    raise CelError(f"no such key: {written(key)}")


def bad_key(key: Any, error: type[Exception]) -> Exception:
    """Return the error of a key of a type that no list or map has."""
    if type(key) in (list, StringMap):  # upstream has several types of lists, and maps of Go's and its own
        return UnsupportedFeature(f"a key of the type {type_name(key)}")
    return error(f"invalid qualifier type: {go_name(key)}")
