"""Decide whether a pod may preempt at all.

Rule: x.
"""

from extender.core.framework.filter import FilterRun
from extender.core.framework.status import Code
from extender.k8s.objects import Pod

NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
WAITS_FOR_VICTIMS = "not eligible due to a terminating pod on the nominated node."


def eligible(filtering: FilterRun) -> tuple[bool, str]:
    """May this pod preempt at all? (and why not): defaultpreemption.PodEligibleToPreemptOthers, v1.36."""
    incoming = filtering.incoming
    if incoming.pod.spec.preemption_policy == "Never":
        return False, NEVER_PREEMPTS
    nominated = incoming.snapshot.node_row.get(incoming.pod.status.nominated_node_name)
    if nominated is None or filtering.codes[nominated] != Code.UNSCHEDULABLE:
        return True, ""
    leaving = (
        pod.priority < incoming.pod.priority and is_terminating_by_preemption(pod)
        for pod in incoming.snapshot.pods_on(incoming.snapshot.node_names[nominated])
    )
    return (False, WAITS_FOR_VICTIMS) if any(leaving) else (True, "")


def is_terminating_by_preemption(pod: Pod) -> bool:
    """Is it on its way out because kube-scheduler preempted it? The first DisruptionTarget condition decides."""
    if pod.metadata.deletion_timestamp is None:
        return False
    disruptions = (condition for condition in pod.status.conditions or () if condition.type == "DisruptionTarget")
    first = next(disruptions, None)
    return first is not None and first.status == "True" and first.reason == "PreemptionByScheduler"
