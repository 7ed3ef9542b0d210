"""Choose which pods must leave so that one more fits, on every node at once.

Every evictable pod is taken off; if the preemptor still does not fit, the node is out. Then pods are put back,
those whose loss breaks a budget first, the most important first; what no longer fits is a victim.

Rule: only `reprieve` puts pods back; who is evictable, the budgets and the constraints are passed in.
Mirrors defaultpreemption.SelectVictimsOnNode (v1.36).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from extender.core.framework.constraint import Check, CodeArray, Constraint, Evictable, Rows, SchedulingContext
from extender.core.framework.filter import FilterResults, evaluate_constraints
from extender.core.framework.status import NO_VICTIMS, Code, Status
from extender.core.preemption.pdb.violations import charging_of
from extender.core.preemption.potential_victims import PotentialVictims, potential_victims
from extender.core.preemption.reprieve import reprieve
from extender.core.profile import UPSTREAM
from extender.core.snapshot.arrays import BoolArray, IntArray, Taken, columns, count_per_node
from extender.core.snapshot.pod_costs import Traits
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.workloads import workload_of

WAYS = ("reprieve", "other order", "whole gangs", "fewest", "named of equals", "kube-scheduler")
"""How a node's victims were found: those that the reprieve left; those that it left where budgets were charged for the
least important pods first, or where members of broken gangs were put back last; by a search; the reprieve's, but for
equal pods that kube-scheduler had named; kube-scheduler's own, because a plugin that is not modelled has a say."""

REPRIEVE, OTHER_ORDER, WHOLE_GANGS, FEWEST, NAMED_OF_EQUALS, KUBE_SCHEDULER = range(len(WAYS))


@dataclass(frozen=True, slots=True)
class PolicyVeto:
    """Nodes that a policy rules out, although their victims would make room."""

    nodes: BoolArray
    """[node]."""
    why: Callable[["DryRun", IntArray], list[str]]
    """[place] of some of them: what is wrong with the victims of the dry run there."""


@dataclass(frozen=True)
class DryRun:
    """What preemption would take from each of some nodes; [node] is a place in `rows`."""

    incoming: SchedulingContext
    rows: Rows
    """Node rows of the snapshot."""
    checks: Sequence[Check]
    """Of these nodes."""
    emptied: FilterResults
    """Verdicts with all evictable pods taken off."""
    grouped: PotentialVictims
    victims: BoolArray
    """[k, node]; none where the pod does not fit with all evictable pods taken off."""
    ways: CodeArray
    """[node] -> place in WAYS."""
    barriers: tuple[PolicyVeto, ...] = ()

    @property
    def snapshot(self) -> Snapshot:
        return self.incoming.snapshot

    @property
    def pods(self) -> IntArray:
        """[k, node] -> pod row, -1 where the node has fewer pods."""
        pods: IntArray = columns(self.incoming.layout.pod, self.rows)
        return pods

    def taken_on(self, places: IntArray, victims: BoolArray | None = None) -> Taken:
        """The victims of some nodes, or some of them, [k, place]."""
        shown = columns(self.victims, places) if victims is None else victims
        # In one dimension numpy finds what is set much faster than in two.
        k, place = np.divmod(np.flatnonzero(shown.reshape(-1)), max(len(places), 1))
        return Taken(self.incoming.layout.pod[k, self.rows[places[place]]].astype(np.int64), place, len(places))

    @cached_property
    def makes_room(self) -> BoolArray:
        """[node] where taking the victims makes room, and there is a victim."""
        return self.emptied.fits & self.victims.any(axis=0)

    @property
    def candidate(self) -> BoolArray:
        """[node] where that may be done."""
        candidate: BoolArray = self.makes_room & ~self.forbidden
        return candidate

    @cached_property
    def first_victim(self) -> IntArray:
        """[node] -> rank of the most important victim, where there is one."""
        first: IntArray = self.victims.argmax(axis=0)
        return first

    @cached_property
    def first_priority(self) -> IntArray:
        """[node] -> its priority."""
        priority: IntArray = self.incoming.layout.priority[self.first_victim, self.rows]
        return priority

    @cached_property
    def forbidden(self) -> BoolArray:
        """[node] where a policy rules the victims out."""
        forbidden = np.zeros(len(self.rows), np.bool_)
        for barrier in self.barriers:
            forbidden |= barrier.nodes
        return forbidden

    @cached_property
    def violations(self) -> IntArray:
        """[node] -> NumPDBViolations: violating pods that were not put back."""
        if self.incoming.profile.preemption.disruption_budgets == "Strict":
            return np.zeros(len(self.rows), np.int64)  # no candidate has any
        return count_per_node(self.victims & self.grouped.violating)

    def again(self, places: IntArray, grouped: PotentialVictims, order: Sequence[BoolArray]) -> "DryRun":
        """Some of the nodes once more, with other groups or put back in another order."""
        return _run(self.incoming, [check.at(places) for check in self.checks], self.rows[places], grouped, order)

    def interchangeable(self, place: int, k: int, other: int) -> bool:
        """May the node's pods of these ranks take each other's place? Equally important, and all takes the same."""
        pods, running = self.incoming.layout.pod[[k, other], self.rows[place]], self.snapshot.pod_table
        same = (array[k, place] == array[other, place] for array in (self.grouped.violating, self.grouped.others))
        return (
            running.priority[pods[0]] == running.priority[pods[1]]
            and running.start[pods[0]] == running.start[pods[1]]
            and all(same)
            and all((one[k] == one[other]).all() for one in self._demand_on(place))
            and (self.incoming.profile.preemption == UPSTREAM.preemption or _are_alike(self.incoming, *pods.tolist()))
        )

    def _demand_on(self, place: int) -> Iterator[IntArray]:
        """[k, column] of each constraint."""
        one = np.array([place])
        return (check.takes.at(one).laid_out()[:, :, 0] for check in self.checks if isinstance(check, Constraint))

    def verdict(self, place: int) -> Status:
        """Why a node is no candidate."""
        return self.verdicts(np.array([place]))[0]

    def verdicts(self, places: IntArray) -> list[Status]:
        """The same of many."""
        found = np.full(len(places), NO_VICTIMS, np.object_)
        crowded = columns(self.grouped.evictable.mask, places).any(axis=0)
        full, barred = crowded & ~self.makes_room[places], crowded & self.makes_room[places]
        found[full] = self.emptied.verdicts(places[full])
        found[barred] = self._barred(places[barred])
        return list(found)

    def _barred(self, places: IntArray) -> list[Status]:
        """What rules out the victims of these nodes."""
        reasons: list[list[str]] = [[] for _ in places]
        for barrier in self.barriers:
            own = np.flatnonzero(barrier.nodes[places])
            for nth, why in zip(own.tolist(), barrier.why(self, places[own]), strict=True):
                reasons[nth].append(why)
        return [Status(Code.UNSCHEDULABLE, "", tuple(said)) for said in reasons]

    def victims_on(self, place: int) -> tuple[Pod, ...]:
        """The victims of one node in upstream's order: as they failed to be put back, then by importance."""
        chosen, breaking = self.victims[:, place], self.grouped.violating[:, place]
        ranks = [*np.flatnonzero(chosen & breaking), *np.flatnonzero(chosen & ~breaking)]
        pods: list[int] = self.incoming.layout.pod[:, self.rows[place]][ranks].tolist()
        running = self.snapshot.pod_table
        mixed = breaking.any() and self.grouped.others[:, place].any()
        if mixed or self.incoming.profile.preemption != UPSTREAM.preemption:  # upstream sorts again only then
            pods = sorted(pods, key=lambda pod: (-running.priority[pod], running.start[pod]))
        return tuple(self.snapshot.pods[pod] for pod in pods)


