"""Choose which pods must leave so that one more fits, on every node at once.

Every evictable pod is taken off; if the preemptor still does not fit, the node is out. Then pods are put back,
those whose loss breaks a budget first, the most important first; what no longer fits is a victim.

Rule: this is the only reprieve loop there is; who is evictable, the budgets and the constraints are passed in.
Mirrors defaultpreemption.SelectVictimsOnNode (v1.36).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.budgets import Charging, violating, violating_on
from extender.core.checks import Check, Constraint, Evictable, Incoming, Rows
from extender.core.columns import BoolArray, IntArray, columns
from extender.core.filtering import Filtering, Judgement, judge
from extender.core.ranking import Costs
from extender.core.snapshot import Index, Snapshot
from extender.core.verdict import NO_VICTIMS, Code, Verdict
from extender.k8s.objects import Pod

NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
WAITS_FOR_VICTIMS = "not eligible due to a terminating pod on the nominated node."

_CACHED_GROUPS = 32
"""For how many preemptor priorities a snapshot remembers the groups."""

_FEW_NODES = 1000
"""When more nodes than this have changed, all are looked at."""

_BELOW_ALL = -(2**31) - 1
"""Lower than any priority."""

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


@dataclass(frozen=True, slots=True)
class Groups:
    """The pods that a preemptor may evict, and in which of the two groups they are put back."""

    evictable: Evictable
    violating: BoolArray
    """[k, node]: their loss breaks a budget."""
    others: BoolArray
    """[k, node]."""

    def at(self, rows: Rows) -> "Groups":
        """The same for some nodes only."""
        evictable = Evictable(self.evictable.mask[:, rows], self.evictable.first[rows])
        return Groups(evictable, self.violating[:, rows], self.others[:, rows])


def groups(snapshot: Snapshot, priority: int) -> Groups:
    """All pods of strictly lower priority.

    Depends on the highest of the cluster's priorities that is lower, and on nothing else of the preemptor.
    """
    lower = (one for one in snapshot.running.priorities if one < priority)
    return snapshot.index(GroupsOfPriorities).up_to(max(lower, default=_BELOW_ALL))


class GroupsOfPriorities(Index):
    """The groups for the last few preemptor priorities; only nodes that changed are looked at again."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._charging = snapshot.index(Charging)
        self._known: dict[int, tuple[tuple[int, int], Groups]] = {}

    def up_to(self, highest: int) -> Groups:
        """All pods of at most this priority may leave."""
        journal = self._charging.journal
        (erased, seen), groups = self._known.pop(highest, ((-1, 0), None))
        changed = set(journal[seen:]) if erased == self._charging.erased else None
        if groups is None or changed is None or not self._update(groups, changed, highest + 1):
            groups = self._build(highest + 1)
        if len(self._known) >= _CACHED_GROUPS:
            del self._known[next(iter(self._known))]
        self._known[highest] = (self._charging.erased, len(journal)), groups
        return groups

    def _build(self, priority: int) -> Groups:
        layout = self.snapshot.layout
        mask = layout.priority < priority
        breaking = violating(self.snapshot, mask, priority)
        evictable = Evictable(mask, np.count_nonzero(~mask & (layout.pod >= 0), axis=0))
        return Groups(evictable, breaking, mask & ~breaking)

    def _update(self, groups: Groups, nodes: set[int], priority: int) -> bool:
        """Look at some nodes again; False if to build all anew is what it takes, or is cheaper."""
        layout = self.snapshot.layout
        if groups.violating.shape != layout.pod.shape or len(nodes) > _FEW_NODES:
            return False
        columns = np.array([node for node in nodes if node < layout.pod.shape[1]], np.int64)
        mask = layout.priority[:, columns] < priority
        breaking = np.zeros_like(mask)
        for place, node in enumerate(columns.tolist()):
            breaking[violating_on(self.snapshot, node, priority), place] = True
        groups.evictable.mask[:, columns] = mask
        groups.evictable.first[columns] = np.count_nonzero(~mask & (layout.pod[:, columns] >= 0), axis=0)
        groups.violating[:, columns] = breaking
        groups.others[:, columns] = mask & ~breaking
        return True


class Trial:
    """A what-if load of some nodes: pods are put back on all of them at once."""

    def __init__(self, checks: Sequence[Check], evictable: Evictable) -> None:
        self.emptied = [check.taken_off(evictable) for check in checks]
        self.constraints = [check for check in checks if isinstance(check, Constraint)]
        own = zip(checks, self.emptied, strict=True)
        self.rooms = [room.copy() for check, room in own if isinstance(check, Constraint)]
        self._taken = [np.empty_like(room) for room in self.rooms]

    def put_back(self, k: int, wanted: BoolArray) -> BoolArray:
        """Put the pods of rank `k` back on the `wanted` nodes [node] -> where they may stay [node]."""
        stay = wanted.copy()
        for constraint, room in zip(self.constraints, self.rooms, strict=True):
            stay &= constraint.fits_beside(room, constraint.demand[k])
            if constraint.nominated is not None:
                stay &= constraint.fits_beside(room - constraint.nominated, constraint.demand[k])
        staying = stay.astype(np.int64)
        for constraint, room, taken in zip(self.constraints, self.rooms, self._taken, strict=True):
            np.multiply(constraint.demand[k], staying, out=taken)
            np.subtract(room, taken, out=room)
        return stay


