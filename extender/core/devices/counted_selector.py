"""Selectors whose results are remembered, and whose steps are counted as if they were not.

Rule: what is remembered decides how long an answer takes, never what it is: a call is charged once for each result that
it needs, also for those of earlier calls, so that the same work always ends at the same step.
"""

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Final

from extender.core.devices.attribute_projection import AttributeProjection, digest
from extender.k8s.cost.budget import WorkBudget
from extender.k8s.devices.device_view import DeviceView
from extender.k8s.devices.selector import DeviceSelectorError, NotFollowed, Selector, compile_selector

MAX_STEPS: Final = 1_000_000
"""Work for the claims of one pod on all nodes together: about a second."""
STEPS_PER_CHARACTER: Final = 10
"""Steps that it takes to compile a selector, by the length of its expression."""
_MAX_RESULTS: Final = 32_768
"""Results of selectors for devices, as these see them, that are remembered together."""

compiled = lru_cache(maxsize=128)(compile_selector)

SelectorResults = dict[Hashable, tuple[bool | DeviceSelectorError | NotFollowed, int]]
"""Expression and what it reads of a device -> (result, steps that it took)."""


class WorkAccount:
    """Counts the steps of selectors in one call as if no results were remembered from calls before."""

    def __init__(self) -> None:
        self.charged: set[int] = set()
        """Hashes of the results that this call has been charged for."""
        self.used: dict[int, int] = {}
        """Hashes of the results that the current node needs -> steps."""
        self.steps = 0
        """Steps that the current node has been charged for."""

    def charge(self, results: Mapping[int, int]) -> int:
        """Charge this call for results, and return the steps of those that it was not charged for before."""
        steps = sum(results[one] for one in results.keys() - self.charged)
        self.charged.update(results)
        return steps

    def next_node(self) -> None:
        self.used, self.steps = {}, 0

    def end_call(self) -> None:
        self.charged.clear()
        self.next_node()


class CountedSelector:
    """A selector of one pod's claims or of a class, as the allocator sees it; `results` may be shared with others."""

    def __init__(self, selector: Selector, results: SelectorResults, account: WorkAccount) -> None:
        self.expression, self.error, self.unsupported = selector.expression, selector.error, selector.unsupported
        self.reads = selector.reads
        self._selector = selector
        self._projection = AttributeProjection.of_selector(selector)
        self._results = results
        self._account = account

    def matches(self, device: DeviceView, budget: WorkBudget) -> bool:
        """As Selector.matches."""
        budget.spend(1)
        read = self._projection.of_devices(device.driver, (device.device,))
        # An attribute without a value fails every selector, also one that does not read it.
        broken = None if device.has_values else digest(device.device.attributes)
        key = self.expression, device.driver, device.allow_multiple_allocations, read, broken
        # A hash, because what it is of would be held for each node; a collision only counts too few steps.
        charge, account = hash(key), self._account
        found = self._results.get(key)
        is_new = found is None
        if found is None:
            found = self._evaluate(device, budget.left)
            if len(self._results) >= _MAX_RESULTS:
                self._results.clear()
            self._results[key] = found
        result, steps = found
        account.used[charge] = steps
        if is_new or charge not in account.charged:  # new again: its place was needed for others
            account.charged.add(charge)
            account.steps += steps
            budget.spend(steps)
        if not isinstance(result, bool):
            raise type(result)(*result.args)
        return result

    def _evaluate(self, device: DeviceView, limit: int) -> tuple[bool | DeviceSelectorError | NotFollowed, int]:
        """Return the result and the steps that it took; raises WorkLimitReached above the limit."""
        budget = WorkBudget(limit)
        result: bool | DeviceSelectorError | NotFollowed
        try:
            result = self._selector.matches(device, budget)
        except (DeviceSelectorError, NotFollowed) as error:
            result = type(error)(*error.args)  # without the frames that its traceback keeps
        return result, limit - budget.left
