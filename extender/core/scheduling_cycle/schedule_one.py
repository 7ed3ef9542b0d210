"""Run one scheduling cycle of one pod, as kube-scheduler v1.36 does.

    skip? -> filter -> score -> bind to the node with the highest total
                    -> preempt: kube-scheduler's own candidates -> policies -> nominate to one node, evict its victims

All nodes are filtered and all candidates found, as with percentageOfNodesToScore and minCandidateNodesPercentage 100.
kube-scheduler's part always follows its own preemption rules, whatever the profile's policies: it sends its candidates,
and the extender answers by these policies, as in `/preempt`.

Rule: a cycle reads one Evaluation and decides; it changes nothing.
Mirrors ScheduleOne: schedulePod, schedulingAlgorithm (schedule_one.go) and Evaluator.Preempt (framework/preemption).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from extender.core import engine
from extender.core.engine import Candidate
from extender.core.evaluation import Evaluation
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.eligibility import (
    TERMINATING_POD_ON_NOMINATED_NODE,
    run_pre_enqueue_plugins,
    skip_reason,
)
from extender.core.profile import DEFAULT_PREEMPTION, DYNAMIC_RESOURCES, KubeScheduler, PreemptionPolicy
from extender.core.scheduling_cycle.fit_error import (
    NO_CANDIDATE,
    NO_NODES,
    dynamic_resources_post_filter,
    fit_error_message,
    no_candidates_message,
    preemption_failed,
    preemption_succeeded,
    rejected_nodes,
    unschedulable_plugins,
)
from extender.core.scheduling_cycle.reserve import NO_RESERVATION, Reservation, reserve
from extender.core.scheduling_cycle.result import CycleOutcome, CyclePostFilter, CycleScore, RejectedNodes
from extender.core.snapshot.arrays import NodeRows
from extender.core.snapshot.pod_table import identity, start_time
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import Key
from extender.k8s.objects import Pod
from extender.k8s.priority import PRIORITY_OFFSET

Draw = Callable[[int], int]
"""Function n -> random integer in [0, n), to choose among n equal nodes."""

MAX_LISTED_TIES = 10
"""Maximum number of nodes with the highest total that a result lists."""

NOT_TRIED = "not tried: "
NOT_OURS = "not ours: "
"""Prefixes of messages about pods that kube-scheduler does not queue; NOT_OURS comes after NOT_TRIED."""

_UINT64_MASK = 2**64 - 1


def seeded_draw(seed: int) -> Draw:
    """Return a seeded random number generator that yields the same numbers in every version of Python (SplitMix64)."""
    state = seed & _UINT64_MASK

    def draw(below: int) -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _UINT64_MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _UINT64_MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _UINT64_MASK
        return ((mixed ^ (mixed >> 31)) * below) >> 64

    return draw


@dataclass(frozen=True, slots=True)
class Cycle:
    """Result of one scheduling cycle."""

    pod: Pod
    """The pod as it was at the beginning of the cycle."""
    outcome: CycleOutcome
    message: str = ""
    """kube-scheduler's message for a pod that was not scheduled."""
    node: str | None = None
    """The node that the pod is bound or nominated to."""
    feasible: int = 0
    """Number of nodes that passed the filters; 1 if the nominated node passed, because it is filtered first."""
    score: CycleScore | None = None
    rejected: Sequence[RejectedNodes] = ()
    """Statuses of the nodes, if none passed the filters."""
    post_filter: CyclePostFilter | None = None
    nominated_node: str = ""
    """status.nominatedNodeName of the pod after the cycle; "" if none."""
    victims: tuple[Pod, ...] = ()
    """Pods to evict, most important first."""
    num_pdb_violations: int = 0
    vetoed: str | None = None
    """Reason why the policies allowed no eviction, although kube-scheduler had candidates."""
    not_evaluated: tuple[str, ...] = ()
    """Filter plugins that can reject the pod but that we don't evaluate, or lack permission to evaluate, and other
    extenders that can reject its node or change its victims."""
    reservation: Reservation = NO_RESERVATION
    """Resource claims of a scheduled pod, with the devices that they get on the node."""
    deallocated: Key | None = None
    """Resource claim that DynamicResources' PostFilter deallocates or deletes."""
    unschedulable_plugins: frozenset[str] = frozenset()
    """Filter plugins that rejected a node (Diagnosis.UnschedulablePlugins)."""


def schedule_one(
    snapshot: Snapshot,
    pod: Pod,
    scheduler: KubeScheduler,
    history: EvictionHistory = NO_HISTORY,
    draw: Draw | None = None,
) -> Cycle:
    """Try to schedule the pod by its profile. `draw` chooses among equal nodes; None: choose the first by name."""
    profile, skipped = scheduler.profile_of(pod), not_tried_reason(snapshot, pod, scheduler)
    if profile is None or skipped is not None:
        return Cycle(pod, "Skipped", skipped or "", nominated_node=pod.status.nominated_node_name)
    return schedule_evaluated(Evaluation(snapshot, pod, profile, history), draw)


