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

Rule: a key is [candidate], int64, the smaller the better.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.ranking import RankingKeys, rank
from extender.core.profile import DEFAULT_IMPORTANCE
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray, VictimRows, count_per_node, select_columns
from extender.core.snapshot.importance import PodCosts
from extender.core.snapshot.workloads import PodGroupIndex, WorkloadIndex
from extender.k8s.priority import PRIORITY_OFFSET
from extender.k8s.requests import incoming_requests

_LOWEST_KEY = -(2**63)
"""Smallest int64, the neutral element of a maximum."""

_PARTS_PER_MILLION = 10**6
"""Keys are integers, so shares of a node's capacity are counted in parts per million."""


def ranking_keys(run: DryRun, places: IntArray) -> RankingKeys:
    """Return the keys of the candidates in `places` of the dry run; one or more for each criterion."""
    return list(iter_ranking_keys(run, places))


def iter_ranking_keys(run: DryRun, places: IntArray) -> Iterator[IntArray]:
    """Yield the keys of `ranking_keys` one by one, so that a caller that stops early computes no more than it needs."""
    victims = CandidateVictims(run, places)
    for name in run.context.profile.preemption.ranking:
        yield from CRITERIA[name](victims)


def best_candidates(run: DryRun, places: IntArray, limit: int | None, then: RankingKeys = ()) -> IntArray:
    """Return the places of the best `limit` candidates (None: all), best first.

    With limit 1 this is pickOneNodeForPreemption (framework/preemption, v1.36). `then`: keys [candidate] that decide
    after the profile's ranking.
    """
    best = places if limit is None else top_k(run, places, limit, then=then)
    if len(best) <= 1:
        return best
    which = np.searchsorted(places, best)
    order: IntArray = best[rank([*ranking_keys(run, best), *(key[which] for key in then)])]
    return order


def top_k(run: DryRun, places: IntArray, limit: int, first: RankingKeys = (), then: RankingKeys = ()) -> IntArray:
    """Return the places of the best `limit` candidates, ascending, not by rank.

    A partial sort, criterion by criterion. Let `bound` be the smallest key value so that at least the wanted number of
    candidates is at or below it: candidates below `bound` are among the best whatever the later criteria say,
    candidates above it are not, and only those equal to it go on to the next criterion. So expensive criteria are
    computed for few candidates.

    `first`, `then`: keys [candidate] that decide before and after the profile's ranking.
    """
    selected: list[int] = []
    tied = np.arange(len(places))
    for keys_of in _iter_criteria(run, places, first, then):
        if len(selected) + len(tied) <= limit:
            break
        keys = keys_of(tied)
        while keys and len(selected) + len(tied) > limit:
            key, *keys = keys
            wanted, bound = limit - len(selected), key.min()
            if np.count_nonzero(key == bound) < wanted:
                bound = np.partition(key, wanted - 1)[wanted - 1]
            equal = key == bound
            selected += tied[key < bound].tolist()
            tied, keys = tied[equal], [later[equal] for later in keys]
    return places[sorted([*selected, *tied[: limit - len(selected)].tolist()])]


def _iter_criteria(
    run: DryRun, places: IntArray, first: RankingKeys, then: RankingKeys
) -> Iterator[Callable[[IntArray], RankingKeys]]:
    """Yield the criteria in order, as functions from some of the candidates to their keys."""
    for key in first:
        yield partial(_select_keys, key)
    for name in run.context.profile.preemption.ranking:
        yield partial(_criterion_keys, run, places, CRITERIA[name])
    for key in then:
        yield partial(_select_keys, key)


def _select_keys(key: IntArray, tied: IntArray) -> RankingKeys:
    return [key[tied]]


def _criterion_keys(run: DryRun, places: IntArray, criterion: "Criterion", tied: IntArray) -> RankingKeys:
    return criterion(CandidateVictims(run, places[tied]))


