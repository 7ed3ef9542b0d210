"""Dry-run the preemption on every node at once (framework/preemption Evaluator.DryRunPreemption, v1.36).

Selects the victims of each node as defaultpreemption.SelectVictimsOnNode does: remove every potential victim; if the
preemptor still does not fit, the node is not a candidate. Then reprieve the pods one by one, first those whose eviction
would violate a disruption budget, then the others, each group most important first. A pod that no longer fits beside
the preemptor stays a victim.

Rule: only `reprieve` puts pods back; the potential victims, the budgets and the constraints are passed in.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from extender.core.framework.constraint import Check, CodeArray, Constraint, NodeRows, SchedulingContext
from extender.core.framework.filter import FilterResults, evaluate_constraints
from extender.core.framework.status import NO_VICTIMS_FOUND, Code, Status
from extender.core.preemption.pdb.violations import budget_index
from extender.core.preemption.potential_victims import PotentialVictims, potential_victims
from extender.core.preemption.reprieve import reprieve
from extender.core.profile import UPSTREAM
from extender.core.snapshot.arrays import BoolArray, IntArray, VictimRows, count_per_node, select_columns
from extender.core.snapshot.importance import PodCosts
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.workloads import workload_of

VICTIM_SELECTION_METHODS = (
    "reprieve",
    "least important first",
    "whole pod groups",
    "scheduler preferred",
    "kube-scheduler",
)
"""Methods by which the victims of a node were selected, as decisions show them.

