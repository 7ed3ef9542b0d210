"""NodeName: a pod with spec.nodeName fits only on that node.

Mirrors pkg/scheduler/framework/plugins/nodename (v1.37).
"""

import numpy as np

from extender.core.framework.filter_checks import StaticCheck
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import PreFilterResult

NAME = "NodeName"
REASON = "node(s) didn't match the requested node name"


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Restrict the pod to the node in its spec.nodeName, if set."""
    wanted = context.pod.spec.node_name
    if not wanted or not context.features.node_name_is_prefiltered:
        return PreFilterResult()
    return PreFilterResult(node_names=frozenset((wanted,)))


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return one check, or none for a pod without spec.nodeName."""
    wanted = context.pod.spec.node_name
    if not wanted:
        return ()
    rejected = np.ones(len(context.snapshot.nodes), np.bool_)
    if wanted in context.snapshot.node_row:
        rejected[context.snapshot.node_row[wanted]] = False
    return (StaticCheck(NAME, rejected, (REASON,)),)
