"""Running pods by node and rank: one column per node, its pods from the most to the least important.

Together with `pod_table`, the counterpart of NodeInfo (framework.NodeInfo, v1.36): NodeInfo.Pods, sorted by
importance, and NodeInfo.Requested, as arrays over all nodes. The order is kube-scheduler's or a configured one; pods
that are equally important keep their listing order.

Rule: `lay_out` writes only the nodes that it is given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from extender.core.snapshot.arrays import BASE_RESOURCES, NEVER, IntArray, PodAmounts, index_in
from extender.core.snapshot.pod_table import PodTable

Importance = Callable[[IntArray], Sequence[IntArray]]
"""Function from pod rows to sort keys, most significant key first; the most important pod has the smallest keys."""


_SPARE_RANKS = 4
"""One spare rank per this many ranks, so that one more pod on the fullest node does not copy all nodes."""


class NodeLayout:
    """Arrays [k, node], where k is a pod's rank; they have as many ranks as the fullest node has pods."""

    def __init__(self, importance: Importance) -> None:
        self._importance = importance
        self.rank: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        """[pod]: rank k on its node."""
        self._allocate(1, 0)

    def _allocate(self, depth: int, size: int) -> None:
        ranks = depth + depth // _SPARE_RANKS
        self._pod, self._priority = np.full((ranks, size), -1, np.int32), np.full((ranks, size), NEVER, np.int64)
        self._demand: IntArray = np.zeros((ranks, len(BASE_RESOURCES), size), np.int64)
        self.used: IntArray = np.zeros((len(BASE_RESOURCES), size), np.int64)
        """[resource, node]: sum of the requests (NodeInfo.Requested)."""
        self._show(depth)

    def _show(self, depth: int) -> None:
        self.pod: npt.NDArray[np.int32] = self._pod[:depth]
        """[k, node]: pod row, -1 where the node has fewer pods."""
        self.priority: IntArray = self._priority[:depth]
        """[k, node]: priority; where the node has fewer pods NEVER, which is not lower than any preemptor's."""
        self.demand: IntArray = self._demand[:depth]
        """[k, resource, node]: requests of BASE_RESOURCES."""

    def resize(self, depth: int, size: int, pods: int) -> None:
        """Resize to `size` nodes, at least `depth` ranks and `pods` pod rows; new nodes are empty."""
        if len(self.rank) < pods:
            self.rank = np.concatenate((self.rank, np.zeros(pods - len(self.rank), np.int32)))
        held = self.pod.shape
        depth = max(depth, held[0])
        if depth <= len(self._pod) and held[1] == size:
            self._show(depth)
            return
        old = self._arrays()
        self._allocate(depth, size)
        kept = min(size, held[1])
        for after, before in zip(self._arrays(), old, strict=True):
            after[: len(before), ..., :kept] = before[..., :kept]

    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self.pod, self.priority, self.demand, self.used

    def lay_out(self, nodes: Sequence[int], size: int, of: PodTable) -> None:
        """Sort the pods of each of the `nodes` by importance and write them; `size`: number of all nodes."""
        if not nodes and self.pod.shape[1] == size:
            return
        self.resize(max((len(of.on_node[node]) for node in nodes), default=1), size, len(of.node))
        # One node at a time: usually only one has changed between two decisions.
        for node in nodes:
            pods = np.fromiter(of.on_node[node].values(), np.int64)
            # lexsort's last key is the first one to sort by.
            pods = pods[np.lexsort((of.order[pods], *reversed(self._importance(pods))))]
            count, demand = len(pods), of.demand[pods]
            self.rank[pods] = np.arange(count)
            self.pod[:count, node], self.pod[count:, node] = pods, -1
            self.priority[:count, node], self.priority[count:, node] = of.priority[pods], NEVER
            self.demand[:count, :, node], self.demand[count:, :, node] = demand, 0
            self.used[:, node] = demand.sum(axis=0)


@dataclass(frozen=True, slots=True)
class SparseDemand:
    """One sparse column: the pods that take an amount, and the amounts."""

    column: int
    """Index among the columns of the RankedDemand."""
    ranks: npt.NDArray[np.int32]
    """[entry]: rank k of the pod."""
    node_index: IntArray
    """[entry]: index of its node among the selected nodes."""
    amounts: IntArray
    """[entry]: amount that the pod takes."""

    def among(self, mask: npt.NDArray[np.bool_]) -> "SparseDemand":
        """Keep the entries of pods in the mask [k, node]."""
        here = mask[self.ranks, self.node_index]
        return SparseDemand(self.column, self.ranks[here], self.node_index[here], self.amounts[here])


@dataclass(frozen=True)
class RankedDemand:
    """Amounts that pods take, as columns over rank and node; arrays are built only when a dry run needs them."""

    layout: NodeLayout
    columns: tuple[PodAmounts | int, ...]
    """An int is an index into BASE_RESOURCES, which have an amount for every pod; these columns come first."""
    rows: IntArray | None = None
    """Rows of the selected nodes; None if all nodes are selected."""

    def take(self, rows: IntArray) -> "RankedDemand":
        """Narrow the selection to the nodes at the indexes `rows`."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    @cached_property
    def base(self) -> tuple[int, ...]:
        """Columns that are BASE_RESOURCES."""
        return tuple(column for column in self.columns if isinstance(column, int))

    @cached_property
    def sparse(self) -> tuple[SparseDemand, ...]:
        """The sparse columns, restricted to the selected nodes."""
        index_of = None if self.rows is None else index_in(self.rows, self.layout.pod.shape[1])
        found = []
        for number, column in enumerate(self.columns):
            if not isinstance(column, int):
                pods, nodes, amounts = column.pods, column.nodes, column.amounts
                if index_of is not None:
                    nodes = index_of[nodes]
                    here = np.flatnonzero(nodes >= 0)
                    pods, nodes, amounts = pods[here], nodes[here], amounts[here]
                found.append(SparseDemand(number, self.layout.rank[pods], nodes, amounts))
        return tuple(found)

    def to_dense(self) -> IntArray:
        """Return [k, column, node]: all amounts as one array."""
        dense = np.zeros((len(self.layout.pod), len(self.columns), self._size), np.int64)
        dense[:, : len(self.base)] = self.demand(slice(len(self.base)))
        for one in self.sparse:
            dense[one.ranks, one.column, one.node_index] = one.amounts
        return dense

    def demand(self, base: slice) -> IntArray:
        """Return [k, resource, node]: amounts of BASE_RESOURCES[base]; a view, which callers must not write to."""
        demand = self.layout.demand[:, base]
        return demand if self.rows is None else demand.take(self.rows, axis=2)

    def sums(self, mask: npt.NDArray[np.bool_]) -> IntArray:
        """Return [column, node]: sum of the amounts that the pods in the mask [k, node] take."""
        sums = np.zeros((len(self.columns), self._size), np.int64)
        if self.base:
            demand = self.demand(slice(len(self.base)))
            np.einsum("kcn,kn->cn", demand, mask.astype(np.int64), out=sums[: len(self.base)])
        for one in self.sparse:
            of_mask = one.among(mask)
            np.add.at(sums[one.column], of_mask.node_index, of_mask.amounts)
        return sums

    @property
    def _size(self) -> int:
        """Number of selected nodes."""
        return self.layout.pod.shape[1] if self.rows is None else len(self.rows)
