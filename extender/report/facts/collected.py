"""Collect facts of one plugin about many nodes, a limited number of each node.

Rule: what a fact lists is sorted: the order in which the cluster was read must not show.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from heapq import nsmallest
from typing import TypeVar

import numpy as np

from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.k8s.objects import Pod
from extender.report.facts.schema import MAX_LISTED, MAX_PODS, AnyFact, MoreFact

T = TypeVar("T")

MAX_COLLECTED = 6
"""Maximum number of facts about one node, however many claims or terms the pod has; the others are counted."""


class CollectedFacts:
    """Facts by node; call it with a node row."""

    def __init__(self, size: int) -> None:
        self._facts: list[list[AnyFact]] = [[] for _ in range(size)]
        self._added = np.zeros(size, np.int64)
        """[node]: number of facts that were added."""
        self._counts_all = True

    def add(self, nodes: BoolArray, fact: AnyFact | Callable[[int], AnyFact]) -> None:
        """Add a fact about each of these nodes: the same, or node row -> fact."""
        for row in np.flatnonzero(nodes & (self._added < MAX_COLLECTED)).tolist():
            self._facts[row].append(fact(row) if callable(fact) else fact)
        self._added += nodes

    def __call__(self, row: int) -> Sequence[AnyFact]:
        return limited(self._facts[row], int(self._added[row]), counts_all=self._counts_all)

    def until_full(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, each of which may add facts, until every node has more than are listed; count no others."""
        for one in items:
            if (self._added > MAX_COLLECTED).all():
                self._counts_all = False
                return
            yield one


def first_pods(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return `namespace/name` of the pods that a fact lists."""
    return tuple(nsmallest(MAX_PODS, (pod.key for pod in pods)))


def first_domains(names: Sequence[str], keys: IntArray, codes: IntArray) -> list[int]:
    """Return the `codes` that a fact lists: those with the smallest `keys` [code], and of equal ones by `names`."""
    if len(codes) > MAX_LISTED:  # thousands of domains are not all sorted by name
        codes = codes[keys[codes] <= np.partition(keys[codes], MAX_LISTED)[MAX_LISTED]]
    return nsmallest(MAX_LISTED, codes.tolist(), key=lambda code: (keys[code], names[code]))


def limited(facts: Sequence[AnyFact], total: int, *, counts_all: bool = True) -> Sequence[AnyFact]:
    """Return the first facts of `total` about a node, and how many there are besides, if they were counted."""
    left_out = total - MAX_COLLECTED
    return facts if left_out <= 0 else [*facts[:MAX_COLLECTED], _more(left_out if counts_all else 0)]


@lru_cache(maxsize=1000)
def _more(count: int) -> MoreFact:
    """Return the fact; equal ones are one object, as all facts of many nodes are."""
    return MoreFact(count=count)


def lazily(make: Callable[[], Callable[[int], AnyFact]]) -> Callable[[int], AnyFact]:
    """Return node row -> fact as `make` returns it; it is called only if a fact is asked for."""
    made = cache(make)
    return lambda row: made()(row)
