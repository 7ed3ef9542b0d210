"""What a candidate costs, by the criteria of the profile's ranking.

Upstream's five (pickOneNodeForPreemption, framework/preemption, v1.36), and those that operators may add.

Rule: [candidate] of whole numbers, the smaller the better.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from extender.core.columns import BoolArray, IntArray, columns
from extender.core.preemption import DryRun
from extender.core.ranking import Keys, rank
from extender.core.traits import Traits
from extender.core.workloads import Gangs, Workloads
from extender.k8s.requests import incoming_requests

_NON_NEGATIVE = 2**31
"""Added to every priority before summing, so that a pod less never costs more."""

_LOWEST = -(2**63)

_PARTS = 10**6
"""Shares are counted in parts per million."""


def costs(run: DryRun, places: IntArray) -> Keys:
    """Of the nodes in these places, which must be candidates; at least one key for each criterion."""
    losses = Losses(run, places)
    return [key for name in run.incoming.profile.preemption.ranking for key in CRITERIA[name](losses)]


def best_of(run: DryRun, places: IntArray, limit: int | None, first: Keys = (), then: Keys = ()) -> IntArray:
    """The best `limit` (None: all) of these candidates in order; no more is worked out of the others than needed.

    `first`, `then`: keys of all of them [candidate], asked before and after the profile's ranking.
    """
    best = np.arange(len(places)) if limit is None else _foremost(run, places, limit, first, then)
    keys = *(key[best] for key in first), *costs(run, places[best]), *(key[best] for key in then)
    order: IntArray = places[best[rank(keys)]] if len(best) else best
    return order


def _foremost(run: DryRun, places: IntArray, limit: int, first: Keys, then: Keys) -> IntArray:
    """The best `limit` in no order: of those that are equal by a criterion, the next one is asked."""
    sure: list[int] = []
    left = np.arange(len(places))
    for key_of in _one_by_one(run, places, first, then):
        wanted = limit - len(sure)
        if len(left) <= wanted:
            break
        key = key_of(left)
        bound = key.min()
        if np.count_nonzero(key == bound) < wanted:
            bound = np.partition(key, wanted - 1)[wanted - 1]
        sure += left[key < bound].tolist()
        left = left[key == bound]
    return np.array([*sure, *left[: limit - len(sure)].tolist()], np.int64)


def _one_by_one(run: DryRun, places: IntArray, first: Keys, then: Keys) -> Iterator[Callable[[IntArray], IntArray]]:
    """Keys in order, each to be asked for some of the candidates."""
    for key in first:
        yield key.__getitem__
    for name in run.incoming.profile.preemption.ranking:
        for number in range(_KEYS_OF.get(name, 1)):
            yield partial(_nth_key, run, places, name, number)
    for key in then:
        yield key.__getitem__


def _nth_key(run: DryRun, places: IntArray, name: str, number: int, left: IntArray) -> IntArray:
    return CRITERIA[name](Losses(run, places[left]))[number]


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
        count: IntArray = np.count_nonzero(self.victims, axis=0)
        return count

    @cached_property
    def _one_by_one(self) -> tuple[IntArray, IntArray]:
        k, candidate = np.nonzero(self.victims)
        pods: IntArray = self.run.incoming.layout.pod[k, self.rows[candidate]].astype(np.int64)
        return pods, candidate

    @property
    def pods(self) -> IntArray:
        """[victim] -> pod row."""
        return self._one_by_one[0]

    @property
    def of(self) -> IntArray:
        """[victim] -> candidate."""
        return self._one_by_one[1]

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
        layout = self.run.incoming.layout
        if self.run.incoming.profile.preemption.importance[0] == "Priority":
            first: IntArray = layout.priority[self.victims.argmax(axis=0), self.rows]
            return first
        return self.highest(self.run.snapshot.running.priority[self.pods])

    @property
    def earliest_start(self) -> IntArray:
        """Of the victims that have the highest priority, nanoseconds."""
        layout, running = self.run.incoming.layout, self.run.snapshot.running
        if self.run.incoming.profile.preemption.importance[:2] == ("Priority", "StartTime"):
            first: IntArray = running.start[layout.pod[self.victims.argmax(axis=0), self.rows]]
            return first
        top = running.priority[self.pods] == self.highest_priority[self.of]
        earliest = np.full(len(self.places), np.iinfo(np.int64).max)
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
    return [priorities.sum(axis=0) + losses.count * _NON_NEGATIVE]


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
        freed = losses.total(snapshot.running.demand[losses.pods, resource])
        capacity = snapshot.allocatable[resource, rows]
        left = capacity - snapshot.used[resource, rows] + freed - requests.get(name, 0)
        share = np.clip(left, 0, freed) / np.maximum(capacity, 1)
        unused += np.rint(share * _PARTS).astype(np.int64)
    return [unused]


CRITERIA: dict[str, Callable[[Losses], Keys]] = {
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

_KEYS_OF = {"PodGroups": 2}
"""How many keys a criterion has, where that is not one."""
