"""Order pods by importance by configured criteria (preemption.importance) instead of kube-scheduler's.

The reprieve takes a node's pods in this order, so that the most important ones are reprieved first. A pod is more
important with a higher Priority, an earlier StartTime, and a higher cost by each of the other criteria (see
`pod_costs`); pods that are equal in all criteria keep their listing order. Default: util.MoreImportantPod (v1.36).

Rule: kube-scheduler's order is the snapshot's own layout; any other order has a layout of its own over the same pods.
"""

from collections.abc import Callable

from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.pod_costs import PodCosts
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod


class ImportanceLayout(Index):
    """A layout in a configured order of importance."""

    def __init__(self, snapshot: Snapshot, importance: tuple[str, ...], annotation: str) -> None:
        super().__init__(snapshot)
        keys = [_key(snapshot, criterion, annotation) for criterion in importance]
        self.layout = NodeLayout(lambda pods: [key(pods) for key in keys])
        self._touched: set[int] = set()
        """Rows of the nodes to lay out."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._touched.add(int(self.snapshot.pod_node[row]))

    def pod_removed(self, row: int, pod: Pod) -> None:
        self._touched.add(int(self.snapshot.pod_node[row]))

    def settled(self) -> None:
        size = len(self.snapshot.nodes)
        self.layout.lay_out(sorted(node for node in self._touched if node < size), size, self.snapshot.pod_table)
        self._touched.clear()


def _key(snapshot: Snapshot, criterion: str, annotation: str) -> Callable[[IntArray], IntArray]:
    """Return the function from pod rows to the sort key of a criterion: smaller means more important."""
    pod_table = snapshot.pod_table
    if criterion == "Priority":
        return lambda pods: -pod_table.priority[pods]
    if criterion == "StartTime":
        return lambda pods: pod_table.start[pods]
    costs = snapshot.index(PodCosts, annotation)
    return lambda pods: -costs.by_criterion[criterion][pods]
