"""Compute the ranking keys of preemption candidates, one criterion of the profile's ranking after the other.

The default ranking is kube-scheduler's, in this order (pickOneNodeForPreemption, framework/preemption, v1.36):

    criterion        upstream                         key, the smaller the better
    PDBViolations    minNumPDBViolatingScoreFunc      number of victims whose eviction violates a PDB
    HighestPriority  minHighestPriorityScoreFunc      priority of the most important victim
    PrioritySum      minSumPrioritiesScoreFunc        sum over the victims of (priority + 2^31)
    VictimCount      minNumPodsScoreFunc              number of victims
    LatestStartTime  latestStartTimeScoreFunc         -(earliest start time among the victims of highest priority)

2^31 makes every summand positive: without it, one more victim of negative priority would make a candidate look better.
The other criteria in `CRITERIA` are this extender's own; operators may put them anywhere in the ranking.

Rule: a criterion is a function of a dry run and of candidate indexes (`places`); a key is [candidate], int64.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.ranking import RankingKeys
from extender.core.profile import DEFAULT_IMPORTANCE, UPSTREAM
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray, count_per_node, select_columns
from extender.core.snapshot.importance import PodCosts
from extender.core.snapshot.workloads import PodGroupIndex, WorkloadIndex
from extender.k8s.priority import PRIORITY_OFFSET
from extender.k8s.requests import incoming_requests

_LOWEST_KEY = -(2**63)
"""Smallest int64, the initial value of a maximum."""

_PARTS_PER_MILLION = 10**6
"""Shares of a node's capacity are in parts per million, because keys are integers."""


def best_candidates(run: DryRun, limit: int | None) -> IntArray:
    """Return the indexes of the best `limit` candidates (None: all), best first.

    With limit 1 this is pickOneNodeForPreemption (framework/preemption, v1.36).
    """
    best = np.flatnonzero(run.candidate)
    ranks, wanted = np.zeros(len(best), np.int64), len(best) if limit is None else limit
    for name in (*run.context.profile.preemption.ranking, *TIE_BREAKERS):
        # After each criterion, drop candidates that at least `limit` others beat, so that the expensive criteria at the
        # end of the ranking are computed for few candidates.
        if len(best) <= 1:
            break
        keys = CRITERIA[name](run, best)
        if wanted < len(best) and not ranks.any():
            # All candidates are equal so far: the first key excludes most of them without sorting.
            kept = keys[0] <= np.partition(keys[0], wanted - 1)[wanted - 1]
            best, ranks, keys = best[kept], ranks[kept], [key[kept] for key in keys]
            if len(keys) == 1 and keys[0].min() == keys[0].max():
                continue  # the remaining candidates are still equal
        ranks = RankingKeys({"earlier criteria": [ranks], name: keys}).ranks
        kept = ranks < wanted
        best, ranks = best[kept], ranks[kept]
    order: IntArray = best[np.argsort(ranks)]
    return order


def ranking_keys(run: DryRun, places: IntArray, then: Sequence[str] = ()) -> RankingKeys:
    """Return the keys of the candidates at indexes `places`: by the profile's ranking, then by `then`."""
    return RankingKeys({name: CRITERIA[name](run, places) for name in (*run.context.profile.preemption.ranking, *then)})


# --- kube-scheduler's criteria ----------------------------------------------------------------------------------------


def _highest_priority(run: DryRun, places: IntArray) -> Sequence[IntArray]:
    """Return the priority of the most important victim."""
    priority, policy = run.snapshot.pod_table.priority, run.context.profile.preemption
    # If importance is by priority first, read it from the most important victim, without listing the victims.
    if policy.importance[0] == "Priority":
        victims = select_columns(run.victims, places)
        # kube-scheduler versions that did not sort the victims read the priority of the first victim: a PDB-violating
        # pod if there is one.
        if not run.context.features.victims_are_sorted and policy == UPSTREAM.preemption:
            violating = victims & select_columns(run.potential.violating, places)
            victims = np.where(violating.any(axis=0), violating, victims)
        return [priority[_first_of(run, places, victims)]]
    return [_highest(run, places, priority)]


def _first_of(run: DryRun, places: IntArray, victims: BoolArray) -> IntArray:
    """Return [candidate]: pod row of the most important pod of `victims`, a mask [k, candidate]."""
    if not len(places):  # a cluster without pods has no ranks to search
        return np.zeros(0, np.int64)
    pods: IntArray = run.context.layout.pod[victims.argmax(axis=0), run.rows[places]]
    return pods


def _priority_sum(run: DryRun, places: IntArray) -> Sequence[IntArray]:
    """Return the sum over the victims of (priority + 2^31)."""
    victims = select_columns(run.victims, places)
    priorities = np.multiply(select_columns(run.context.layout.priority, run.rows[places]), victims)
    return [priorities.sum(axis=0) + count_per_node(victims) * PRIORITY_OFFSET]


def _victim_count(run: DryRun, places: IntArray) -> Sequence[IntArray]:
    return [count_per_node(select_columns(run.victims, places))]


