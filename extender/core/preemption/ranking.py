"""Rank preemption candidates by their keys: each criterion decides among those that are equal by all earlier ones.

Mirrors pickOneNodeForPreemption (framework/preemption, v1.36). Upstream breaks the last tie by Go's map order; callers
here add the node name as the last key.

Rule: a key is [candidate], the smaller the better; keys come in the order of the criteria. `criteria` computes them.
"""

from collections.abc import Sequence

import numpy as np

from extender.core.snapshot.arrays import IntArray

RankingKeys = Sequence[IntArray]
"""Keys [candidate], the most significant first."""


def rank(keys: RankingKeys, *then: IntArray) -> IntArray:
    """Return the candidates' places in `keys`, best first; `then`: further keys, less significant than all `keys`."""
    return np.lexsort((*reversed(then), *reversed(keys)))


def dense_rank(keys: RankingKeys) -> IntArray:
    """Return [candidate]: how many candidates are better; candidates with equal keys have equal ranks."""
    stacked = np.stack(keys)
    order = np.lexsort(stacked[::-1])
    new = np.ones(len(order), np.bool_)
    new[1:] = (stacked[:, order[1:]] != stacked[:, order[:-1]]).any(axis=0)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    return ranks


def tied_for_best(keys: RankingKeys) -> IntArray:
    """Return the places of the best candidate and of all candidates with equal keys."""
    return np.flatnonzero(dense_rank(keys) == 0)
