"""NodeName: a pod that names its node goes nowhere else.

Mirrors pkg/scheduler/framework/plugins/nodename (v1.36).
"""

import numpy as np

from extender.core.framework.constraint import SchedulingContext, StaticCheck

NAME = "NodeName"
REASON = "node(s) didn't match the requested node name"


def filter(incoming: SchedulingContext) -> tuple[StaticCheck, ...]:
    """One check, or none for a pod without spec.nodeName."""
    wanted = incoming.pod.spec.node_name
    if not wanted:
        return ()
    rejected = np.ones(len(incoming.snapshot.nodes), np.bool_)
    if wanted in incoming.snapshot.node_row:
        rejected[incoming.snapshot.node_row[wanted]] = False
    return (StaticCheck(NAME, rejected, (REASON,)),)
