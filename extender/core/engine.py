"""Decide the three verbs of a scheduler extender: filter(), prioritize() and preempt(). Snapshot in, decision out.

`preempt` reads from top to bottom as five steps: resolve the sent candidates, filter (RunFilterPlugins), find
candidates (DryRunPreemption), apply policies, choose the best candidates (SelectCandidate). The last three work on one
value, the dry run. Mirrors Evaluator.Preempt (framework/preemption, v1.36) where no policy is configured.

Rule: one decision reads one snapshot and nothing else; the same snapshot and request give the same decision.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress

import numpy as np

from extender.core.devices.device_index import DeviceIndex
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import NodeRows, SchedulingContext
from extender.core.framework.filter import (
    FilterRun,
    Statuses,
    fits_without_terminating_pods,
    node_rows,
    not_evaluated_on,
    scheduling_context,
)
from extender.core.framework.plugins import PLUGIN_INDEXES
from extender.core.framework.scheduling_signature import current_filter_run, kept_verdicts
from extender.core.framework.score import Scores, score
from extender.core.framework.status import SUCCESS, Code
from extender.core.preemption.candidates import (
    apply_policies,
    find_candidates,
    has_whole_groups,
    preemption_would_help,
)
from extender.core.preemption.criteria import best_candidates, ranking_keys
from extender.core.preemption.drop_reasons import drop_reasons
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.eligibility import PREEMPTION_POLICY_NEVER, not_schedulable
from extender.core.preemption.node_pods import NodePods
from extender.core.preemption.potential_victims import potential_victims
from extender.core.preemption.rate_limits import preemption_refusal
from extender.core.preemption.recent_deletions import dry_run_sent_candidates, no_eviction_needed
from extender.core.preemption.sent_candidates import (
    CONTRADICTIONS,
    PASSED_ON_WITHOUT_VICTIMS,
    DropCode,
    Dropped,
    PodUIDs,
    SentCandidate,
    resolve_candidates,
)
from extender.core.preemption.stranded import PlacementIndex
from extender.core.profile import UNCONFIGURED, KubeScheduler, Profile
from extender.core.snapshot.arrays import BoolArray, IntArray, mask_of
from extender.core.snapshot.resource_claims import ResourceClaimParts
from extender.core.snapshot.snapshot import OBJECTS_PER_STEP, Snapshot
from extender.errors import PluginFailed
from extender.k8s.objects import ObjectMeta, Pod

MAX_EXTENDER_SCORE = 10
"""MaxExtenderPriority of k8s.io/kube-scheduler/extender/v1: the best score that an extender can give."""

ROOM_OF_TERMINATING_PODS = "fits: kube-scheduler offered the node, so the room of its terminating pods counts as free"
"""Reason for accepting a node that the filters reject only because of pods that are terminating."""

_MIN_FITTING_SCORE = 6
"""Lowest score of a node on which the pod fits, where other nodes need preemption; those score below it."""

MAX_LISTED_REASONS = 3
"""Number of distinct drop reasons that the message about an empty `/preempt` answer lists."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """Intermediate results behind a decision, valid until its snapshot changes (see `core.record`)."""

    context: SchedulingContext
    rows: NodeRows
    """Node rows of the request; for `/preempt` those of the sent candidates that could be resolved."""
    filter_run: FilterRun | None = None
    """Result of the filters; None: they did not run, because the pod must not preempt or is known to fit on all."""
    statuses: Statuses | None = None
    """`/filter`: filter status of each requested node."""
    preemption_helps: BoolArray | None = None
    """`/filter`: [requested node]: True if evicting lower-priority pods would make room."""
    scores: Scores | None = None
    """`/prioritize`: plugin scores of the requested nodes on which the pod fits."""
    dry_run: DryRun | None = None
    """Preemption dry run on the nodes where it was tried."""
    node_names: tuple[str, ...] | None = None
    """Names of all nodes, where some were in the snapshot for this decision only; None: those of the snapshot."""


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

    @property
    def contradicts_scheduler(self) -> bool:
        """Whether a node is rejected that kube-scheduler offered, for it offers only nodes that passed its filters."""
        return bool(self.failed or self.unresolvable)

    @property
    def leads_to_preemption(self) -> bool:
        """Whether all requested nodes are rejected, so that kube-scheduler looks for pods to evict."""
        return not self.accepted and self.contradicts_scheduler


@dataclass(frozen=True, slots=True)
class PrioritizeDecision:
    """Result of `/prioritize`."""

    scores: tuple[int, ...]
    """[requested node]: score from 0 to MAX_EXTENDER_SCORE."""
    not_evaluated: tuple[str, ...]
    """Filter plugins of kube-scheduler that matter for this pod but are not modelled."""
    decision_context: DecisionContext | None = field(default=None, compare=False, repr=False)

    @property
    def contradicts_scheduler(self) -> bool:
        """False: kube-scheduler does not say how it scores."""
        return False

    @property
    def leads_to_preemption(self) -> bool:
        """False: no node is rejected."""
        return False


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
    dropped: dict[str, Dropped]
    """Sent node -> why it is not in the answer."""
    not_evaluated: tuple[str, ...]
    """Filter and PostFilter plugins of kube-scheduler that matter for this pod but are not modelled."""
    as_sent: frozenset[str]
    """Nodes answered with kube-scheduler's own victims: a plugin that is not modelled decides, or pods go together."""
    vetoed: str | None = None
    """Reason why the pod may not preempt on any node now, and until when; None: it may."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """Node -> guard rule that its candidate broke; such a candidate is dropped."""
    decision_context: DecisionContext | None = field(default=None, compare=False, repr=False)

    @property
    def contradicts_scheduler(self) -> bool:
        """Whether a sent candidate is none here, and no policy of ours is the reason."""
        codes, context = {dropped.code for dropped in self.dropped.values()}, self.decision_context
        has_own_victims = context is None or context.context.profile.preemption.may_change_victims
        return not codes.isdisjoint(CONTRADICTIONS) or (DropCode.NO_ROOM in codes and not has_own_victims)

    @property
    def leads_to_preemption(self) -> bool:
        """False: it is one."""
        return False

    @property
    def no_candidate_reason(self) -> str:
        """Return why the answer is empty: the veto that holds for all nodes, or the most common drop reasons."""
        if self.vetoed is not None:
            return self.vetoed
        common = Counter(dropped.message for dropped in self.dropped.values()).most_common(MAX_LISTED_REASONS)
        return "; ".join(f"{count} nodes: {reason}" if count > 1 else f"1 node: {reason}" for reason, count in common)


def prepare(snapshot: Snapshot, scheduler: KubeScheduler = UNCONFIGURED) -> Snapshot:
    """Build the indexes and cached arrays that the first request would otherwise wait for; return the snapshot.

    They depend on the preemption policy only, which all profiles share.
    """
    for _ in prepare_in_steps(snapshot, scheduler):
        pass
    return snapshot


def prepare_in_steps(snapshot: Snapshot, scheduler: KubeScheduler) -> Iterator[None]:
    """Do what `prepare` does, and yield in between."""
    if snapshot.features != scheduler.features:
        raise ValueError("the snapshot was built for another version of kube-scheduler")
    for index in PLUGIN_INDEXES:
        snapshot.index(index)
        yield
    if snapshot.objects.resource_claims:  # where pods use no devices, no slice is read
        snapshot.index(DeviceIndex)
        snapshot.index(ResourceClaimParts).frozen()
    profile = scheduler.profiles[0]
    context = scheduling_context(snapshot, Pod(ObjectMeta()), profile)
    potential = potential_victims(context)
    if profile.preemption.disruption_budgets == "Strict":
        potential_victims(context, reverse_of=potential)
    yield
    has_whole_groups(context)
    yield
    snapshot.index(PodUIDs).read()
    yield
    rows, node_pods = np.arange(len(snapshot.nodes)), snapshot.index(NodePods, profile.preemption)
    for start in range(0, len(rows), OBJECTS_PER_STEP):
        node_pods.on(context.layout, rows[start : start + OBJECTS_PER_STEP])
        yield
    if "Stranded" in profile.preemption.ranking:
        snapshot.index(PlacementIndex)
    _ = snapshot.allocatable, snapshot.taints, snapshot.name_order


def _raise_error(error: str | None) -> None:
    """Raise PluginFailed for an error that would have ended kube-scheduler's cycle: no answer can be derived then."""
    if error is not None:
        raise PluginFailed(error)


