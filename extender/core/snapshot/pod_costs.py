"""What criteria of importance and ranking know of a pod beside its priority and start.

Rule: a number for each pod; the higher it is, the more is lost with the pod.
"""

import re
from collections.abc import Callable

import numpy as np

from extender.core.snapshot.arrays import IntArray, doubled
from extender.core.snapshot.index import Index
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.annotations import DELETION_COST
from extender.k8s.objects import Pod
from extender.k8s.workloads import QOS_CLASSES, qos_class

_COST = re.compile(r"-[0-9]{1,100}|0|[1-9][0-9]{0,9}")
"""As Go reads it: no plus, no zeros at the beginning but behind a minus."""

_INT32 = 2**31
_GRACE = 30
"""Seconds of a pod that says nothing else (core/v1 DefaultTerminationGracePeriodSeconds, v1.36)."""

_LONGEST_GRACE = 2**40


def annotated_cost(pod: Pod, annotation: str) -> int:
    """The 32-bit integer that the annotation holds; 0 without one, and for a text that is none.

    Mirrors helpers.GetDeletionCostFromPodAnnotations (pkg/apis/core/v1/helper, v1.36).
    """
    text = (pod.metadata.annotations or {}).get(annotation, "0")
    value = int(text) if _COST.fullmatch(text) else 0
    return value if -_INT32 <= value < _INT32 else 0


def grace_period(pod: Pod) -> int:
    """Seconds that it may take to stop."""
    given = pod.spec.termination_grace_period_seconds
    return _GRACE if given is None else min(max(given, 0), _LONGEST_GRACE)


class PodCosts(Index):
    """[pod] for each of MORE_IMPORTANCE; `annotation`: that of EvictionCost."""

    pod_parts = frozenset({"annotations", "spec", "status"})

    def __init__(self, snapshot: Snapshot, annotation: str) -> None:
        super().__init__(snapshot)
        self._read: dict[str, Callable[[Pod], int]] = {
            "PodDeletionCost": lambda pod: annotated_cost(pod, DELETION_COST),
            "QoSClass": lambda pod: QOS_CLASSES.index(qos_class(pod)),
            "EvictionCost": lambda pod: annotated_cost(pod, annotation),
            "GracePeriod": grace_period,
        }
        self.of: dict[str, IntArray] = {name: np.zeros(64, np.int64) for name in self._read}

    def pod_added(self, row: int, pod: Pod) -> None:
        for name, read in self._read.items():
            while row >= len(self.of[name]):
                self.of[name] = doubled(self.of[name], 0)
            self.of[name][row] = read(pod)
