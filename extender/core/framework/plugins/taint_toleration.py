"""TaintToleration: NoSchedule and NoExecute taints must be tolerated; fewer PreferNoSchedule ones are better.

Mirrors pkg/scheduler/framework/plugins/tainttoleration (v1.36, Gt and Lt tolerations off as by default).
"""

from extender.core.framework.constraint import NodeRows, SchedulingContext, StaticCheck
from extender.core.framework.plugins.normalize import normalize
from extender.core.snapshot.arrays import IntArray
from extender.k8s.objects import Taint
from extender.k8s.selectors import find_untolerated, tolerates

NAME = "TaintToleration"
REASON = "node(s) had untolerated taint(s)"

_HARD = frozenset({"NoSchedule", "NoExecute"})


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Always one check: most nodes of most clusters share a handful of taint lists."""
    tolerations = context.pod.spec.tolerations or ()
    rejected = context.snapshot.taints.map_bool(lambda taints: find_untolerated(taints, tolerations, _HARD) is not None)
    return (StaticCheck(NAME, rejected, (REASON,)),)


def score(context: SchedulingContext, rows: NodeRows) -> IntArray:
    """[row] 0-100: fewest intolerable PreferNoSchedule taints -> 100."""
    soft = [t for t in context.pod.spec.tolerations or () if t.effect in ("", "PreferNoSchedule")]

    def intolerable(taints: list[Taint]) -> int:
        return sum(
            taint.effect == "PreferNoSchedule" and not any(tolerates(toleration, taint) for toleration in soft)
            for taint in taints
        )

    return normalize(context.snapshot.taints.map_int(intolerable)[rows], reverse=True)