def _latest_start_time(run: DryRun, places: IntArray) -> Sequence[IntArray]:
    """Return minus the earliest start time, in nanoseconds, among the victims of the highest priority.

    Mirrors util.GetEarliestPodStartTime (pkg/scheduler/util, v1.36).
    """
    pod_table = run.snapshot.pod_table
    if run.context.profile.preemption.importance[:2] == DEFAULT_IMPORTANCE:
        return [-pod_table.start[_first_of(run, places, select_columns(run.victims, places))]]
    victims, (highest,) = run.victim_rows(places), _highest_priority(run, places)
    top = pod_table.priority[victims.pods] == highest[victims.candidate_index]
    earliest = np.full(len(places), NEVER)
    np.minimum.at(earliest, victims.candidate_index[top], pod_table.start[victims.pods[top]])
    return [-earliest]


# --- this extender's criteria -----------------------------------------------------------------------------------------


def _cost(
    name: str, combine: Callable[[DryRun, IntArray, IntArray], IntArray], run: DryRun, places: IntArray
) -> Sequence[IntArray]:
    """Return the sum or maximum (`combine`) of the victims' costs by the criterion `name` of `PodCosts`."""
    costs = run.snapshot.index(PodCosts, run.context.profile.preemption.eviction_cost_annotation).by_criterion[name]
    return [combine(run, places, costs)]


def _total(run: DryRun, places: IntArray, amounts: IntArray) -> IntArray:
    """Return [candidate]: the sum of its victims' `amounts` [pod]."""
    victims, total = run.victim_rows(places), np.zeros(len(places), np.int64)
    np.add.at(total, victims.candidate_index, amounts[victims.pods])
    return total


def _highest(run: DryRun, places: IntArray, amounts: IntArray) -> IntArray:
    """Return [candidate]: the maximum of its victims' `amounts` [pod]."""
    victims, highest = run.victim_rows(places), np.full(len(places), _LOWEST_KEY, np.int64)
    np.maximum.at(highest, victims.candidate_index, amounts[victims.pods])
    return highest


def _workloads(run: DryRun, places: IntArray) -> Sequence[IntArray]:
    """Return the number of workloads that lose a pod."""
    victims = run.victim_rows(places)
    numbers = run.snapshot.index(WorkloadIndex).of_pod[victims.pods]
    size = int(numbers.max(initial=0)) + 1
    return [np.bincount(np.unique(victims.candidate_index * size + numbers) // size, minlength=len(places))]


def _pod_groups(run: DryRun, places: IntArray) -> Sequence[IntArray]:
    """Return the number of pod groups that fall below their minimum, and the number of victims not in such groups."""
    victims, (count,) = run.victim_rows(places), _victim_count(run, places)
    # A group below its minimum is lost as a whole, so further victims from that group add no cost.
    candidate, _, lost = run.snapshot.index(PodGroupIndex).below_minimum(victims.pods, victims.candidate_index)
    of_broken = np.zeros(len(places), np.int64)
    np.add.at(of_broken, candidate, lost)
    return [np.bincount(candidate, minlength=len(places)), count - of_broken]


def _unused_capacity(run: DryRun, places: IntArray) -> Sequence[IntArray]:
    """Return the shares of cpu and memory, added up, that the victims free and the preemptor does not use, in ppm.

    Per resource: clip(allocatable - used + freed - requested, 0, freed) / allocatable.
    """
    snapshot, rows = run.snapshot, run.rows[places]
    requests, unused = incoming_requests(run.context.pod, run.context.features), np.zeros(len(rows), np.int64)
    for resource, name in enumerate(("cpu", "memory")):
        freed = _total(run, places, snapshot.pod_table.demand[:, resource])
        capacity = snapshot.allocatable[resource, rows]
        unclipped = capacity - snapshot.used[resource, rows] + freed - requests.get(name, 0)
        share = np.clip(unclipped, 0, freed) / np.maximum(capacity, 1)
        unused += np.rint(share * _PARTS_PER_MILLION).astype(np.int64)
    return [unused]


# --- candidates of equal cost -----------------------------------------------------------------------------------------


def _unrequested_victims(run: DryRun, places: IntArray) -> Sequence[IntArray]:
    """Return the number of victims that kube-scheduler did not choose; 0 if it sent no candidates."""
    if run.scheduler_victims is None:
        return [np.zeros(len(places), np.int64)]
    return [count_per_node(select_columns(run.victims & ~run.scheduler_victims, places))]


Criterion = Callable[[DryRun, IntArray], Sequence[IntArray]]
"""Computes the ranking keys of the candidates at these indexes of a dry run, most significant key first."""

TIE_BREAKERS = ("named", "name")
"""Criteria for candidates that tie by the profile's ranking, under the names that decisions show."""

CRITERIA: dict[str, Criterion] = {
    "PDBViolations": lambda run, places: [run.violations[places]],
    "HighestPriority": _highest_priority,
    "PrioritySum": _priority_sum,
    "VictimCount": _victim_count,
    "LatestStartTime": _latest_start_time,
    "PodDeletionCost": partial(_cost, "PodDeletionCost", _total),
    "EvictionCost": partial(_cost, "EvictionCost", _total),
    "QoSClass": partial(_cost, "QoSClass", _highest),
    "GracePeriod": partial(_cost, "GracePeriod", _highest),
    "Workloads": _workloads,
    "PodGroups": _pod_groups,
    "UnusedCapacity": _unused_capacity,
    "named": _unrequested_victims,
    "name": lambda run, places: [run.snapshot.name_order[run.rows[places]]],
}
"""Name in the profile's ranking (`extender.core.profile`) or in TIE_BREAKERS -> criterion."""
