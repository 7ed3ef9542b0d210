"""What is kept of each node and its pods, side by side: a decision that is kept refers to those of thousands of nodes.

Rule: what is kept of a node is made once and never changed; it is made anew after a pod came to the node, changed there
or left it, or charges other budgets.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extender.core.preemption.pdb.violations import charging_of
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.pod_table import PodPart
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod


@dataclass(frozen=True, slots=True)
class OnNode:
    """The pods of one node, most important first."""

    pods: tuple[Pod, ...]
    charged: npt.NDArray[np.int32]
    """[pod, place] -> budget, negative where there is none."""


class NodePods(Index):
    """In the order of the policy's layout.

    A pod of which only what nobody reads has changed may be there as it was before.
    """

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        super().__init__(snapshot)
        self._charging = charging_of(snapshot, policy)
        self._followed = self._charging.erased, len(self._charging.journal)
        """Up to where in the journal of what pods charge."""
        self._on: dict[int, OnNode] = {}
        """By node row."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._on.pop(int(self.snapshot.pod_node[row]), None)

    def pod_removed(self, row: int, pod: Pod) -> None:
        self._on.pop(int(self.snapshot.pod_node[row]), None)

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        self._on.pop(int(self.snapshot.pod_node[row]), None)

    def on(self, layout: NodeLayout, rows: IntArray) -> tuple[OnNode, ...]:
        """[node] of these node rows."""
        self._follow()
        nodes = rows.tolist()
        try:
            return tuple(map(self._on.__getitem__, nodes))
        except KeyError:
            self._make(layout, [node for node in nodes if node not in self._on])
            return tuple(map(self._on.__getitem__, nodes))

    def _follow(self) -> None:
        self._charging.refresh()
        erased, seen = self._followed
        journal = self._charging.journal
        if erased != self._charging.erased:
            self._on.clear()
        else:
            for node in journal[seen:]:
                self._on.pop(node, None)
        self._followed = self._charging.erased, len(journal)

    def _make(self, layout: NodeLayout, nodes: Iterable[int]) -> None:
        for node in nodes:
            rows = layout.pod[:, node]
            rows = rows[rows >= 0]
            pods = tuple([self.snapshot.pods[row] for row in rows.tolist()])
            charged = self._charging.charged[rows]
            charged.flags.writeable = False
            self._on[node] = OnNode(pods, charged)
