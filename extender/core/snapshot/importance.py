"""Order pods by configured criteria of importance (preemption.importance) instead of kube-scheduler's.

The dry run reprieves a node's most important pods first. A pod is more important with a higher Priority, an earlier
StartTime, and a higher cost by each other criterion (`PodCosts`); equal pods keep their listing order.

Rule: the snapshot's own layout has kube-scheduler's order; every other order has a separate layout of the same pods.
"""

import re
from collections.abc import Callable

import numpy as np

from extender.core.snapshot.arrays import IntArray, grown
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod
from extender.k8s.well_known import DELETION_COST
from extender.k8s.workloads import QOS_CLASSES, qos_class

_COST = re.compile(r"-[0-9]{1,100}|0|[1-9][0-9]{0,9}")
"""Integer as upstream accepts it (validFirstDigit): no plus sign, leading zeros only after a minus."""

_INT32_BOUND = 2**31
_DEFAULT_GRACE_PERIOD_SECONDS = 30
"""Grace period of a pod that sets none (core/v1 DefaultTerminationGracePeriodSeconds, v1.36)."""

_MAX_GRACE_PERIOD_SECONDS = 2**40
"""Longer grace periods are clamped to this, so that sums over victims fit int64."""


def annotated_cost(pod: Pod, annotation: str) -> int:
    """Return the 32-bit integer in the annotation; 0 without one (helper.GetDeletionCostFromPodAnnotations, v1.36)."""
    text = (pod.metadata.annotations or {}).get(annotation, "0")
    value = int(text) if _COST.fullmatch(text) else 0
    return value if -_INT32_BOUND <= value < _INT32_BOUND else 0


def grace_period(pod: Pod) -> int:
    """Return spec.terminationGracePeriodSeconds, its default if unset, 0 if negative."""
    given = pod.spec.termination_grace_period_seconds
    return _DEFAULT_GRACE_PERIOD_SECONDS if given is None else min(max(given, 0), _MAX_GRACE_PERIOD_SECONDS)


class PodCosts(Index):
    """Cost of evicting each running pod, [pod], by each criterion of EXTRA_IMPORTANCE."""

    pod_parts = frozenset({"annotations", "spec", "status"})

    def __init__(self, snapshot: Snapshot, annotation: str) -> None:
        super().__init__(snapshot)
        self._read: dict[str, Callable[[Pod], int]] = {
            "PodDeletionCost": lambda pod: annotated_cost(pod, DELETION_COST),
            "QoSClass": lambda pod: QOS_CLASSES.index(qos_class(pod)),
            "EvictionCost": lambda pod: annotated_cost(pod, annotation),
            "GracePeriod": grace_period,
        }
        self.by_criterion: dict[str, IntArray] = {name: np.zeros(64, np.int64) for name in self._read}

    def pod_added(self, row: int, pod: Pod) -> None:
        for name, read in self._read.items():
            costs = self.by_criterion[name] = grown(self.by_criterion[name], row, 0)
            costs[row] = read(pod)


class ImportanceLayout(Index):
    """A node layout in a configured order of importance."""

    def __init__(self, snapshot: Snapshot, importance: tuple[str, ...], annotation: str) -> None:
        super().__init__(snapshot)
        keys = [_key(snapshot, criterion, annotation) for criterion in importance]
        self.layout = NodeLayout(lambda pods: [key(pods) for key in keys])
        self._touched: set[int] = set()
        """Rows of the nodes to lay out."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._touched.add(int(self.snapshot.pod_node[row]))

    pod_removed = pod_added

    def settled(self) -> None:
        size = len(self.snapshot.nodes)  # a node that was touched may have been removed since
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
