"""Numpy building blocks of the snapshot: dictionary-encoded columns, sparse amounts and sets of rows.

Axis names used everywhere in `core`: `node` is a row of `Snapshot.nodes`, `pod` a row of `Snapshot.pods` (running
pods), `k` a pod's rank by importance on its node, `resource` an index into BASE_RESOURCES.

Rule: knows arrays and selectors only, nothing of a snapshot.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from extender.k8s.selectors import Requirement, parse_int64

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
NodeRows = npt.NDArray[np.int64]
"""Rows of a selection of the snapshot's nodes."""

Array = TypeVar("Array", bound=npt.NDArray[Any])

BASE_RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage")
"""Resources that every node and pod has a column for, in millicores, bytes, pods and bytes.

ephemeral-storage comes last because few pods request it, so that it can be left out of an array by slicing.
"""

MAX_AMOUNT = 2**55
"""Largest amount in a column (36 PB, 36 Tcores): larger ones are clamped, so that sums over a node fit int64."""

NEVER = np.iinfo(np.int64).max
"""Start time of a pod that has not started: later than any other start time."""


def select_columns(array: npt.NDArray[Any], rows: IntArray) -> npt.NDArray[Any]:
    """Select columns of the last axis."""
    # Usually all nodes are selected: then the array itself is returned, as copying [k, node] would cost milliseconds.
    are_all = len(rows) == array.shape[-1] and bool((rows[1:] > rows[:-1]).all())
    return array if are_all else array[..., rows]