# --- /filter --------------------------------------------------------------------------------------------------------


def filter(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, history: EvictionHistory = NO_HISTORY
) -> FilterDecision:
    """Decide which of the requested nodes take the pod.

    Raises UnknownNode if one is not in the snapshot, PluginFailed if a plugin fails there.

    kube-scheduler offers nodes that passed its own filters: there, the room of terminating pods counts as free.
    """
    rows, context = node_rows(snapshot, nodes), scheduling_context(snapshot, pod, profile, history)
    verdicts = kept_verdicts(context)
    if verdicts is not None and verdicts.fits[rows].all():  # as usual: kube-scheduler has filtered these nodes
        accepted, statuses, helps = _fits_everywhere(len(rows))
        decision_context = DecisionContext(context, rows, None, statuses, helps)
        return FilterDecision(accepted, {}, {}, verdicts.not_evaluated_on(rows), decision_context)
    filter_run = current_filter_run(context, verdicts)
    _raise_error(filter_run.error(rows))
    plugins, _ = not_evaluated_on(context, rows)
    beside_terminating = fits_without_terminating_pods(filter_run, rows)[rows]
    fits = (filter_run.codes[rows] == Code.SUCCESS) | beside_terminating
    helps = _preemption_helps(filter_run, rows) & ~fits
    statuses = filter_run.statuses(rows).accepted(beside_terminating, ROOM_OF_TERMINATING_PODS)
    messages = [status.message for status in statuses.distinct]

    def messages_by_node(selected: BoolArray) -> dict[str, str]:
        if not selected.any():
            return {}
        which = statuses.indices[selected].tolist()
        return dict(zip(compress(nodes, selected.tolist()), map(messages.__getitem__, which), strict=True))

    accepted = tuple(np.flatnonzero(fits).tolist())
    decision_context = DecisionContext(context, rows, filter_run, statuses, helps)
    return FilterDecision(
        accepted, messages_by_node(helps), messages_by_node(~fits & ~helps), plugins, decision_context
    )