def schedule_evaluated(evaluation: Evaluation, draw: Draw | None = None) -> Cycle:
    """Try to schedule a pod that `not_tried_reason` does not exclude."""
    pod, feasible = evaluation.context.pod, evaluation.feasible
    if not len(evaluation.rows):
        return Cycle(pod, "Unschedulable", NO_NODES)
    # 1. Filter (findNodesThatFitPod). The nominated node comes first (evaluateNominatedNode): if the pod fits there,
    #    other nodes are not filtered, so a plugin that would fail there does not run.
    is_known = evaluation.cached_verdicts is not None and len(feasible)
    plugins = evaluation.not_evaluated_on(feasible if is_known else evaluation.rows)
    nominated = feasible[feasible == evaluation.context.snapshot.node_row.get(pod.status.nominated_node_name, -1)]
    error = None if is_known or len(nominated) else evaluation.filter.error()
    if error is not None:
        return Cycle(pod, "Unschedulable", error, not_evaluated=plugins)
    # 2. Score and select a node.
    if len(feasible):
        return _select_host(evaluation, nominated, (*plugins, *evaluation.extenders("filter")), draw)
    # 3. If no node fits, run the PostFilter plugins: preemption. Other extenders are not asked about nodes that the
    #    filters reject. They are about candidates (callExtenders), and about the node once its victims are gone.
    status, failed = _post_filter(evaluation, draw)
    if failed.outcome == "Nominated" or failed.vetoed is not None:
        plugins += (*evaluation.extenders("preempt"),)
    if failed.outcome == "Nominated" or TERMINATING_POD_ON_NOMINATED_NODE in status.message:
        plugins += (*evaluation.extenders("filter"),)
    rejected = rejected_nodes(evaluation.filter)
    return replace(
        failed,
        message=fit_error_message(len(evaluation.context.snapshot.nodes), rejected, status),
        rejected=rejected,
        post_filter=status,
        not_evaluated=plugins,
        unschedulable_plugins=unschedulable_plugins(evaluation.filter),
    )


def not_tried_reason(snapshot: Snapshot, pod: Pod, scheduler: KubeScheduler) -> str | None:
    """Return why this kube-scheduler does not try the pod; None if it does."""
    if (skipped := skip_reason(pod)) is not None:
        return skipped
    profile = scheduler.profile_of(pod)
    if profile is None:
        return f'{NOT_TRIED}{NOT_OURS}no profile has schedulerName "{pod.spec.scheduler_name}"'
    gated = run_pre_enqueue_plugins(snapshot, pod, profile)
    return None if gated is None else f"{NOT_TRIED}{gated.message}"


# --- scheduled ------------------------------------------------------------------------------------------------------


def _select_host(
    evaluation: Evaluation, nominated: NodeRows, not_evaluated: tuple[str, ...], draw: Draw | None
) -> Cycle:
    """Select the node with the highest total (selectHost), and reserve the pod's claims there.

    `nominated`: row of the nominated node if the pod fits there; then that node is selected.
    """
    snapshot, pod, chosen = evaluation.context.snapshot, evaluation.context.pod, None
    fitting = nominated if len(nominated) else evaluation.feasible
    row = int(fitting[0])
    if len(fitting) > 1:  # a single feasible node is not scored
        scores = evaluation.scores
        if scores.error is not None:
            return Cycle(pod, "Unschedulable", scores.error, not_evaluated=not_evaluated)
        total = scores.total
        best = np.flatnonzero(total == total.max())
        best = best[np.argsort(snapshot.name_order[fitting[best]])]
        place = int(best[_draw_place(len(best), draw)])
        plugins = {plugin: int(values[place]) for plugin, values in scores.plugins.items()}
        ties = [snapshot.node_names[one] for one in fitting[best[:MAX_LISTED_TIES]].tolist()]
        chosen = CycleScore(total=int(total[place]), plugins=plugins, tied=len(best), ties=ties)
        row = int(fitting[place])
    return Cycle(
        pod,
        "Scheduled",
        node=snapshot.node_names[row],
        feasible=len(fitting),
        score=chosen,
        not_evaluated=not_evaluated,
        reservation=reserve(evaluation.context, row),
    )


def _draw_place(count: int, draw: Draw | None) -> int:
    return draw(count) if draw is not None and count > 1 else 0


# --- or nominated by preemption ---------------------------------------------------------------------------------------


