"""Comprehensions: loops, and their result so far (interpreter/interpretable.go of cel-go, evalFold).

Rule: an iteration is counted as work, as a loop may cost nothing.
"""

from typing import Any, Final, NamedTuple

from extender.k8s.cel.calls import Evaluate
from extender.k8s.cel.values import NO_SUCH_OVERLOAD, CelError, Run, check_map_key, go_name, written

_DEFERRED: Final = object()
"""A loop's result before it is first asked for."""


class Loop(NamedTuple):
    """What evaluates the parts of a loop."""

    over: Evaluate | None
    """None: over nothing."""
    slots: tuple[int, int, int]
    """Places of its result and of its two variables."""
    pairs: bool
    """It has both variables."""
    condition: Evaluate
    step: Evaluate
    result: Evaluate


def evaluator(loop: Loop) -> Evaluate:
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
    """Return what evaluates a variable of a loop; with `start` its result so far, which starts when first asked for."""
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
    """Return a step that adds to a loop's own list (its items), or map (a map's entries, or a key and a value)."""

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
    """Return the values of a loop's two variables, None for a missing one."""
    if isinstance(within, dict):
        return list(within.items())
    if type(within) is list:
        return enumerate(within) if pairs else [(each, None) for each in within]
    if pairs:
        raise CelError(f"unsupported comprehension range type: {go_name(within)}")
    raise CelError(f"got '{go_name(within)}', expected iterable type")
