"""Which candidate is best: criteria asked in order, each only among those that the one before left equal.

Mirrors pickOneNodeForPreemption (framework/preemption, v1.36), where the last tie is broken by map order; we
take the first by name.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from extender.core.columns import IntArray


@dataclass(frozen=True, slots=True)
class Costs:
    """What each candidate costs, [candidate]."""

    violations: IntArray
    """Victims whose loss breaks a budget."""
    highest_priority: IntArray
    """Of the first victim, which is the most important."""
    priority_sum: IntArray
    """Of (priority + 2^31) over the victims, so that more victims never cost less."""
    victims: IntArray
    earliest_start: IntArray
    """Nanoseconds; of the victims with the highest priority."""


CRITERIA: dict[str, Callable[[Costs], IntArray]] = {
    "PDBViolations": lambda costs: costs.violations,
    "HighestPriority": lambda costs: costs.highest_priority,
    "PrioritySum": lambda costs: costs.priority_sum,
    "VictimCount": lambda costs: costs.victims,
    "LatestStartTime": lambda costs: -costs.earliest_start,
}
"""Name -> [candidate], the smaller the better; in upstream's order."""


def rank(costs: Costs, *then: IntArray) -> IntArray:
    """Places of the candidates, best first; `then` are further criteria for those that cost the same."""
    keys = [*(criterion(costs) for criterion in CRITERIA.values()), *then]
    return np.lexsort(keys[::-1])


def standing(costs: Costs) -> IntArray:
    """[candidate] -> how many candidates are better; equal candidates stand equal."""
    keys = np.stack([criterion(costs) for criterion in CRITERIA.values()])
    order = np.lexsort(keys[::-1])
    new = np.ones(len(order), np.bool_)
    new[1:] = (keys[:, order[1:]] != keys[:, order[:-1]]).any(axis=0)
    standings = np.empty(len(order), np.int64)
    standings[order] = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    return standings


def tied_for_best(costs: Costs) -> IntArray:
    """Places of the candidates that no criterion tells from the best."""
    return np.flatnonzero(standing(costs) == 0)