@dataclass(frozen=True, slots=True)
class DryRun:
    """What preemption would take from each of some nodes; [node] is a place in `rows`."""

    snapshot: Snapshot
    rows: Rows
    """Node rows of the snapshot."""
    emptied: Judgement
    """Verdicts with all evictable pods taken off."""
    grouped: Groups
    victims: BoolArray
    """[k, node]; meaningful where `candidate`."""
    demands: tuple[IntArray, ...]
    """Per constraint [k, column, node]: what pods take."""

    @property
    def candidate(self) -> BoolArray:
        """[node] where taking the victims makes room, and there is a victim."""
        return self.emptied.fits & self.victims.any(axis=0)

    @property
    def violations(self) -> IntArray:
        """[node] -> NumPDBViolations: violating pods that were not put back."""
        violations: IntArray = np.count_nonzero(self.victims & self.grouped.violating, axis=0)
        return violations

    def interchangeable(self, place: int, k: int, other: int) -> bool:
        """May the node's pods of these ranks take each other's place? Equally important, and all takes the same."""
        pods, running = self.snapshot.layout.pod[[k, other], self.rows[place]], self.snapshot.running
        same = (array[k, place] == array[other, place] for array in (self.grouped.violating, self.grouped.others))
        return (
            running.priority[pods[0]] == running.priority[pods[1]]
            and running.start[pods[0]] == running.start[pods[1]]
            and all(same)
            and all((demand[k, :, place] == demand[other, :, place]).all() for demand in self.demands)
        )

    def verdict(self, place: int) -> Verdict:
        """Why a node is no candidate."""
        return self.emptied.verdict(place) if self.grouped.evictable.mask[:, place].any() else NO_VICTIMS

    def victims_on(self, place: int) -> tuple[Pod, ...]:
        """The victims of one node in upstream's order: as they failed to be put back, then by importance."""
        chosen, breaking = self.victims[:, place], self.grouped.violating[:, place]
        ranks = [*np.flatnonzero(chosen & breaking), *np.flatnonzero(chosen & ~breaking)]
        pods: list[int] = self.snapshot.layout.pod[:, self.rows[place]][ranks].tolist()
        running = self.snapshot.running
        if breaking.any() and self.grouped.others[:, place].any():  # upstream sorts again only then
            pods = sorted(pods, key=lambda pod: (-running.priority[pod], running.start[pod]))
        return tuple(self.snapshot.pods[pod] for pod in pods)

    def costs(self, places: IntArray) -> Costs:
        """For ranking; `places` must be candidates."""
        layout, rows = self.snapshot.layout, self.rows[places]
        victims = columns(self.victims, places)
        breaking = columns(self.grouped.violating, places)
        first = victims.argmax(axis=0)
        count = np.count_nonzero(victims, axis=0)
        priorities = np.multiply(columns(layout.priority, rows), victims)
        return Costs(
            violations=np.count_nonzero(victims & breaking, axis=0),
            highest_priority=layout.priority[first, rows],
            priority_sum=priorities.sum(axis=0) + count * _NON_NEGATIVE,
            victims=count,
            earliest_start=self.snapshot.running.start[layout.pod[first, rows]],
        )


def dry_run(incoming: Incoming, checks: Sequence[Check], rows: Rows) -> DryRun:
    """Preempt on each of `rows` as if it were the only one; `checks` are of the whole snapshot."""
    grouped = groups(incoming.snapshot, incoming.pod.priority)
    if len(rows) < len(incoming.snapshot.nodes):
        checks = [check.at(rows) for check in checks]
        grouped = grouped.at(rows)
    trial = Trial(checks, grouped.evictable)
    emptied = judge(checks, trial.emptied, len(rows))
    victims = reprieve(trial, (grouped.violating, grouped.others))
    demands = tuple(constraint.demand for constraint in trial.constraints)
    return DryRun(incoming.snapshot, rows, emptied, grouped, victims, demands)


def reprieve(trial: Trial, groups: Sequence[BoolArray]) -> BoolArray:
    """Put pods back group by group, each [k, node] from the most important on -> those that could not stay."""
    victims = np.zeros_like(groups[0])
    for group in groups:
        for k in np.flatnonzero(group.any(axis=1)):
            victims[k] |= group[k] & ~trial.put_back(int(k), group[k])
    return victims
