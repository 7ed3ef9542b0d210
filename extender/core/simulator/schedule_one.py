"""One scheduling cycle of one pod, as kube-scheduler v1.36 runs it.

    skip? -> filter -> score -> the node with the highest total
                    -> preempt: kube-scheduler's own candidates -> the policies -> whom to evict from which node

All nodes are judged and all candidates found, as with percentageOfNodesToScore and minCandidateNodesPercentage 100.
kube-scheduler's own part goes by its own rules of preemption whatever the profile's are: it makes the offers, and the
profile answers, as `/preempt` does.

Rule: a cycle decides and changes nothing; what it was decided from is good until its snapshot is changed.
Mirrors schedulePod, schedulingAlgorithm (schedule_one.go) and Evaluator.Preempt (framework/preemption).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from extender.core import engine
from extender.core.engine import Candidate, PreemptDecision, SentCandidate
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import Rows, SchedulingContext
from extender.core.framework.filter import FilterRun, not_evaluated, run_filter_plugins, scheduling_context
from extender.core.framework.score import score
from extender.core.framework.status import Code
from extender.core.preemption.candidates import find_candidates
from extender.core.preemption.criteria import NON_NEGATIVE, ranking_keys
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.eligibility import eligible
from extender.core.preemption.ranking import tied_for_best
from extender.core.profile import PreemptionPolicy, Profile
from extender.core.simulator.fit_error import (
    NO_CANDIDATE,
    NO_NODES,
    NOMINATED,
    NOT_ASKED,
    PostFilter,
    filter_message,
    no_help,
    rejecting_plugins,
)
from extender.core.snapshot.pod_table import identity, is_finished, start_time
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod

Draw = Callable[[int], int]
"""A number below the given one, by chance: which of so many equals is taken."""

Outcome = Literal["Scheduled", "Nominated", "Unschedulable", "Skipped"]

MOST_TIES = 10
"""How many of the nodes that are equally good are named."""

_WORD = 2**64 - 1


def draws(seed: int) -> Draw:
    """Chance from a seed, the same with every version of Python (SplitMix64)."""
    state = seed & _WORD

    def draw(below: int) -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _WORD
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _WORD
        return ((mixed ^ (mixed >> 31)) * below) >> 64

    return draw


@dataclass(frozen=True, slots=True)
class NodeScore:
    """Of the node that was taken, where there were several to choose from."""

    total: int
    plugins: dict[str, int]
    """Weighted; a plugin that is skipped for the pod is absent."""
    tied: int
    """How many nodes have the same total, itself among them."""
    ties: tuple[str, ...]
    """The first of them by name."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What came of it."""

    pod: Pod
    """As it was tried."""
    outcome: Outcome
    message: str = ""
    """kube-scheduler's, of a pod that got no node."""
    node: str | None = None
    """Where it is to run, or is nominated to."""
    feasible: int = 0
    """Nodes that took it; 1 where the nominated node did, which is asked first."""
    score: NodeScore | None = None
    post_filter: PostFilter | None = None
    nominated_node: str = ""
    """The pod's status.nominatedNodeName from now on."""
    victims: tuple[Pod, ...] = ()
    """Most important first."""
    num_pdb_violations: int = 0
    vetoed: str | None = None
    """Why the policies let nobody be evicted, although kube-scheduler had candidates."""
    not_evaluated: tuple[str, ...] = ()
    """Filter plugins with a say about the pod that are not modelled, or may not read what they need."""
    rejected_by: frozenset[str] = frozenset()
    """Filter plugins that said no to a node."""
    run: DryRun | None = field(default=None, compare=False, repr=False)
    """kube-scheduler's own dry run."""
    decision: PreemptDecision | None = field(default=None, compare=False, repr=False)
    """What the policies made of its candidates; None where there are no other policies than its own."""


def run_cycle(
    snapshot: Snapshot, pod: Pod, profile: Profile, history: EvictionHistory = NO_HISTORY, draw: Draw | None = None
) -> Cycle:
    """Try to place the pod. Equals are told apart by chance (`draw`), or by name."""
    skipped = why_skipped(pod, profile)
    if skipped is not None:
        return Cycle(pod, "Skipped", skipped, nominated_node=pod.status.nominated_node_name)
    if not snapshot.nodes:
        return Cycle(pod, "Unschedulable", NO_NODES)
    filtering = run_filter_plugins(scheduling_context(snapshot, pod, upstream(profile), history))
    left = tuple(name for name, mask in not_evaluated(filtering.incoming).items() if mask.any())
    fitting = _feasible(filtering)
    if len(fitting):
        node, scored = _select_host(filtering.incoming, fitting, draw)
        return Cycle(pod, "Scheduled", node=node, feasible=len(fitting), score=scored, not_evaluated=left)
    failed = _post_filter(filtering, profile, history, draw)
    said = failed.post_filter or NOMINATED
    message = filter_message(filtering, said)
    return replace(failed, message=message, not_evaluated=left, rejected_by=rejecting_plugins(filtering))


def upstream(profile: Profile) -> Profile:
    """The same with kube-scheduler's own preemption."""
    return replace(profile, preemption=PreemptionPolicy())


def why_skipped(pod: Pod, profile: Profile) -> str | None:
    """Why the pod is not tried at all; None: it is. Where kube-scheduler has words for it, these."""
    if pod.metadata.deletion_timestamp is not None:
        return f"skip schedule deleting pod: {pod.key}"
    if pod.spec.node_name:
        return f"is assigned to node {pod.spec.node_name} already"
    if is_finished(pod):
        return f"is {pod.status.phase} already"
    if pod.spec.scheduling_gates:
        return f"waiting for scheduling gates: [{' '.join(gate.name for gate in pod.spec.scheduling_gates)}]"
    if profile.scheduler_names and pod.spec.scheduler_name not in profile.scheduler_names:
        return f'profile not found for scheduler name "{pod.spec.scheduler_name}"'
    return None


