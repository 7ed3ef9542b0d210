"""TaintToleration: NoSchedule and NoExecute taints must be tolerated; fewer untolerated PreferNoSchedule taints score
higher.

Mirrors pkg/scheduler/framework/plugins/tainttoleration (v1.36).
"""

import numpy as np

from extender.core.framework.filter_checks import StaticCheck
from extender.core.framework.plugins.shared.normalize import normalize
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.arrays import IntArray, NodeRows
from extender.k8s.objects import Taint
from extender.k8s.selectors import HARD_EFFECTS, find_untolerated, tolerates

NAME = "TaintToleration"
REASON = "node(s) had untolerated taint(s)"


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return one check, even without taints in the cluster; each distinct list of taints is evaluated once."""
    tolerations, features, taints = context.pod.spec.tolerations or (), context.features, context.snapshot.taints
    compares = features.taint_toleration_comparison_operators
    found = [find_untolerated(one, tolerations, HARD_EFFECTS, compares=compares) for one in taints.values]
    rejected = np.fromiter((taint is not None for taint in found), np.bool_, len(found))[taints.codes]
    if features.taint_reason_without_taint:
        return (StaticCheck(NAME, rejected, (REASON,)),)
    reasons = [
        f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}" if taint is not None else "" for taint in found
    ]
    number_of = {reason: number for number, reason in enumerate(dict.fromkeys(reasons))}
    reason_of = np.fromiter(map(number_of.__getitem__, reasons), np.int64, len(reasons))[taints.codes]
    return (StaticCheck(NAME, rejected, tuple(number_of), reason_of=reason_of),)


def score(context: SchedulingContext, rows: NodeRows) -> IntArray:
    """Return [row]: number of untolerated PreferNoSchedule taints."""
    soft_tolerations = [t for t in context.pod.spec.tolerations or () if t.effect in ("", "PreferNoSchedule")]
    compares = context.features.taint_toleration_comparison_operators

    def count_untolerated(taints: list[Taint]) -> int:
        return sum(
            taint.effect == "PreferNoSchedule"
            and not any(tolerates(toleration, taint, compares=compares) for toleration in soft_tolerations)
            for taint in taints
        )

    return context.snapshot.taints.map_int(count_untolerated)[rows]


def normalize_score(scores: IntArray) -> IntArray:
    """Return [row]: 0-100, 100 without untolerated taints."""
    return normalize(scores, reverse=True)  # score = 100 - 100 * raw / max(raw)
