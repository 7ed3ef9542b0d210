"""Run one scheduling cycle of one pod, as kube-scheduler v1.36 does.

    skip? -> filter -> score -> bind to the node with the highest total
                    -> preempt: kube-scheduler's own candidates -> policies -> nominate to one node, evict its victims

All nodes are filtered and all candidates found, as with percentageOfNodesToScore and minCandidateNodesPercentage 100.
kube-scheduler's part always follows its own preemption rules, whatever the profile's are: it sends its candidates, and
the profile answers, as `/preempt` does.

Rule: a cycle decides and changes nothing; its intermediate results are valid until its snapshot changes.
Mirrors ScheduleOne: schedulePod, schedulingAlgorithm (schedule_one.go) and Evaluator.Preempt (framework/preemption).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from extender.core import engine
from extender.core.engine import Candidate, PreemptDecision
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import NodeRows, SchedulingContext
from extender.core.framework.filter import (
    FilterRun,
    filters_not_evaluated,
    run_filter_plugins,
    scheduling_context,
)
from extender.core.framework.scheduling_signature import NodeVerdicts, current_filter_run, kept_verdicts
from extender.core.framework.score import score
from extender.core.framework.status import Code
from extender.core.preemption.candidates import find_candidates
from extender.core.preemption.criteria import ranking_keys
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.eligibility import pod_eligible_to_preempt_others, run_pre_enqueue_plugins, skip_reason
from extender.core.preemption.sent_candidates import SentCandidate
from extender.core.profile import DEFAULT_PREEMPTION, DYNAMIC_RESOURCES, KubeScheduler, PreemptionPolicy
from extender.core.scheduling_cycle.fit_error import (
    NO_CANDIDATE,
    NO_NODES,
    dynamic_resources_post_filter,
    fit_error_message,
    no_candidates_message,
    preemption_failed,
    preemption_succeeded,
    unschedulable_plugins,
)
from extender.core.scheduling_cycle.reserve import NO_RESERVATION, Reservation, reserve
from extender.core.scheduling_cycle.result import CycleOutcome, CyclePostFilter, CycleScore
from extender.core.snapshot.pod_table import identity, start_time
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import Key
from extender.k8s.objects import Pod
from extender.k8s.priority import PRIORITY_OFFSET

Draw = Callable[[int], int]
"""Function n -> random integer in [0, n): the choice among n equal nodes."""

MAX_LISTED_TIES = 10
"""Number of nodes with the highest total that a result lists."""

NOT_TRIED = "not tried: "
NOT_OURS = "not ours: "
"""Prefixes of the message about a pod that kube-scheduler does not queue; the second follows the first."""

_UINT64_MASK = 2**64 - 1


def seeded_draw(seed: int) -> Draw:
    """Return a seeded generator whose numbers do not depend on the version of Python (SplitMix64)."""
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
    """The node that it is bound or nominated to."""
    feasible: int = 0
    """Number of nodes that passed the filters; 1 if the nominated node did, which is filtered first."""
    score: CycleScore | None = None
    post_filter: CyclePostFilter | None = None
    nominated_node: str = ""
    """status.nominatedNodeName of the pod after the cycle; "" for none."""
    victims: tuple[Pod, ...] = ()
    """Pods to evict, most important first."""
    num_pdb_violations: int = 0
    vetoed: str | None = None
    """Reason why the policies allowed no eviction, although kube-scheduler had candidates."""
    hint: str | None = None
    """What to do about a pod whose claim does not exist yet."""
    not_evaluated: tuple[str, ...] = ()
    """Filter plugins that matter for the pod but are not modelled, or lack the permission to read what they need."""
    reservation: Reservation = NO_RESERVATION
    """Resource claims of a scheduled pod, with the devices that they get on the node."""
    deallocated: Key | None = None
    """Resource claim that DynamicResources' PostFilter deallocates, or deletes."""
    unschedulable_plugins: frozenset[str] = frozenset()
    """Filter plugins that rejected a node (Diagnosis.UnschedulablePlugins)."""
    dry_run: DryRun | None = field(default=None, compare=False, repr=False)
    """kube-scheduler's own dry run."""
    decision: PreemptDecision | None = field(default=None, compare=False, repr=False)
    """Decision of the policies on its candidates; None if the profile has no policies of its own."""