# --- a node ---------------------------------------------------------------------------------------------------------


def _feasible(filtering: FilterRun) -> Rows:
    """The nominated node alone if it takes the pod (evaluateNominatedNode), else all that do."""
    fitting = filtering.rows(Code.SUCCESS)
    incoming = filtering.incoming
    nominated = incoming.snapshot.node_row.get(incoming.pod.status.nominated_node_name)
    return fitting[fitting == nominated] if nominated is not None and nominated in fitting else fitting


def _select_host(incoming: SchedulingContext, fitting: Rows, draw: Draw | None) -> tuple[str, NodeScore | None]:
    """The highest total; a node that is alone is not scored."""
    names = incoming.snapshot.node_names
    if len(fitting) == 1:
        return names[int(fitting[0])], None
    scores = score(incoming, fitting)
    total = scores.total
    best = np.flatnonzero(total == total.max())
    best = best[np.argsort(incoming.snapshot.name_order[fitting[best]])]
    place = int(best[_drawn(len(best), draw)])
    plugins = {plugin: int(values[place]) for plugin, values in scores.plugins.items()}
    ties = tuple(names[row] for row in fitting[best[:MOST_TIES]].tolist())
    return names[int(fitting[place])], NodeScore(int(total[place]), plugins, len(best), ties)


def _drawn(count: int, draw: Draw | None) -> int:
    return draw(count) if draw is not None and count > 1 else 0


# --- or somebody has to go ------------------------------------------------------------------------------------------


def _post_filter(filtering: FilterRun, profile: Profile, history: EvictionHistory, draw: Draw | None) -> Cycle:
    """DefaultPreemption, behind DynamicResources."""
    incoming = filtering.incoming
    pod = incoming.pod
    unchanged = Cycle(pod, "Unschedulable", nominated_node=pod.status.nominated_node_name)
    if filtering.prefilter is not None and filtering.prefilter.code == Code.UNRESOLVABLE:
        return replace(unchanged, post_filter=NOT_ASKED)
    may_preempt, why = eligible(filtering)
    if not may_preempt:
        return replace(unchanged, post_filter=PostFilter.failed(why))
    run = find_candidates(incoming, filtering.checks, filtering.rows(Code.UNSCHEDULABLE))
    places = np.flatnonzero(run.candidate)
    if not len(places):
        return replace(unchanged, post_filter=PostFilter.failed(no_help(run)), nominated_node="", run=run)
    if profile.preemption == PreemptionPolicy():
        return replace(_nominated(pod, _select(run, draw)), run=run)
    decision = engine.preempt(incoming.snapshot, pod, _offers(run), profile, history)
    if not decision.kept:
        said = PostFilter.failed(NO_CANDIDATE)
        return replace(unchanged, post_filter=said, vetoed=decision.why_nobody, run=run, decision=decision)
    return replace(_nominated(pod, pick_one(decision.kept, draw)), run=run, decision=decision)


def _nominated(pod: Pod, chosen: Candidate) -> Cycle:
    return Cycle(
        pod,
        "Nominated",
        node=chosen.node,
        post_filter=NOMINATED,
        nominated_node=chosen.node,
        victims=chosen.victims,
        num_pdb_violations=chosen.num_pdb_violations,
    )


def _select(run: DryRun, draw: Draw | None) -> Candidate:
    """The best of kube-scheduler's own candidates."""
    places = np.flatnonzero(run.candidate)
    ties = places[tied_for_best(ranking_keys(run, places))]
    ties = ties[np.argsort(run.snapshot.name_order[run.rows[ties]])]
    return _candidate(run, int(ties[_drawn(len(ties), draw)]))


def _candidate(run: DryRun, place: int) -> Candidate:
    name = run.snapshot.node_names[int(run.rows[place])]
    return Candidate(name, run.victims_on(place), int(run.violations[place]))


def _offers(run: DryRun) -> dict[str, SentCandidate]:
    """All candidates, as kube-scheduler sends them to its extenders."""
    places, violations, pods = np.flatnonzero(run.candidate), run.violations, run.snapshot.pods
    taken, names = run.taken_on(places), run.snapshot.node_names
    victims: list[list[str]] = [[] for _ in places]
    for place, row in zip(taken.places.tolist(), taken.pods.tolist(), strict=True):
        victims[place].append(identity(pods[row]))
    return {
        names[int(run.rows[place])]: SentCandidate(tuple(uids), int(violations[place]))
        for place, uids in zip(places.tolist(), victims, strict=True)
    }


def pick_one(candidates: Sequence[Candidate], draw: Draw | None = None) -> Candidate:
    """Which of the nodes in an extender's answer kube-scheduler takes (pickOneNodeForPreemption)."""
    best = min(map(_cost, candidates))
    ties = sorted((one for one in candidates if _cost(one) == best), key=lambda one: one.node)
    return ties[_drawn(len(ties), draw)]


def _cost(candidate: Candidate) -> tuple[int, ...]:
    victims = candidate.victims
    highest = victims[0].priority
    first_start = min(start_time(victim) for victim in victims if victim.priority == highest)
    total = sum(victim.priority + NON_NEGATIVE for victim in victims)
    return candidate.num_pdb_violations, highest, total, len(victims), -first_start
