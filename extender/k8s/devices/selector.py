"""Selectors of devices: CEL expressions, as k8s.io/dynamic-resource-allocation/cel (v1.36) compiles and evaluates them.

`parser` makes the tree, in which macros are expanded, `checker` finds the types in cel-go's words, and `plan` makes
closures of the tree, which count cel-go's cost.

Rule: what is not followed is named in `Selector.unsupported`, or raised as UnsupportedFeature, and never guessed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, Final

from extender.k8s.cel.checker import check, error_text
from extender.k8s.cel.parser import parse
from extender.k8s.cel.plan import PlanError, plan
from extender.k8s.cel.syntax import SyntaxFailure, Tree
from extender.k8s.cel.types import ANY, BOOL, DYN, STRING, Environment, Field, declared
from extender.k8s.cel.values import (
    Aborted,
    CelError,
    CostLimitReached,
    Optional,
    Run,
    UnsupportedFeature,
    type_name,
)
from extender.k8s.devices.device_view import DeviceView
from extender.k8s.limits.limits import WorkBudget

__all__ = ["DeviceSelectorError", "DeviceView", "Selector", "UnsupportedFeature", "compile_selector"]

_DOMAINS: Final = ("attributes", "capacity")
"""Fields of the variable `device` that are maps by domain and id."""


@cache
def _environment(*, of_1_37: bool) -> Environment:
    """Return the variable `device` of a selector (newCompiler)."""
    attribute, amount = DYN if of_1_37 else ANY, ("struct", "kubernetes.Quantity")
    fields = {
        "driver": Field(STRING, attrgetter("driver")),
        "allowMultipleAllocations": Field(BOOL, attrgetter("allow_multiple_allocations")),
        "attributes": Field(("map", STRING, ("map", STRING, attribute)), attrgetter("attribute_values")),
        "capacity": Field(("map", STRING, ("map", STRING, amount)), attrgetter("capacity_values")),
    }
    return Environment("device", ("struct", "kubernetes.DRADevice"), fields, of_1_37)


_COST_LIMIT: Final = 1_000_000
"""Cost of one evaluation (resource.k8s.io CELSelectorExpressionMaxCost)."""

_STEPS: Final = 2
"""Steps of an evaluation, whatever it costs."""

OPTIONAL_FIELD: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)
"""Hint behind the error of a selector that reads what the device lacks, since v1.37 (EnhanceRuntimeError)."""


class DeviceSelectorError(Exception):
    """A selector's runtime error, in upstream's words."""


@dataclass(frozen=True)
class Selector:
    """A compiled expression.

    `error` is upstream's compile error ("" if none), `unsupported` the CEL feature that is not evaluated ("" if none);
    with either, `matches` must not be called. `reads` are the ("attributes" or "capacity", domain, id) that it reads by
    literal keys; None: it may read anything.
    """

    expression: str
    error: str = ""
    unsupported: str = ""
    reads: frozenset[tuple[str, str, str]] | None = None
    evaluate: Callable[[Run], Any] | None = field(default=None, repr=False)
    variables: int = 0
    of_1_37: bool = False

    def matches(self, device: DeviceView, budget: WorkBudget) -> bool:
        """Return whether the device is selected.

        Raises DeviceSelectorError, UnsupportedFeature (some features only the values show), and WorkLimitReached.
        """
        assert self.evaluate is not None
        run = Run(device, self.variables, budget, _COST_LIMIT, of_1_37=self.of_1_37)
        result: Any = None
        error: str | None = None
        try:
            device.check()
            result = self.evaluate(run)
        except (CelError, Aborted) as failure:
            error = str(failure)
        except CostLimitReached:
            pass
        budget.spend(min(run.cost, _COST_LIMIT) + _STEPS)
        if run.cost > _COST_LIMIT:  # an error whatever the result
            raise DeviceSelectorError("operation cancelled: actual cost limit exceeded")
        if error is not None:
            raise DeviceSelectorError(f"{error}{OPTIONAL_FIELD}" if self.of_1_37 and "no such key:" in error else error)
        return result if type(result) is bool else _as_bool(result)


def compile_selector(expression: str, *, of_1_37: bool) -> Selector:
    """Return the compiled selector; never raises for what the expression says. `of_1_37`: as v1.37 does, not v1.36.

    A device has allowMultipleAllocations whatever feature gates say: kube-scheduler compiles expressions as the API
    server does those that are stored already.
    """
    environment = _environment(of_1_37=of_1_37)
    try:
        tree = parse(expression, escaped_names=of_1_37)
        if tree.problems:
            return _failed(expression, tree, tree.problems)
        checked = check(tree, environment)
        if checked.errors:
            return _failed(expression, tree, checked.errors)
        output = checked.types[tree.root.id]
        if output[0] not in ("bool", "dyn" if of_1_37 else "any"):
            return Selector(expression, error=f"must evaluate to bool or the unknown type, not {declared(output)}")
        evaluate, variables, paths = plan(tree.root, checked)
    except SyntaxFailure as failure:
        return Selector(expression, error=f"compilation failed: {failure}")
    except PlanError as failure:
        return Selector(expression, error=f"program instantiation failed: {failure}")
    except UnsupportedFeature as feature:
        return Selector(expression, unsupported=str(feature))
    return Selector(expression, reads=_reads(paths), evaluate=evaluate, variables=variables, of_1_37=of_1_37)


def _failed(expression: str, tree: Tree, errors: list[tuple[int, str]]) -> Selector:
    return Selector(expression, error=f"compilation failed: {error_text(expression, tree, errors)}")


def _reads(paths: set[tuple[str, ...]]) -> frozenset[tuple[str, str, str]] | None:
    """Return the (field, domain, id) of paths, None if one may read several."""
    found = set()
    for part, *keys in ((path or ("",)) for path in paths):
        if part in ("", *_DOMAINS):
            if len(keys) < 2:
                return None
            found.add((part, keys[0], keys[1]))
    return frozenset(found)


_NO_CONVERSION: Final = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to 'bool'",
    "type": "type conversion not supported for 'type'",
    "optional_type": "optional.none() dereference",
}


def _as_bool(result: Any) -> bool:
    """Return the value of an optional boolean; raises DeviceSelectorError for any other value (ConvertToNative)."""
    name = type_name(result)
    while type(result) is Optional and result.present:
        result = result.value
    if type(result) is bool:
        return result
    why = _NO_CONVERSION[type_name(result)]
    raise DeviceSelectorError(f"CEL result of type {name} could not be converted to bool: {why}")