def dry_run_preemption(
    incoming: SchedulingContext,
    checks: Sequence[Check],
    rows: Rows,
    chosen: BoolArray | None = None,
) -> DryRun:
    """Preempt on each of `rows` as if it were the only one; `checks` are of the whole snapshot.

    `chosen`: see `potential_victims`.
    """
    grouped = potential_victims(incoming, chosen)
    if len(rows) < len(incoming.snapshot.nodes):
        checks = [check.at(rows) for check in checks]
        grouped = grouped.at(rows)
    return _run(incoming, checks, rows, grouped, (grouped.violating, grouped.others))


def fits_emptied(incoming: SchedulingContext, checks: Sequence[Check]) -> BoolArray:
    """[node]: does the pod fit once all pods that it may evict have left? `checks` are of the whole snapshot.

    Where it does not fit as it is, this says where a dry run finds victims: with all pods put back it would not fit.
    """
    evictable = potential_victims(incoming).evictable
    return evaluate_constraints(checks, remove_pods(checks, evictable), len(incoming.snapshot.nodes)).fits


def remove_pods(checks: Sequence[Check], evictable: Evictable) -> list[IntArray]:
    """Per check its room [column, node] without the evictable pods."""
    return [check.taken_off(evictable) for check in checks]


def _run(
    incoming: SchedulingContext,
    checks: Sequence[Check],
    rows: Rows,
    grouped: PotentialVictims,
    order: Sequence[BoolArray],
) -> DryRun:
    emptied = evaluate_constraints(checks, remove_pods(checks, grouped.evictable), len(rows))
    victims = reprieve(emptied, grouped.evictable, order)
    return DryRun(incoming, rows, checks, emptied, grouped, victims, np.full(len(rows), REPRIEVE, np.uint8))


def _are_alike(incoming: SchedulingContext, row: int, other: int) -> bool:
    """Does no policy tell two running pods apart?"""
    policy, snapshot = incoming.profile.preemption, incoming.snapshot
    pods, charging = (snapshot.pods[row], snapshot.pods[other]), charging_of(snapshot, policy)
    traits = snapshot.index(Traits, policy.eviction_cost_annotation).of.values()
    return (
        snapshot.pod_table.terminating[row] == snapshot.pod_table.terminating[other]
        and charging.charged_by(row) == charging.charged_by(other)
        and workload_of(pods[0]) == workload_of(pods[1])
        and pods[0].pod_group == pods[1].pod_group
        and all(trait[row] == trait[other] for trait in traits)
    )
