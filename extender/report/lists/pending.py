"""List the pods of a cluster that have no node yet, by cause (`extender why` without a name).

Rule: every pod is judged on the cluster as it is, as `diagnose` does; pods of one template share one diagnosis.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.scheduling_signature import template_signature
from extender.core.preemption.eligibility import PREEMPTION_POLICY_NEVER, TERMINATING_POD_ON_NOMINATED_NODE
from extender.core.profile import KubeScheduler
from extender.core.snapshot.pod_table import is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.report.diagnose import diagnose, retry_hint
from extender.report.pod_schema import (
    Diagnosis,
    PendingCause,
    PendingPodReport,
    PendingReport,
    PodVerdict,
    PreemptionHelp,
)
from extender.report.scheduler_report import limitations
from extender.report.simulation_schema import ClusterSize
from extender.report.wording import (
    BLOCKED_BY_TERMINATING,
    COMMONEST_CAUSE,
    NO_NAMESPACE,
    NOTHING_PENDING,
    PENDING_CAUSES,
    PENDING_KINDS,
    PENDING_OMITTED,
)
from extender.utilities.text import join_names, pluralize, suggestion


def pending_report(
    snapshot: Snapshot,
    scheduler: KubeScheduler,
    history: EvictionHistory = NO_HISTORY,
    namespace: str | None = None,
    is_time_over: Callable[[], bool] = lambda: False,
) -> PendingReport:
    """Return the pods of the snapshot without a node; `namespace`: None for all namespaces.

    Once `is_time_over`, no more pods are evaluated: those that share the diagnosis of another are still reported.
    `history` has the current time, which policies and timeouts read. The snapshot is left unchanged.
    """
    pods = [
        pod
        for pod in snapshot.objects.pods.values()
        if not pod.spec.node_name and not is_finished(pod) and namespace in (None, pod.metadata.namespace)
    ]
    # 1. One diagnosis for all pods of a template, unless policies read the pod's own age and attempts.
    policy, known, reports = scheduler.preemption, dict[bytes, Diagnosis](), []
    reads_pod = policy.min_pending_duration or policy.limits.max_attempts is not None
    for pod in pods:
        # A terminating pod is not tried, whatever its template.
        key = None if reads_pod or pod.metadata.deletion_timestamp is not None else template_signature(pod)
        found = known.get(key) if key is not None else None
        if found is None and is_time_over():
            continue
        if found is None:
            found = diagnose(snapshot, pod, scheduler, history, with_nodes=False)
            if key is not None:
                known[key] = found
        reports.append(_report(pod, found))
    # 2. Group by cause.
    counts = Counter(one.cause for one in reports)
    oldest: dict[str, str | None] = {}
    for one in sorted(reports, key=_age):
        oldest.setdefault(one.cause, one.since)
    order = sorted(counts, key=lambda cause: (-counts[cause], cause))
    places = {cause: place for place, cause in enumerate(order)}
    known_namespaces = _namespaces(snapshot)
    exists = namespace is None or known_namespaces is None or namespace in known_namespaces
    why = _sentence(reports, order, counts, namespace, len(pods) - len(reports))
    if not exists:
        why = NO_NAMESPACE.format(namespace=namespace) + suggestion(namespace or "", sorted(known_namespaces or ()))
    return PendingReport(
        why=why,
        namespace=namespace,
        namespace_exists=exists,
        cluster=ClusterSize(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods)),
        version=scheduler.version,
        release=scheduler.release,
        version_source=scheduler.version_source,
        feature_gates=scheduler.changed_gates,
        notes=limitations(scheduler),
        causes=[PendingCause(cause=cause, pods=counts[cause], oldest=oldest[cause]) for cause in order],
        pods=sorted(reports, key=lambda one: (places[one.cause], *_age(one))),
        omitted=len(pods) - len(reports),
    )


def _namespaces(snapshot: Snapshot) -> set[str] | None:
    """Return the namespaces that exist or have pods; None if Namespaces cannot be read: others may exist."""
    if "namespaces" in snapshot.unreadable_tables:
        return None
    found = {one.metadata.name for one in snapshot.objects.namespaces.values()}
    return found | {one.metadata.namespace for one in snapshot.objects.pods.values()}


def _age(one: PendingPodReport) -> tuple[str, str]:
    """Return the key that sorts the oldest first; the API server writes all times in the same form."""
    return one.since or "9", one.pod


def _report(pod: Pod, found: Diagnosis) -> PendingPodReport:
    help_, blocked_by = _preemption(pod, found)
    if found.not_evaluated and not blocked_by:
        blocked_by = join_names(found.not_evaluated, len(found.not_evaluated))
    condition = next((one for one in pod.status.conditions or () if one.type == "PodScheduled"), None)
    since = condition.last_transition_time if condition is not None and condition.status != "True" else None
    shared: dict[str, Any] = {name: getattr(found, name) for name in PodVerdict.__struct_fields__}
    # The diagnosis may be that of another pod of the template.
    own = {
        "pod": pod.key,
        "uid": pod.metadata.uid,
        "cause": _cause(pod, found),
        "node": found.node if found.preemption is None else found.preemption.node,
        "hint": retry_hint(pod) if found.verdict == "Fits" else found.hint,
    }
    return PendingPodReport(
        **shared | own,
        since=since or pod.metadata.creation_timestamp or None,
        preemption=help_,
        blocked_by=blocked_by,
        victims=[] if found.preemption is None else [one.pod for one in found.preemption.victims],
    )


def _preemption(pod: Pod, found: Diagnosis) -> tuple[PreemptionHelp, str]:
    """Return whether preemption would help, and what stands in its way."""
    outcome = found.preemption
    if outcome is None:
        return "NotTried", ""
    if outcome.node is not None:
        return "MakesRoom", ""
    if outcome.vetoed is not None:
        return "NotAllowed", outcome.vetoed
    if PREEMPTION_POLICY_NEVER in outcome.message:
        return "NotAllowed", "preemptionPolicy: Never"
    if TERMINATING_POD_ON_NOMINATED_NODE in outcome.message:
        return "Waits", BLOCKED_BY_TERMINATING.format(node=pod.status.nominated_node_name)
    return "NoRoom", outcome.obstacle


def _cause(pod: Pod, found: Diagnosis) -> str:
    """Return the words that pods with the same cause share."""
    if found.state != "Pending":
        # The message about a claim names the pod.
        message = found.message.removeprefix(f'pod "{pod.key}": ')
        return PENDING_CAUSES[found.state].format(message=message, scheduler=pod.spec.scheduler_name)
    if found.preemption is not None and TERMINATING_POD_ON_NOMINATED_NODE in found.preemption.message:
        return PENDING_CAUSES["Waits"]
    if found.cause:
        return PENDING_CAUSES["Nodes"].format(phrase=found.cause) if found.cause_nodes else found.cause
    if found.verdict == "Unknown":
        return PENDING_CAUSES["NotEvaluated"]
    if found.nominated_node == found.node:
        return PENDING_CAUSES["Nominated"]
    return PENDING_CAUSES["NotTriedYet" if retry_hint(pod) is None else "Fits"]


def _sentence(
    reports: Sequence[PendingPodReport],
    causes: Sequence[str],
    counts: Counter[str],
    namespace: str | None,
    omitted: int,
) -> str:
    where, pending = "" if namespace is None else f" in namespace {namespace}", len(reports) + omitted
    if not pending:
        return NOTHING_PENDING.format(where=where)
    # A pod that is not tried counts as what it is, any other by its verdict.
    codes = Counter[str](one.verdict if one.state == "Pending" else one.state for one in reports)
    kinds = [f"{codes[code]} {words}" for code, words in PENDING_KINDS.items() if codes[code]]
    kinds += [PENDING_OMITTED.format(pods=omitted)] if omitted else []
    firsts = [COMMONEST_CAUSE.format(cause=one, pods=pluralize(counts[one], "pod")) for one in causes[:1]]
    verb = "is" if pending == 1 else "are"
    return "; ".join([f"{pluralize(pending, 'pod')}{where} {verb} pending: {', '.join(kinds)}", *firsts])
