"""Cost of evicting a pod by each criterion other than priority and start time.

Rule: one number per pod and criterion; the higher it is, the more the eviction costs.
"""

import re
from collections.abc import Callable

import numpy as np

from extender.core.snapshot.arrays import IntArray, doubled
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.annotations import DELETION_COST
from extender.k8s.objects import Pod
from extender.k8s.workloads import QOS_CLASSES, qos_class

_COST = re.compile(r"-[0-9]{1,100}|0|[1-9][0-9]{0,9}")
"""Integer as upstream accepts it (validFirstDigit): no plus sign, leading zeros only after a minus."""

_INT32_BOUND = 2**31
_DEFAULT_GRACE_PERIOD_SECONDS = 30
"""Grace period of a pod that sets none (core/v1 DefaultTerminationGracePeriodSeconds, v1.36)."""

_MAX_GRACE_PERIOD_SECONDS = 2**40
"""Longer grace periods count as this, so that sums over victims fit int64."""


def annotated_cost(pod: Pod, annotation: str) -> int:
    """Return the 32-bit integer in the annotation; 0 if the pod does not have it or its value is not such an integer.

    Mirrors helpers.GetDeletionCostFromPodAnnotations (pkg/apis/core/v1/helper, v1.36).
    """
    text = (pod.metadata.annotations or {}).get(annotation, "0")
    value = int(text) if _COST.fullmatch(text) else 0
    return value if -_INT32_BOUND <= value < _INT32_BOUND else 0


def grace_period(pod: Pod) -> int:
    """Return spec.terminationGracePeriodSeconds, its default if unset, 0 if negative."""
    given = pod.spec.termination_grace_period_seconds
    return _DEFAULT_GRACE_PERIOD_SECONDS if given is None else min(max(given, 0), _MAX_GRACE_PERIOD_SECONDS)


class PodCosts(Index):
    """Costs of every running pod, [pod], by the criteria of EXTRA_IMPORTANCE; EvictionCost reads `annotation`."""

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
            while row >= len(self.by_criterion[name]):
                self.by_criterion[name] = doubled(self.by_criterion[name], 0)
            self.by_criterion[name][row] = read(pod)
