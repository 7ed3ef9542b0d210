"""Cache selector results by the values that they read of a device; work is counted as if nothing were cached.

Rule: a call is charged once for each result that it needs, cached or not, so that the same work always ends at the same
step; devices that look the same to a selector cost one step each, on however many nodes.
"""

from collections.abc import Hashable, Mapping
from typing import Final

from extender.core.devices.attribute_projection import AttributeProjection, digest
from extender.k8s.devices.device_view import DeviceView
from extender.k8s.devices.selector import DeviceSelectorError, Selector, UnsupportedFeature
from extender.k8s.limits.limits import WorkBudget

_MAX_RESULTS: Final = 32_768
"""Maximum number of cached results, over all selectors."""

SelectorResults = dict[Hashable, tuple[bool | DeviceSelectorError | UnsupportedFeature, int]]
"""Expression and the values that it reads of a device -> (result, steps that it took)."""


class WorkAccount:
    """Counts the steps of selectors in one call as if earlier calls had cached no results."""

    def __init__(self) -> None:
        self.charged: set[int] = set()
        """Hashes of the results that this call has been charged for."""
        self.used: dict[int, int] = {}
        """Hashes of the results that the current node needs -> steps."""
        self.steps = 0
        """Steps that the current node has been charged for."""

    def charge(self, results: Mapping[int, int]) -> int:
        """Charge this call for the given results; return the steps of those that it was not charged for before."""
        steps = sum(results[one] for one in results.keys() - self.charged)
        self.charged.update(results)
        return steps

    def next_node(self) -> None:
        self.used, self.steps = {}, 0

    def end_call(self) -> None:
        self.charged.clear()
        self.next_node()


class CountedSelector:
    """A selector of a pod's claims or of a class, as the allocator sees it; several selectors may share `results`."""

    def __init__(self, selector: Selector, results: SelectorResults, account: WorkAccount) -> None:
        self.expression, self.error, self.unsupported = selector.expression, selector.error, selector.unsupported
        self.reads = selector.reads
        self._selector = selector
        self._projection = AttributeProjection.of((), [selector])
        self._results = results
        self._account = account

    def matches(self, device: DeviceView, budget: WorkBudget) -> bool:
        """Evaluate like `Selector.matches`, but use cached results."""
        budget.spend(1)
        read = self._projection.of_devices(device.driver, (device.device,))
        # An attribute without a value fails every selector, even one that does not read it.
        broken = None if device.has_values else digest(device.device.attributes)
        key = self.expression, device.driver, device.allow_multiple_allocations, read, broken
        # Only the hash is held for each node, to save memory; a collision merely counts too few steps.
        charge, account = hash(key), self._account
        found = self._results.get(key)
        if found is None:
            left = budget.left
            result: bool | DeviceSelectorError | UnsupportedFeature
            try:
                result = self._selector.matches(device, budget)
            except (DeviceSelectorError, UnsupportedFeature) as error:
                result = type(error)(*error.args)  # without the frames that the traceback keeps alive
            if len(self._results) >= _MAX_RESULTS:
                self._results.clear()
            steps = left - budget.left
            self._results[key] = result, steps
            account.steps += steps
        else:
            result, steps = found
            if charge not in account.charged:
                account.steps += steps
                budget.spend(steps)
        account.charged.add(charge)
        account.used[charge] = steps
        if not isinstance(result, bool):
            raise type(result)(*result.args)
        return result
