"""Decide the three verbs of a scheduler extender: filter(), prioritize() and preempt(). Snapshot in, decision out.

`preempt` reads from top to bottom as five steps: resolve the sent candidates (`ResolvedCandidates`), filter
(RunFilterPlugins), find candidates (findCandidates and DryRunPreemption), apply policies, choose the best candidates
(SelectCandidate). Mirrors Evaluator.Preempt (framework/preemption, v1.36) where no policy is configured.

Rule: one decision reads one snapshot and nothing else; the same snapshot and request give the same decision.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import NodeRows, SchedulingContext
from extender.core.framework.filter import (
    FilterRun,
    Statuses,
    filters_not_evaluated,
    last_filter_run,
    node_rows,
    run_filter_plugins,
    scheduling_context,
)
from extender.core.framework.plugins import PLUGIN_INDEXES
from extender.core.framework.score import Scores, score
from extender.core.framework.status import Code
from extender.core.preemption.candidates import find_candidates, preemption_would_help, replace_victims
from extender.core.preemption.criteria import best_candidates, ranking_keys
from extender.core.preemption.drop_reasons import UNREQUESTED_SYSTEM_POD, reasons_not_chosen, reasons_not_tried
from extender.core.preemption.dry_run import SCHEDULER_PREFERRED, SCHEDULER_VICTIMS, DryRun, PolicyVeto
from extender.core.preemption.eligibility import PREEMPTION_POLICY_NEVER, pod_eligible_to_preempt_others
from extender.core.preemption.node_pods import NodePods
from extender.core.preemption.potential_victims import potential_victims
from extender.core.preemption.protections import is_system_victim, may_change_victims
from extender.core.preemption.ranking import dense_rank
from extender.core.preemption.rate_limits import preemption_refusal
from extender.core.preemption.sent_candidates import ResolvedCandidates, SentCandidate
from extender.core.profile import UPSTREAM, Profile
from extender.core.snapshot.arrays import BoolArray, IntArray, VictimRows, count_per_node, mask_of, select_columns
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import ObjectMeta, Pod

MAX_EXTENDER_SCORE = 10
"""MaxExtenderPriority of k8s.io/kube-scheduler/extender/v1: the best score that an extender can give."""

_MIN_FITTING_SCORE = 6
"""Lowest score of a node on which the pod fits, where other nodes need preemption; those score below it."""

MAX_LISTED_REASONS = 3
"""Number of distinct drop reasons that the message about an empty `/preempt` answer lists."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """Intermediate results behind a decision, valid until its snapshot changes (see `core.explain.record`)."""

    context: SchedulingContext
    rows: NodeRows
    """Node rows of the request; for `/preempt` those of the sent candidates that could be resolved."""
    filter_run: FilterRun | None = None
    """Result of the filters; None: they did not run, because the pod must not preempt."""
    statuses: Statuses | None = None
    """`/filter`: filter status of each requested node."""
    preemption_helps: BoolArray | None = None
    """`/filter`: [requested node]: True if evicting lower-priority pods would make room."""
    scores: Scores | None = None
    """`/prioritize`: plugin scores of the requested nodes on which the pod fits."""
    dry_run: DryRun | None = None
    """Preemption dry run on the nodes where it was tried."""
    scheduler_victims: BoolArray | None = None
    """[k, node] of `dry_run`: True for the victims that kube-scheduler chose."""


@dataclass(frozen=True, slots=True)
class FilterDecision:
    """Result of `/filter`: every requested node is in exactly one of the first three fields."""

    accepted: tuple[int, ...]
    """Positions in the requested list, ascending."""
    failed: dict[str, str]
    """Node -> message, where evicting lower-priority pods would help (FailedNodes)."""
    unresolvable: dict[str, str]
    """Node -> message, where it would not (FailedAndUnresolvableNodes)."""
    not_evaluated: tuple[str, ...]
    """Filter plugins of kube-scheduler that matter for this pod but are not modelled."""
    decision_context: DecisionContext | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PrioritizeDecision:
    """Result of `/prioritize`."""

    scores: tuple[int, ...]
    """[requested node]: score from 0 to MAX_EXTENDER_SCORE."""
    not_evaluated: tuple[str, ...]
    """Filter plugins of kube-scheduler that matter for this pod but are not modelled."""
    decision_context: DecisionContext | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """The pods to evict from one node."""

    node: str
    victims: tuple[Pod, ...]
    """Most important first."""
    num_pdb_violations: int


@dataclass(frozen=True, slots=True)
class PreemptDecision:
    """Result of `/preempt`."""

    kept: tuple[Candidate, ...]
    """Candidates in the answer, best first."""
    dropped: dict[str, str]
    """Sent node -> why it is not in the answer."""
    not_evaluated: tuple[str, ...]
    """Filter plugins of kube-scheduler that matter for this pod but are not modelled."""
    as_sent: frozenset[str]
    """Nodes answered with kube-scheduler's own victims, because a plugin that is not modelled decides there."""
    vetoed: str | None = None
    """Reason why the pod may not preempt on any node now, and until when; None: it may."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """Node -> guard rule that its candidate broke; such a candidate is dropped."""
    decision_context: DecisionContext | None = field(default=None, compare=False, repr=False)

    @property
    def no_candidate_reason(self) -> str:
        """Return why the answer is empty: the veto that holds for all nodes, or the most common drop reasons."""
        if self.vetoed is not None:
            return self.vetoed
        common = Counter(self.dropped.values()).most_common(MAX_LISTED_REASONS)
        return "; ".join(f"{count} nodes: {reason}" if count > 1 else f"1 node: {reason}" for reason, count in common)


def prepare(snapshot: Snapshot, profile: Profile = UPSTREAM) -> Snapshot:
    """Build the indexes and cached arrays that the first request would otherwise wait for; return the snapshot."""
    for index in PLUGIN_INDEXES:
        snapshot.index(index)
    context = scheduling_context(snapshot, Pod(ObjectMeta()), profile)
    potential = potential_victims(context)
    if profile.preemption.disruption_budgets == "Strict":
        potential_victims(context, reverse_of=potential)
    snapshot.index(NodePods, profile.preemption).on(context.layout, np.arange(len(snapshot.nodes)))
    _ = snapshot.allocatable, snapshot.taints, snapshot.name_order
    return snapshot


# --- /filter --------------------------------------------------------------------------------------------------------


def filter(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, history: EvictionHistory = NO_HISTORY
) -> FilterDecision:
    """Decide which of the requested nodes take the pod. Raises UnknownNode if one is not in the snapshot."""
    rows = node_rows(snapshot, nodes)
    filter_run = last_filter_run(scheduling_context(snapshot, pod, profile, history))
    plugins, _ = _not_evaluated_on(filter_run.context, rows)
    fits = filter_run.codes[rows] == Code.SUCCESS
    statuses, helps = filter_run.statuses(rows), _preemption_helps(filter_run, rows)
    messages = [status.message for status in statuses.distinct]

    def messages_by_node(selected: BoolArray) -> dict[str, str]:
        if not selected.any():
            return {}
        which = statuses.indices[selected].tolist()
        return dict(zip(compress(nodes, selected.tolist()), map(messages.__getitem__, which), strict=True))

    accepted = tuple(np.flatnonzero(fits).tolist())
    decision_context = DecisionContext(filter_run.context, rows, filter_run, statuses, helps)
    return FilterDecision(
        accepted, messages_by_node(helps), messages_by_node(~fits & ~helps), plugins, decision_context
    )


def _not_evaluated_on(context: SchedulingContext, rows: NodeRows) -> tuple[tuple[str, ...], BoolArray]:
    """Return the plugins that only kube-scheduler evaluates on some of `rows`, and [node] where any of them decides."""
    masks = filters_not_evaluated(context)
    scheduler_decides = np.logical_or.reduce([*masks.values()])
    return tuple(name for name, mask in masks.items() if mask[rows].any()), scheduler_decides


def _rows_with_code(filter_run: FilterRun, rows: NodeRows, code: Code) -> NodeRows:
    """Return the rows that have the code, ascending and without duplicates."""
    return np.flatnonzero(mask_of(rows, len(filter_run.codes)) & (filter_run.codes == code))


def _preemption_helps(filter_run: FilterRun, rows: NodeRows) -> BoolArray:
    """Return [row]: whether evicting lower-priority pods would make room."""
    helps, tried = np.zeros(len(filter_run.codes), np.bool_), _rows_preemption_may_help(filter_run, rows)
    if len(tried):
        helps[tried] = preemption_would_help(filter_run.context, filter_run.checks, tried)
    return helps[rows]


def _rows_preemption_may_help(filter_run: FilterRun, rows: NodeRows) -> NodeRows:
    """Return the rows with code Unschedulable, ascending and without duplicates; empty if the pod must not preempt."""
    tried = _rows_with_code(filter_run, rows, Code.UNSCHEDULABLE)
    if (
        not len(tried)
        or not pod_eligible_to_preempt_others(filter_run)[0]
        or preemption_refusal(filter_run.context) is not None
    ):
        return tried[:0]
    return tried


# --- /prioritize ----------------------------------------------------------------------------------------------------


def prioritize(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, history: EvictionHistory = NO_HISTORY
) -> PrioritizeDecision:
    """Score each requested node from 0 to 10. Raises UnknownNode if one is not in the snapshot.

    If the pod fits on all nodes, the score is the weighted plugin total as a share of the best possible total. If some
    nodes need preemption, nodes that fit score 6-10, preemption candidates 1-5 by their rank, and all others 0.
    """
    rows = node_rows(snapshot, nodes)
    filter_run = last_filter_run(scheduling_context(snapshot, pod, profile, history))
    plugins, _ = _not_evaluated_on(filter_run.context, rows)
    fitting = _rows_with_code(filter_run, rows, Code.SUCCESS)
    result = np.zeros(len(filter_run.codes), np.int64)
    scores = score(filter_run.context, fitting)
    floor = 0 if (filter_run.codes[rows] == Code.SUCCESS).all() else _MIN_FITTING_SCORE
    if len(fitting):
        # score = floor + total / highest possible total * (10 - floor), rounded down
        result[fitting] = floor + scores.total * (MAX_EXTENDER_SCORE - floor) // max(scores.highest, 1)
    tried, run = _rows_preemption_may_help(filter_run, rows), None
    if len(tried):
        run = find_candidates(filter_run.context, filter_run.checks, tried)
        places = np.flatnonzero(run.candidate)
        result[run.rows[places]] = _candidate_scores(dense_rank(ranking_keys(run, places)), floor)
    decision_context = DecisionContext(filter_run.context, rows, filter_run, scores=scores, dry_run=run)
    return PrioritizeDecision(tuple(result[rows].tolist()), plugins, decision_context)


def _candidate_scores(ranks: IntArray, floor: int) -> IntArray:
    """Return [candidate]: `floor - 1` for the best, the others evenly down to 1; equal ranks score the same."""
    return floor - 1 - ranks * (floor - 1) // max(len(ranks), 1)


# --- /preempt -------------------------------------------------------------------------------------------------------


def preempt(
    snapshot: Snapshot,
    pod: Pod,
    sent: Mapping[str, SentCandidate],
    profile: Profile,
    history: EvictionHistory = NO_HISTORY,
) -> PreemptDecision:
    """Choose the best candidates among the sent nodes, or all nodes, with the victims that our own dry run finds.

    On a node where a plugin that is not modelled decides, our reprieve could spare a pod that must be evicted:
    kube-scheduler's own victims are kept there, and the node is ranked with them.
    """
    resolved = ResolvedCandidates.resolve(snapshot, sent)
    context, rows = scheduling_context(snapshot, pod, profile, history), resolved.rows
    plugins, scheduler_decides = _not_evaluated_on(context, rows)
    vetoed = PREEMPTION_POLICY_NEVER if pod.spec.preemption_policy == "Never" else preemption_refusal(context)
    if vetoed is not None:
        dropped, decision_context = dict.fromkeys(sent, vetoed), DecisionContext(context, rows)
        return PreemptDecision((), dropped, plugins, frozenset(), vetoed, decision_context=decision_context)
    filter_run = run_filter_plugins(context)
    tried = _rows_to_dry_run(filter_run, resolved, scheduler_decides)
    chosen = resolved.victims if may_change_victims(profile.preemption) else None
    run = find_candidates(context, filter_run.checks, tried, chosen)
    scheduler_victims = resolved.victims_in(run)
    run = _apply_policies(run, scheduler_victims, scheduler_decides if plugins else None)
    kept = _choose(run, scheduler_victims, profile.keep_candidates)
    dropped = resolved.dropped | reasons_not_tried(filter_run, rows, tried)
    dropped |= reasons_not_chosen(run, resolved, [candidate.node for candidate in kept])
    as_sent = frozenset(compress(resolved.nodes, scheduler_decides[rows].tolist()))
    decision_context = DecisionContext(context, rows, filter_run, dry_run=run, scheduler_victims=scheduler_victims)
    return PreemptDecision(kept, dropped, plugins, as_sent, decision_context=decision_context)


def _rows_to_dry_run(filter_run: FilterRun, resolved: ResolvedCandidates, scheduler_decides: BoolArray) -> NodeRows:
    """Return the rows of the sent nodes, or with AllNodes of all nodes, on which preemption may help.

    A node whose sent candidate was dropped is left out: kube-scheduler knows pods there that the snapshot lacks.
    """
    codes, node_row = filter_run.codes, filter_run.context.snapshot.node_row
    sent = mask_of(resolved.rows, len(codes))
    sent &= (codes == Code.UNSCHEDULABLE) | (scheduler_decides & (codes != Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
    if filter_run.context.profile.preemption.candidates == "Sent":
        return np.flatnonzero(sent)
    others = (codes == Code.UNSCHEDULABLE) & ~scheduler_decides
    others[[node_row[name] for name in resolved.dropped if name in node_row]] = False
    return np.flatnonzero(sent | others)


def _apply_policies(run: DryRun, scheduler_victims: BoolArray, scheduler_decides: BoolArray | None) -> DryRun:
    """Prefer kube-scheduler's victims, keep them where `scheduler_decides`, and veto other system victims.

    `scheduler_decides`: [node] of the snapshot where a plugin that is not modelled decides; None: nowhere.
    """
    run = _prefer_scheduler_victims(run, scheduler_victims)
    if scheduler_decides is not None:
        places = np.flatnonzero(scheduler_decides[run.rows])
        evictable = _evictable_scheduler_victims(run, scheduler_victims)
        run = replace_victims(run, places, evictable[:, places], SCHEDULER_VICTIMS)
    return _drop_unrequested_system_victims(run, scheduler_victims)


def _prefer_scheduler_victims(run: DryRun, scheduler_victims: BoolArray) -> DryRun:
    """Prefer kube-scheduler's victim where two pods are interchangeable.

    kube-scheduler may know already that the other one is gone, and one UID that it cannot find fails the whole answer.
    """
    unrequested = run.victims & ~scheduler_victims
    reprieved = scheduler_victims & ~run.victims & run.potential.evictable.mask
    mixed = np.flatnonzero(unrequested.any(axis=0) & reprieved.any(axis=0) & run.candidate)
    places = _places_with_equal_importance(run, mixed, unrequested, reprieved)
    if not places:
        return run
    victims, methods = run.victims.copy(), run.methods.copy()
    for place in places:
        spared = np.flatnonzero(scheduler_victims[:, place] & ~victims[:, place]).tolist()
        for k in np.flatnonzero(victims[:, place] & ~scheduler_victims[:, place]).tolist():
            other = next((one for one in spared if run.are_interchangeable(place, k, one)), None)
            if other is not None:
                victims[[k, other], place] = False, True
                spared.remove(other)
                methods[place] = SCHEDULER_PREFERRED
    return replace(run, victims=victims, methods=methods)


def _places_with_equal_importance(run: DryRun, places: IntArray, some: BoolArray, others: BoolArray) -> list[int]:
    """Return the places where a pod of `some` [k, node] is as important as one of `others`: a fast preliminary test."""
    pod_table = run.snapshot.pod_table
    one, other = (run.victim_rows(places, select_columns(mask, places)) for mask in (some, others))

    def importance(taken: VictimRows) -> Iterator[tuple[int, int, int]]:
        """Return (place, priority, start time) of each pod."""
        priority, start = pod_table.priority[taken.pods], pod_table.start[taken.pods]
        return zip(taken.places.tolist(), priority.tolist(), start.tolist(), strict=True)

    equal = set(importance(one)).intersection(importance(other))
    return sorted({int(places[nth]) for nth, _, _ in equal})


def _evictable_scheduler_victims(run: DryRun, scheduler_victims: BoolArray) -> BoolArray:
    """Return [k, node]: kube-scheduler's victims; none at all on a node where one of them may not be evicted."""
    not_evictable = (scheduler_victims & ~run.potential.evictable.mask).any(axis=0)
    return scheduler_victims & ~not_evictable