@lru_cache(maxsize=4)
def _fits_everywhere(size: int) -> tuple[tuple[int, ...], Statuses, BoolArray]:
    """Return the positions, the statuses and whether preemption helps, of so many nodes on which the pod fits."""
    indices, helps = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    indices.flags.writeable = helps.flags.writeable = False
    return tuple(range(size)), Statuses((SUCCESS,), indices), helps


def _preemption_helps(filter_run: FilterRun, rows: NodeRows) -> BoolArray:
    """Return [row]: whether evicting lower-priority pods would make room."""
    helps, tried = np.zeros(len(filter_run.codes), np.bool_), _rows_preemption_may_help(filter_run, rows)
    if len(tried):
        helps[tried] = preemption_would_help(filter_run.context, filter_run.checks, tried)
    return helps[rows]


def _rows_preemption_may_help(filter_run: FilterRun, rows: NodeRows) -> NodeRows:
    """Return the rows with code Unschedulable, ascending and without duplicates; empty if the pod must not preempt."""
    tried = np.flatnonzero(mask_of(rows, len(filter_run.codes)) & (filter_run.codes == Code.UNSCHEDULABLE))
    context = filter_run.context
    # Victims that still terminate on the nominated node are kube-scheduler's to wait for (PodEligibleToPreemptOthers):
    # it preempts elsewhere at once if the extender calls that node unresolvable.
    if context.pod.spec.preemption_policy == "Never" or preemption_refusal(context) is not None:
        return tried[:0]
    return tried


