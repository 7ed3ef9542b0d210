"""Order pods by importance: as kube-scheduler does, or by configured criteria (preemption.importance).

The reprieve takes a node's pods in this order, so that the most important ones are reprieved first. A pod is more
important with a higher Priority, an earlier StartTime, and a higher cost by each of the other criteria (see
`pod_costs`); pods that are equal in all criteria keep their listing order. Default: util.MoreImportantPod (v1.36).

Rule: kube-scheduler's order is the snapshot's own layout; any other order has a layout of its own over the same pods.
"""

from collections.abc import Callable

from extender.core.profile import DEFAULT_IMPORTANCE, PreemptionPolicy
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.pod_costs import PodCosts
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod


def layout_of(snapshot: Snapshot, policy: PreemptionPolicy) -> NodeLayout:
    """Return the layout whose ranks follow the policy's order of importance."""
    if policy.importance == DEFAULT_IMPORTANCE:
        return snapshot.layout
    return snapshot.index(ImportanceLayout, policy.importance, policy.eviction_cost_annotation).refreshed()


class ImportanceLayout(Index):
    """A layout in a configured order of importance; changed nodes are laid out when it is read."""

    def __init__(self, snapshot: Snapshot, importance: tuple[str, ...], annotation: str) -> None:
        super().__init__(snapshot)
        self._keys = [_key(snapshot, criterion, annotation) for criterion in importance]
        self._layout = NodeLayout(lambda pods: [key(pods) for key in self._keys])
        self._touched: set[int] = set()

    def pod_added(self, row: int, pod: Pod) -> None:
        self._touched.add(int(self.snapshot.pod_node[row]))

    def pod_removed(self, row: int, pod: Pod) -> None:
        self._touched.add(int(self.snapshot.pod_node[row]))

    def refreshed(self) -> NodeLayout:
        """Update the columns of the nodes that changed since the last call, and return the layout."""
        pod_table, count = self.snapshot.pod_table, len(self.snapshot.nodes)
        nodes = sorted(node for node in self._touched if node < count)
        if nodes or self._layout.pod.shape[1] != count:
            deepest = max((len(pod_table.on_node[node]) for node in nodes), default=1)
            self._layout.resize(max(deepest, 1), count, len(pod_table.node))
            self._layout.lay_out(nodes, [pod_table.on_node[node].values() for node in nodes], pod_table)
            self._touched.clear()
        return self._layout


def _key(snapshot: Snapshot, criterion: str, annotation: str) -> Callable[[IntArray], IntArray]:
    """Return the function from pod rows to the sort key of a criterion: smaller means more important."""
    pod_table = snapshot.pod_table
    if criterion == "Priority":
        return lambda pods: -pod_table.priority[pods]
    if criterion == "StartTime":
        return lambda pods: pod_table.start[pods]
    costs = snapshot.index(PodCosts, annotation)
    return lambda pods: -costs.by_criterion[criterion][pods]
