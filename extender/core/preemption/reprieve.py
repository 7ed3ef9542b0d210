"""Reprieve potential victims: put removed pods back, most important first; pods that no longer fit are the victims.

This is the reprieve loop of defaultpreemption.SelectVictimsOnNode (v1.36), run for all nodes in parallel. Upstream puts
one pod back on one node and runs the filters; here step k puts the pod of rank k back on every node, and the filters
are additions and comparisons on arrays of headroom [column, node].

A worked example: two nodes, three potential victims each, all in one group of `order`. With all of them removed, the
preemptor leaves 2 CPUs of headroom on both nodes:

    CPUs that pods take [k, node]     n1  n2
    k = 0 (most important)             1   2    headroom [2, 2]: both fit, both are put back
    k = 1                              2   1    headroom [1, 0]: neither fits, both are victims
    k = 2                              1   1    headroom [1, 0]: fits on n1 and is put back; a victim on n2
    victims: rank 1 on n1; ranks 1 and 2 on n2

With two groups (PDB-violating pods, then the other pods) the steps run for each group, on the headroom that the groups
before it left; the masks in `order` specify which pods of rank k belong to a group.

Most columns have enough headroom for all removed pods, so they never stop a pod from being put back. Only columns that
may run short are followed; columns that few pods use are followed only on the nodes of these pods.

Rule: this is the only reprieve loop; the pods, their order and their demand are passed in.
"""

from collections.abc import Iterator, Sequence
from itertools import compress

import numpy as np

from extender.core.framework.filter import FilterResults
from extender.core.framework.filter_checks import ColumnwiseConstraint, Constraint, EvictablePods
from extender.core.framework.status import Code
from extender.core.snapshot.arrays import BoolArray, IntArray, index_in
from extender.core.snapshot.node_layout import SparseDemand


def reprieve(emptied: FilterResults, evictable: EvictablePods, order: Sequence[BoolArray]) -> BoolArray:
    """Return [k, node]: the victims, which are the evictable pods that cannot be put back.

    A node has no victims if the preemptor does not fit even with all evictable pods removed (`emptied`). `order`: masks
    [k, node] that partition the evictable pods into groups, put back group by group, each most important first.
    """
    fits_emptied: BoolArray = emptied.codes == Code.SUCCESS
    followed = list(_followed_columns(emptied, fits_emptied, evictable))
    victims = evictable.mask & fits_emptied
    for group in order:
        reprieved = group.copy()
        for k in np.flatnonzero(group.any(axis=1)).tolist():
            # Check all columns before changing any: a pod that any plugin rejects must not take headroom.
            fits = reprieved[k]
            for columns in followed:
                columns.reject(k, fits)
            for columns in followed:
                columns.put_back(k, fits)
        victims &= ~reprieved
    return victims


class _FollowedColumns:
    """Headroom of columns while pods are put back, on all nodes or a subset; every column must stay >= 0."""

    def __init__(self, nodes: IntArray | slice, headroom: IntArray, demand: IntArray) -> None:
        """`headroom`: [column, entry of `nodes`], changed in place; `demand`: [k, column, entry of `nodes`]."""
        self._nodes, self._headroom, self._demand = nodes, headroom, demand
        # Buffers shared by all steps: the loop runs once per rank, and allocating would cost more than the arithmetic.
        self._enough, self._taken = np.empty(headroom.shape, np.bool_), np.empty_like(headroom)

    def reject(self, k: int, fits: BoolArray) -> None:
        """Clear `fits` [node] where these columns lack headroom for the pod of rank `k`."""
        np.less_equal(self._demand[k], self._headroom, out=self._enough)
        fits[self._nodes] &= np.logical_and.reduce(self._enough, axis=0)

    def put_back(self, k: int, fits: BoolArray) -> None:
        """Subtract the demand of the pods of rank `k` on the nodes where they are put back (`fits` [node])."""
        np.multiply(self._demand[k], fits[self._nodes], out=self._taken)
        np.subtract(self._headroom, self._taken, out=self._headroom)


