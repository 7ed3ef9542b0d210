"""The order in which pods are put back: kube-scheduler's, or one that operators chose.

The most important pods of a node are put back first. Priority: higher; StartTime: earlier; of the other criteria the
pod of which more is lost. What is equal in all of them stands in listing order.

Rule: kube-scheduler's order is the snapshot's own layout; any other one is laid out beside it, from the same pods.
"""

from collections.abc import Callable

from extender.core.profile import DEFAULT_IMPORTANCE, PreemptionPolicy
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.index import Index
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.pod_costs import PodCosts
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod


def layout_of(snapshot: Snapshot, policy: PreemptionPolicy) -> NodeLayout:
    """The nodes' pods in the order of importance that the policy wants."""
    if policy.importance == DEFAULT_IMPORTANCE:
        return snapshot.layout
    return snapshot.index(ImportanceLayout, policy.importance, policy.eviction_cost_annotation).settled()


class ImportanceLayout(Index):
    """A layout of its own. Nodes that a pod came to or left are laid out anew when it is asked for."""

    def __init__(self, snapshot: Snapshot, importance: tuple[str, ...], annotation: str) -> None:
        super().__init__(snapshot)
        self._keys = [_key(snapshot, criterion, annotation) for criterion in importance]
        self._layout = NodeLayout(lambda pods: [key(pods) for key in self._keys])
        self._touched: set[int] = set()

    def pod_added(self, row: int, pod: Pod) -> None:
        self._touched.add(int(self.snapshot.pod_node[row]))

    def pod_removed(self, row: int, pod: Pod) -> None:
        self._touched.add(int(self.snapshot.pod_node[row]))

    def settled(self) -> NodeLayout:
        pod_table, count = self.snapshot.pod_table, len(self.snapshot.nodes)
        nodes = sorted(node for node in self._touched if node < count)
        if nodes or self._layout.pod.shape[1] != count:
            deepest = max((len(pod_table.on_node[node]) for node in nodes), default=1)
            self._layout.resize(max(deepest, 1), count, len(pod_table.node))
            self._layout.lay_out(nodes, [pod_table.on_node[node].values() for node in nodes], pod_table)
            self._touched.clear()
        return self._layout


def _key(snapshot: Snapshot, criterion: str, annotation: str) -> Callable[[IntArray], IntArray]:
    """Pod rows -> the smaller, the more important."""
    pod_table = snapshot.pod_table
    if criterion == "Priority":
        return lambda pods: -pod_table.priority[pods]
    if criterion == "StartTime":
        return lambda pods: pod_table.start[pods]
    traits = snapshot.index(PodCosts, annotation)
    return lambda pods: -traits.of[criterion][pods]
