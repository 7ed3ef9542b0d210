"""Collect facts of one plugin about many nodes, a limited number of each node."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from extender.core.snapshot.arrays import BoolArray
from extender.report.facts.schema import AnyFact, MoreFact

MAX_COLLECTED = 6
"""Maximum number of facts about one node, however many claims the pod has; the others are counted."""


class CollectedFacts:
    """Facts by node; call it with a node row."""

    def __init__(self, size: int) -> None:
        self._facts: list[list[AnyFact]] = [[] for _ in range(size)]
        self._added = np.zeros(size, np.int64)
        """[node]: number of facts that were added."""
        self._more = cache(lambda count: MoreFact(count=count))  # equal facts are one object, as others of this class

    def add(self, nodes: BoolArray, fact: AnyFact | Callable[[int], AnyFact]) -> None:
        """Add a fact about each of these nodes: the same, or node row -> fact."""
        for row in np.flatnonzero(nodes & (self._added < MAX_COLLECTED)).tolist():
            self._facts[row].append(fact(row) if callable(fact) else fact)
        self._added += nodes

    def __call__(self, row: int) -> Sequence[AnyFact]:
        left_out = int(self._added[row]) - MAX_COLLECTED
        return self._facts[row] if left_out <= 0 else [*self._facts[row], self._more(left_out)]


def lazily(make: Callable[[], Callable[[int], AnyFact]]) -> Callable[[int], AnyFact]:
    """Return node row -> fact as `make` returns it; it is called only if a fact is asked for."""
    made = cache(make)
    return lambda row: made()(row)
