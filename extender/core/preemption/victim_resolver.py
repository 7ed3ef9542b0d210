"""Which running pods the victims are that kube-scheduler offers.

It offers nearly the same victims at every call, and to look thousands of UIDs up takes longer than to decide. So what
was found is remembered for each node until a pod comes to the node or leaves it.

Rule: a victim is known if it runs on the very node that it is offered with.
"""

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np

from extender.core.snapshot.arrays import BoolArray, IntArray, longer
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod

UIDs = tuple[str, ...]

_MOST = 1 << 18
"""So many offers and victims are remembered: those of five kinds of preemptors in a cluster of 5,000 nodes."""


class VictimResolver(Index):
    """Those that were looked up lately, each tuple of UIDs as the object that it is."""

    looks_at = frozenset()
    """A pod that goes on running keeps its row."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._forget_all()

    def _forget_all(self) -> None:
        self._offers: dict[tuple[int, int], int] = {}
        """(node row, `id` of the UIDs) -> number of the offer."""
        self._on: dict[int, list[UIDs]] = {}
        """Node row -> the UIDs of which an offer is remembered there."""
        self._begins: IntArray = np.zeros(64, np.int64)
        """[offer + 1] -> place of its first victim in `_rows`."""
        self._is_known: BoolArray = np.zeros(64, np.bool_)
        """[offer]: are all its victims known?"""
        self._rows: IntArray = np.zeros(64, np.int64)
        """[victim] -> pod row, of those that are known; offer by offer."""
        self._count = 0
        """Offers that were put in there."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._forget(int(self.snapshot.pod_node[row]))

    def pod_removed(self, row: int, pod: Pod) -> None:
        self._forget(int(self.snapshot.pod_node[row]))

    def _forget(self, node: int) -> None:
        for uids in self._on.pop(node, ()):
            del self._offers[node, id(uids)]

    def of(self, nodes: Sequence[int], offered: Sequence[UIDs]) -> tuple[BoolArray, IntArray]:
        """Per node row, none of them twice, and the UIDs offered there.

        [offer]: are all its victims known? [victim] of all offers -> pod row, of those that are known.
        """
        numbers = self._numbers(nodes, offered)
        missing = np.flatnonzero(numbers < 0)
        if len(missing):
            size = sum(len(offered[place]) for place in missing.tolist())
            if self._size + len(missing) + size > _MOST:  # what is still offered is soon known again
                self._forget_all()
                missing = np.arange(len(nodes))
            places = missing.tolist()
            self._remember([nodes[place] for place in places], [offered[place] for place in places])
            numbers = self._numbers(nodes, offered)
        begins, ends = self._begins[numbers], self._begins[numbers + 1]
        sizes = ends - begins
        # Of offer after offer the places between `begins` and `ends`.
        skipped = begins - np.cumsum(sizes) + sizes
        places_of_rows = np.repeat(skipped, sizes) + np.arange(int(sizes.sum()))
        found = self._is_known[numbers], self._rows[places_of_rows]
        if self._size > _MOST:
            self._forget_all()
        return found

    @property
    def _size(self) -> int:
        return self._count + int(self._begins[self._count])

    def _numbers(self, nodes: Sequence[int], offered: Sequence[UIDs]) -> IntArray:
        """[offer] -> its number, or -1."""
        keys = zip(nodes, map(id, offered), strict=True)
        return np.fromiter(map(self._offers.get, keys, repeat(-1)), np.int64, len(nodes))

    def _remember(self, nodes: Sequence[int], offered: Sequence[UIDs]) -> None:
        """Look offers up that are not known."""
        sizes = np.fromiter(map(len, offered), np.int64, len(offered))
        pods_on = self.snapshot.pod_table.on_node
        # Among the few pods of its node a UID is found faster than among all.
        looked_up = (map(pods_on[node].get, uids, repeat(-1)) for node, uids in zip(nodes, offered, strict=True))
        rows = np.fromiter(chain.from_iterable(looked_up), np.int64, int(sizes.sum()))
        here = rows >= 0
        known = np.bincount(np.repeat(np.arange(len(nodes)), sizes)[here], minlength=len(nodes))
        first, begin = self._count, int(self._begins[self._count])
        self._count += len(nodes)
        while self._count >= len(self._begins):
            self._begins, self._is_known = longer(self._begins, 0), longer(self._is_known, 0)
        self._begins[first + 1 : self._count + 1] = begin + np.cumsum(known)
        self._is_known[first : self._count] = known == sizes
        end = int(self._begins[self._count])
        while end > len(self._rows):
            self._rows = longer(self._rows, 0)
        self._rows[begin:end] = rows[here]
        for number, (node, of_node) in enumerate(zip(nodes, offered, strict=True), first):
            self._offers[node, id(of_node)] = number
            self._on.setdefault(node, []).append(of_node)