@dataclass(frozen=True)
class CandidateVictims:
    """The victims of some candidates, with the sums and maxima that criteria need."""

    run: DryRun
    places: IntArray
    """[candidate]: place in the dry run."""

    @cached_property
    def mask(self) -> BoolArray:
        """[k, candidate]: True if the pod is a victim."""
        mask: BoolArray = select_columns(self.run.victims, self.places)
        return mask

    @cached_property
    def rows(self) -> IntArray:
        """[candidate]: node row."""
        return self.run.rows[self.places]

    @cached_property
    def count(self) -> IntArray:
        """[candidate]: number of victims."""
        return count_per_node(self.mask)

    @cached_property
    def victim_rows(self) -> VictimRows:
        """List of the victims one by one; computed once, for several criteria."""
        return self.run.victim_rows(self.places)

    @property
    def pods(self) -> IntArray:
        """[victim]: pod row."""
        return self.victim_rows.pods

    @property
    def candidate_of(self) -> IntArray:
        """[victim]: place of its candidate in `places`."""
        return self.victim_rows.places

    def total(self, amounts: IntArray) -> IntArray:
        """Sum `amounts` [victim] per candidate."""
        total = np.zeros(len(self.places), np.int64)
        np.add.at(total, self.candidate_of, amounts)
        return total

    def highest(self, amounts: IntArray) -> IntArray:
        """Take the maximum of `amounts` [victim] per candidate."""
        highest = np.full(len(self.places), _LOWEST_KEY, np.int64)
        np.maximum.at(highest, self.candidate_of, amounts)
        return highest

    @cached_property
    def highest_priority(self) -> IntArray:
        """[candidate]: highest priority of a victim."""
        # Sorted by priority first, the most important victim has it: no need to list the victims.
        if self.run.context.profile.preemption.importance[0] == "Priority":
            return self.run.first_victim_priority[self.places]
        return self.highest(self.run.snapshot.pod_table.priority[self.pods])

    @property
    def earliest_start(self) -> IntArray:
        """[candidate]: earliest start time, in nanoseconds, among the victims of the highest priority.

        Mirrors util.GetEarliestPodStartTime (pkg/scheduler/util, v1.36).
        """
        layout, pod_table = self.run.context.layout, self.run.snapshot.pod_table
        if self.run.context.profile.preemption.importance[:2] == DEFAULT_IMPORTANCE:
            first: IntArray = pod_table.start[layout.pod[self.run.first_victim[self.places], self.rows]]
            return first
        top = pod_table.priority[self.pods] == self.highest_priority[self.candidate_of]
        earliest = np.full(len(self.places), NEVER)
        np.minimum.at(earliest, self.candidate_of[top], pod_table.start[self.pods[top]])
        return earliest

    def pod_cost(self, name: str) -> IntArray:
        """Return [victim]: its value by one of the criteria in `PodCosts`."""
        annotation = self.run.context.profile.preemption.eviction_cost_annotation
        return self.run.snapshot.index(PodCosts, annotation).by_criterion[name][self.pods]


# --- kube-scheduler's criteria ----------------------------------------------------------------------------------------


def _violations(victims: CandidateVictims) -> RankingKeys:
    """Return the number of victims whose eviction violates a disruption budget."""
    return [victims.run.violations[victims.places]]


def _priority_sum(victims: CandidateVictims) -> RankingKeys:
    """Return the sum over the victims of (priority + 2^31)."""
    priorities = np.multiply(select_columns(victims.run.context.layout.priority, victims.rows), victims.mask)
    return [priorities.sum(axis=0) + victims.count * PRIORITY_OFFSET]


# --- this extender's criteria -----------------------------------------------------------------------------------------


def _workloads(victims: CandidateVictims) -> RankingKeys:
    """Return the number of workloads with a victim."""
    numbers = victims.run.snapshot.index(WorkloadIndex).of_pod[victims.pods]
    size = int(numbers.max(initial=0)) + 1
    return [np.bincount(np.unique(victims.candidate_of * size + numbers) // size, minlength=len(victims.places))]


def _pod_groups(victims: CandidateVictims) -> RankingKeys:
    """Return the number of pod groups that fall below their minimum, and of the victims outside them.

    A group below its minimum is lost as a whole, so further victims from that group add no cost.
    """
    candidate, _, lost = victims.run.snapshot.index(PodGroupIndex).below_minimum(victims.pods, victims.candidate_of)
    of_broken = np.zeros(len(victims.places), np.int64)
    np.add.at(of_broken, candidate, lost)
    return [np.bincount(candidate, minlength=len(victims.places)), victims.count - of_broken]


def _unused_capacity(victims: CandidateVictims) -> RankingKeys:
    """Return the share of cpu plus memory that the victims free and the preemptor leaves unused, parts per million.

    Per resource: clip(allocatable - used + freed - requested, 0, freed) / allocatable.
    """
    snapshot, rows = victims.run.snapshot, victims.rows
    requests, unused = incoming_requests(victims.run.context.pod), np.zeros(len(rows), np.int64)
    for resource, name in enumerate(("cpu", "memory")):
        freed = victims.total(snapshot.pod_table.demand[victims.pods, resource])
        capacity = snapshot.allocatable[resource, rows]
        unclipped = capacity - snapshot.used[resource, rows] + freed - requests.get(name, 0)
        share = np.clip(unclipped, 0, freed) / np.maximum(capacity, 1)
        unused += np.rint(share * _PARTS_PER_MILLION).astype(np.int64)
    return [unused]


Criterion = Callable[[CandidateVictims], RankingKeys]
"""Computes the keys of some candidates, the most significant first."""

CRITERIA: dict[str, Criterion] = {
    "PDBViolations": _violations,
    "HighestPriority": lambda victims: [victims.highest_priority],
    "PrioritySum": _priority_sum,
    "VictimCount": lambda victims: [victims.count],
    "LatestStartTime": lambda victims: [-victims.earliest_start],
    "PodDeletionCost": lambda victims: [victims.total(victims.pod_cost("PodDeletionCost"))],
    "EvictionCost": lambda victims: [victims.total(victims.pod_cost("EvictionCost"))],
    "QoSClass": lambda victims: [victims.highest(victims.pod_cost("QoSClass"))],
    "GracePeriod": lambda victims: [victims.highest(victims.pod_cost("GracePeriod"))],
    "Workloads": _workloads,
    "PodGroups": _pod_groups,
    "UnusedCapacity": _unused_capacity,
}
"""Name in the profile's ranking (`extender.core.profile`) -> function that returns one or more keys."""
