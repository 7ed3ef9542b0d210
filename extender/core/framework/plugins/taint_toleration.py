"""TaintToleration: NoSchedule and NoExecute taints must be tolerated; fewer untolerated PreferNoSchedule taints score
higher.

Mirrors pkg/scheduler/framework/plugins/tainttoleration (v1.36, Gt and Lt tolerations off as by default).
"""

from extender.core.framework.constraint import NodeRows, SchedulingContext, StaticCheck
from extender.core.framework.plugins.normalize import normalize
from extender.core.snapshot.arrays import IntArray
from extender.k8s.objects import Taint
from extender.k8s.selectors import find_untolerated, tolerates

NAME = "TaintToleration"
REASON = "node(s) had untolerated taint(s)"

_HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return one check, even for clusters without taints: each distinct taint list is evaluated only once."""
    tolerations = context.pod.spec.tolerations or ()
    rejected = context.snapshot.taints.map_bool(
        lambda taints: find_untolerated(taints, tolerations, _HARD_EFFECTS) is not None
    )
    return (StaticCheck(NAME, rejected, (REASON,)),)


def score(context: SchedulingContext, rows: NodeRows) -> IntArray:
    """Return [row]: 0-100 by the number of untolerated PreferNoSchedule taints, 100 for none."""
    # raw = number of PreferNoSchedule taints that no toleration tolerates; score = 100 - 100 * raw / max(raw)
    soft_tolerations = [t for t in context.pod.spec.tolerations or () if t.effect in ("", "PreferNoSchedule")]

    def count_untolerated(taints: list[Taint]) -> int:
        return sum(
            taint.effect == "PreferNoSchedule"
            and not any(tolerates(toleration, taint) for toleration in soft_tolerations)
            for taint in taints
        )

    return normalize(context.snapshot.taints.map_int(count_untolerated)[rows], reverse=True)
