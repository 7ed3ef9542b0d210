"""Immutable lists of the pods of each node, shared by all recorded decisions.

A recorded decision refers to the pods of thousands of nodes. Copying them for each decision would take too much time
and memory.

Rule: lists are immutable. A node gets a new list after one of its pods is added, changed or removed, or counts against
different budgets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import filterfalse

from extender.core.preemption.pdb.violations import budget_index
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod


@dataclass(frozen=True, slots=True)
class PodsOnNode:
    """The pods of one node, most important first."""

    pods: tuple[Pod, ...]
    budgets: tuple[frozenset[int], ...]
    """[entry of `pods`]: budget rows that the pod counts against."""


class NodePods(Index):
    """Cache of `PodsOnNode` by node, in the order of the policy's layout.

    A cached pod may be an older version of the object if only parts have changed that no decision reads.
    """

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        super().__init__(snapshot)
        self._pdbs = budget_index(snapshot, policy)
        self._version = self._pdbs.node_versions.latest
        """Latest node version of the budgets when the cache was last read."""
        self._pods_on_node: dict[int, PodsOnNode] = {}
        """Node row -> its pods."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._forget(int(self.snapshot.pod_node[row]))

    def pods_added(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        for node in set(self.snapshot.pod_node[rows].tolist()):
            self._forget(node)

    def pod_removed(self, row: int, pod: Pod) -> None:
        self._forget(int(self.snapshot.pod_node[row]))

    def _forget(self, node: int) -> None:
        self._pods_on_node.pop(node, None)

    def on(self, layout: NodeLayout, rows: IntArray) -> tuple[PodsOnNode, ...]:
        """Return the pods of each node in `rows`."""
        versions, cached = self._pdbs.node_versions, self._pods_on_node
        for node in versions.changed_since(self._version, len(self.snapshot.nodes)).tolist():
            self._forget(node)
        self._version = versions.latest
        nodes: list[int] = rows.tolist()
        for node in list(filterfalse(cached.__contains__, nodes)):
            column = layout.pod[:, node]
            pods: list[int] = column[column >= 0].tolist()
            found = tuple(map(self.snapshot.pods.__getitem__, pods))
            cached[node] = PodsOnNode(found, tuple(map(self._pdbs.budgets_of, pods)))
        return tuple(map(cached.__getitem__, nodes))
