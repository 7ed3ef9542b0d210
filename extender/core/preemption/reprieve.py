"""Put the pods that were taken off back, one rank of all nodes after the other; those that cannot stay are victims.

A node where the pod fits goes on fitting until a pod comes back that takes of a column which may run short. So only
such columns are followed, and those that few pods take of on the nodes of these pods alone.

Rule: this is the only reprieve loop there is; which pods, in which order and what they take is passed in.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from extender.core.framework.constraint import Constraint, EveryColumn, Evictable
from extender.core.framework.filter import FilterResults
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.node_layout import Taking


def reprieve(emptied: FilterResults, evictable: Evictable, order: Sequence[BoolArray]) -> BoolArray:
    """[k, node]: the evictable pods that cannot stay, none where the pod does not fit without them.

    `emptied`: the verdicts without all of them. `order`: masks [k, node], each evictable pod in one of them; the pods
    of the first are put back first, within a mask the most important ones.
    """
    followed = list(_followed(emptied, evictable))
    stayed = np.zeros_like(evictable.mask)
    for group in order:
        for k in np.flatnonzero(group.any(axis=1)).tolist():
            stay = group[k].copy()
            for one in followed:
                one.ask(k, stay)
            staying = stay.astype(np.int64)
            for one in followed:
                one.take(k, staying)
            stayed[k] |= stay
    victims: BoolArray = evictable.mask & emptied.fits & ~stayed
    return victims


class _Columns:
    """What is left of some columns, on all nodes or some, while pods are put back; each needs room by itself."""

    def __init__(self, nodes: IntArray | slice, room: IntArray, demand: IntArray) -> None:
        """[place] -> node; [column, place], which is to change; [k, column, place]."""
        self._nodes, self._room, self._demand = nodes, room, demand
        self._enough, self._taken = np.empty(room.shape, np.bool_), np.empty_like(room)

    def ask(self, k: int, stay: BoolArray) -> None:
        """Of the pods of rank `k` that want to `stay` [node], unset those that lack room."""
        stay[self._nodes] &= self._fits(self._demand[k])

    def _fits(self, demand: IntArray) -> BoolArray:
        """[column, place] -> [place]."""
        np.less_equal(demand, self._room, out=self._enough)
        fits: BoolArray = np.logical_and.reduce(self._enough, axis=0)
        return fits

    def take(self, k: int, staying: IntArray) -> None:
        """Let the pods of rank `k` take their room where `staying` [node] is 1, and not where it is 0."""
        np.multiply(self._demand[k], staying[self._nodes], out=self._taken)
        np.subtract(self._room, self._taken, out=self._room)


class _Constraint(_Columns):
    """The columns of a constraint that has a rule of its own."""

    def __init__(self, nodes: IntArray, room: IntArray, demand: IntArray, constraint: Constraint) -> None:
        """`constraint`: of these nodes."""
        super().__init__(nodes, room, demand)
        self._constraint = constraint

    def _fits(self, demand: IntArray) -> BoolArray:
        room, nominated = self._room - demand, self._constraint.nominated
        fits = self._constraint.fits(room)
        return fits if nominated is None else fits & self._constraint.fits(room - nominated)


def _followed(emptied: FilterResults, evictable: Evictable) -> Iterator[_Columns]:
    """What may run short on a node where the pod fits."""
    few: list[tuple[IntArray, Taking]] = []
    for check, beside, room in zip(emptied.checks, *emptied.rooms, strict=True):
        if isinstance(check, EveryColumn):
            # Room must do beside the nominated pods and without them; it is less beside them, unless one of them gives.
            least = room if beside is room else np.minimum(room, beside)
            yield from _of_all_pods(check, least, emptied.fits, evictable)
            few += [(least[taking.column], taking) for taking in _of_few_pods(check, evictable)]
        elif isinstance(check, Constraint):
            yield from _constraint(check, room, emptied.fits, evictable)
    yield from _where_short(few, emptied.fits, len(evictable.mask))


def _of_all_pods(check: Constraint, room: IntArray, fits: BoolArray, evictable: Evictable) -> Iterator[_Columns]:
    """BASE_RESOURCES, from the first to the last that may run short."""
    base = list(check.takes.base)
    if evictable.freed is not None and not evictable.gives:
        base = [column for column in base if (fits & (room[column] < evictable.freed[column])).any()]
    if base:
        columns = slice(base[0], base[-1] + 1)
        yield _Columns(slice(None), room[columns].copy(), check.takes.demand(columns))


def _of_few_pods(check: Constraint, evictable: Evictable) -> list[Taking]:
    """The other columns: the evictable pods that take of them."""
    return [taking.among(evictable.mask) for taking in check.takes.takings]


def _where_short(few: Sequence[tuple[IntArray, Taking]], fits: BoolArray, depth: int) -> Iterator[_Columns]:
    """Columns, each with its room [node], on the nodes where one of them may run short."""
    short = np.zeros(len(fits), np.bool_)
    for room, taking in few:
        most = np.zeros(len(fits), np.int64)
        np.add.at(most, taking.places, np.maximum(taking.amounts, 0))
        short |= (most > room) & (most > 0)
    nodes = np.flatnonzero(short & fits)
    if len(nodes):
        demand = _laid_out([taking for _, taking in few], nodes, (depth, len(fits)))
        yield _Columns(nodes, np.stack([room[nodes] for room, _ in few]), demand)


def _constraint(check: Constraint, room: IntArray, fits: BoolArray, evictable: Evictable) -> Iterator[_Columns]:
    """On the nodes where some evictable pod takes of it."""
    takings = _of_few_pods(check, evictable)
    concerned = np.zeros(len(fits), np.bool_)
    for taking in takings:
        concerned[taking.places] = True
    nodes = np.flatnonzero(concerned & fits)
    if len(nodes):
        yield _Constraint(nodes, room[:, nodes], _laid_out(takings, nodes, evictable.mask.shape), check.at(nodes))


def _laid_out(takings: Sequence[Taking], nodes: IntArray, shape: tuple[int, ...]) -> IntArray:
    """[k, column, place in nodes]; `shape`: of [k, node]."""
    depth, size = shape
    place_of = np.full(size, -1)
    place_of[nodes] = np.arange(len(nodes))
    demand = np.zeros((depth, len(takings), len(nodes)), np.int64)
    for column, taking in enumerate(takings):
        places = place_of[taking.places]
        here = places >= 0
        demand[taking.ranks[here], column, places[here]] = taking.amounts[here]
    return demand