# --- /prioritize ----------------------------------------------------------------------------------------------------


def prioritize(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, history: EvictionHistory = NO_HISTORY
) -> PrioritizeDecision:
    """Score each requested node from 0 to 10.

    Raises UnknownNode if one is not in the snapshot, PluginFailed if a plugin fails there.

    If the pod fits on all nodes, the score is the weighted plugin total as a share of the best possible total. If some
    nodes need preemption, nodes that fit score 6-10, preemption candidates 1-5 by their rank, and all others 0.
    """
    rows, context = node_rows(snapshot, nodes), scheduling_context(snapshot, pod, profile, history)
    verdicts = kept_verdicts(context)
    if verdicts is not None and verdicts.fits[rows].all():
        scores = score(context, rows, verdicts.scores(context))
        _raise_error(scores.error)
        plugins = (*verdicts.not_evaluated_on(rows), *profile.not_evaluated_scores)
        decision_context = DecisionContext(context, rows, scores=scores)
        return PrioritizeDecision(tuple(_shares(scores, 0).tolist()), tuple(dict.fromkeys(plugins)), decision_context)
    filter_run = current_filter_run(context, verdicts)
    _raise_error(filter_run.error(rows))
    not_evaluated, _ = not_evaluated_on(context, rows)
    plugins = tuple(dict.fromkeys((*not_evaluated, *profile.not_evaluated_scores)))
    fits = (filter_run.codes == Code.SUCCESS) | fits_without_terminating_pods(filter_run, rows)
    fitting = np.flatnonzero(mask_of(rows, len(fits)) & fits)
    result = np.zeros(len(fits), np.int64)
    scores = score(context, fitting)
    _raise_error(scores.error)
    floor = 0 if fits[rows].all() else _MIN_FITTING_SCORE
    if len(fitting):
        result[fitting] = _shares(scores, floor)
    tried, run = _rows_preemption_may_help(filter_run, rows), None
    tried = tried[~fits[tried]]
    if len(tried):
        run = find_candidates(context, filter_run.checks, tried)
        places = np.flatnonzero(run.candidate)
        if len(places):
            # `floor - 1` for the best candidate, the others evenly down to 1; equal ranks score the same
            ranks = ranking_keys(run, places).ranks
            result[run.rows[places]] = floor - 1 - ranks * (floor - 1) // len(places)
    decision_context = DecisionContext(context, rows, filter_run, scores=scores, dry_run=run)
    return PrioritizeDecision(tuple(result[rows].tolist()), plugins, decision_context)


def _shares(scores: Scores, floor: int) -> IntArray:
    """Return [row]: the total as a share of the highest possible one, from `floor` to 10, rounded down."""
    # score = floor + total / highest possible total * (10 - floor)
    return floor + scores.total * (MAX_EXTENDER_SCORE - floor) // max(scores.highest, 1)


# --- /preempt -------------------------------------------------------------------------------------------------------


