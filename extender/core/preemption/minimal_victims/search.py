"""Search for minimal victims on one node: of all sets of pods whose eviction makes room, the one that costs least.

The reprieve spares the most important pods first, and so may evict many small pods where one larger pod would do. This
search compares sets instead. Of two sets the better one has fewer violations, then the lower highest priority, then
the smaller sum of (priority + 2^31), then fewer victims; then it spares the first pod in which they differ, from the
highest priority down, equal priorities by rank.

It is a depth-first branch and bound. The outer loops fix the number of violations and the highest priority, in
ascending order; the first combination with a solution is the best one. Within it, sets of 1, 2, 3, … pods are built
from the most expensive pod to the cheapest. A branch with `count` victims missing is cut if

- the cheapest `count` pods that are left already weigh as much as the best set so far: every completion weighs more;
- some column lacks more than the largest `count` pods that are left free together: no completion makes room;
- a pod is missing that dominates a chosen one (`bounds._dominators`): exchanging the two is better or equal.

These bounds are admissible: they assume the best case for every completion, so the best set is never cut off, and the
result is exact unless the steps run out.

Rule: bounded in steps, never in time: the same problem has the same answer on every machine.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice
from operator import add, or_
from typing import NamedTuple

import numpy as np

from extender.core.preemption.minimal_victims.bounds import (
    EncodedPods,
    PodSet,
    encode,
    members,
    pod_set,
    worth_evicting,
)
from extender.core.preemption.minimal_victims.problem import MinimalVictimsProblem, VictimSetCost

MAX_SEARCH_STEPS = 5_000
"""Steps on one node: about 40 ms at most (110 pods, four columns, Python 3.11). They bound the recursion depth, too."""

_STEPS_PER_FULL_CHECK = 10
"""Steps charged for reading all pods, or for evaluating an opaque constraint."""

_MAX_REACHABLE_HEADROOMS = 50
"""Distinct headrooms of the opaque constraints that are evaluated before a block is searched."""

_VICTIMS_PER_STEP = 4
"""Missing victims per additional step: larger sets take longer to extend."""


@dataclass(frozen=True, slots=True)
class MinimalVictimsResult:
    """Result of the search on one node."""

    victims: frozenset[int] | None
    """Ranks of the best victims; None: no set makes room."""
    exact: bool
    """True if all sets were tried or ruled out; otherwise better ones may exist."""
    steps: int
    """Steps that the search took."""


def find_minimal_victims(
    problem: MinimalVictimsProblem, start: frozenset[int] | None, steps: int = MAX_SEARCH_STEPS
) -> MinimalVictimsResult:
    """Return the best set of victims; `start`, a set that makes room, is kept unless another set costs less.

    In strict mode a start that exceeds a budget is ignored. The search takes at most `steps` steps, and returns the
    best set found until then.
    """
    if not problem.evictable:
        return MinimalVictimsResult(None, True, 0)
    if not start or (problem.strict and not problem.keeps_budgets(start)):
        start = None
    known = problem.cost(start) if start else None
    search = _Search(encode(problem, worth_evicting(problem, known)), steps)
    try:
        victims, exact = search.best(known), True
    except _StepLimitReached:
        victims, exact = search.found, False
    best = frozenset(search.pods.ranks[place] for place in members(victims)) if victims else start
    return MinimalVictimsResult(best, exact, steps - max(search.steps_left, 0))


class _StepLimitReached(Exception):
    """Signal that the step limit is reached; the best set found so far is the answer."""


class _PartialSet(NamedTuple):
    """A set of victims under construction."""

    places: PodSet
    weight: int
    """Sum of the victims' weights."""
    needs: tuple[int, ...]
    """[column]: amount that is still missing; not positive: none."""
    freed: tuple[int, ...]
    """Headroom freed in the columns of all opaque constraints."""

    def with_victim(self, place: int, pods: EncodedPods) -> "_PartialSet":
        """Return the set with one more victim."""
        return _PartialSet(
            self.places | 1 << place,
            self.weight + pods.weights[place],
            tuple(need - column.sizes[place] for need, column in zip(self.needs, pods.columns, strict=True)),
            tuple(map(add, self.freed, pods.opaque_demand[place])) if pods.opaque_demand[place] else self.freed,
        )


