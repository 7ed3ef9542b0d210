"""Selectors of devices: CEL expressions, as k8s.io/dynamic-resource-allocation/cel (v1.36) compiles and evaluates them.

Rule: what is not followed is named in `Selector.unsupported`, and never guessed.
"""

from dataclasses import dataclass

from extender.k8s.cel.device_view import DeviceView
from extender.k8s.cost.budget import WorkBudget


class SelectorError(Exception):
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

    def matches(self, device: DeviceView, budget: WorkBudget) -> bool:
        """Return whether the device is selected; raises SelectorError, and WorkLimitReached."""
        raise NotImplementedError


def compile_selector(expression: str, *, consumable_capacity: bool) -> Selector:
    """Return the compiled selector; never raises for what the expression says.

    `consumable_capacity`: the feature gate DRAConsumableCapacity, with which a device has allowMultipleAllocations.
    """
    return Selector(expression, unsupported="CEL")
