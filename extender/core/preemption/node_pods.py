"""Immutable lists of the pods of each node, shared by all recorded decisions.

A recorded decision refers to the pods of thousands of nodes; recording them would be too slow and too large if every
decision copied them.

Rule: the list of a node is never changed; a new one is made after a pod of the node is added, changed or removed, or
counts against other budgets.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extender.core.preemption.pdb.violations import budget_index
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.pod_table import PodPart
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod


@dataclass(frozen=True, slots=True)
class PodsOnNode:
    """The pods of one node, most important first."""

    pods: tuple[Pod, ...]
    budget_rows: npt.NDArray[np.int32]
    """[pod, slot]: budget row that the pod counts against; negative in unused slots."""


class NodePods(Index):
    """Cache of `PodsOnNode` by node, in the order of the policy's layout.

    A pod may be an older version of the object, if only parts changed that no decision reads.
    """

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        super().__init__(snapshot)
        self._pdbs = budget_index(snapshot, policy)
        self._log_position = self._pdbs.change_log_resets, len(self._pdbs.change_log)
        """Position in the budgets' change log up to which the cache is current."""
        self._pods_on_node: dict[int, PodsOnNode] = {}
        """Node row -> its pods."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._pods_on_node.pop(int(self.snapshot.pod_node[row]), None)

    def pod_removed(self, row: int, pod: Pod) -> None:
        self._pods_on_node.pop(int(self.snapshot.pod_node[row]), None)

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        self._pods_on_node.pop(int(self.snapshot.pod_node[row]), None)

    def on(self, layout: NodeLayout, rows: IntArray) -> tuple[PodsOnNode, ...]:
        """Return [node]: the pods of the nodes in `rows`."""
        self._apply_change_log()
        nodes = rows.tolist()
        try:
            return tuple(map(self._pods_on_node.__getitem__, nodes))
        except KeyError:
            self._make(layout, [node for node in nodes if node not in self._pods_on_node])
            return tuple(map(self._pods_on_node.__getitem__, nodes))

    def _apply_change_log(self) -> None:
        """Drop the nodes whose pods count against other budgets now."""
        self._pdbs.refresh()
        resets, position = self._log_position
        change_log = self._pdbs.change_log
        if resets != self._pdbs.change_log_resets:
            self._pods_on_node.clear()
        else:
            for node in change_log[position:]:
                self._pods_on_node.pop(node, None)
        self._log_position = self._pdbs.change_log_resets, len(change_log)

    def _make(self, layout: NodeLayout, nodes: Iterable[int]) -> None:
        for node in nodes:
            rows = layout.pod[:, node]
            rows = rows[rows >= 0]
            pods = tuple([self.snapshot.pods[row] for row in rows.tolist()])
            budget_rows = self._pdbs.budget_rows[rows]
            budget_rows.flags.writeable = False
            self._pods_on_node[node] = PodsOnNode(pods, budget_rows)