def _post_filter(evaluation: Evaluation, draw: Draw | None) -> tuple[CyclePostFilter, Cycle]:
    """Run the profile's PostFilter plugins until one succeeds or fails (RunPostFilterPlugins)."""
    pod, profile, reasons, deallocated = evaluation.context.pod, evaluation.context.profile, list[str](), None
    found = unchanged = Cycle(pod, "Unschedulable", nominated_node=pod.status.nominated_node_name)
    for name in profile.post_filter_plugins:
        if name == DEFAULT_PREEMPTION:
            status, found = _preempt(evaluation, draw)
        elif name == DYNAMIC_RESOURCES:
            status, deallocated = dynamic_resources_post_filter(evaluation.filter)
        else:
            continue
        if status.code == "Error":
            return status, replace(unchanged, deallocated=deallocated)
        if status.code == "Success":
            return status, replace(found, deallocated=deallocated)
        reasons += status.reasons
    if not profile.post_filter_plugins:  # kube-scheduler then clears the nomination
        found = replace(unchanged, nominated_node="")
    return CyclePostFilter(code="Unschedulable", reasons=reasons), replace(found, deallocated=deallocated)


def _preempt(evaluation: Evaluation, draw: Draw | None) -> tuple[CyclePostFilter, Cycle]:
    """Find a node by preemption (DefaultPreemption's PostFilter), within the profile's policies."""
    context = evaluation.context
    pod, profile = context.pod, context.profile
    # 1. PodEligibleToPreemptOthers.
    unchanged = Cycle(pod, "Unschedulable", nominated_node=pod.status.nominated_node_name)
    may_preempt, reason = evaluation.eligible
    if not may_preempt:
        return preemption_failed(reason), unchanged
    # 2. findCandidates, by kube-scheduler's own rules: they include no policies, and their importance may differ.
    has_policies = profile.preemption != PreemptionPolicy()
    if has_policies:
        own_rules = replace(profile, preemption=PreemptionPolicy())
        evaluation = Evaluation(context.snapshot, pod, own_rules, context.history)
    run = evaluation.policies
    if not len(evaluation.candidates):
        error = run.emptied.error()
        if error is not None:
            return preemption_failed(error, "Error"), unchanged
        return preemption_failed(no_candidates_message(run)), replace(unchanged, nominated_node="")
    # 3. callExtenders and SelectCandidate. Without policies, skip our answer: it would be kube-scheduler's own choice.
    if has_policies:
        decision = engine.preempt(context.snapshot, pod, _sent_candidates(run), profile, context.history)
        if not decision.kept:
            return preemption_failed(NO_CANDIDATE), replace(unchanged, vetoed=decision.no_candidate_reason)
        chosen = pick_one_node_for_preemption(decision.kept, draw)
    else:
        place = int(evaluation.best_ties[_draw_place(len(evaluation.best_ties), draw)])
        name = context.snapshot.node_names[int(run.rows[place])]
        chosen = Candidate(name, run.victims_on(place), int(run.violations[place]))
    nominated = Cycle(
        pod,
        "Nominated",
        node=chosen.node,
        nominated_node=chosen.node,
        victims=chosen.victims,
        num_pdb_violations=chosen.num_pdb_violations,
    )
    return preemption_succeeded(chosen.node, len(chosen.victims), context.features), nominated


def _sent_candidates(run: DryRun) -> dict[str, SentCandidate]:
    """Return all candidates in the form in which kube-scheduler sends them to extenders (CallExtenders)."""
    places, violations, pods = np.flatnonzero(run.candidate), run.violations, run.snapshot.pods
    taken, names = run.victim_rows(places), run.snapshot.node_names
    victims: list[list[str]] = [[] for _ in places]
    for place, row in zip(taken.candidate_index.tolist(), taken.pods.tolist(), strict=True):
        victims[place].append(identity(pods[row]))
    return {
        names[int(run.rows[place])]: SentCandidate(tuple(uids), int(violations[place]))
        for place, uids in zip(places.tolist(), victims, strict=True)
    }


def pick_one_node_for_preemption(candidates: Sequence[Candidate], draw: Draw | None = None) -> Candidate:
    """Choose among the candidates in an extender's answer like kube-scheduler (pickOneNodeForPreemption)."""
    best = min(map(_pick_key, candidates))
    ties = sorted((one for one in candidates if _pick_key(one) == best), key=lambda one: one.node)
    return ties[_draw_place(len(ties), draw)]


def _pick_key(candidate: Candidate) -> tuple[int, ...]:
    """Return the keys of pickOneNodeForPreemption in order; smaller keys are better."""
    victims = candidate.victims
    highest = victims[0].priority
    first_start = min(start_time(victim) for victim in victims if victim.priority == highest)
    total = sum(victim.priority + PRIORITY_OFFSET for victim in victims)
    return candidate.num_pdb_violations, highest, total, len(victims), -first_start
