"""Columns: dictionary-encoded values of nodes and pods, and amounts that some running pods take.

Names of axes used everywhere in `core`: `node` is a row of `Snapshot.nodes` (N of them), `pod` a row of
`Snapshot.pods` (running pods), `k` a pod's rank by importance on its node (K, the longest list), `resource` a column of
BASE_RESOURCES.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from extender.k8s.objects import Labels
from extender.k8s.selectors import Requirement

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Array = TypeVar("Array", bound=npt.NDArray[Any])

BASE_RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage")
"""Columns that every node and pod has: millicores, bytes, pods, bytes; the one that few ask for comes last."""

MAX_AMOUNT = 2**55
"""Amounts beyond this (36 PB, 36 Tcores) count as this much: sums over a node's pods stay within int64."""

NEVER = np.iinfo(np.int64).max
"""Start time of a pod that has none: later than any."""


def select_columns(array: npt.NDArray[Any], rows: IntArray) -> npt.NDArray[Any]:
    """Some of the columns of the last axis; the array itself, not a copy, if these are all in their order."""
    are_all = len(rows) == array.shape[-1] and bool((rows[1:] > rows[:-1]).all())
    return array if are_all else array[..., rows]


def doubled(array: Array, fill: int) -> Array:
    """Twice as long, the new half filled."""
    twice = np.full((2 * len(array), *array.shape[1:]), fill, array.dtype)
    twice[: len(array)] = array
    return twice  # type: ignore[return-value]


def count_per_node(mask: BoolArray) -> IntArray:
    """[k, node] -> [node]; as numpy.count_nonzero, but by rows, which is faster."""
    counts: IntArray = np.add.reduce(mask.view(np.uint8), axis=0, dtype=np.int16).astype(np.int64)
    return counts


def mask_of(places: IntArray, size: int) -> BoolArray:
    """[place]: is it among these?"""
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found


def over_limit(places: IntArray, numbers: IntArray, allowed: IntArray, size: int) -> BoolArray:
    """[place]: does some number stand there more often than `allowed[number]`? `places` and `numbers` go together."""
    result = np.zeros(size, np.bool_)
    room, together = allowed[numbers], np.bincount(places, minlength=size)[places]
    result[places[room <= 0]] = True
    # What all of a place together do not exceed need not be counted, nor where the answer is known.
    risky = np.flatnonzero((room < together) & ~result[places])
    keys, counts = np.unique(places[risky] * len(allowed) + numbers[risky], return_counts=True)
    result[keys[counts > allowed[keys % len(allowed)]] // len(allowed)] = True
    return result


def clamped(amount: int) -> int:
    """An amount as a column holds it."""
    return min(max(amount, -MAX_AMOUNT), MAX_AMOUNT)


@dataclass(frozen=True, slots=True)
class VictimRows:
    """The victims of some nodes, one by one."""

    pods: IntArray
    """[victim] -> pod row."""
    places: IntArray
    """[victim] -> place of its node."""
    size: int
    """How many nodes."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A dictionary-encoded column: `values[codes[row]]` is what stands in `row`."""

    codes: npt.NDArray[np.int32]
    values: tuple[Any, ...]

    def map_bool(self, check: Callable[[Any], bool]) -> BoolArray:
        """`check` asked once per distinct value -> bool[row]."""
        return np.fromiter(map(check, self.values), np.bool_, len(self.values))[self.codes]

    def map_int(self, count: Callable[[Any], int]) -> IntArray:
        """`count` asked once per distinct value -> int64[row]."""
        return np.fromiter(map(count, self.values), np.int64, len(self.values))[self.codes]


@dataclass(frozen=True, slots=True)
class LabelColumn(Encoded):
    """The nodes' values of one label; None where a node does not carry it."""

    code_of: Mapping[str | None, int]
    present: BoolArray
    """[node]: does it carry the label?"""

    @classmethod
    def of(cls, values: Sequence[str | None]) -> "LabelColumn":
        encoded = encode(values)
        code_of = {value: code for code, value in enumerate(encoded.values)}
        return cls(encoded.codes, encoded.values, code_of, encoded.codes != code_of.get(None, -1))

    def sums(self, nodes: IntArray, amounts: IntArray) -> IntArray:
        """[value]: the amounts added up over the nodes that have it; `nodes` may name one more than once."""
        sums = np.zeros(len(self.values), np.int64)
        np.add.at(sums, self.codes[nodes], amounts)
        return sums

    def holds(self, wanted: Requirement) -> BoolArray:
        """[node]: does the label satisfy the requirement?"""
        if wanted.operator == "In":
            codes = [self.code_of[value] for value in wanted.values if value in self.code_of]
            holds = np.zeros(len(self.codes), np.bool_)
            for code in codes:
                holds |= self.codes == code
            return holds
        return self.map_bool(wanted.holds)


def encode(values: Sequence[Any], key: Callable[[Any], Any] = lambda value: value) -> Encoded:
    """Dictionary-encode `values`; two are the same if `key` gives the same."""
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
class PodGroupKey:
    """What selectors look at in a pod: pods that share it match alike."""

    namespace: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class PodAmounts:
    """One column: how much some running pods take; all others take nothing."""

    pods: IntArray
    """Pod rows, each at most once."""
    nodes: IntArray
    """[place in pods] -> node row."""
    amounts: IntArray

    def without(self, pods: Sequence[int]) -> "PodAmounts":
        """The column, some pods left out."""
        kept = ~np.isin(self.pods, pods)
        return PodAmounts(self.pods[kept], self.nodes[kept], self.amounts[kept])

    def per_node(self, size: int) -> IntArray:
        """[node] sums, of so many nodes."""
        totals = np.zeros(size, np.int64)
        np.add.at(totals, self.nodes, self.amounts)
        return totals


class RowSet:
    """Some pod rows that come and go one by one."""

    __slots__ = ("_rows", "members")

    def __init__(self) -> None:
        self.members: set[int] = set()
        self._rows: IntArray | None = None

    def add(self, row: int) -> None:
        self.members.add(row)
        self._rows = None

    def remove(self, row: int) -> None:
        self.members.discard(row)
        self._rows = None

    @property
    def rows(self) -> IntArray:
        """Ascending; the same array until a row comes or goes."""
        if self._rows is None:
            self._rows = np.sort(np.fromiter(self.members, np.int64, len(self.members)))
        return self._rows
