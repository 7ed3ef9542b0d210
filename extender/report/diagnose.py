"""Diagnose one pod: what kube-scheduler would decide now, why, and what it makes of every node.

    not tried?  gated, another scheduler's, terminating, finished
    pending     one Evaluation of every node: the scheduling cycle (core/scheduling_cycle) takes the verdict and the
                message from it, and node_diagnoses the reasons, scores and candidates
    assigned    the Evaluation of every node as if the pod had none, for the rank of the one that it has

Rule: nothing is decided here, and the snapshot is afterwards as it was before.
"""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from extender.cluster.list.pod_history import PodHistory
from extender.core.evaluation import Evaluation
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.preemption.eligibility import TERMINATING_POD_ON_NOMINATED_NODE
from extender.core.preemption.pdb.index import budgets_counting
from extender.core.profile import KubeScheduler
from extender.core.scheduling_cycle.removal import pod_removed_from_node
from extender.core.scheduling_cycle.schedule_one import (
    NOT_OURS,
    NOT_TRIED,
    Cycle,
    claim_hint,
    not_tried_reason,
    schedule_evaluated,
)
from extender.core.snapshot.pod_table import is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.objects import ObjectMeta, Pod
from extender.k8s.requests import incoming_requests
from extender.k8s.workloads import is_mirror
from extender.report.node_diagnoses import node_details, node_diagnoses, reason_counts
from extender.report.pod_schema import Diagnosis, NodeDiagnosis, Placement, PodState, PreemptionOutcome, Verdict
from extender.report.pod_wording import (
    evicted_sentence,
    fits_sentence,
    not_tried_sentence,
    placement_of,
    placement_sentence,
    rejected_sentence,
)
from extender.report.render import changed_policies, left_out
from extender.report.simulation_schema import ClusterSize, EvictedPod

TRIED_AGAIN = (
    "kube-scheduler tries a pending pod again after its back-off, after a change that may help it, and every 5 minutes "
    "by default"
)
OTHER_PROFILES = "a KubeSchedulerConfiguration that has a profile of this name says how that scheduler judges it"
"""What may help with a pod that fits but is pending, and with one of another scheduler."""


def diagnose(
    snapshot: Snapshot,
    pod: Pod,
    scheduler: KubeScheduler,
    history: EvictionHistory = NO_HISTORY,
    node: str | None = None,
) -> Diagnosis:
    """Diagnose a pod of the snapshot, or one that does not exist yet; `node`: show this one in full.

    An assigned pod is taken off its node meanwhile. Raises RequestError if the cluster has no such node.
    """
    if node is not None and node not in snapshot.node_row:
        raise RequestError(f"node {node!r} does not exist")
    if pod.spec.node_name and not is_finished(pod) and pod.metadata.deletion_timestamp is None:
        return _of_assigned(snapshot, pod, scheduler, history, node)
    profile, about = scheduler.profile_of(pod), _about(snapshot, pod, scheduler)
    skipped = not_tried_reason(snapshot, pod, scheduler)
    if skipped is not None:
        state, message = _state_of_skipped(pod, scheduler), skipped.removeprefix(NOT_TRIED).removeprefix(NOT_OURS)
        why = not_tried_sentence(state, pod.key, message)
        hint = OTHER_PROFILES if state == "NotOurs" else claim_hint(pod, skipped)
        about = replace(about, state=state, message=message, why=why, hint=hint)
    if profile is None or about.state in ("Terminating", "Finished"):
        return about
    evaluation = Evaluation(snapshot, pod, profile, history)
    found = _with_nodes(about, evaluation, node)
    if skipped is not None:
        return found
    return _with_outcome(found, schedule_evaluated(evaluation), evaluation, scheduler)


def not_found(snapshot: Snapshot, namespace: str, name: str, scheduler: KubeScheduler) -> Diagnosis:
    """Return the diagnosis of a pod that the cluster does not have."""
    pod = Pod(ObjectMeta(name, namespace))
    why = not_tried_sentence("NotFound", pod.key, "")
    found: Diagnosis = replace(_about(snapshot, pod, scheduler), state="NotFound", scheduler_name="", why=why)
    return found


def with_history(found: Diagnosis, history: PodHistory | None) -> Diagnosis:
    """Return the diagnosis with what Events and conditions say of a pod of the cluster, such as that it was evicted."""
    by = None if history is None else history.preempted
    is_gone = found.state in ("NotFound", "Terminating")
    why = evicted_sentence(found.pod, by) if by is not None and is_gone else found.why
    waits = history is not None and found.state == "Pending" and found.verdict == "Fits"
    known: Diagnosis = replace(found, history=history, why=why, hint=TRIED_AGAIN if waits else found.hint)
    return known


def _state_of_skipped(pod: Pod, scheduler: KubeScheduler) -> PodState:
    if pod.metadata.deletion_timestamp is not None:
        return "Terminating"
    if is_finished(pod):
        return "Finished"
    return "NotOurs" if scheduler.profile_of(pod) is None else "Gated"


def _about(snapshot: Snapshot, pod: Pod, scheduler: KubeScheduler) -> Diagnosis:
    """Return what is known of the pod before it is judged."""
    profile = scheduler.profile_of(pod)
    return Diagnosis(
        pod=pod.key,
        uid=pod.metadata.uid,
        priority=pod.priority,
        scheduler_name=pod.spec.scheduler_name,
        requests=incoming_requests(pod, snapshot.features),
        state="Pending",
        why="",
        node=pod.spec.node_name or None,
        nominated_node=pod.status.nominated_node_name or None,
        cluster=ClusterSize(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods)),
        version=scheduler.version,
        release=scheduler.release,
        version_source=scheduler.version_source,
        feature_gates=scheduler.changed_gates,
        policies=[] if profile is None else changed_policies(profile),
        notes=left_out(scheduler),
    )


