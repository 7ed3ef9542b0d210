"""Running pods side by side: nodes in columns, a node's pods from the most to the least important.

Importance is kube-scheduler's or another one; those that are equal in it stand in listing order.

Rule: only nodes that are named are laid out anew; all others stay as they are.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from extender.core.columns import BASE_RESOURCES, NEVER, IntArray, PodAmounts


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


class Layout:
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
class Placed:
    """Columns of amounts that are laid out by rank and node only where a dry run asks for it."""

    layout: Layout
    columns: tuple[PodAmounts, ...]
    rows: IntArray | None = None
    """Which nodes; None: all."""

    def at(self, rows: IntArray) -> "Placed":
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def laid_out(self) -> IntArray:
        """[k, column, node]."""
        depth, size = self.layout.pod.shape
        places = np.arange(size)
        if self.rows is not None:
            places = np.full(size, -1)
            size = len(self.rows)
            places[self.rows] = np.arange(size)
        laid_out = np.zeros((depth, len(self.columns), size), np.int64)
        for number, column in enumerate(self.columns):
            place = places[column.nodes]
            here = place >= 0
            laid_out[self.layout.rank[column.pods[here]], number, place[here]] = column.amounts[here]
        return laid_out
