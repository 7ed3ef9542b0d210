"""Decide the three verbs of a scheduler extender: filter(), prioritize() and preempt().

Each reads one Evaluation: /filter its statuses, /prioritize its scores and ranking, /preempt its best candidates.
`preempt` mirrors Evaluator.Preempt (framework/preemption, v1.36) if no policy is configured.

Rule: the same snapshot, history and request give the same decision.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress

import numpy as np

from extender.core.devices.claims import ResourceClaimParts
from extender.core.devices.device_index import DeviceIndex
from extender.core.evaluation import Evaluation
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.filter import node_rows, scheduling_context
from extender.core.framework.plugins import PLUGIN_INDEXES
from extender.core.framework.score import Scores
from extender.core.framework.status import Code
from extender.core.preemption.criteria import best_candidates
from extender.core.preemption.node_pods import NodePods
from extender.core.preemption.potential_victims import potential_victims
from extender.core.preemption.rejections import no_eviction_needed, rejections_of
from extender.core.preemption.sent_candidates import (
    CONTRADICTIONS,
    PASSED_ON_WITHOUT_VICTIMS,
    CandidateRejection,
    PodUIDs,
    RejectionReason,
    resolve_candidates,
)
from extender.core.profile import UNCONFIGURED, KubeScheduler, Profile
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.snapshot import OBJECTS_PER_STEP, Snapshot
from extender.core.snapshot.workloads import PodGroupIndex
from extender.errors import PluginFailed
from extender.k8s.candidates import SentCandidate
from extender.k8s.objects import ObjectMeta, Pod

MAX_EXTENDER_SCORE = 10
"""MaxExtenderPriority of k8s.io/kube-scheduler/extender/v1: the best score that an extender can give."""

_MIN_FITTING_SCORE = 6
"""Lowest score of a node on which the pod fits, if other nodes need preemption, which score lower."""

MAX_LISTED_REASONS = 3
"""Maximum number of distinct rejections that the message about an empty `/preempt` answer lists."""


@dataclass(frozen=True, slots=True)
class FilterDecision:
    """Result of `/filter`; every requested node is in exactly one of the first three fields."""

    accepted: tuple[int, ...]
    """Indexes into the requested list, ascending."""
    failed: dict[str, str]
    """Node -> message, for nodes on which evicting pods of lower priority would help (FailedNodes)."""
    unresolvable: dict[str, str]
    """Node -> message, for nodes on which that would not help (FailedAndUnresolvableNodes)."""
    not_evaluated: tuple[str, ...]
    """Filter plugins that can reject this pod but that we don't evaluate."""
    evaluation: Evaluation | None = field(default=None, compare=False, repr=False)
    """Evaluation that the decision was read from, valid until its snapshot changes (see `core.record`)."""

    @property
    def contradicts_scheduler(self) -> bool:
        """Whether a requested node is rejected: kube-scheduler offers only nodes that passed its own filters."""
        return bool(self.failed or self.unresolvable)

    @property
    def leads_to_preemption(self) -> bool:
        """Whether all requested nodes are rejected, so that kube-scheduler tries to preempt."""
        return not self.accepted and self.contradicts_scheduler


@dataclass(frozen=True, slots=True)
class PrioritizeDecision:
    """Result of `/prioritize`."""

    scores: tuple[int, ...]
    """[requested node]: score from 0 to MAX_EXTENDER_SCORE."""
    not_evaluated: tuple[str, ...]
    """Filter plugins that can reject this pod but that we don't evaluate."""
    evaluation: Evaluation | None = field(default=None, compare=False, repr=False)
    """Evaluation that the decision was read from, valid until its snapshot changes (see `core.record`)."""

    @property
    def contradicts_scheduler(self) -> bool:
        """False: a request does not contain kube-scheduler's scores."""
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
    """Pods to evict, most important first."""
    num_pdb_violations: int


