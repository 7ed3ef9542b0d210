"""NodeUnschedulable: a cordoned node (spec.unschedulable) accepts only pods that tolerate the cordon taint.

Mirrors pkg/scheduler/framework/plugins/nodeunschedulable (v1.36).
"""

from typing import Final

import numpy as np

from extender.core.framework.filter_checks import StaticCheck
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.arrays import BoolArray
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Taint
from extender.k8s.selectors import tolerates

NAME = "NodeUnschedulable"
REASON = "node(s) were unschedulable"

CORDON_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""Taint that the node lifecycle controller sets on a cordoned node (TaintNodeUnschedulable)."""


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return one check, or none for a pod that tolerates the cordon taint."""
    if any(tolerates(toleration, CORDON_TAINT, compares=False) for toleration in context.pod.spec.tolerations or ()):
        return ()
    return (StaticCheck(NAME, _cordoned(context.snapshot), (REASON,)),)


@derived("taints")
def _cordoned(snapshot: Snapshot) -> BoolArray:
    """Return [node]: its spec.unschedulable, which `kubectl cordon` sets."""
    return np.fromiter((node.spec.unschedulable for node in snapshot.nodes), np.bool_, len(snapshot.nodes))
