"""Match a label set with many label selectors at once.

No selector is evaluated by itself: each label is looked up in postings that list the requirements which it meets or
breaks. The time depends on the labels and on the requirements that name them, however many other selectors there are.

Rule: results are equal to LabelMatcher.matches of every selector.
"""

from array import array
from collections.abc import Hashable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from extender.core.snapshot.arrays import BoolArray
from extender.k8s.selectors import LabelMatcher

MAX_REQUIREMENTS_ONE_BY_ONE = 64
"""Selectors with more requirements than this, all together, are matched by a SelectorTable instead of one by one."""

Signature = tuple[int, ...]
"""The postings that a label set has: label sets with equal signatures match the same selectors."""

Rows = npt.NDArray[np.int32]


class Postings:
    """Lists of numbers by key; all lists are slices of one array, because millions of small lists would not fit."""

    __slots__ = ("_keys", "_number_of", "_numbers", "_offsets")

    def __init__(self) -> None:
        self._number_of: dict[Hashable, int] = {}
        self._keys, self._numbers = array("i"), array("i")
        self._offsets: tuple[Rows, npt.NDArray[np.int64]] | None = None

    def add(self, key: Hashable, number: int) -> None:
        self._keys.append(self._number_of.setdefault(key, len(self._number_of)))
        self._numbers.append(number)
        self._offsets = None

    def find(self, key: Hashable) -> int | None:
        """Return the index of the key's list; None without one."""
        return self._number_of.get(key)

    def lists(self, indices: Iterable[int]) -> Rows:
        """Return the numbers of some lists, one list after the other."""
        if self._offsets is None:
            keys = np.array(self._keys, np.int32)
            in_order = np.array(self._numbers, np.int32)[np.argsort(keys, kind="stable")]
            counts = np.bincount(keys, minlength=len(self._number_of))
            self._offsets = in_order, np.concatenate(([0], np.cumsum(counts)))
        numbers, offsets = self._offsets
        found = [numbers[offsets[index] : offsets[index + 1]] for index in indices]
        return np.concatenate(found) if found else numbers[:0]


class SelectorTable:
    """Label selectors in rows."""

    def __init__(self, selectors: Iterable[LabelMatcher] = ()) -> None:
        self._needed = array("i")
        """[selector]: number of its requirements that only a label can meet; -1: matches nothing."""
        self._postings = Postings()
        """(label key, value), or (label key, None) for any value -> rows whose requirement the label meets, and ~row
        for rows whose requirement it breaks."""
        for selector in selectors:
            self.add(selector)

    def add(self, selector: LabelMatcher) -> None:
        """Append a selector."""
        row, needed = len(self._needed), -1 if selector.is_nothing else 0
        for one in () if selector.is_nothing else selector.requirements:
            is_positive = one.operator in ("In", "Exists")
            needed += is_positive
            for value in one.values or (None,):
                self._postings.add((one.key, value), row if is_positive else ~row)
        self._needed.append(needed)

    def signature(self, labels: Mapping[str, str]) -> Signature:
        """Return what of the labels the selectors name."""
        find = self._postings.find
        found = (find(key) for one in labels.items() for key in (one, (one[0], None)))
        return tuple([index for index in found if index is not None])

    def matching(self, signature: Signature) -> BoolArray:
        """Return [selector]: whether it matches label sets of this signature."""
        needed = np.array(self._needed, np.int32)
        if not signature:
            return np.asarray(needed == 0)
        touched = self._postings.lists(signature)
        hits = np.bincount(touched[touched >= 0], minlength=len(needed))
        matches: BoolArray = hits == needed
        matches[~touched[touched < 0]] = False
        return matches
