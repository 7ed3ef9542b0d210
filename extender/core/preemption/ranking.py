"""Compare preemption candidates by their keys: each criterion decides among those that are equal by all earlier ones.

Mirrors pickOneNodeForPreemption (framework/preemption, v1.36). Upstream breaks the last tie by Go's map order; here the
node name is the last criterion. `criteria` computes the keys.

Rule: this is the only place that decides which candidate is better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray

NOT_COMPARED = NEVER
"""Key of a candidate that was not looked at, because the decision did not depend on it or it cost too much."""


@dataclass(frozen=True, slots=True)
class RankingKeys:
    """Keys of some candidates, the smaller the better."""

    by_criterion: Mapping[str, Sequence[IntArray]]
    """Criterion -> its keys, each [candidate]; the most significant criterion, and of its keys, comes first."""

    def at(self, places: IntArray) -> "RankingKeys":
        """Return the keys of the candidates in `places`."""
        return RankingKeys({name: [key[places] for key in keys] for name, keys in self.by_criterion.items()})

    @property
    def flat(self) -> list[IntArray]:
        """The keys of all criteria, the most significant first."""
        return [*chain.from_iterable(self.by_criterion.values())]

    @property
    def order(self) -> IntArray:
        """The places of the candidates, best first."""
        return np.lexsort(self.flat[::-1])

    @property
    def ranks(self) -> IntArray:
        """[candidate]: how many candidates are better; candidates with equal keys have equal ranks."""
        keys, order = self.flat, self.order
        differs = np.zeros(len(order), np.bool_)
        for key in keys:
            differs[1:] |= np.diff(key[order]) != 0
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.maximum.accumulate(np.where(differs, np.arange(len(order)), 0))
        return ranks

    def decided_by(self, one: int, other: int) -> str | None:
        """Return the first criterion by which one candidate is better than the other; None: they are equal.

        A criterion by which they were not compared decides only if the other one is better by all that follow.
        """
        not_compared = None
        for name, keys in self.by_criterion.items():
            differing = next(((key[one], key[other]) for key in keys if key[one] != key[other]), None)
            if differing is not None and NOT_COMPARED in differing:
                not_compared = name
            elif differing is not None:
                return name if not_compared is None or differing[0] < differing[1] else not_compared
        return not_compared

    def is_better(self, other: "RankingKeys") -> BoolArray:
        """Return [candidate]: whether it is better than the same candidate with the keys of `other`."""
        compared = (_compare(this, that) for this, that in zip(self.flat, other.flat, strict=True))
        better, equal = next(compared)
        for is_less, is_equal in compared:
            better, equal = better | (equal & is_less), equal & is_equal
        return better


def _compare(this: IntArray, that: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return [candidate]: whether the first key is better, and whether the keys are equal or not compared."""
    unknown = (this == NOT_COMPARED) | (that == NOT_COMPARED)
    return (this < that) & ~unknown, (this == that) | unknown