- reprieve: the pods that the reprieve could not put back, as in kube-scheduler.
- least important first: the same with budgets counted from the least important pod on.
- whole pod groups: the same with members of broken pod groups put back last.
- scheduler preferred: the reprieve's, with pods exchanged for equal ones that kube-scheduler had selected.
- kube-scheduler: kube-scheduler's own, because a filter plugin that is not modelled matters on the node.
"""

REPRIEVE, LEAST_IMPORTANT_FIRST, WHOLE_POD_GROUPS, SCHEDULER_PREFERRED, SCHEDULER_VICTIMS = range(
    len(VICTIM_SELECTION_METHODS)
)


@dataclass(frozen=True, slots=True)
class PolicyVeto:
    """Nodes that a policy rules out although evicting their victims would make room."""

    nodes: BoolArray
    """[node]: True if the policy rejects the victims there."""
    messages: Callable[["DryRun", IntArray], list[str]]
    """Places of vetoed nodes -> [place]: why the policy rejects the victims that the dry run selected there."""


@dataclass(frozen=True)
class DryRun:
    """The victims that preemption would evict on each of some nodes; in all arrays [node] is a place in `rows`."""

    context: SchedulingContext
    rows: NodeRows
    """[node]: node row in the snapshot."""
    checks: Sequence[Check]
    """The filter checks, restricted to these nodes."""
    emptied: FilterResults
    """Filter results with all potential victims removed."""
    potential: PotentialVictims
    """The pods that may be evicted, restricted to these nodes."""
    victims: BoolArray
    """[k, node]: selected victims; none where the pod does not fit even with all potential victims removed."""
    methods: CodeArray
    """[node]: place in VICTIM_SELECTION_METHODS."""
    vetoes: tuple[PolicyVeto, ...] = ()
    """Policies that reject victims; empty until `candidates` applies them."""

    @property
    def snapshot(self) -> Snapshot:
        return self.context.snapshot

    @property
    def pods(self) -> IntArray:
        """[k, node]: pod row; -1 where the node has fewer pods."""
        pods: IntArray = select_columns(self.context.layout.pod, self.rows)
        return pods

    def victim_rows(self, places: IntArray, victims: BoolArray | None = None) -> VictimRows:
        """List the victims on the nodes in `places` one by one; `victims`: [k, place], a subset to list instead."""
        mask = select_columns(self.victims, places) if victims is None else victims
        # numpy finds set values in one dimension much faster than in two.
        k, place = np.divmod(np.flatnonzero(mask.reshape(-1)), max(len(places), 1))
        return VictimRows(self.context.layout.pod[k, self.rows[places[place]]].astype(np.int64), place, len(places))

    @cached_property
    def makes_room(self) -> BoolArray:
        """[node]: True if evicting the victims makes room, and there is at least one victim."""
        return self.emptied.fits & self.victims.any(axis=0)

    @property
    def candidate(self) -> BoolArray:
        """[node]: True if evicting the victims makes room and no policy vetoes it."""
        candidate: BoolArray = self.makes_room & ~self.vetoed
        return candidate

    @cached_property
    def first_victim(self) -> IntArray:
        """[node]: rank of the most important victim; 0 where there is none."""
        first: IntArray = self.victims.argmax(axis=0)
        return first

    @cached_property
    def first_victim_priority(self) -> IntArray:
        """[node]: priority of the most important victim."""
        priority: IntArray = self.context.layout.priority[self.first_victim, self.rows]
        return priority

    @cached_property
    def vetoed(self) -> BoolArray:
        """[node]: True if some policy rejects the victims."""
        vetoed = np.zeros(len(self.rows), np.bool_)
        for veto in self.vetoes:
            vetoed |= veto.nodes
        return vetoed

    @cached_property
    def violations(self) -> IntArray:
        """[node]: NumPDBViolations, the PDB-violating pods that were not reprieved."""
        if self.context.profile.preemption.disruption_budgets == "Strict":
            return np.zeros(
                len(self.rows), np.int64
            )  # no candidate exceeds a budget, whatever the upstream split counts
        return count_per_node(self.victims & self.potential.violating)

    def rerun(self, places: IntArray, potential: PotentialVictims, order: Sequence[BoolArray]) -> "DryRun":
        """Dry-run some of the nodes again with other potential victims or another reprieve order (see `reprieve`)."""
        return _select_victims_on_nodes(
            self.context, [check.at(places) for check in self.checks], self.rows[places], potential, order
        )

    def are_interchangeable(self, place: int, k: int, other: int) -> bool:
        """Return whether the node's pods of ranks `k` and `other` can be exchanged as victims.

        They can if they are equally important, have the same demand, and no policy distinguishes them.
        """
        pods, pod_table = self.context.layout.pod[[k, other], self.rows[place]], self.snapshot.pod_table
        masks = (self.potential.violating, self.potential.non_violating)
        same = (mask[k, place] == mask[other, place] for mask in masks)
        return (
            pod_table.priority[pods[0]] == pod_table.priority[pods[1]]
            and pod_table.start[pods[0]] == pod_table.start[pods[1]]
            and all(same)
            and all((one[k] == one[other]).all() for one in self._demand_on(place))
            and (
                self.context.profile.preemption == UPSTREAM.preemption
                or _are_equal_to_policies(self.context, *pods.tolist())
            )
        )

    def _demand_on(self, place: int) -> Iterator[IntArray]:
        """Yield the demand of the node's pods on each constraint, [k, column]."""
        one = np.array([place])
        return (
            check.ranked_demand.at(one).to_dense()[:, :, 0] for check in self.checks if isinstance(check, Constraint)
        )

    def status(self, place: int) -> Status:
        """Return why the node in `place` is not a candidate."""
        return self.statuses(np.array([place]))[0]

    def statuses(self, places: IntArray) -> list[Status]:
        """Return [place]: why each of these nodes is not a candidate; cheaper than one by one.

        Without potential victims kube-scheduler's "No preemption victims found …"; with them the filter status after
        removing all of them; where the preemptor would fit then, the messages of the policies that reject the victims.
        """
        found = np.full(len(places), NO_VICTIMS_FOUND, np.object_)
        has_potential = select_columns(self.potential.evictable.mask, places).any(axis=0)
        full, vetoed = has_potential & ~self.makes_room[places], has_potential & self.makes_room[places]
        found[full] = self.emptied.statuses(places[full]).to_list()
        found[vetoed] = self._veto_statuses(places[vetoed])
        return list(found)

    def _veto_statuses(self, places: IntArray) -> list[Status]:
        reasons: list[list[str]] = [[] for _ in places]
        for veto in self.vetoes:
            own = np.flatnonzero(veto.nodes[places])
            for nth, message in zip(own.tolist(), veto.messages(self, places[own]), strict=True):
                reasons[nth].append(message)
        return [Status(Code.UNSCHEDULABLE, "", tuple(messages)) for messages in reasons]

    def victims_on(self, place: int) -> tuple[Pod, ...]:
        """Return the victims of one node in upstream's order.

        That is the order in which the reprieve failed (PDB-violating pods first); upstream sorts by importance again
        only if the node has potential victims of both groups.
        """
        victims, violating = self.victims[:, place], self.potential.violating[:, place]
        ranks = [*np.flatnonzero(victims & violating), *np.flatnonzero(victims & ~violating)]
        pods: list[int] = self.context.layout.pod[:, self.rows[place]][ranks].tolist()
        pod_table = self.snapshot.pod_table
        has_both = violating.any() and self.potential.non_violating[:, place].any()
        if has_both or self.context.profile.preemption != UPSTREAM.preemption:
            pods = sorted(pods, key=lambda pod: (-pod_table.priority[pod], pod_table.start[pod]))
        return tuple(self.snapshot.pods[pod] for pod in pods)


