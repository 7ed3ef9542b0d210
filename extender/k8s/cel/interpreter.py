"""Closures for chains of fields and keys, and for loops (interpreter/attributes.go, interpretable.go).

Rule: a chain costs one for each field or key read, besides its root; an iteration of a loop is counted as work, since
it may cost nothing.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from extender.k8s.cel.calls import Evaluate
from extender.k8s.cel.values import (
    NO_SUCH_OVERLOAD,
    NONE,
    CelError,
    Optional,
    Run,
    StringMap,
    TypeValue,
    Uint,
    UnsupportedFeature,
    check_map_key,
    find,
    go_name,
    type_name,
    written,
)

# --- chains of fields and keys --------------------------------------------------------------------------------------

KEYS = frozenset((str, int, Uint, float, bool))
"""Types of map keys and list indexes."""


@dataclass(slots=True)
class Qualifier:
    """A field or key in a chain: the constant `key`, or the result of `evaluate`."""

    key: Any
    evaluate: Evaluate | None = None
    optional: bool = False
    test_only: bool = False


def is_plain(qualifier: Qualifier) -> bool:
    return type(qualifier.key) is str and not qualifier.optional and not qualifier.test_only


def literal_path(get: Evaluate, keys: list[str], cost: int, otherwise: Evaluate) -> Evaluate:
    """Return the closure that reads a field of the declared variable and at most two literal keys of the maps in it.

    `otherwise` handles a missing key: an error, or an empty map from an `EndlessMap`.
    """
    # Nearly all selectors read only such paths: a typical selector takes 7 us, and 9 us with `chained`.
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


def chained(base: Evaluate, qualifiers: list[Qualifier], *, tested: bool, literal: int) -> Evaluate:
    """Return the closure of a chain of qualifiers after a value; `tested`: of has(), which tests the last field.

    The first `literal` qualifiers are a field of the declared variable and literal keys of the maps in it.
    """
    # cel-go also counts a qualifier that fails: a literal path costs the same wherever it ends.
    steps = [
        (each.key, each.evaluate, each.optional, each.test_only, int(number >= literal))
        for number, each in enumerate(qualifiers)
    ]

    def evaluate(run: Run) -> Any:
        value = base(run)
        is_optional = type(value) is Optional
        if is_optional:
            if not value.present:
                return False if tested else value
            value = unwrapped(run, value)
        run.cost += literal
        for key, key_of, optional, test_only, cost in steps:
            is_optional = is_optional or optional
            if key_of is not None:
                key = key_of(run)
            value, present = _qualify(value, key, test=is_optional or test_only)
            if test_only:
                run.cost += 1
                return present
            if not present:
                return False if tested else NONE
            run.cost += cost
        return Optional(value) if is_optional else value

    return evaluate


def resolved(evaluate: Evaluate) -> Evaluate:
    """Return the closure of a variable or a ternary whose value may be an optional."""

    def evaluate_resolved(run: Run) -> Any:
        value = evaluate(run)
        if type(value) is Optional and value.present:
            unwrapped(run, value)
        return value

    return evaluate_resolved


def unwrapped(run: Run, optional: Optional) -> Any:
    """Return an optional's value; raises UnsupportedFeature."""
    # cel-go 0.26 converts the value to a Go value and back, which changes or loses values of some types.
    value = optional.value
    if run.of_1_37 or not (type(value) in (Optional, TypeValue) or hasattr(value, "type_name")):
        return value
    raise UnsupportedFeature(
        "an optional quantity, version, type or optional value that is a variable's or a ternary's"
    )


def _qualify(value: Any, key: Any, *, test: bool) -> tuple[Any, bool]:
    """Return (value of a field or key, whether it exists); without `test` a missing field or key is an error."""
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
    """Return the error for a key whose type no list or map accepts."""
    if type(key) in (list, StringMap):  # upstream has several types of lists and of maps
        return UnsupportedFeature(f"a key of the type {type_name(key)}")
    return error(f"invalid qualifier type: {go_name(key)}")


# --- loops ----------------------------------------------------------------------------------------------------------

_DEFERRED: Final = object()
"""A loop's result before it is first read."""


class LoopPlan(NamedTuple):
    """Closures of the parts of a loop."""

    over: Evaluate | None
    """Closure of the range; None if it is empty."""
    slots: tuple[int, int, int]
    """Indexes in `Run.slots` of the result and the two variables."""
    pairs: bool
    """Whether the loop has two variables."""
    condition: Evaluate
    step: Evaluate
    result: Evaluate


def loop_over(loop: LoopPlan) -> Evaluate:
    """Return the closure of a loop."""
    over, (result_slot, first, second), pairs, condition, step, result = loop

    def bind(run: Run) -> Any:
        run.slots[result_slot] = _DEFERRED
        return result(run)

    if over is None:
        return bind

    def evaluate(run: Run) -> Any:
        values = run.slots
        within = over(run)
        values[result_slot] = _DEFERRED
        for one, other in _items(within, pairs):
            values[first] = one
            values[second] = other
            try:
                if condition(run) is False:
                    break
            except CelError:  # an error does not end the loop: a later step may absorb it
                pass
            try:
                values[result_slot] = step(run)
            except CelError as error:
                values[result_slot] = error
            run.check()
            run.work(2)
        return result(run)

    return evaluate


def held(slot: int, start: Evaluate | None) -> Evaluate:
    """Return the closure of a loop variable, or with `start` of the loop's result, initialized when first read."""
    if start is None:
        return lambda run: run.slots[slot]

    def evaluate(run: Run) -> Any:
        value = run.slots[slot]
        if value is _DEFERRED:
            try:
                value = start(run)
            except CelError as error:
                value = error
            run.slots[slot] = value
        if isinstance(value, CelError):
            raise value
        return value

    return evaluate


def appended(to: Evaluate, added: list[Evaluate]) -> Evaluate:
    """Return the step that adds items to a loop's own list, or entries (a map, or a key and a value) to its own map."""

    def evaluate(run: Run) -> Any:
        run.cost += 2
        found = to(run)
        values = [each(run) for each in added]
        if type(found) is list:
            run.work(len(values[0]))
            found.extend(values[0])
            return found
        entries = values[0]
        if len(values) == 2:
            check_map_key(values[0])
            entries = {values[0]: values[1]}
        if not isinstance(entries, dict):
            raise CelError(NO_SUCH_OVERLOAD)
        run.work(len(entries) + 1)
        for key, value in entries.items():
            if key in found:
                raise CelError(f"insert failed: key {written(key)} already exists")
            found[key] = value
        return found

    return evaluate


def _items(within: Any, pairs: bool) -> Any:
    """Return (value of the first variable, value of the second variable) for each iteration."""
    if isinstance(within, dict):
        return list(within.items())
    if type(within) is list:
        return enumerate(within) if pairs else [(each, None) for each in within]
    if pairs:
        raise CelError(f"unsupported comprehension range type: {go_name(within)}")
    raise CelError(f"got '{go_name(within)}', expected iterable type")