def preempt(
    snapshot: Snapshot,
    pod: Pod,
    sent: Mapping[str, SentCandidate],
    profile: Profile,
    history: EvictionHistory = NO_HISTORY,
) -> PreemptDecision:
    """Choose the best candidates among the sent nodes, or all nodes, with the victims that our own dry run finds.

    On a node where a plugin that is not modelled decides, or pods run that may be evicted together only, our reprieve
    could spare a pod that must be evicted: kube-scheduler's own victims are kept there, and the node is ranked with
    them. A PostFilter plugin that is not modelled may have chosen the victims on every node. Where kube-scheduler's
    cache and the snapshot differ by a deletion, see `core.preemption.recent_deletions`.
    """
    resolved = resolve_candidates(snapshot, sent, history.recent_deletions)
    context = scheduling_context(snapshot, pod, profile, history)
    filters, scheduler_decides = not_evaluated_on(context, resolved.rows)
    plugins = tuple(dict.fromkeys((*filters, *profile.not_evaluated_post_filters)))
    keeps_victims = scheduler_decides | has_whole_groups(context) | bool(profile.not_evaluated_post_filters)
    refusal = not_schedulable(snapshot, pod, profile)
    refusal = PREEMPTION_POLICY_NEVER if pod.spec.preemption_policy == "Never" else refusal
    refusal = preemption_refusal(context) if refusal is None else refusal
    if refusal is not None:
        return _vetoed(Dropped(DropCode.REFUSED, refusal), sent, plugins, DecisionContext(context, resolved.rows))
    filter_run = current_filter_run(context, kept_verdicts(context))
    _raise_error(filter_run.error(resolved.rows))
    # Preemption may help where a filter says so, and, on a sent node, where a plugin that is not modelled decides.
    codes = filter_run.codes
    tried = mask_of(resolved.rows, len(codes))
    tried &= (codes == Code.UNSCHEDULABLE) | (scheduler_decides & (codes != Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
    if profile.preemption.candidates == "AllNodes":
        others = (codes == Code.UNSCHEDULABLE) & ~keeps_victims
        # kube-scheduler knows pods there that the snapshot lacks.
        others[[snapshot.node_row[name] for name in resolved.dropped if name in snapshot.node_row]] = False
        tried |= others
    run = dry_run_sent_candidates(context, filter_run.checks, np.flatnonzero(tried), resolved)
    run = apply_policies(run, keeps_victims if keeps_victims.any() else None)
    decision_context = DecisionContext(context, resolved.rows, filter_run, dry_run=run)
    not_needed = no_eviction_needed(filter_run, run, resolved, scheduler_decides) if history.recent_deletions else None
    if not_needed is not None:
        return _vetoed(not_needed, sent, plugins, decision_context)
    kept = tuple(
        Candidate(snapshot.node_names[run.rows[place]], run.victims_on(place), run.violations_on(place))
        for place in best_candidates(run, profile.keep_candidates).tolist()
    )
    dropped = drop_reasons(filter_run, run, resolved, [candidate.node for candidate in kept])
    if context.features.candidates_may_lack_victims:
        passed_on = _candidates_without_victims(sent, dropped)
        kept += tuple(Candidate(node, (), sent[node].num_pdb_violations) for node in passed_on)
        dropped = {node: reason for node, reason in dropped.items() if node not in passed_on}
    return PreemptDecision(
        kept,
        dropped,
        plugins,
        as_sent=frozenset(compress(resolved.nodes, keeps_victims[resolved.rows].tolist())),
        decision_context=decision_context,
    )


def _candidates_without_victims(sent: Mapping[str, SentCandidate], dropped: Mapping[str, Dropped]) -> list[str]:
    """Return the nodes that were sent without victims and got none here, although no policy is the reason.

    kube-scheduler sends them where only an extender's /filter rejects the pod (v1.38): another extender may know the
    victims, and where none does, kube-scheduler leaves the node out itself.
    """
    return [
        node for node, reason in dropped.items() if not sent[node].victims and reason.code in PASSED_ON_WITHOUT_VICTIMS
    ]


def _vetoed(
    reason: Dropped, sent: Iterable[str], plugins: tuple[str, ...], decision_context: DecisionContext
) -> PreemptDecision:
    """Return the decision to evict no pod, for that reason."""
    dropped = dict.fromkeys(sent, reason)
    return PreemptDecision((), dropped, plugins, frozenset(), reason.message, decision_context=decision_context)