class _Search:
    """State of one search. Of sets of equal size, those that spare the most expensive pods are tried first."""

    def __init__(self, pods: EncodedPods, steps: int) -> None:
        self.pods = pods
        self.steps_left = steps
        self.found: PodSet = 0
        """The best set so far; 0: none."""
        self._weight_bound = 0
        """Sets must weigh less than this: the weight of the best set so far."""
        self._cap_left: list[int] = []
        """[cap]: number of further pods that may be evicted."""
        self._with_opaque_demand = pod_set(place for place, demand in enumerate(pods.opaque_demand) if demand)
        self._empty = _PartialSet(
            0, 0, tuple(column.need for column in pods.columns), (0,) * sum(one.demand.shape[1] for one in pods.opaque)
        )
        self._opaque_results: dict[tuple[int, ...], bool] = {} if pods.opaque else {(): True}
        """Freed headroom -> True if the opaque constraints accept it."""

    def best(self, known: VictimSetCost | None) -> PodSet:
        """Return the best set that costs less than `known`; 0 if none does."""
        pods = self.pods
        up_to_block = list(accumulate((block for _, block in pods.priority_blocks), or_))
        # `_may_suffice` only changes from False to True with more violations, and with more pods: search by bisection.
        first_round = bisect_left(pods.rounds, True, key=lambda allowed: self._may_suffice(up_to_block[-1], allowed))
        for violations, allowed in list(enumerate(pods.rounds))[first_round:]:
            first_block = bisect_left(up_to_block, True, key=partial(self._may_suffice, allowed=allowed))
            blocks = zip(pods.priority_blocks[first_block:], up_to_block[first_block:], strict=True)
            for (priority, block), among in blocks:
                bound = sum(pods.weights) + 1
                if known is not None and (violations, priority) >= known[:2]:
                    if (violations, priority) > known[:2]:
                        return 0
                    bound = known[2] * (len(pods.ranks) + 1) + known[3]
                if self._search_block(block, among, allowed, bound):
                    return self.found
        return 0

    def _may_suffice(self, among: PodSet, allowed: Sequence[int]) -> bool:
        """Return False if evicting as many pods of `among` as the caps allow cannot make room; else True."""
        self._spend(_STEPS_PER_FULL_CHECK)
        count = self._max_count(among, allowed)
        enough = all(column.max_freed(count, among, allowed)[0] >= column.need for column in self.pods.columns)
        return enough and self._opaque_may_fit(among)

    def _max_count(self, among: PodSet, allowed: Sequence[int]) -> int:
        """Return an upper bound on the number of victims: each pod counts for its tightest cap only."""
        tightest = Counter(self.pods.caps[place][:1] for place in members(among))
        return sum(min(count, *(allowed[cap] for cap in own)) if own else count for own, count in tightest.items())

    def _opaque_may_fit(self, among: PodSet) -> bool:
        """Return whether the opaque constraints accept some headroom that evictions within `among` can reach.

        All reachable headrooms are evaluated; if they are too many, the answer is True without a check.
        """
        reached = {self._empty.freed}
        for place in members(among & self._with_opaque_demand):
            reached |= {tuple(map(add, freed, self.pods.opaque_demand[place])) for freed in reached}
            if len(reached) > _MAX_REACHABLE_HEADROOMS:
                return True
        return any(self._opaque_fit(freed) for freed in sorted(reached))

    def _search_block(self, block: PodSet, among: PodSet, allowed: Sequence[int], weight_bound: int) -> bool:
        """Search the sets within `among` whose most expensive pod is in `block`; return whether one was found.

        They must weigh less than `weight_bound`, and respect the caps: `allowed` [cap].
        """
        self._weight_bound, self._cap_left = weight_bound, list(allowed)
        for capped, left in zip(self.pods.capped, allowed, strict=True):
            among &= -1 if left else ~capped
        cheapest = accumulate(self.pods.weights[place] for place in members(among))
        for count, least in zip(range(1, self._max_count(among, allowed) + 1), cheapest, strict=False):
            if least >= self._weight_bound:
                break
            self._extend(self._empty, count, among, block, 0)
        return self.found > 0

    def _extend(self, victims: _PartialSet, count: int, among: PodSet, first: PodSet, forced: PodSet) -> None:
        """Try all ways to add `count` pods of `among`: the most expensive one in `first`, and all that are `forced`."""
        self._spend(1 + count // _VICTIMS_PER_STEP)
        among = self._prune(victims, count, among, forced)
        # The weight bound: beside the most expensive of the `count` pods, at best the `count - 1` cheapest are added.
        weight, rest = victims.weight, among
        for place in islice(members(among), count - 1):
            weight += self.pods.weights[place]
            rest ^= 1 << place
        for place in members(first & rest):
            if weight + self.pods.weights[place] >= self._weight_bound:
                return
            self._add(victims, count, among, forced, place)

    def _prune(self, victims: _PartialSet, count: int, among: PodSet, forced: PodSet) -> PodSet:
        """Return the pods that a set with `count` more victims can contain; empty if no such set makes room."""
        if forced.bit_count() == count:
            among &= forced
        if not among & self._with_opaque_demand and not self._opaque_fit(victims.freed):
            return 0
        for column, need in zip(self.pods.columns, victims.needs, strict=True):
            if need > 0:
                freed, without_last = column.max_freed(count, among, self._cap_left)
                if freed < need:
                    return 0
                # A pod that frees less leaves a need that the other `count - 1` cannot free.
                among &= column.at_least(need - without_last)
        return among

    def _add(self, victims: _PartialSet, count: int, among: PodSet, forced: PodSet, place: int) -> None:
        """Try all sets with the pod in `place` and `count - 1` cheaper ones (later places)."""
        pods, bit = self.pods, 1 << place
        among &= -bit << 1
        forced = (forced | pods.dominators[place]) & ~bit
        if forced & ~among or forced.bit_count() >= count:
            return
        extended = victims.with_victim(place, pods)
        if count == 1:
            if self._opaque_fit(extended.freed):
                self.found, self._weight_bound = extended.places, extended.weight
            return
        for cap in pods.caps[place]:
            self._cap_left[cap] -= 1
            if not self._cap_left[cap]:
                among &= ~pods.capped[cap]
        # The next pod must not come after the first forced one, or that one could not be added any more.
        first = (forced & -forced) * 2 - 1
        self._extend(extended, count - 1, among, first, forced)
        for cap in pods.caps[place]:
            self._cap_left[cap] += 1

    def _opaque_fit(self, freed: tuple[int, ...]) -> bool:
        """Return whether all opaque constraints accept the headroom with `freed` more."""
        fit = self._opaque_results.get(freed)
        if fit is None:
            self._spend(_STEPS_PER_FULL_CHECK)
            ends = accumulate(one.demand.shape[1] for one in self.pods.opaque)
            headrooms = np.split(np.array(freed, np.int64)[:, np.newaxis], list(ends)[:-1])
            fit = all(one.fits(headroom) for one, headroom in zip(self.pods.opaque, headrooms, strict=True))
            self._opaque_results[freed] = fit
        return fit

    def _spend(self, steps: int) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            raise _StepLimitReached
