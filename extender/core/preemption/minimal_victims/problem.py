"""Describe the search for minimal victims on one node, and what a set of victims costs.

Rule: plain values of one node; nothing is searched here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from extender.core.framework.constraint import Constraint
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.k8s.priority import PRIORITY_OFFSET

VictimSetCost = tuple[int, int, int, int]
"""(violations, highest priority, sum of (priority + 2^31), number of victims): the smaller the better."""


@dataclass(frozen=True, slots=True)
class MinimalVictimsProblem:
    """One node with all evictable pods removed; [k] is the rank of a pod by importance."""

    constraints: tuple[Constraint, ...]
    """Constraints of the filter plugins, restricted to this node."""
    headrooms: tuple[IntArray, ...]
    """Per constraint [column, 1]: headroom beside the preemptor, without the evictable pods."""
    evictable: tuple[int, ...]
    """Ranks of the evictable pods, the most important first."""
    priority: IntArray
    """[k]: priority of the pod."""
    violating: BoolArray
    """[k]: True if evicting the pod counts as a violation, unless `strict`."""
    budgets_of: Mapping[int, tuple[int, ...]]
    """Rank -> budget rows that the pod counts against; ranks that are missing count against none."""
    allowed: Sequence[int]
    """[budget]: number of its pods that may be evicted."""
    strict: bool
    """True if no budget may be exceeded; then no eviction counts as a violation."""

    def cost(self, victims: Iterable[int]) -> VictimSetCost:
        """Return the cost of a set of ranks, which must not be empty."""
        priorities = [int(self.priority[k]) for k in victims]
        violations = 0 if self.strict else sum(bool(self.violating[k]) for k in victims)
        return violations, max(priorities), sum(priorities) + len(priorities) * PRIORITY_OFFSET, len(priorities)

    def keeps_budgets(self, victims: Iterable[int]) -> bool:
        """Return whether no budget is exceeded if these ranks are evicted."""
        counted = [budget for k in victims for budget in self.budgets_of.get(k, ())]
        return all(counted.count(budget) <= self.allowed[budget] for budget in set(counted))