@dataclass(frozen=True, slots=True)
class PreemptDecision:
    """Result of `/preempt`."""

    kept: tuple[Candidate, ...]
    """Candidates in the answer, best first."""
    dropped: dict[str, CandidateRejection]
    """Sent node -> why it is not in the answer."""
    not_evaluated: tuple[str, ...]
    """Filter and PostFilter plugins that matter for this pod but that we don't evaluate."""
    as_sent: frozenset[str]
    """Nodes answered with kube-scheduler's own victims (`Evaluation.keeps_sent_victims`)."""
    vetoed: str | None = None
    """Reason why the pod may not preempt on any node now, and until when; None if it may."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """Node -> guard rule that removed its candidate from the answer."""
    evaluation: Evaluation | None = field(default=None, compare=False, repr=False)
    """Evaluation that the decision was read from, valid until its snapshot changes (see `core.record`)."""

    @property
    def contradicts_scheduler(self) -> bool:
        """Whether we reject a sent candidate in contradiction to kube-scheduler's dry run, and not by our policies."""
        codes, evaluation = {dropped.code for dropped in self.dropped.values()}, self.evaluation
        has_own_victims = evaluation is None or evaluation.context.profile.preemption.may_change_victims
        return not codes.isdisjoint(CONTRADICTIONS) or (RejectionReason.NO_ROOM in codes and not has_own_victims)

    @property
    def leads_to_preemption(self) -> bool:
        """False: this call is itself a preemption."""
        return False

    @property
    def no_candidate_reason(self) -> str:
        """Return the reason for an empty answer: the veto on all nodes, or the most common rejections."""
        if self.vetoed is not None:
            return self.vetoed
        common = Counter(dropped.message for dropped in self.dropped.values()).most_common(MAX_LISTED_REASONS)
        return "; ".join(f"{count} nodes: {reason}" if count > 1 else f"1 node: {reason}" for reason, count in common)


def prepare(snapshot: Snapshot, scheduler: KubeScheduler = UNCONFIGURED) -> Snapshot:
    """Build the indexes and cached arrays so that the first request need not wait for them; return the snapshot."""
    for _ in prepare_in_steps(snapshot, scheduler):
        pass
    return snapshot


def prepare_in_steps(snapshot: Snapshot, scheduler: KubeScheduler) -> Iterator[None]:
    """Run the steps of `prepare`, and yield between them so that other work can run."""
    if snapshot.features != scheduler.features:
        raise ValueError("the snapshot was built for another version of kube-scheduler")
    for index in PLUGIN_INDEXES:
        snapshot.index(index)
        yield
    if snapshot.objects.resource_claims:  # without claims, no decision reads a slice
        snapshot.index(DeviceIndex)
        snapshot.index(ResourceClaimParts).frozen()
    profile = scheduler.profiles[0]  # the indexes depend on the preemption policy only, which all profiles share
    context = scheduling_context(snapshot, Pod(ObjectMeta()), profile)
    potential_victims(context)
    yield
    if snapshot.features.groups_are_evicted_whole:
        snapshot.index(PodGroupIndex)
    yield
    snapshot.index(PodUIDs).read()
    yield
    rows, node_pods = np.arange(len(snapshot.nodes)), snapshot.index(NodePods, profile.preemption)
    for start in range(0, len(rows), OBJECTS_PER_STEP):
        node_pods.on(context.layout, rows[start : start + OBJECTS_PER_STEP])
        yield
    _ = snapshot.allocatable, snapshot.taints, snapshot.name_order


# --- /filter --------------------------------------------------------------------------------------------------------


def filter(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, history: EvictionHistory = NO_HISTORY
) -> FilterDecision:
    """Decide which of the requested nodes the pod fits on.

    Raises UnknownNode if a node is not in the snapshot, PluginFailed if a plugin fails on one.

    The room of terminating pods counts as free: kube-scheduler offers only nodes that passed its own filters, so if
    only a terminating pod is in the way here, kube-scheduler's cache no longer has that pod.
    """
    evaluation = Evaluation(snapshot, pod, profile, history, offered=node_rows(snapshot, nodes))
    rows = evaluation.rows
    if evaluation.fits_on_all_rows:
        return FilterDecision(_all_positions(len(rows)), {}, {}, evaluation.not_evaluated_on(rows), evaluation)
    if (error := evaluation.filter.error(rows)) is not None:
        raise PluginFailed(error)  # the same failure would have ended kube-scheduler's scheduling cycle
    statuses, helps = evaluation.statuses, evaluation.preemption_helps
    messages, is_success = [status.message for status in statuses.distinct], statuses.codes == Code.SUCCESS

    def messages_by_node(selected: BoolArray) -> dict[str, str]:
        if not selected.any():
            return {}
        which = statuses.indices[selected].tolist()
        return dict(zip(compress(nodes, selected.tolist()), map(messages.__getitem__, which), strict=True))

    failed, unresolvable = messages_by_node(helps), messages_by_node(~is_success & ~helps)
    accepted = tuple(np.flatnonzero(is_success).tolist())
    return FilterDecision(accepted, failed, unresolvable, evaluation.not_evaluated_on(rows), evaluation)


@lru_cache(maxsize=4)
def _all_positions(size: int) -> tuple[int, ...]:
    """Return the indexes of `size` nodes, cached: building the tuple takes longer than the rest of such a decision."""
    return tuple(range(size))


# --- /prioritize ----------------------------------------------------------------------------------------------------