def schedule_one(
    snapshot: Snapshot,
    pod: Pod,
    scheduler: KubeScheduler,
    history: EvictionHistory = NO_HISTORY,
    draw: Draw | None = None,
) -> Cycle:
    """Try to schedule the pod by its profile. `draw` chooses among equal nodes; None: the first by name."""
    profile, skipped = scheduler.profile_of(pod), not_tried_reason(snapshot, pod, scheduler)
    if profile is None or skipped is not None:
        return Cycle(
            pod, "Skipped", skipped or "", nominated_node=pod.status.nominated_node_name, hint=_hint(pod, skipped)
        )
    if not snapshot.nodes:
        return Cycle(pod, "Unschedulable", NO_NODES)
    context = scheduling_context(snapshot, pod, profile, history)
    verdicts = kept_verdicts(context)
    if verdicts is not None and verdicts.fits.any():
        fitting = np.flatnonzero(verdicts.fits)
        return _select_host(context, fitting, verdicts, verdicts.not_evaluated_on(fitting), draw)
    filter_run = current_filter_run(context, verdicts)
    plugins = tuple(name for name, mask in filters_not_evaluated(context).items() if mask.any())
    fitting, error = filter_run.rows(Code.SUCCESS), filter_run.error()
    if error is not None and _nominated_row(context) not in fitting:
        return Cycle(pod, "Unschedulable", error, not_evaluated=plugins)
    if len(fitting):
        return _select_host(context, fitting, None, plugins, draw)
    status, failed = _post_filter(filter_run, draw)
    return replace(
        failed,
        message=fit_error_message(filter_run, status),
        post_filter=status,
        not_evaluated=plugins,
        unschedulable_plugins=unschedulable_plugins(filter_run),
    )


def not_tried_reason(snapshot: Snapshot, pod: Pod, scheduler: KubeScheduler) -> str | None:
    """Return why this kube-scheduler does not try the pod; None: it does."""
    if (skipped := skip_reason(pod)) is not None:
        return skipped
    profile = scheduler.profile_of(pod)
    if profile is None:
        return f'{NOT_TRIED}{NOT_OURS}no profile has schedulerName "{pod.spec.scheduler_name}"'
    gated = run_pre_enqueue_plugins(snapshot, pod, profile)
    return None if gated is None else f"{NOT_TRIED}{gated.message}"


def _hint(pod: Pod, skipped: str | None) -> str | None:
    """Return what to do about a claim that does not exist yet: a simulation creates none from a template."""
    if skipped != f'{NOT_TRIED}pod "{pod.key}": ResourceClaim not created yet':
        return None
    created = {one.name for one in pod.status.resource_claim_statuses or ()}
    for one in pod.spec.resource_claims or ():
        template = one.resource_claim_template_name
        if template is not None and one.resource_claim_name is None and one.name not in created:
            return (
                f"a simulation creates no claim from ResourceClaimTemplate {template}: put a ResourceClaim with its "
                f"spec beside the pod, and name it as resourceClaimName of the pod's claim {one.name}"
            )
    return None


# --- scheduled ------------------------------------------------------------------------------------------------------


def _nominated_row(context: SchedulingContext) -> int:
    """Return the row of the pod's nominated node, which is filtered first (evaluateNominatedNode); -1 without one."""
    return context.snapshot.node_row.get(context.pod.status.nominated_node_name, -1)


def _select_host(
    context: SchedulingContext,
    fitting: NodeRows,
    verdicts: NodeVerdicts | None,
    not_evaluated: tuple[str, ...],
    draw: Draw | None,
) -> Cycle:
    """Select the node with the highest total (selectHost), and reserve the pod's claims there."""
    names, pod, nominated, found = context.snapshot.node_names, context.pod, _nominated_row(context), None
    if nominated >= 0 and nominated in fitting:
        fitting = fitting[fitting == nominated]
    row = int(fitting[0])
    if len(fitting) > 1:  # a single feasible node is not scored
        scores = score(context, fitting, {} if verdicts is None else verdicts.scores(context))
        if scores.error is not None:
            return Cycle(pod, "Unschedulable", scores.error, not_evaluated=not_evaluated)
        total = scores.total
        best = np.flatnonzero(total == total.max())
        best = best[np.argsort(context.snapshot.name_order[fitting[best]])]
        place = int(best[_draw_place(len(best), draw)])
        plugins = {plugin: int(values[place]) for plugin, values in scores.plugins.items()}
        ties = [names[one] for one in fitting[best[:MAX_LISTED_TIES]].tolist()]
        found = CycleScore(total=int(total[place]), plugins=plugins, tied=len(best), ties=ties)
        row = int(fitting[place])
    return Cycle(
        pod,
        "Scheduled",
        node=names[row],
        feasible=len(fitting),
        score=found,
        not_evaluated=not_evaluated,
        reservation=reserve(context, row),
    )


def _draw_place(count: int, draw: Draw | None) -> int:
    return draw(count) if draw is not None and count > 1 else 0


# --- or nominated by preemption ---------------------------------------------------------------------------------------


