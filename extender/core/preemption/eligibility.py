"""Decide whether a pod may be scheduled and may preempt at all (defaultpreemption.PodEligibleToPreemptOthers, v1.36).

Rule: decisions depend only on the preemptor and its nominated node; `rate_limits` and other modules check the policies.
"""

from extender.core.framework.filter import FilterRun
from extender.core.framework.plugins import dynamic_resources
from extender.core.framework.status import Code, Status
from extender.core.profile import DYNAMIC_RESOURCES, SCHEDULING_GATES, Profile
from extender.core.snapshot.pod_table import is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod

PREEMPTION_POLICY_NEVER = "not eligible due to preemptionPolicy=Never."
"""kube-scheduler's message for a pod that may not preempt."""

TERMINATING_POD_ON_NOMINATED_NODE = "not eligible due to a terminating pod on the nominated node."
"""kube-scheduler's message for a pod whose earlier victims are still terminating."""


def skip_reason(pod: Pod) -> str | None:
    """Return why kube-scheduler skips the pod (skipPodSchedule) or, gates aside, never queues it; None if neither."""
    if pod.metadata.deletion_timestamp is not None:
        return f"skip schedule deleting pod: {pod.key}"
    if pod.spec.node_name:
        return f"is assigned to node {pod.spec.node_name} already"
    if is_finished(pod):
        return f"is {pod.status.phase} already"
    return None


def run_pre_enqueue_plugins(snapshot: Snapshot, pod: Pod, profile: Profile) -> Status | None:
    """Return the status of the plugin that keeps the pod out of kube-scheduler's queue; None if the pod is queued.

    Mirrors PreEnqueue of schedulinggates and dynamicresources (v1.36); the first plugin that rejects the pod counts.
    """
    for name in profile.pre_enqueue_plugins:
        if name == SCHEDULING_GATES and pod.spec.scheduling_gates:
            gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, name, (f"waiting for scheduling gates: [{gates}]",))
        if name == DYNAMIC_RESOURCES and (status := dynamic_resources.pre_enqueue(snapshot, pod)) is not None:
            return status
    return None


def not_schedulable(snapshot: Snapshot, pod: Pod, profile: Profile) -> str | None:
    """Return why the pod of a request may not preempt (it needs no node, or no longer needs one); None if it may.

    kube-scheduler sends such a pod only if its cache is behind ours, which shows the pod as bound, terminating or
    finished.
    """
    cached, row = snapshot.objects.pods.get((pod.metadata.namespace, pod.metadata.name)), snapshot.running_row(pod)
    known = cached if cached is not None and cached.metadata.uid == pod.metadata.uid else None
    reason = skip_reason(pod) or (skip_reason(known) if known is not None else None)
    if reason is None and row is not None:
        # The pod would become its own victim.
        reason = f"its UID is that of pod {snapshot.pods[row].key}, which runs already"
    # Gates can only be removed, so read them from the request: the cached pod may have stale ones.
    if reason is None and pod.spec.scheduling_gates and SCHEDULING_GATES in profile.pre_enqueue_plugins:
        reason = f"waits for {len(pod.spec.scheduling_gates)} scheduling gates"
    return None if reason is None else f"the pod may not preempt ({reason})"


def pod_eligible_to_preempt_others(filter_run: FilterRun) -> tuple[bool, str]:
    """Return (whether the pod is eligible, kube-scheduler's message if not).

    Mirrors defaultpreemption.PodEligibleToPreemptOthers, v1.36. A pod waits for victims that are terminating on its
    nominated node, unless that node has become unresolvable.
    """
    context = filter_run.context
    if context.pod.spec.preemption_policy == "Never":
        return False, PREEMPTION_POLICY_NEVER
    nominated = context.snapshot.node_row.get(context.pod.status.nominated_node_name)
    if nominated is None or not _is_worth_waiting_for(filter_run, nominated):
        return True, ""
    terminating = (
        pod.priority < context.pod.priority and is_terminating_by_preemption(pod)
        for pod in context.snapshot.pods_on(context.snapshot.node_names[nominated])
    )
    return (False, TERMINATING_POD_ON_NOMINATED_NODE) if any(terminating) else (True, "")


def _is_worth_waiting_for(filter_run: FilterRun, nominated: int) -> bool:
    """Return whether evictions on the nominated node may still help, by its status in framework.NodeToStatusMap.

    A node that fits, or that a PreFilterResult leaves out, is not in that map. Since v1.32 a missing node counts as
    unresolvable; before, it counted as success, so that the pod waited.
    """
    code = filter_run.codes[nominated]
    if filter_run.context.features.left_out_nodes_are_unresolvable:
        return bool(code == Code.UNSCHEDULABLE)
    left = filter_run.prefilter_node_names
    is_left_out = left is not None and filter_run.context.snapshot.node_names[nominated] not in left
    return is_left_out or bool(code != Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def nominated_node(snapshot: Snapshot, pod: Pod) -> str:
    """Return the pod's nominated node, from the given object or else from the cache; "" if it has none."""
    cached = snapshot.objects.pods.get((pod.metadata.namespace, pod.metadata.name))
    if not pod.status.nominated_node_name and cached is not None and cached.metadata.uid == pod.metadata.uid:
        return cached.status.nominated_node_name
    return pod.status.nominated_node_name


def is_terminating_by_preemption(pod: Pod) -> bool:
    """Return whether the pod is terminating because kube-scheduler preempted it.

    Mirrors defaultpreemption.podTerminatingByPreemption, v1.36: only the first DisruptionTarget condition counts.
    """
    if pod.metadata.deletion_timestamp is None:
        return False
    disruptions = (condition for condition in pod.status.conditions or () if condition.type == "DisruptionTarget")
    first = next(disruptions, None)
    return first is not None and first.status == "True" and first.reason == "PreemptionByScheduler"