def _drop_unrequested_system_victims(run: DryRun, scheduler_victims: BoolArray) -> DryRun:
    """Veto nodes where a system pod would be evicted that kube-scheduler did not choose.

    Where policies may change victims, the protections leave those pods out already.
    """
    if may_change_victims(run.context.profile.preemption):
        return run
    places = np.flatnonzero(run.candidate)
    added = run.victim_rows(places, select_columns(run.victims & ~scheduler_victims, places))
    pods = run.snapshot.pods
    vetoed = [
        place
        for pod, place in zip(added.pods.tolist(), added.places.tolist(), strict=True)
        if is_system_victim(pods[pod])
    ]
    if not vetoed:
        return run
    nodes = mask_of(places[vetoed], len(run.rows))
    veto = PolicyVeto(nodes, lambda _, places: [f"would evict {UNREQUESTED_SYSTEM_POD}"] * len(places))
    return replace(run, vetoes=(*run.vetoes, veto))


def _choose(run: DryRun, scheduler_victims: BoolArray, limit: int | None) -> tuple[Candidate, ...]:
    """Return the best candidates, best first, at most `limit`; None: all."""
    places = np.flatnonzero(run.candidate)
    best = best_candidates(run, places, limit, then=tie_breakers(run, scheduler_victims, places))
    violations, names = run.violations, run.snapshot.node_names
    return tuple(
        Candidate(names[run.rows[place]], run.victims_on(place), int(violations[place])) for place in best.tolist()
    )


def tie_breakers(run: DryRun, scheduler_victims: BoolArray, places: IntArray) -> tuple[IntArray, IntArray]:
    """Return keys [place] for equal cost: number of victims that kube-scheduler did not choose; node name."""
    return count_per_node(run.victims & ~scheduler_victims)[places], run.snapshot.name_order[run.rows[places]]
