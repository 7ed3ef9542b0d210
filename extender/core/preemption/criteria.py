"""What a candidate costs, by the criteria of the profile's ranking.

Upstream's five (pickOneNodeForPreemption, framework/preemption, v1.36), and those that operators may add.

Rule: [candidate] of whole numbers, the smaller the better.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.ranking import Keys, rank
from extender.core.profile import IMPORTANCE
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray, Taken, columns, count_per_node
from extender.core.snapshot.pod_costs import Traits
from extender.core.snapshot.workloads import Gangs, Workloads
from extender.k8s.requests import incoming_requests

NON_NEGATIVE = 2**31
"""Added to every priority before summing, so that a pod less never costs more."""

_LOWEST = -(2**63)

_PARTS = 10**6
"""Shares are counted in parts per million."""


def ranking_keys(run: DryRun, places: IntArray) -> Keys:
    """Of the nodes in these places, which must be candidates; at least one key for each criterion."""
    return list(keys_in_turn(run, places))


def keys_in_turn(run: DryRun, places: IntArray) -> Iterator[IntArray]:
    """The same, one by one: no more is worked out than is asked for."""
    losses = Losses(run, places)
    for name in run.incoming.profile.preemption.ranking:
        yield from CRITERIA[name](losses)


def best_of(run: DryRun, places: IntArray, limit: int | None, then: Keys = ()) -> IntArray:
    """The best `limit` (None: all) of these candidates in order; no more is worked out of the others than needed.

    `then`: keys of all of them [candidate], asked after the profile's ranking.
    """
    best = places if limit is None else top_k(run, places, limit, then=then)
    if len(best) <= 1:
        return best
    which = np.searchsorted(places, best)
    order: IntArray = best[rank([*ranking_keys(run, best), *(key[which] for key in then)])]
    return order


def top_k(run: DryRun, places: IntArray, limit: int, first: Keys = (), then: Keys = ()) -> IntArray:
    """The best `limit` in no order: of those that are equal by a criterion, the next one is asked.

    `first`, `then`: keys of all of them [candidate], asked before and after the profile's ranking.
    """
    sure: list[int] = []
    left = np.arange(len(places))
    for keys_of in _in_turn(run, places, first, then):
        if len(sure) + len(left) <= limit:
            break
        keys = keys_of(left)
        while keys and len(sure) + len(left) > limit:
            key, *keys = keys
            wanted, bound = limit - len(sure), key.min()
            if np.count_nonzero(key == bound) < wanted:
                bound = np.partition(key, wanted - 1)[wanted - 1]
            equal = key == bound
            sure += left[key < bound].tolist()
            left, keys = left[equal], [one[equal] for one in keys]
    return places[sorted([*sure, *left[: limit - len(sure)].tolist()])]


def _in_turn(run: DryRun, places: IntArray, first: Keys, then: Keys) -> Iterator[Callable[[IntArray], Keys]]:
    """Criteria in order, each to be asked for some of the candidates."""
    for key in first:
        yield partial(_some_of, key)
    for name in run.incoming.profile.preemption.ranking:
        yield partial(_asked, run, places, CRITERIA[name])
    for key in then:
        yield partial(_some_of, key)


def _some_of(key: IntArray, left: IntArray) -> Keys:
    return [key[left]]


def _asked(run: DryRun, places: IntArray, criterion: "Criterion", left: IntArray) -> Keys:
    return criterion(Losses(run, places[left]))


@dataclass(frozen=True)
class Losses:
    """The victims of some candidates."""

    run: DryRun
    places: IntArray

    @cached_property
    def victims(self) -> BoolArray:
        """[k, candidate]."""
        victims: BoolArray = columns(self.run.victims, self.places)
        return victims

    @cached_property
    def rows(self) -> IntArray:
        """[candidate] -> node row."""
        return self.run.rows[self.places]

    @cached_property
    def count(self) -> IntArray:
        """[candidate]: how many victims."""
        return count_per_node(self.victims)

    @cached_property
    def taken(self) -> Taken:
        """The victims one by one."""
        return self.run.taken_on(self.places)

    @property
    def pods(self) -> IntArray:
        """[victim] -> pod row."""
        return self.taken.pods

    @property
    def of(self) -> IntArray:
        """[victim] -> candidate."""
        return self.taken.places

    def total(self, amounts: IntArray) -> IntArray:
        """[victim] -> [candidate]."""
        total = np.zeros(len(self.places), np.int64)
        np.add.at(total, self.of, amounts)
        return total

    def highest(self, amounts: IntArray) -> IntArray:
        """[victim] -> [candidate]."""
        highest = np.full(len(self.places), _LOWEST, np.int64)
        np.maximum.at(highest, self.of, amounts)
        return highest

    @cached_property
    def highest_priority(self) -> IntArray:
        if self.run.incoming.profile.preemption.importance[0] == "Priority":
            return self.run.first_priority[self.places]
        return self.highest(self.run.snapshot.pod_table.priority[self.pods])

    @property
    def earliest_start(self) -> IntArray:
        """Of the victims that have the highest priority, nanoseconds."""
        layout, running = self.run.incoming.layout, self.run.snapshot.pod_table
        if self.run.incoming.profile.preemption.importance[:2] == IMPORTANCE:
            first: IntArray = running.start[layout.pod[self.run.first_victim[self.places], self.rows]]
            return first
        top = running.priority[self.pods] == self.highest_priority[self.of]
        earliest = np.full(len(self.places), NEVER)
        np.minimum.at(earliest, self.of[top], running.start[self.pods[top]])
        return earliest

    def trait(self, name: str) -> IntArray:
        """[victim]."""
        annotation = self.run.incoming.profile.preemption.eviction_cost_annotation
        return self.run.snapshot.index(Traits, annotation).of[name][self.pods]


# --- upstream's -------------------------------------------------------------------------------------------------------


def _violations(losses: Losses) -> Keys:
    """Victims whose loss breaks a budget."""
    return [losses.run.violations[losses.places]]


def _priority_sum(losses: Losses) -> Keys:
    priorities = np.multiply(columns(losses.run.incoming.layout.priority, losses.rows), losses.victims)
    return [priorities.sum(axis=0) + losses.count * NON_NEGATIVE]


# --- others -----------------------------------------------------------------------------------------------------------


def _workloads(losses: Losses) -> Keys:
    """How many workloads lose a pod."""
    numbers = losses.run.snapshot.index(Workloads).of_pod[losses.pods]
    size = int(numbers.max(initial=0)) + 1
    return [np.bincount(np.unique(losses.of * size + numbers) // size, minlength=len(losses.places))]


def _pod_groups(losses: Losses) -> Keys:
    """How many gangs fall below their minimum; then how many victims belong to none of those."""
    candidate, _, lost = losses.run.snapshot.index(Gangs).broken(losses.pods, losses.of)
    of_broken = np.zeros(len(losses.places), np.int64)
    np.add.at(of_broken, candidate, lost)
    return [np.bincount(candidate, minlength=len(losses.places)), losses.count - of_broken]


def _unused_capacity(losses: Losses) -> Keys:
    """The share of the node's cpu and memory that victims free and the preemptor leaves unused, parts per million."""
    snapshot, rows = losses.run.snapshot, losses.rows
    requests, unused = incoming_requests(losses.run.incoming.pod), np.zeros(len(rows), np.int64)
    for resource, name in enumerate(("cpu", "memory")):
        freed = losses.total(snapshot.pod_table.demand[losses.pods, resource])
        capacity = snapshot.allocatable[resource, rows]
        left = capacity - snapshot.used[resource, rows] + freed - requests.get(name, 0)
        share = np.clip(left, 0, freed) / np.maximum(capacity, 1)
        unused += np.rint(share * _PARTS).astype(np.int64)
    return [unused]


Criterion = Callable[[Losses], Keys]

CRITERIA: dict[str, Criterion] = {
    "PDBViolations": _violations,
    "HighestPriority": lambda losses: [losses.highest_priority],
    "PrioritySum": _priority_sum,
    "VictimCount": lambda losses: [losses.count],
    "LatestStartTime": lambda losses: [-losses.earliest_start],
    "PodDeletionCost": lambda losses: [losses.total(losses.trait("PodDeletionCost"))],
    "EvictionCost": lambda losses: [losses.total(losses.trait("EvictionCost"))],
    "QoSClass": lambda losses: [losses.highest(losses.trait("QoSClass"))],
    "GracePeriod": lambda losses: [losses.highest(losses.trait("GracePeriod"))],
    "Workloads": _workloads,
    "PodGroups": _pod_groups,
    "UnusedCapacity": _unused_capacity,
}
"""Name -> one key or more; see `extender.core.profile` for the names."""