def grown(array: Array, row: int, fill: int) -> Array:
    """Return the array if it has this row, or else a copy that is longer by a quarter, padded with `fill`."""
    if row < len(array):
        return array
    longer = np.full((max(len(array) + len(array) // 4, row + 1), *array.shape[1:]), fill, array.dtype)
    longer[: len(array)] = array
    return longer  # type: ignore[return-value]


def count_per_node(mask: BoolArray) -> IntArray:
    """Return [node]: number of true values of the mask [k, node]."""
    # Adding rows is faster than numpy.count_nonzero with an axis; no node has so many pods that int16 overflows.
    counts: IntArray = np.add.reduce(mask.view(np.uint8), axis=0, dtype=np.int16).astype(np.int64)
    return counts


def mask_of(rows: IntArray, size: int) -> BoolArray:
    """Return [row], of length `size`: whether the row is one of `rows`."""
    found = np.zeros(size, np.bool_)
    found[rows] = True
    return found


def index_in(rows: IntArray, size: int) -> IntArray:
    """Return [row], of length `size`: index of the row in `rows`, -1 for other rows."""
    found = np.full(size, -1)
    found[rows] = np.arange(len(rows))
    return found


def over_limit(candidate_index: IntArray, numbers: IntArray, allowed: IntArray, size: int) -> BoolArray:
    """Return [candidate], of length `size`: whether a number occurs there more often than `allowed[number]`.

    `candidate_index` and `numbers` have one entry per occurrence.
    """
    result = np.zeros(size, np.bool_)
    room, together = allowed[numbers], np.bincount(candidate_index, minlength=size)[candidate_index]
    result[candidate_index[room <= 0]] = True
    # A number can exceed its limit only if all entries of the candidate together exceed it. Candidates whose result is
    # known are not counted either.
    risky = np.flatnonzero((room < together) & ~result[candidate_index])
    keys, counts = np.unique(candidate_index[risky] * len(allowed) + numbers[risky], return_counts=True)
    result[keys[counts > allowed[keys % len(allowed)]] // len(allowed)] = True
    return result


def clamped(amount: int) -> int:
    """Clamp an amount to the range of a column."""
    return min(max(amount, -MAX_AMOUNT), MAX_AMOUNT)


@dataclass(frozen=True, slots=True)
class VictimRows:
    """Victims of several candidates as one list, for counting on arrays."""

    pods: IntArray
    """[victim]: pod row."""
    candidate_index: IntArray
    """[victim]: index of its candidate."""
    size: int
    """Number of candidates."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A dictionary-encoded column: `values[codes[row]]` is the value of `row`."""

    codes: npt.NDArray[np.int32]
    values: tuple[Any, ...]

    def map_bool(self, check: Callable[[Any], bool]) -> BoolArray:
        """Return [row]: result of `check`, called once per distinct value."""
        return np.fromiter(map(check, self.values), np.bool_, len(self.values))[self.codes]

    def map_int(self, count: Callable[[Any], int]) -> IntArray:
        """Return [row]: result of `count`, called once per distinct value."""
        return np.fromiter(map(count, self.values), np.int64, len(self.values))[self.codes]


@dataclass(frozen=True)
class LabelColumn(Encoded):
    """[node]: value of one label, None if the node does not have the label."""

    code_of: Mapping[str | None, int]
    present: BoolArray
    """[node]: whether the node has the label."""

    @classmethod
    def of(cls, values: Sequence[str | None]) -> "LabelColumn":
        encoded = encode(values)
        code_of = {value: code for code, value in enumerate(encoded.values)}
        return cls(encoded.codes, encoded.values, code_of, encoded.codes != code_of.get(None, -1))

    def sums(self, nodes: IntArray, amounts: IntArray) -> IntArray:
        """Return [value]: sum of the amounts over the nodes with the value; `nodes` may repeat a node."""
        sums = np.zeros(len(self.values), np.int64)
        np.add.at(sums, self.codes[nodes], amounts)
        return sums

    def holds(self, wanted: Requirement) -> BoolArray:
        """Return [node]: whether its label value satisfies the requirement."""
        match wanted.operator:
            case "Exists":
                return self.present
            case "DoesNotExist":
                return ~self.present
            case "In" | "NotIn":
                codes = [self.code_of[value] for value in wanted.values if value in self.code_of]
                if len(codes) == 1:
                    listed: BoolArray = self.codes == codes[0]
                else:
                    listed = mask_of(np.array(codes, np.int64), len(self.values))[self.codes]
                return ~listed if wanted.operator == "NotIn" else listed
        numbers, are_numbers = self._numbers
        beyond = numbers > wanted.bound if wanted.operator == "Gt" else numbers < wanted.bound
        satisfied: BoolArray = (beyond & are_numbers)[self.codes]
        return satisfied

    @cached_property
    def _numbers(self) -> tuple[IntArray, BoolArray]:
        """[value]: its integer, and whether it is one; computed on demand, as few requirements are Gt or Lt."""
        numbers = [parse_int64(value) for value in self.values]
        as_array = np.array([number or 0 for number in numbers], np.int64)
        return as_array, np.array([number is not None for number in numbers], np.bool_)


def encode(values: Sequence[Any], key: Callable[[Any], Any] = lambda value: value) -> Encoded:
    """Dictionary-encode `values`; values are equal if their keys are equal."""
    index: dict[Any, int] = {}
    distinct: list[Any] = []
    codes = np.empty(len(values), np.int32)
    for row, value in enumerate(values):
        identity = key(value)
        code = index.get(identity)
        if code is None:
            code = index[identity] = len(distinct)
            distinct.append(value)
        codes[row] = code
    return Encoded(codes, tuple(distinct))


@dataclass(frozen=True, slots=True)
class PodAmounts:
    """A sparse column: amounts that running pods take; pods without an entry take nothing."""

    pods: IntArray
    """Pod rows, each at most once."""
    nodes: IntArray
    """[index in pods]: node row."""
    amounts: IntArray
    """[index in pods]: amount."""

    @classmethod
    def sum(cls, columns: Sequence["PodAmounts"]) -> "PodAmounts":
        """Add up columns, pod by pod."""
        if len(columns) == 1:
            return columns[0]
        none = np.empty(0, np.int64)
        all_pods = np.concatenate([none, *(column.pods for column in columns)])
        pods, first, entries = np.unique(all_pods, return_index=True, return_inverse=True)
        amounts = np.zeros(len(pods), np.int64)
        np.add.at(amounts, entries, np.concatenate([none, *(column.amounts for column in columns)]))
        return cls(pods, np.concatenate([none, *(column.nodes for column in columns)])[first], amounts)

    def per_node(self, size: int) -> IntArray:
        """Return [node]: sum of the amounts; `size` is the number of nodes."""
        totals = np.zeros(size, np.int64)
        np.add.at(totals, self.nodes, self.amounts)
        return totals


class RowSet:
    """Set of pod rows that changes row by row and is read as an array."""

    __slots__ = ("_rows", "members")

    def __init__(self) -> None:
        self.members: dict[int, None] = {}
        """The rows; a dict takes half the memory of a set, which quadruples when it grows."""
        self._rows: IntArray | None = None

    def add(self, row: int) -> None:
        self.members[row] = None
        self._rows = None

    def remove(self, row: int) -> None:
        self.members.pop(row, None)
        self._rows = None

    @property
    def rows(self) -> IntArray:
        """The rows in ascending order; the same array until the set changes."""
        if self._rows is None:
            self._rows = np.sort(np.fromiter(self.members, np.int64, len(self.members)))
        return self._rows