# --- an assigned pod ------------------------------------------------------------------------------------------------


def _of_assigned(
    snapshot: Snapshot, pod: Pod, scheduler: KubeScheduler, history: EvictionHistory, node: str | None
) -> Diagnosis:
    profile, found = scheduler.profile_of(pod), replace(_about(snapshot, pod, scheduler), verdict="Fits")
    if profile is None:
        placement = Placement(node=pod.spec.node_name, is_static=is_mirror(pod))
    else:
        with pod_removed_from_node(snapshot, pod) as before:
            found = _with_nodes(found, Evaluation(snapshot, before, profile, history), node)
        placement = placement_of(pod, found.nodes)
    placed: Diagnosis = replace(
        found,
        state="Assigned",
        placement=placement,
        why=placement_sentence(pod, placement, found.nodes, has_profile=profile is not None),
    )
    return placed


# --- a pod without a node ---------------------------------------------------------------------------------------------


def _with_outcome(found: Diagnosis, cycle: Cycle, evaluation: Evaluation, scheduler: KubeScheduler) -> Diagnosis:
    """Return the diagnosis with what the cycle decides."""
    preemption, not_evaluated = None, list(dict.fromkeys((*found.not_evaluated, *cycle.not_evaluated)))
    if cycle.outcome == "Scheduled":
        why = fits_sentence(cycle, len(found.nodes))
    else:
        preemption = _preemption_outcome(found.nodes, cycle, evaluation, scheduler.preemption.empty_selector)
        rejection = evaluation.filter.prefilter_status
        why = rejected_sentence(cycle, found.nodes, "" if rejection is None else rejection.message, preemption)
    decided: Diagnosis = replace(
        found,
        verdict=_verdict(cycle, preemption, evaluation.context.profile.not_evaluated_post_filters),
        message=cycle.message,
        why=why,
        node=cycle.node if cycle.outcome == "Scheduled" else None,
        ties=[] if cycle.score is None else cycle.score.ties,
        preemption=preemption,
        claims=cycle.reservation.reports(),
        not_evaluated=not_evaluated,
    )
    return decided


def _verdict(cycle: Cycle, preemption: PreemptionOutcome | None, other_post_filters: Sequence[str]) -> Verdict:
    """Return the verdict.

    A filter that is not evaluated only rejects, so that a pod without a node stays without; a PostFilter plugin that is
    not evaluated may nominate a pod that the filters have rejected.
    """
    if cycle.unschedulable_plugins and other_post_filters:
        return "Unknown"
    waits = preemption is not None and TERMINATING_POD_ON_NOMINATED_NODE in preemption.message
    if cycle.outcome == "Unschedulable" and not waits:
        return "DoesNotFit"
    if cycle.not_evaluated:
        return "Unknown"
    return "Fits" if cycle.outcome == "Scheduled" else "FitsAfterPreemption"


def _preemption_outcome(
    nodes: Sequence[NodeDiagnosis], cycle: Cycle, evaluation: Evaluation, empty_selector: str
) -> PreemptionOutcome:
    status, run = cycle.post_filter, evaluation.policies
    ties = [] if cycle.node is None else evaluation.selected_ties
    if cycle.node is not None and cycle.node not in ties:  # ranked by policies, but kube-scheduler has the last word
        ties = [cycle.node]
    tried = [one.preemption for one in nodes if one.preemption is not None and cycle.node is not None]
    return PreemptionOutcome(
        node=cycle.node,
        ties=ties,
        chance=sorted({why for one in tried for why in one.chance}),
        candidates=int(np.count_nonzero(run.candidate)),
        victims=evicted_pods(evaluation.context.snapshot, cycle, empty_selector),
        num_pdb_violations=cycle.num_pdb_violations,
        vetoed=cycle.vetoed,
        message="" if status is None else status.message,
    )


def evicted_pods(snapshot: Snapshot, cycle: Cycle, empty_selector: str) -> list[EvictedPod]:
    """Describe the victims of a cycle, which are still there."""
    return [
        EvictedPod(
            pod=victim.key,
            uid=victim.metadata.uid,
            priority=victim.priority,
            node=cycle.node or "",
            budgets=budgets_counting(snapshot, victim, empty_selector),
            preemptor=cycle.pod.key,
            terminating=victim.metadata.deletion_timestamp is not None,
        )
        for victim in cycle.victims
    ]


# --- the nodes ------------------------------------------------------------------------------------------------------


def _with_nodes(found: Diagnosis, evaluation: Evaluation, node: str | None) -> Diagnosis:
    """Return the diagnosis with every node, and the reasons for which they are rejected."""
    nodes, feasible = node_diagnoses(evaluation), len(evaluation.scores.rows)
    profile = evaluation.context.profile
    not_evaluated = [name for name, mask in evaluation.filters_not_evaluated.items() if mask.any()]
    if not feasible:
        not_evaluated += profile.not_evaluated_post_filters
    row = evaluation.context.snapshot.node_row.get(node or "")
    judged: Diagnosis = replace(
        found,
        nodes=nodes,
        reasons=reason_counts(nodes),
        feasible=feasible,
        not_evaluated=not_evaluated,
        details=None if row is None else node_details(evaluation, row),
    )
    return judged
