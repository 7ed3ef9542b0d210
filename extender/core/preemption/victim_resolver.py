"""Resolve the victim UIDs that kube-scheduler sends to pod rows.

kube-scheduler sends nearly the same victims with every call (MetaVictims, extender/v1), and looking up thousands of
UIDs takes longer than the decision. So results are cached for each node until a pod is added to or removed from it.

Rule: a victim is known if it runs on the very node that it was sent for.
"""

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np

from extender.core.snapshot.arrays import BoolArray, IntArray, doubled
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod

VictimUIDs = tuple[str, ...]
"""The victims of one sent candidate."""

_MAX_CACHED_ENTRIES = 1 << 18
"""Candidates plus victims in the cache: enough for five kinds of preemptors in a cluster of 5,000 nodes."""


class VictimResolver(Index):
    """Cache of resolved candidates, keyed by node row and the identity of the tuple of UIDs.

    Identity is enough because the decoder returns the same tuple for the same bytes, and hashing the UIDs would cost as
    much as looking them up. The cache keeps a reference to each tuple, so that no `id` is reused.
    """

    pod_parts = frozenset()
    """Empty: a change of a running pod does not move it to another row."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._clear()

    def _clear(self) -> None:
        self._entry_of: dict[tuple[int, int], int] = {}
        """(node row, `id` of the UIDs) -> entry."""
        self._uids_on_node: dict[int, list[VictimUIDs]] = {}
        """Node row -> the UIDs of its entries."""
        self._begins: IntArray = np.zeros(64, np.int64)
        """[entry]: place of its first victim in `_rows`; the element after the last entry is the end."""
        self._is_known: BoolArray = np.zeros(64, np.bool_)
        """[entry]: True if all its victims run on the node."""
        self._rows: IntArray = np.zeros(64, np.int64)
        """[victim]: pod row of the known victims, entry by entry."""
        self._count = 0
        """Number of entries, including dropped ones: only `_clear` frees their space."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._drop_node(int(self.snapshot.pod_node[row]))

    def pod_removed(self, row: int, pod: Pod) -> None:
        self._drop_node(int(self.snapshot.pod_node[row]))

    def _drop_node(self, node: int) -> None:
        for uids in self._uids_on_node.pop(node, ()):
            del self._entry_of[node, id(uids)]

    def resolve(self, nodes: Sequence[int], sent: Sequence[VictimUIDs]) -> tuple[BoolArray, IntArray]:
        """Resolve the victims sent for some node rows, each at most once.

        Returns [candidate]: all its victims are known; and [victim]: pod rows of the known victims of all candidates.
        """
        entries = self._entries(nodes, sent)
        missing = np.flatnonzero(entries < 0)
        if len(missing):
            size = sum(len(sent[place]) for place in missing.tolist())
            if (
                self._size + len(missing) + size > _MAX_CACHED_ENTRIES
            ):  # cheaper than eviction by age: what is still sent is soon cached again
                self._clear()
                missing = np.arange(len(nodes))
            places = missing.tolist()
            self._remember([nodes[place] for place in places], [sent[place] for place in places])
            entries = self._entries(nodes, sent)
        begins, ends = self._begins[entries], self._begins[entries + 1]
        sizes = ends - begins
        # Concatenate the ranges begins[i]..ends[i] without a Python loop.
        skipped = begins - np.cumsum(sizes) + sizes
        places_of_rows = np.repeat(skipped, sizes) + np.arange(int(sizes.sum()))
        found = self._is_known[entries], self._rows[places_of_rows]
        if self._size > _MAX_CACHED_ENTRIES:
            self._clear()
        return found

    @property
    def _size(self) -> int:
        return self._count + int(self._begins[self._count])

    def _entries(self, nodes: Sequence[int], sent: Sequence[VictimUIDs]) -> IntArray:
        """Return [candidate]: its entry; -1 if it is not cached."""
        keys = zip(nodes, map(id, sent), strict=True)
        return np.fromiter(map(self._entry_of.get, keys, repeat(-1)), np.int64, len(nodes))

    def _remember(self, nodes: Sequence[int], sent: Sequence[VictimUIDs]) -> None:
        """Look up the victims of candidates that are not cached, and add an entry for each candidate."""
        sizes = np.fromiter(map(len, sent), np.int64, len(sent))
        pods_on = self.snapshot.pod_table.on_node
        # The mapping of one node is small: a lookup is faster than in one of all pods, and proves the node as well.
        looked_up = (map(pods_on[node].get, uids, repeat(-1)) for node, uids in zip(nodes, sent, strict=True))
        rows = np.fromiter(chain.from_iterable(looked_up), np.int64, int(sizes.sum()))
        here = rows >= 0
        known = np.bincount(np.repeat(np.arange(len(nodes)), sizes)[here], minlength=len(nodes))
        first, begin = self._count, int(self._begins[self._count])
        self._count += len(nodes)
        while self._count >= len(self._begins):
            self._begins, self._is_known = doubled(self._begins, 0), doubled(self._is_known, 0)
        self._begins[first + 1 : self._count + 1] = begin + np.cumsum(known)
        self._is_known[first : self._count] = known == sizes
        end = int(self._begins[self._count])
        while end > len(self._rows):
            self._rows = doubled(self._rows, 0)
        self._rows[begin:end] = rows[here]
        for entry, (node, uids) in enumerate(zip(nodes, sent, strict=True), first):
            self._entry_of[node, id(uids)] = entry
            self._uids_on_node.setdefault(node, []).append(uids)
