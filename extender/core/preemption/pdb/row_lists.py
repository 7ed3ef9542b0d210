"""Lists of integers by row, stored one after the other in one array.

Rule: the memory of a list depends only on its own length.
"""

from collections.abc import Collection, Mapping
from itertools import chain

import numpy as np
import numpy.typing as npt

from extender.core.snapshot.arrays import IntArray, grown


class RowLists:
    """Unordered lists of integers by row; every list is empty at first."""

    def __init__(self) -> None:
        self._starts: IntArray = np.zeros(64, np.int64)
        self._lengths: IntArray = np.zeros(64, np.int64)
        self._numbers: npt.NDArray[np.int32] = np.zeros(64, np.int32)
        self._used = 0
        """Length of the part of `_numbers` in use, at its start; replaced lists still take room in it."""

    def reserve(self, rows: int) -> None:
        """Make all rows below `rows` readable."""
        self._starts, self._lengths = grown(self._starts, rows, 0), grown(self._lengths, rows, 0)

    def replace(self, lists: Mapping[int, Collection[int]]) -> None:
        """Replace the lists of the given rows, which must be reserved."""
        rows = np.fromiter(lists, np.int64, len(lists))
        lengths = np.fromiter(map(len, lists.values()), np.int64, len(lists))
        added = int(lengths.sum())
        self._lengths[rows] = 0
        if self._used + added > len(self._numbers):
            self._make_room(added)
        end = self._used + added
        self._numbers[self._used : end] = np.fromiter(chain.from_iterable(lists.values()), np.int32, added)
        self._starts[rows], self._lengths[rows] = self._used + np.cumsum(lengths) - lengths, lengths
        self._used = end

    def _make_room(self, added: int) -> None:
        """Compact the lists into a new array, twice as long as they and `added` more integers need."""
        rows = np.flatnonzero(self._lengths)
        _, numbers = self.of(rows)
        self._starts[rows] = np.cumsum(self._lengths[rows]) - self._lengths[rows]
        self._used = len(numbers)
        self._numbers = np.zeros(2 * (self._used + added), np.int32)
        self._numbers[: self._used] = numbers

    def of(self, rows: npt.NDArray[np.integer]) -> tuple[IntArray, IntArray]:
        """Return (index into `rows`, integer) for every integer in the lists of `rows`, as two parallel arrays."""
        lengths = self._lengths[rows]
        places = np.flatnonzero(lengths)
        lengths, at = lengths[places], self._starts[rows[places]]
        total = int(lengths.sum())
        if total > len(places):
            skipped = np.cumsum(lengths) - lengths
            places, at = np.repeat(places, lengths), np.repeat(at - skipped, lengths) + np.arange(total)
        return places, self._numbers[at].astype(np.int64)
