"""Immutable lists of the pods of each node, shared by all recorded decisions.

A recorded decision refers to the pods of thousands of nodes; recording them would be too slow and too large if every
decision copied them.

While the snapshot holds a pod, a reference to it costs no memory. Pods that leave it although recorded decisions may
refer to them are counted (`Snapshot.departed_bytes`), so that the memory of recorded decisions can be bounded.

Rule: the list of a node is never changed; a new one is made after a pod of the node is added, changed or removed, or
counts against other budgets.
"""

from dataclasses import dataclass
from itertools import filterfalse

import numpy as np

from extender.core.preemption.pdb.violations import budget_index
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import BoolArray, IntArray, grown
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.pod_table import PodPart
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.cost.memory import pod_memory
from extender.k8s.objects import Pod


@dataclass(frozen=True, slots=True)
class PodsOnNode:
    """The pods of one node, most important first."""

    pods: tuple[Pod, ...]
    budgets: tuple[frozenset[int], ...]
    """[pod]: budget rows that it counts against."""


class NodePods(Index):
    """Cache of `PodsOnNode` by node, in the order of the policy's layout.

    A pod may be an older version of the object, if only parts changed that no decision reads.
    """

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        super().__init__(snapshot)
        self._pdbs = budget_index(snapshot, policy)
        self._version = self._pdbs.node_versions.latest
        """The latest version of a node's budgets when the cache was read last."""
        self._pods_on_node: dict[int, PodsOnNode] = {}
        """Node row -> its pods."""
        self.is_recorded = False
        """True once a recorded decision referred to any of the pods."""
        self._recorded_nodes: BoolArray = np.zeros(64, np.bool_)
        """[node]: True if a recorded decision refers to its current list."""
        self._recorded_pods: BoolArray = np.zeros(64, np.bool_)
        """[pod]: True if a recorded decision may refer to it."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._forget(int(self.snapshot.pod_node[row]))

    def pod_removed(self, row: int, pod: Pod) -> None:
        """Forget the list of the pod's node; count the pod, which from now on only recorded decisions hold."""
        self._forget(int(self.snapshot.pod_node[row]))
        if row < len(self._recorded_pods) and self._recorded_pods[row]:
            self._recorded_pods[row] = False
            self.snapshot.departed_bytes += pod_memory(pod)

    def _forget(self, node: int) -> None:
        self._pods_on_node.pop(node, None)
        if node < len(self._recorded_nodes):
            self._recorded_nodes[node] = False

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        self._forget(int(self.snapshot.pod_node[row]))
        if row < len(self._recorded_pods) and self._recorded_pods[row]:
            self.snapshot.departed_bytes += pod_memory(before, after)

    def on(self, layout: NodeLayout, rows: IntArray) -> tuple[PodsOnNode, ...]:
        """Return [node]: the pods of the nodes in `rows`, for a recorded decision, which refers to them from now on."""
        found = self.build(layout, rows)
        nodes, pods = len(self.snapshot.nodes), len(self.snapshot.pods)
        self._recorded_nodes = grown(self._recorded_nodes, nodes, False)
        self._recorded_pods = grown(self._recorded_pods, pods, False)
        fresh = rows[~self._recorded_nodes[rows]]
        if len(fresh):
            self.is_recorded = True
            self._recorded_nodes[fresh] = True
            own = layout.pod[:, fresh]
            self._recorded_pods[own[own >= 0]] = True
        return found

    def mark_all_recorded(self) -> None:
        """Take every pod for recorded: decisions recorded on an earlier snapshot may refer to it."""
        self.is_recorded = True
        self._recorded_pods = grown(self._recorded_pods, len(self.snapshot.pods), False)
        self._recorded_pods[: len(self.snapshot.pods)] = True

    def build(self, layout: NodeLayout, rows: IntArray) -> tuple[PodsOnNode, ...]:
        """Return [node]: the pods of the nodes in `rows`."""
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
