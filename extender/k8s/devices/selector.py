"""Selectors of devices: CEL expressions, as k8s.io/dynamic-resource-allocation/cel (v1.36) compiles and evaluates them.

Rule: a feature that is not evaluated is named in `Selector.unsupported` or raised as UnsupportedFeature, never guessed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, Final, Protocol

from extender.k8s.cel.checker import check, error_text
from extender.k8s.cel.parser import parse
from extender.k8s.cel.plan import PlanError, plan
from extender.k8s.cel.syntax import SyntaxFailure
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

__all__ = ["DeviceMatcher", "DeviceSelectorError", "DeviceView", "Selector", "UnsupportedFeature", "compile_selector"]

_DOMAINS: Final = ("attributes", "capacity")
"""Fields of the variable `device` that are maps by domain and id."""


@cache
def _environment(*, of_1_37: bool) -> Environment:
    """Return the environment with the variable `device` of a selector (newCompiler)."""
    attribute, amount = DYN if of_1_37 else ANY, ("struct", "kubernetes.Quantity")
    fields = {
        "driver": Field(STRING, attrgetter("driver")),
        "allowMultipleAllocations": Field(BOOL, attrgetter("allow_multiple_allocations")),
        "attributes": Field(("map", STRING, ("map", STRING, attribute)), attrgetter("attribute_values")),
        "capacity": Field(("map", STRING, ("map", STRING, amount)), attrgetter("capacity_values")),
    }
    return Environment("device", ("struct", "kubernetes.DRADevice"), fields, of_1_37)


_COST_LIMIT: Final = 1_000_000
"""Maximum cost of one evaluation (resource.k8s.io CELSelectorExpressionMaxCost)."""

_STEPS: Final = 2
"""Steps charged for every evaluation, in addition to its cost."""

OPTIONAL_FIELD: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)
"""Hint after the error of a selector that reads a missing attribute, since v1.37 (EnhanceRuntimeError)."""


class DeviceMatcher(Protocol):
    """A selector as the allocator uses it: a `Selector`, or a selector whose results are cached."""

    @property
    def error(self) -> str: ...

    @property
    def unsupported(self) -> str: ...

    @property
    def reads(self) -> frozenset[tuple[str, str, str]] | None: ...

    def matches(self, device: DeviceView, budget: WorkBudget) -> bool: ...


class DeviceSelectorError(Exception):
    """A selector's runtime error, with upstream's message."""


@dataclass(frozen=True)
class Selector:
    """A compiled expression; `matches` must not be called if `error` or `unsupported` is set."""

    expression: str
    error: str = ""
    """Upstream's compile error; "" without one."""
    unsupported: str = ""
    """The CEL feature that is not evaluated; "" without one."""
    reads: frozenset[tuple[str, str, str]] | None = None
    """("attributes" or "capacity", domain, id) that it reads by literal keys; None if it may read anything."""
    evaluate: Callable[[Run], Any] | None = field(default=None, repr=False)
    variables: int = 0
    of_1_37: bool = False

    def matches(self, device: DeviceView, budget: WorkBudget) -> bool:
        """Return whether the device is selected.

        Raises DeviceSelectorError, WorkLimitReached, or UnsupportedFeature for a feature that only the values show.
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
    """Compile any expression without raising an error. `of_1_37`: as v1.37 does, not v1.36."""
    # kube-scheduler compiles expressions like the API server's stored expressions, so a device has
    # allowMultipleAllocations whatever the feature gates.
    environment = _environment(of_1_37=of_1_37)
    try:
        # 1. Parse, and expand macros.
        tree = parse(expression, escaped_names=of_1_37)
        if tree.problems:
            raise SyntaxFailure(error_text(expression, tree, tree.problems))
        # 2. Check the types.
        checked = check(tree, environment)
        if checked.errors:
            raise SyntaxFailure(error_text(expression, tree, checked.errors))
        output = checked.types[tree.root.id]
        if output[0] not in ("bool", "dyn" if of_1_37 else "any"):
            return Selector(expression, error=f"must evaluate to bool or the unknown type, not {declared(output)}")
        # 3. Plan the closures.
        evaluate, variables, paths = plan(tree.root, checked)
    except SyntaxFailure as failure:
        return Selector(expression, error=f"compilation failed: {failure}")
    except PlanError as failure:
        return Selector(expression, error=f"program instantiation failed: {failure}")
    except UnsupportedFeature as feature:
        return Selector(expression, unsupported=str(feature))
    return Selector(expression, reads=_reads(paths), evaluate=evaluate, variables=variables, of_1_37=of_1_37)


def _reads(paths: set[tuple[str, ...]]) -> frozenset[tuple[str, str, str]] | None:
    """Return the (field, domain, id) that the paths read; None if a path may read several."""
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
