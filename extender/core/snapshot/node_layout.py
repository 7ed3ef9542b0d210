"""Running pods side by side: nodes in columns, a node's pods from the most to the least important.

Importance is kube-scheduler's or another one; those that are equal in it stand in listing order.

Rule: only nodes that are named are laid out anew; all others stay as they are.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from extender.core.snapshot.arrays import BASE_RESOURCES, NEVER, IntArray, PodAmounts


class PodColumns(Protocol):
    """What a layout reads of every pod, [pod]."""

    @property
    def priority(self) -> IntArray: ...
    @property
    def order(self) -> IntArray: ...
    @property
    def demand(self) -> IntArray: ...


Importance = Callable[[IntArray], Sequence[IntArray]]
"""Pod rows -> keys by which they are sorted, the first one first; the most important pod has the smallest."""


class NodeLayout:
    """The arrays, of so many nodes and as many ranks as the node with the most pods needs."""

    def __init__(self, importance: Importance) -> None:
        self._importance = importance
        self.rank: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        """[pod] -> k."""
        self._allocate(1, 0)

    def _allocate(self, depth: int, size: int) -> None:
        self.pod: npt.NDArray[np.int32] = np.full((depth, size), -1, np.int32)
        """[k, node] -> pod row, -1 where the node has fewer pods."""
        self.priority: IntArray = np.full((depth, size), NEVER, np.int64)
        """[k, node], NEVER where there is no pod (so that it is never lower than a preemptor's)."""
        self.demand: IntArray = np.zeros((depth, len(BASE_RESOURCES), size), np.int64)
        """[k, resource, node]."""
        self.used: IntArray = np.zeros((len(BASE_RESOURCES), size), np.int64)
        """[resource, node]: sum of the demands."""

    def resize(self, depth: int, size: int, pods: int) -> None:
        """Make room for so many ranks, nodes and pod rows; new nodes are empty, and those beyond `size` gone."""
        if len(self.rank) < pods:
            self.rank = np.concatenate((self.rank, np.zeros(pods - len(self.rank), np.int32)))
        held = self.pod.shape
        if held[0] >= depth and held[1] == size:
            return
        old = self._arrays()
        self._allocate(max(depth, held[0]), size)
        kept = min(size, held[1])
        for after, before in zip(self._arrays(), old, strict=True):
            after[: len(before), ..., :kept] = before[..., :kept]

    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self.pod, self.priority, self.demand, self.used

    def lay_out(self, nodes: Sequence[int], running: Iterable[Iterable[int]], of: PodColumns) -> None:
        """Put down the `running` pod rows of each of the `nodes`; there must be room for them (`resize`)."""
        lists = [list(rows) for rows in running]
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        pods = np.fromiter(chain.from_iterable(lists), np.int64, int(counts.sum()))
        columns = np.array(nodes, np.int64)
        own = np.repeat(np.arange(len(columns)), counts)
        by_importance = np.lexsort((of.order[pods], *reversed(self._importance(pods)), own))
        pods = pods[by_importance]
        ranks = np.arange(len(pods)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._clear(columns)
        at = columns[own]
        self.pod[ranks, at] = pods
        self.rank[pods] = ranks
        self.priority[ranks, at] = of.priority[pods]
        self.demand[ranks, :, at] = of.demand[pods]
        self.used[:, columns] = self.demand[:, :, columns].sum(axis=0)

    def _clear(self, columns: IntArray) -> None:
        self.pod[:, columns] = -1
        self.priority[:, columns] = NEVER
        self.demand[:, :, columns] = 0


@dataclass(frozen=True, slots=True)
class SparseDemand:
    """The pods that take of one column, one by one."""

    column: int
    """Its place among the columns."""
    ranks: npt.NDArray[np.int32]
    """[pod] -> k."""
    places: IntArray
    """[pod] -> place of its node."""
    amounts: IntArray
    """[pod]."""

    def among(self, mask: npt.NDArray[np.bool_]) -> "SparseDemand":
        """Those of the mask [k, node]."""
        here = mask[self.ranks, self.places]
        return SparseDemand(self.column, self.ranks[here], self.places[here], self.amounts[here])


@dataclass(frozen=True)
class RankedDemand:
    """Columns of amounts by rank and node, laid out only where a dry run asks for it."""

    layout: NodeLayout
    columns: tuple[PodAmounts | int, ...]
    """A number is a place in BASE_RESOURCES: what all pods take of that resource. These come first."""
    rows: IntArray | None = None
    """Which nodes; None: all."""

    def at(self, rows: IntArray) -> "RankedDemand":
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    @cached_property
    def base(self) -> tuple[int, ...]:
        """The columns that all pods take of."""
        return tuple(column for column in self.columns if isinstance(column, int))

    @cached_property
    def sparse(self) -> tuple[SparseDemand, ...]:
        """Of the other columns."""
        place_of = None
        if self.rows is not None:
            place_of = np.full(self.layout.pod.shape[1], -1)
            place_of[self.rows] = np.arange(len(self.rows))
        found = []
        for number, column in enumerate(self.columns):
            if not isinstance(column, int):
                pods, places, amounts = column.pods, column.nodes, column.amounts
                if place_of is not None:
                    places = place_of[places]
                    here = np.flatnonzero(places >= 0)
                    pods, places, amounts = pods[here], places[here], amounts[here]
                found.append(SparseDemand(number, self.layout.rank[pods], places, amounts))
        return tuple(found)

    def to_dense(self) -> IntArray:
        """[k, column, node]."""
        depth, size = len(self.layout.pod), self._size
        to_dense = np.zeros((depth, len(self.columns), size), np.int64)
        to_dense[:, : len(self.base)] = self.demand(slice(len(self.base)))
        for taking in self.sparse:
            to_dense[taking.ranks, taking.column, taking.places] = taking.amounts
        return to_dense

    def demand(self, base: slice) -> IntArray:
        """[k, resource, node] of some of BASE_RESOURCES; not to be changed."""
        demand = self.layout.demand[:, base]
        return demand if self.rows is None else demand.take(self.rows, axis=2)

    def sums(self, mask: npt.NDArray[np.bool_]) -> IntArray:
        """[column, node]: what the pods of the mask [k, node] take together."""
        sums = np.zeros((len(self.columns), self._size), np.int64)
        if self.base:
            demand = self.demand(slice(len(self.base)))
            np.einsum("kcn,kn->cn", demand, mask.astype(np.int64), out=sums[: len(self.base)])
        for taking in self.sparse:
            of_mask = taking.among(mask)
            np.add.at(sums[taking.column], of_mask.places, of_mask.amounts)
        return sums

    @property
    def _size(self) -> int:
        """How many nodes."""
        return self.layout.pod.shape[1] if self.rows is None else len(self.rows)