def prioritize(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, history: EvictionHistory = NO_HISTORY
) -> PrioritizeDecision:
    """Score each requested node from 0 to 10.

    Raises UnknownNode if a node is not in the snapshot, PluginFailed if a plugin fails on one.

    If the pod fits on all nodes, the score is the weighted plugin total as a share of the highest possible total. If
    some nodes need preemption, nodes that fit score 6-10, preemption candidates 1-5 by rank, and all other nodes 0.
    """
    evaluation = Evaluation(snapshot, pod, profile, history, offered=node_rows(snapshot, nodes))
    rows = evaluation.rows
    error = (None if evaluation.fits_on_all_rows else evaluation.filter.error(rows)) or evaluation.scores.error
    if error is not None:
        raise PluginFailed(error)
    scores = evaluation.scores
    plugins = tuple(dict.fromkeys((*evaluation.not_evaluated_on(rows), *profile.not_evaluated_scores)))
    if evaluation.fits_on_all_rows:
        return PrioritizeDecision(tuple(_shares(scores, 0).tolist()), plugins, evaluation)
    result = np.zeros(len(snapshot.nodes), np.int64)
    result[scores.rows] = 1
    floor = 0 if result[rows].all() else _MIN_FITTING_SCORE
    result[scores.rows] = _shares(scores, floor)
    if len(evaluation.dry_run_rows) and len(evaluation.candidates):
        # The best candidate scores `floor - 1`, the others evenly down to 1; equal ranks score the same.
        ranks, count = evaluation.ranking.ranks, len(evaluation.candidates)
        result[evaluation.policies.rows[evaluation.candidates]] = floor - 1 - ranks * (floor - 1) // count
    return PrioritizeDecision(tuple(result[rows].tolist()), plugins, evaluation)


def _shares(scores: Scores, floor: int) -> IntArray:
    """Return [row]: the total as a share of the highest possible total, scaled to `floor`..10 and rounded down."""
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
    """Choose the best candidates among the sent nodes, or among all nodes, with the victims that our own dry run finds.

    Nodes on which our reprieve could spare a pod that must be evicted keep kube-scheduler's own victims, and are ranked
    with them (`Evaluation.keeps_sent_victims`). Raises PluginFailed if a plugin fails on a sent node.
    """
    # 1. Look up the sent nodes and victims, and the filter plugins that only kube-scheduler evaluates on these nodes.
    #    `not_evaluated_on` would look for cached verdicts, but a pod that may not preempt is not filtered at all.
    resolved = resolve_candidates(snapshot, sent, history.recent_deletions)
    evaluation, rows = Evaluation(snapshot, pod, profile, history, sent=resolved), resolved.rows
    filters = [name for name, nodes in evaluation.filters_not_evaluated.items() if nodes[rows].any()]
    plugins = tuple(dict.fromkeys((*filters, *profile.not_evaluated_post_filters)))
    # 2. Evict no pod on any node if the pod may not preempt, or need not. A plugin that fails would have ended
    #    kube-scheduler's scheduling cycle.
    not_needed = None
    if evaluation.refusal is not None:
        not_needed = CandidateRejection(RejectionReason.REFUSED, evaluation.refusal)
    elif (error := evaluation.filter.error(rows)) is not None:
        raise PluginFailed(error)
    elif history.recent_deletions:
        decides = evaluation.scheduler_decides
        not_needed = no_eviction_needed(evaluation.filter, evaluation.policies, resolved, decides)
    if not_needed is not None:
        dropped, why = dict.fromkeys(sent, not_needed), not_needed.message
        return PreemptDecision((), dropped, plugins, frozenset(), why, evaluation=evaluation)
    # 3. Dry-run the preemption, apply the policies, and keep the best candidates.
    run = evaluation.policies
    kept = tuple(
        Candidate(snapshot.node_names[run.rows[place]], run.victims_on(place), run.violations_on(place))
        for place in best_candidates(run, profile.keep_candidates).tolist()
    )
    dropped = rejections_of(evaluation.filter, run, resolved, [candidate.node for candidate in kept])
    # 4. Keep nodes sent without victims: kube-scheduler sends them where only an extender's /filter rejects the pod
    #    (v1.38). Drop one only if a policy of ours rejects it: another extender may find its victims, and if none does,
    #    kube-scheduler drops the node itself.
    if snapshot.features.candidates_may_lack_victims:
        passed_on = [
            node for node, why in dropped.items() if not sent[node].victims and why.code in PASSED_ON_WITHOUT_VICTIMS
        ]
        kept += tuple(Candidate(node, (), sent[node].num_pdb_violations) for node in passed_on)
        dropped = {node: reason for node, reason in dropped.items() if node not in passed_on}
    as_sent = frozenset(compress(resolved.nodes, evaluation.keeps_sent_victims[rows].tolist()))
    return PreemptDecision(kept, dropped, plugins, as_sent, evaluation=evaluation)