class _FollowedConstraint(_FollowedColumns):
    """Headroom of a constraint whose rule is not `headroom >= 0` in every column, such as topology spread."""

    def __init__(self, nodes: IntArray, headroom: IntArray, demand: IntArray, constraint: Constraint) -> None:
        """`constraint`: restricted to `nodes`; for the others see the base class."""
        super().__init__(nodes, headroom, demand)
        self._constraint = constraint

    def reject(self, k: int, fits: BoolArray) -> None:
        headroom, nominated = self._headroom - self._demand[k], self._constraint.nominated_demand
        fits[self._nodes] &= self._constraint.fits(headroom)
        if nominated is not None:
            fits[self._nodes] &= self._constraint.fits(headroom - nominated)


def _followed_columns(emptied: FilterResults, fits: BoolArray, evictable: EvictablePods) -> Iterator[_FollowedColumns]:
    """Yield the columns that may run short where the preemptor fits with all evictable pods removed (`fits` [node])."""
    sparse: list[tuple[IntArray, SparseDemand]] = []
    for check, beside, headroom in zip(emptied.checks, *emptied.headrooms, strict=True):
        if isinstance(check, ColumnwiseConstraint):
            # RunFilterPluginsWithNominatedPods: the pod must fit with and without the nominated pods. With them, the
            # headroom is smaller unless a nominated pod takes a negative amount, so follow the minimum.
            least = headroom if beside is headroom else np.minimum(headroom, beside)
            # BASE_RESOURCES on all nodes: the columns from the first that may run short to the last.
            base = list(check.ranked_demand.base)
            if evictable.freed is not None and not evictable.has_negative_demand:
                short = [(fits & (least[column] < evictable.freed[column])).any() for column in base]
                base = list(compress(base, short))
            if base:
                columns = slice(base[0], base[-1] + 1)
                yield _FollowedColumns(slice(None), least[columns].copy(), check.ranked_demand.demand(columns))
            # Columns that few pods use, restricted to the evictable pods.
            sparse += [(least[taking.column], taking.among(evictable.mask)) for taking in check.ranked_demand.sparse]
        elif isinstance(check, Constraint):
            yield from _constraint_room(check, headroom, fits, evictable)
    # Follow the columns that few pods use on the nodes where at least one of these columns may run short.
    has_short = np.zeros(len(fits), np.bool_)
    for headroom, taking in sparse:
        total = np.zeros(len(fits), np.int64)
        np.add.at(total, taking.node_index, np.maximum(taking.amounts, 0))
        has_short |= (total > headroom) & (total > 0)
    nodes = np.flatnonzero(has_short & fits)
    if len(nodes):
        demand = _dense_demand([taking for _, taking in sparse], nodes, evictable.mask.shape)
        yield _FollowedColumns(nodes, np.stack([headroom[nodes] for headroom, _ in sparse]), demand)


def _constraint_room(
    check: Constraint, headroom: IntArray, fits: BoolArray, evictable: EvictablePods
) -> Iterator[_FollowedColumns]:
    """Yield the constraint for the nodes whose evictable pods have demand on it; it cannot run short on other nodes."""
    sparse = [taking.among(evictable.mask) for taking in check.ranked_demand.sparse]
    has_demand = np.zeros(len(fits), np.bool_)
    for taking in sparse:
        has_demand[taking.node_index] = True
    nodes = np.flatnonzero(has_demand & fits)
    if len(nodes):
        yield _FollowedConstraint(
            nodes, headroom[:, nodes], _dense_demand(sparse, nodes, evictable.mask.shape), check.take(nodes)
        )


def _dense_demand(sparse: Sequence[SparseDemand], nodes: IntArray, shape: tuple[int, ...]) -> IntArray:
    """Return [k, column, entry of `nodes`]: the demand; `shape`: (number of ranks, number of nodes of the dry run)."""
    depth, size = shape
    index_of = index_in(nodes, size)
    demand = np.zeros((depth, len(sparse), len(nodes)), np.int64)
    for column, taking in enumerate(sparse):
        index = index_of[taking.node_index]
        here = index >= 0
        demand[taking.ranks[here], column, index[here]] = taking.amounts[here]
    return demand