def _post_filter(filter_run: FilterRun, draw: Draw | None) -> tuple[CyclePostFilter, Cycle]:
    """Run the profile's PostFilter plugins until one succeeds or fails (RunPostFilterPlugins)."""
    pod, profile, reasons, deallocated = filter_run.context.pod, filter_run.context.profile, list[str](), None
    found = unchanged = Cycle(pod, "Unschedulable", nominated_node=pod.status.nominated_node_name)
    for name in profile.post_filter_plugins:
        if name == DEFAULT_PREEMPTION:
            status, found = _preempt(filter_run, draw)
        elif name == DYNAMIC_RESOURCES:
            status, deallocated = dynamic_resources_post_filter(filter_run)
        else:
            continue
        if status.code == "Error":
            return status, replace(unchanged, deallocated=deallocated)
        if status.code == "Success":
            return status, replace(found, deallocated=deallocated)
        reasons += status.reasons
    if not profile.post_filter_plugins:  # kube-scheduler clears the nomination then
        found = replace(unchanged, nominated_node="")
    return CyclePostFilter(code="Unschedulable", reasons=reasons), replace(found, deallocated=deallocated)


def _preempt(filter_run: FilterRun, draw: Draw | None) -> tuple[CyclePostFilter, Cycle]:
    """Find a node by preemption (DefaultPreemption's PostFilter), within the policies."""
    context = filter_run.context
    pod, profile = context.pod, context.profile
    has_policies = profile.preemption != PreemptionPolicy()
    unchanged = Cycle(pod, "Unschedulable", nominated_node=pod.status.nominated_node_name)
    may_preempt, reason = pod_eligible_to_preempt_others(filter_run)
    if not may_preempt:
        return preemption_failed(reason), unchanged
    if has_policies:  # kube-scheduler's own candidates first: its order of importance may be another
        context = replace(context, profile=replace(profile, preemption=PreemptionPolicy()))
        filter_run = run_filter_plugins(context)
    run = find_candidates(context, filter_run.checks, filter_run.rows(Code.UNSCHEDULABLE))
    if not run.candidate.any():
        error = run.emptied.error()
        if error is not None:
            return preemption_failed(error, "Error"), replace(unchanged, dry_run=run)
        return preemption_failed(no_candidates_message(run)), replace(unchanged, nominated_node="", dry_run=run)
    decision = None
    if has_policies:
        decision = engine.preempt(context.snapshot, pod, _sent_candidates(run), profile, context.history)
        if not decision.kept:
            vetoed = replace(unchanged, vetoed=decision.no_candidate_reason, dry_run=run, decision=decision)
            return preemption_failed(NO_CANDIDATE), vetoed
    chosen = pick_one_node_for_preemption(decision.kept, draw) if decision else _select_candidate(run, draw)
    status = preemption_succeeded(chosen.node, len(chosen.victims), context.features)
    return status, replace(_nominated(pod, chosen), dry_run=run, decision=decision)


def _nominated(pod: Pod, chosen: Candidate) -> Cycle:
    return Cycle(
        pod,
        "Nominated",
        node=chosen.node,
        nominated_node=chosen.node,
        victims=chosen.victims,
        num_pdb_violations=chosen.num_pdb_violations,
    )


def _select_candidate(run: DryRun, draw: Draw | None) -> Candidate:
    """Select the best of kube-scheduler's own candidates (SelectCandidate)."""
    places = np.flatnonzero(run.candidate)
    ties = places[ranking_keys(run, places).ranks == 0]
    ties = ties[np.argsort(run.snapshot.name_order[run.rows[ties]])]
    place = int(ties[_draw_place(len(ties), draw)])
    name = run.snapshot.node_names[int(run.rows[place])]
    return Candidate(name, run.victims_on(place), int(run.violations[place]))


def _sent_candidates(run: DryRun) -> dict[str, SentCandidate]:
    """Return all candidates as kube-scheduler sends them to its extenders (CallExtenders)."""
    places, violations, pods = np.flatnonzero(run.candidate), run.violations, run.snapshot.pods
    taken, names = run.victim_rows(places), run.snapshot.node_names
    victims: list[list[str]] = [[] for _ in places]
    for place, row in zip(taken.places.tolist(), taken.pods.tolist(), strict=True):
        victims[place].append(identity(pods[row]))
    return {
        names[int(run.rows[place])]: SentCandidate(tuple(uids), int(violations[place]))
        for place, uids in zip(places.tolist(), victims, strict=True)
    }


def pick_one_node_for_preemption(candidates: Sequence[Candidate], draw: Draw | None = None) -> Candidate:
    """Choose among the candidates in an extender's answer as kube-scheduler does (pickOneNodeForPreemption)."""
    best = min(map(_pick_key, candidates))
    ties = sorted((one for one in candidates if _pick_key(one) == best), key=lambda one: one.node)
    return ties[_draw_place(len(ties), draw)]


def _pick_key(candidate: Candidate) -> tuple[int, ...]:
    """Return the criteria of pickOneNodeForPreemption in order, the smaller the better."""
    victims = candidate.victims
    highest = victims[0].priority
    first_start = min(start_time(victim) for victim in victims if victim.priority == highest)
    total = sum(victim.priority + PRIORITY_OFFSET for victim in victims)
    return candidate.num_pdb_violations, highest, total, len(victims), -first_start
