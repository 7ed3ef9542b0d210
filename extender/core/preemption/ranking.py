"""Compare preemption candidates by their keys: each criterion decides among candidates that tie on all earlier ones.

Mirrors pickOneNodeForPreemption (framework/preemption, v1.36). Upstream breaks the last tie by Go's map order; here the
node name is the last criterion. `criteria` computes the keys.

Rule: only this module decides which candidate is better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from extender.core.snapshot.arrays import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class RankingKeys:
    """Ranking keys of candidates: smaller keys are better."""

    by_criterion: Mapping[str, Sequence[IntArray]]
    """Criterion -> its keys, each [candidate]; criteria, and the keys of each, are ordered most significant first."""

    def take(self, places: IntArray) -> "RankingKeys":
        """Return the keys of the candidates at the indexes `places`."""
        return RankingKeys({name: [key[places] for key in keys] for name, keys in self.by_criterion.items()})

    @property
    def flat(self) -> list[IntArray]:
        """The keys of all criteria, most significant first."""
        return [*chain.from_iterable(self.by_criterion.values())]

    @property
    def order(self) -> IntArray:
        """Candidate indexes, best candidate first."""
        return np.lexsort(self.flat[::-1])

    @property
    def ranks(self) -> IntArray:
        """[candidate]: number of better candidates; candidates with equal keys have equal ranks."""
        keys, order = self.flat, self.order
        differs = np.zeros(len(order), np.bool_)
        for key in keys:
            differs[1:] |= np.diff(key[order]) != 0
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.maximum.accumulate(np.where(differs, np.arange(len(order)), 0))
        return ranks

    def decided_by(self, one: int, other: int) -> str | None:
        """Return the first criterion by which two candidates differ; None if all their keys are equal."""
        differing = (name for name, keys in self.by_criterion.items() if any(key[one] != key[other] for key in keys))
        return next(differing, None)

    def is_better(self, other: "RankingKeys") -> BoolArray:
        """Return [candidate]: whether its keys are better than the keys of the same candidate in `other`."""
        keys = zip(self.flat, other.flat, strict=True)
        this, that = next(keys)
        better: BoolArray = this < that
        equal = this == that
        for this, that in keys:
            better |= equal & (this < that)
            equal &= this == that
        return better
