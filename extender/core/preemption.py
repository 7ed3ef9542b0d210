"""Choose which pods must leave so that one more fits, on every node at once.

Every evictable pod is taken off; if the preemptor still does not fit, the node is out. Then pods are put back,
those whose loss breaks a budget first, the most important first; what no longer fits is a victim.

Rule: this is the only reprieve loop there is; who is evictable, the budgets and the constraints are passed in.
Mirrors defaultpreemption.SelectVictimsOnNode (v1.36).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.budgets import violating
from extender.core.checks import Check, Constraint, Evictable, Incoming, Rows
from extender.core.filtering import Filtering, Judgement, judge
from extender.core.ranking import Costs
from extender.core.snapshot import BoolArray, IntArray, Snapshot
from extender.core.verdict import NO_VICTIMS, Code, Verdict
from extender.k8s.objects import Pod

NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
WAITS_FOR_VICTIMS = "not eligible due to a terminating pod on the nominated node."

_NON_NEGATIVE = 2**31
"""Added to every priority before summing, so that a pod less never costs more."""


def eligible(filtering: Filtering) -> tuple[bool, str]:
    """May this pod preempt at all? (and why not): defaultpreemption.PodEligibleToPreemptOthers, v1.36."""
    incoming = filtering.incoming
    if incoming.pod.spec.preemption_policy == "Never":
        return False, NEVER_PREEMPTS
    nominated = incoming.snapshot.node_row.get(incoming.pod.status.nominated_node_name)
    if nominated is None or filtering.codes[nominated] != Code.UNSCHEDULABLE:
        return True, ""
    leaving = (
        pod.priority < incoming.pod.priority and is_terminating_by_preemption(pod)
        for pod in incoming.snapshot.pods_on(incoming.snapshot.node_names[nominated])
    )
    return (False, WAITS_FOR_VICTIMS) if any(leaving) else (True, "")


def is_terminating_by_preemption(pod: Pod) -> bool:
    """Is it on its way out because kube-scheduler preempted it? The first DisruptionTarget condition decides."""
    if pod.metadata.deletion_timestamp is None:
        return False
    disruptions = (condition for condition in pod.status.conditions or () if condition.type == "DisruptionTarget")
    first = next(disruptions, None)
    return first is not None and first.status == "True" and first.reason == "PreemptionByScheduler"


def evictable_pods(snapshot: Snapshot, preemptor: Pod) -> Evictable:
    """The pods of strictly lower priority."""
    layout = snapshot.layout
    mask = layout.priority < preemptor.priority
    return Evictable(mask, np.count_nonzero(~mask & (layout.pod >= 0), axis=0))


class Trial:
    """A what-if load of some nodes: pods are put back on all of them at once."""

    def __init__(self, checks: Sequence[Check], evictable: Evictable) -> None:
        self.constraints = [check for check in checks if isinstance(check, Constraint)]
        self.rooms = [constraint.taken_off(evictable) for constraint in self.constraints]

    def put_back(self, k: int, wanted: BoolArray) -> BoolArray:
        """Put the pods of rank `k` back on the `wanted` nodes [node] -> where they may stay [node]."""
        stay = wanted.copy()
        for constraint, room in zip(self.constraints, self.rooms, strict=True):
            stay &= constraint.fits_beside(room, constraint.demand[k])
            if constraint.nominated is not None:
                stay &= constraint.fits_beside(room - constraint.nominated, constraint.demand[k])
        staying = stay.astype(np.int64)
        for constraint, room in zip(self.constraints, self.rooms, strict=True):
            room -= constraint.demand[k] * staying
        return stay


@dataclass(frozen=True, slots=True)
class DryRun:
    """What preemption would take from each of some nodes; [node] is a place in `rows`."""

    snapshot: Snapshot
    rows: Rows
    """Node rows of the snapshot."""
    emptied: Judgement
    """Verdicts with all evictable pods taken off."""
    evictable: BoolArray
    """[k, node]."""
    violating: BoolArray
    """[k, node] of the evictable pods, those whose loss breaks a budget."""
    both_kinds: BoolArray
    """[node] with violating and other evictable pods: upstream sorts the victims again only there."""
    victims: BoolArray
    """[k, node]; meaningful where `candidate`."""

    @property
    def candidate(self) -> BoolArray:
        """[node] where taking the victims makes room, and there is a victim."""
        return self.emptied.fits & self.victims.any(axis=0)

    @property
    def violations(self) -> IntArray:
        """[node] -> NumPDBViolations: violating pods that were not put back."""
        return np.count_nonzero(self.victims & self.violating, axis=0)

    def verdict(self, place: int) -> Verdict:
        """Why a node is no candidate."""
        return self.emptied.verdict(place) if self.evictable[:, place].any() else NO_VICTIMS

    def victims_on(self, place: int) -> tuple[Pod, ...]:
        """The victims of one node in upstream's order: as they failed to be put back, then by importance."""
        chosen, violating = self.victims[:, place], self.violating[:, place]
        ranks = [*np.flatnonzero(chosen & violating), *np.flatnonzero(chosen & ~violating)]
        pods = self.snapshot.layout.pod[:, self.rows[place]][ranks]
        if self.both_kinds[place]:
            pods = sorted(pods, key=lambda pod: (-self.snapshot.priority[pod], self.snapshot.start[pod]))
        return tuple(self.snapshot.pods[pod] for pod in pods)

    def costs(self, places: IntArray) -> Costs:
        """For ranking; `places` must be candidates."""
        layout, victims, rows = self.snapshot.layout, self.victims[:, places], self.rows[places]
        first = victims.argmax(axis=0)
        count = np.count_nonzero(victims, axis=0)
        priorities = layout.priority[:, rows]
        return Costs(
            violations=np.count_nonzero(victims & self.violating[:, places], axis=0),
            highest_priority=layout.priority[first, rows],
            priority_sum=np.where(victims, priorities, 0).sum(axis=0) + count * _NON_NEGATIVE,
            victims=count,
            earliest_start=self.snapshot.start[layout.pod[first, rows]],
        )


def dry_run(incoming: Incoming, checks: Sequence[Check], rows: Rows) -> DryRun:
    """Preempt on each of `rows` as if it were the only one; `checks` are of the whole snapshot."""
    snapshot = incoming.snapshot
    everywhere = evictable_pods(snapshot, incoming.pod)
    breaking = violating(snapshot, everywhere.mask, incoming.pod.priority)
    if len(rows) < len(snapshot.nodes):
        checks = [check.at(rows) for check in checks]
        everywhere = Evictable(everywhere.mask[:, rows], everywhere.first[rows])
        breaking = breaking[:, rows]
    trial = Trial(checks, everywhere)
    rooms = iter([room.copy() for room in trial.rooms])
    emptied = judge(checks, [next(rooms) if isinstance(check, Constraint) else None for check in checks], len(rows))
    others = everywhere.mask & ~breaking
    victims = reprieve(trial, (breaking, others))
    return DryRun(
        snapshot,
        rows,
        emptied,
        evictable=everywhere.mask,
        violating=breaking,
        both_kinds=breaking.any(axis=0) & others.any(axis=0),
        victims=victims,
    )


def reprieve(trial: Trial, groups: Sequence[BoolArray]) -> BoolArray:
    """Put pods back group by group, each [k, node] from the most important on -> those that could not stay."""
    victims = np.zeros_like(groups[0])
    for group in groups:
        for k in np.flatnonzero(group.any(axis=1)):
            victims[k] |= group[k] & ~trial.put_back(int(k), group[k])
    return victims
