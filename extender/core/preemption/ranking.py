"""Which candidate is best: criteria asked in order, each only among those that the one before left equal.

Mirrors pickOneNodeForPreemption (framework/preemption, v1.36), where the last tie is broken by map order; we
take the first by name.

Rule: keys are [candidate] each, the smaller the better, the first criterion first; `criteria` makes them.
"""

from collections.abc import Sequence

import numpy as np

from extender.core.snapshot.arrays import IntArray

Keys = Sequence[IntArray]


def rank(keys: Keys, *then: IntArray) -> IntArray:
    """Places of the candidates, best first; `then` are further criteria for those that cost the same."""
    return np.lexsort((*reversed(then), *reversed(keys)))


def dense_rank(keys: Keys) -> IntArray:
    """[candidate] -> how many candidates are better; equal candidates stand equal."""
    stacked = np.stack(keys)
    order = np.lexsort(stacked[::-1])
    new = np.ones(len(order), np.bool_)
    new[1:] = (stacked[:, order[1:]] != stacked[:, order[:-1]]).any(axis=0)
    standings = np.empty(len(order), np.int64)
    standings[order] = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    return standings


def tied_for_best(keys: Keys) -> IntArray:
    """Places of the candidates that no criterion tells from the best."""
    return np.flatnonzero(dense_rank(keys) == 0)