def dry_run_preemption(
    context: SchedulingContext,
    checks: Sequence[Check],
    rows: NodeRows,
    scheduler_victims: BoolArray | None = None,
) -> DryRun:
    """Select the victims on each of `rows`, every node independently of the others.

    Mirrors framework/preemption Evaluator.DryRunPreemption, v1.36, without its limit on the number of candidates.
    `checks` cover the whole snapshot; `scheduler_victims`: see `potential_victims`.
    """
    potential = potential_victims(context, scheduler_victims)
    if len(rows) < len(context.snapshot.nodes):
        checks = [check.at(rows) for check in checks]
        potential = potential.at(rows)
    return _select_victims_on_nodes(context, checks, rows, potential, (potential.violating, potential.non_violating))


def fits_without_potential_victims(context: SchedulingContext, checks: Sequence[Check]) -> BoolArray:
    """Return [node]: whether the pod fits with all potential victims removed; `checks` cover the whole snapshot.

    On nodes that do not take the pod as they are, this is where a dry run finds victims: if it fits with all of them
    removed and does not fit with all of them put back, some pod cannot be put back.
    """
    evictable = potential_victims(context).evictable
    return evaluate_constraints(checks, len(context.snapshot.nodes), evictable).fits


def _select_victims_on_nodes(
    context: SchedulingContext,
    checks: Sequence[Check],
    rows: NodeRows,
    potential: PotentialVictims,
    order: Sequence[BoolArray],
) -> DryRun:
    """Remove the potential victims, filter, and reprieve in `order`; mirrors SelectVictimsOnNode, for all `rows`."""
    emptied = evaluate_constraints(checks, len(rows), potential.evictable)
    victims = reprieve(emptied, potential.evictable, order)
    return DryRun(context, rows, checks, emptied, potential, victims, np.full(len(rows), REPRIEVE, np.uint8))


def _are_equal_to_policies(context: SchedulingContext, row: int, other: int) -> bool:
    """Return whether no policy distinguishes the running pods in these two pod rows."""
    policy, snapshot = context.profile.preemption, context.snapshot
    pods, budgets = (snapshot.pods[row], snapshot.pods[other]), budget_index(snapshot, policy)
    costs = snapshot.index(PodCosts, policy.eviction_cost_annotation).by_criterion.values()
    return (
        snapshot.pod_table.terminating[row] == snapshot.pod_table.terminating[other]
        and budgets.budgets_of(row) == budgets.budgets_of(other)
        and workload_of(pods[0]) == workload_of(pods[1])
        and pods[0].pod_group == pods[1].pod_group
        and all(cost[row] == cost[other] for cost in costs)
    )
