"""Choose which pods must leave so that one more fits, on every node at once.

Every evictable pod is taken off; if the preemptor still does not fit, the node is out. Then pods are put back,
those whose loss breaks a budget first, the most important first; what no longer fits is a victim.

Rule: only `reprieve` puts pods back; who is evictable, the budgets and the constraints are passed in.
Mirrors defaultpreemption.SelectVictimsOnNode (v1.36).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from extender.core.framework.constraint import Check, CodeArray, Constraint, Evictable, Rows, SchedulingContext
from extender.core.framework.filter import FilterResults, FilterRun, evaluate_constraints
from extender.core.framework.status import NO_VICTIMS, Code, Status
from extender.core.preemption.pdb.violations import charging_of, violating, violating_on
from extender.core.preemption.protections import Protections, protects
from extender.core.preemption.reprieve import reprieve
from extender.core.profile import UPSTREAM, PreemptionPolicy
from extender.core.snapshot.arrays import BoolArray, IntArray, Taken, columns, count_per_node
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.pod_costs import Traits
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod
from extender.k8s.workloads import workload_of

NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
WAITS_FOR_VICTIMS = "not eligible due to a terminating pod on the nominated node."

_CACHED_GROUPS = 32
"""For how many preemptor priorities a snapshot remembers the groups."""

_FEW_NODES = 1000
"""When more nodes than this have changed, all are looked at."""

_BELOW_ALL = -(2**31) - 1
"""Lower than any priority."""


def eligible(filtering: FilterRun) -> tuple[bool, str]:
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
class PotentialVictims:
    """The pods that a preemptor may evict, and in which of the two groups they are put back."""

    evictable: Evictable
    violating: BoolArray
    """[k, node]: their loss breaks a budget."""
    others: BoolArray
    """[k, node]."""
    protected: BoolArray | None = None
    """[pod]; None: nobody is."""

    def at(self, rows: Rows) -> "PotentialVictims":
        """The same for some nodes only."""
        evictable, violating = self.evictable.at(rows), self.violating.take(rows, axis=1)
        return PotentialVictims(evictable, violating, evictable.mask & ~violating, self.protected)


def potential_victims(incoming: SchedulingContext, chosen: BoolArray | None = None) -> PotentialVictims:
    """All pods of strictly lower priority that no policy protects; `chosen`: see `Protections.mask`."""
    return incoming.snapshot.index(PotentialVictimsIndex, incoming.profile.preemption).of(incoming, chosen)


def in_other_order(
    incoming: SchedulingContext, chosen: BoolArray | None, grouped: PotentialVictims
) -> PotentialVictims:
    """The same pods as `potential_victims` gave, where budgets are charged for the least important ones first."""
    known = incoming.snapshot.index(PotentialVictimsIndex, incoming.profile.preemption)
    return known.of(incoming, chosen, in_other_order=grouped)


class PotentialVictimsIndex(Index):
    """The groups for the last few preemptors; only nodes that changed are looked at again.

    They depend on the highest of the cluster's priorities that is lower than the preemptor's, and on who is protected
    from it.
    """

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        super().__init__(snapshot)
        self._charging = charging_of(snapshot, policy)
        self._protections = snapshot.index(Protections, policy) if protects(policy) else None
        self._known: dict[tuple[object, ...], _Known] = {}

    def of(
        self, incoming: SchedulingContext, chosen: BoolArray | None, *, in_other_order: PotentialVictims | None = None
    ) -> PotentialVictims:
        """See `potential_victims` and `in_other_order`."""
        self._charging.refresh()
        other_order = in_other_order is not None
        lower = (one for one in incoming.snapshot.running.priorities if one < incoming.pod.priority)
        below, protected = max(lower, default=_BELOW_ALL) + 1, None
        key: tuple[object, ...] = below, other_order
        if self._protections is not None:
            protected = in_other_order.protected if in_other_order else self._protections.mask(incoming, chosen)
            key += (chosen is None, self._protections.key(incoming))
        asked = _Asked(incoming.layout, below, protected, other_order)
        known = self._known.pop(key, None)
        changed = None if known is None else self._changed(known, protected)
        if known is None or changed is None or not self._update(known.groups, changed, asked):
            known = _Known(self._build(asked))
        known.seen, known.erased = len(self._charging.journal), self._charging.erased
        known.groups = replace(known.groups, protected=protected)
        if len(self._known) >= _CACHED_GROUPS:
            del self._known[next(iter(self._known))]
        self._known[key] = known
        return known.groups

    def _changed(self, known: "_Known", protected: BoolArray | None) -> set[int] | None:
        """Nodes to look at again; None: all."""
        if known.erased != self._charging.erased:
            return None
        nodes = set(self._charging.journal[known.seen :])
        before = known.groups.protected
        if protected is not None and before is not None:
            if protected.shape != before.shape:
                return None
            nodes.update(self.snapshot.pod_node[np.flatnonzero(protected != before)].tolist())
        nodes.discard(-1)
        return nodes

    def _build(self, asked: "_Asked") -> PotentialVictims:
        mask = asked.mask(slice(None))
        breaking = violating(self._charging, asked.layout, mask, other_order=asked.other_order)
        gives = bool((asked.layout.demand < 0).any())
        return PotentialVictims(Evictable(mask, _freed(asked.layout, mask), gives), breaking, mask & ~breaking)

    def _update(self, potential_victims: PotentialVictims, nodes: set[int], asked: "_Asked") -> bool:
        """Look at some nodes again; False if to build all anew is what it takes, or is cheaper."""
        layout = asked.layout
        if potential_victims.violating.shape != layout.pod.shape or len(nodes) > _FEW_NODES:
            return False
        columns = np.array([node for node in nodes if node < layout.pod.shape[1]], np.int64)
        if not potential_victims.evictable.gives and (layout.demand[:, :, columns] < 0).any():
            return False
        mask = asked.mask(columns)
        breaking = np.zeros_like(mask)
        for place, node in enumerate(columns.tolist()):
            evictable = np.flatnonzero(mask[:, place])[:: -1 if asked.other_order else 1]
            pods = layout.pod[evictable, node].tolist()
            breaking[violating_on(self._charging, zip(evictable.tolist(), pods, strict=True)), place] = True
        potential_victims.evictable.mask[:, columns] = mask
        if potential_victims.evictable.freed is not None:
            potential_victims.evictable.freed[:, columns] = _freed(layout, mask, columns)
        potential_victims.violating[:, columns] = breaking
        potential_victims.others[:, columns] = mask & ~breaking
        return True


def _freed(layout: NodeLayout, mask: BoolArray, nodes: IntArray | slice = slice(None)) -> IntArray:
    """[k, node] of some nodes -> [resource, node]: what these pods take."""
    freed: IntArray = np.einsum("kcn,kn->cn", layout.demand[:, :, nodes], mask.astype(np.int64))
    return freed


@dataclass(slots=True)
class _Known:
    """Groups, and up to where they follow the changes of the cluster."""

    groups: PotentialVictims
    erased: int = 0
    seen: int = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    layout: NodeLayout
    below: int
    """Priority."""
    protected: BoolArray | None
    """[pod]."""
    other_order: bool

    def mask(self, nodes: IntArray | slice) -> BoolArray:
        """[k, node]: evictable."""
        mask: BoolArray = self.layout.priority[:, nodes] < self.below
        return mask if self.protected is None else mask & ~self.protected[self.layout.pod[:, nodes]]


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
        pods, running = self.incoming.layout.pod[[k, other], self.rows[place]], self.snapshot.running
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
        running = self.snapshot.running
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
        snapshot.running.terminating[row] == snapshot.running.terminating[other]
        and charging.charged_by(row) == charging.charged_by(other)
        and workload_of(pods[0]) == workload_of(pods[1])
        and pods[0].pod_group == pods[1].pod_group
        and all(trait[row] == trait[other] for trait in traits)
    )
