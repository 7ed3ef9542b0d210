"""Find the preemption candidates (framework/preemption Evaluator.findCandidates, v1.36) and apply the policies to them.

The dry run finds the victims that kube-scheduler would select. `apply_policies` then vetoes the nodes whose victims a
policy rejects, and replaces victims where policies or kube-scheduler's candidates call for it. Without policies, and
without candidates from kube-scheduler, it changes nothing.

Rule: this module decides which pods the reprieve tries first; only `reprieve` puts pods back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from extender.core.framework.filter import evaluate_constraints
from extender.core.framework.filter_checks import Check, Constraint
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code
from extender.core.preemption.criteria import ranking_keys
from extender.core.preemption.dry_run import (
    SCHEDULER_PREFERRED,
    SCHEDULER_VICTIMS,
    WHOLE_POD_GROUPS,
    DryRun,
    PolicyVeto,
    dry_run_preemption,
)
from extender.core.preemption.pdb.violations import budget_index, exceeded_budgets, exceeds_budgets
from extender.core.preemption.potential_victims import potential_victims
from extender.core.preemption.protections import UNREQUESTED_SYSTEM_POD, is_system_victim
from extender.core.preemption.ranking import RankingKeys
from extender.core.preemption.rate_limits import victim_limit_vetoes
from extender.core.profile import UPSTREAM
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows, mask_of, select_columns
from extender.core.snapshot.derived import derived
from extender.core.snapshot.importance import PodCosts
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.workloads import NO_GROUP, PodGroupIndex
from extender.k8s.workloads import workload_of


def preemption_would_help(context: SchedulingContext, checks: Sequence[Check], rows: NodeRows) -> BoolArray:
    """Return [entry of `rows`]: whether it is a candidate under the policies; the pod must fit on none of these."""
    if context.profile.preemption.vetoes_victims:
        return apply_policies(dry_run_preemption(context, checks, rows)).candidate
    # Without vetoes, victims need not be selected: if the pod fits with all potential victims removed but not with all
    # of them put back, the reprieve leaves at least one victim.
    snapshot, last = context.snapshot, _last_helped(context.snapshot)
    # With protections, results are not cached: they also depend on the time.
    if not last or last[0][0] is not checks or context.profile.preemption.may_change_victims:
        emptied = evaluate_constraints(checks, len(snapshot.nodes), potential_victims(context).evictable)
        last[:] = [(checks, emptied.codes == Code.SUCCESS)]
    helped: BoolArray = last[0][1][rows]
    return helped


@derived("any")
def _last_helped(_snapshot: Snapshot) -> list[tuple[Sequence[Check], BoolArray]]:
    """Return the cache of one result: checks of the last pod, and [node]: whether it fits without potential victims."""
    return []


def apply_policies(run: DryRun, keeps_sent_victims: BoolArray | None = None) -> DryRun:
    """Return the dry run with the victims that the profile's policies prefer, and with the policies' vetoes.

    `keeps_sent_victims`: [node of the snapshot], see `Evaluation.keeps_sent_victims`; None: on no node.
    """
    policy, named = run.context.profile.preemption, run.scheduler_victims
    # 1. Veto victims that kube-scheduler would select but a policy rejects.
    if policy.vetoes_victims:
        run = replace(run, vetoes=tuple(_policy_vetoes(run, np.arange(len(run.rows)))))
    # 2. Reprieve the members of a pod group last on nodes where the group falls below its minimum.
    if policy.reads_pod_groups:
        run = _evict_whole_pod_groups(run)
    if named is None:
        return run
    # 3. Of two interchangeable pods, evict the pod that kube-scheduler chose. kube-scheduler may already know that the
    #    other pod is gone, and a single UID that it cannot find fails the whole answer.
    unrequested = run.victims & ~named
    reprieved = named & ~run.victims & run.potential.evictable.mask
    mixed = np.flatnonzero(unrequested.any(axis=0) & reprieved.any(axis=0) & run.candidate)
    if len(mixed):
        run = _prefer_scheduler_victims(run, named, mixed, unrequested, reprieved)
    # 4. Keep kube-scheduler's own victims where our reprieve could spare a pod that must be evicted; select no victims
    #    there if a policy protects one of its victims.
    if keeps_sent_victims is not None and len(places := np.flatnonzero(keeps_sent_victims[run.rows])):
        victims = named & ~(named & ~run.potential.evictable.mask).any(axis=0)
        run = _replace_victims(run, places, victims[:, places], SCHEDULER_VICTIMS)
    # 5. Evict no system pod that kube-scheduler did not choose. If policies may change victims, protections leave out
    #    these pods already.
    if policy.may_change_victims:
        return run
    places, pods = np.flatnonzero(run.candidate), run.snapshot.pods
    added = run.victim_rows(places, select_columns(run.victims & ~named, places))
    of_system = [is_system_victim(pods[row]) for row in added.pods.tolist()]
    if not any(of_system):
        return run
    nodes = mask_of(places[added.candidate_index[of_system]], len(run.rows))
    message = f"would evict {UNREQUESTED_SYSTEM_POD}"
    veto = PolicyVeto("the protection of system pods", nodes, lambda _, places: [message] * len(places))
    return replace(run, vetoes=(*run.vetoes, veto))


def _policy_vetoes(run: DryRun, places: IntArray) -> Iterator[PolicyVeto]:
    """Yield the vetoes on the victims of the nodes at the indexes `places`: one per policy, in a constant order."""
    if run.context.profile.preemption.disruption_budgets == "Strict":
        yield PolicyVeto("disruptionBudgets: Strict", _exceeds_budgets(run, places), _exceeded_budget_messages)
    yield from victim_limit_vetoes(run, places)


def _replace_victims(run: DryRun, places: IntArray, victims: BoolArray, method: int) -> DryRun:
    """Replace the victims on the nodes at the indexes `places`, and evaluate the vetoes there again.

    `victims`: [k, entry of `places`]; `method`: index into `core.preemption.dry_run.VICTIM_SELECTION_METHODS`.
    """
    if not len(places):
        return run
    changed, methods, vetoes = run.victims.copy(), run.methods.copy(), []
    changed[:, places], methods[places] = victims, method
    run = replace(run, victims=changed, methods=methods)
    for before, after in zip(run.vetoes, _policy_vetoes(run, places), strict=True):
        nodes = before.nodes.copy()
        nodes[places] = after.nodes
        vetoes.append(replace(before, nodes=nodes))
    return replace(run, vetoes=tuple(vetoes)) if vetoes else run


# --- budgets ----------------------------------------------------------------------------------------------------------


def _exceeds_budgets(run: DryRun, places: IntArray) -> BoolArray:
    """Return [entry of `places`]: whether a budget selects more of the victims than it allows."""
    # The split of `pods_violating_pdbs` saves most of the work. It counts all evictable pods, so if no victim is in the
    # violating group, no budget is exceeded. If the violating victims alone exceed a budget, all victims exceed it.
    violating = select_columns(run.victims, places) & select_columns(run.potential.violating, places)
    pdbs = budget_index(run.snapshot, run.context.profile.preemption)
    exceeds = exceeds_budgets(pdbs, run.victim_rows(places, violating))
    suspects = np.flatnonzero(violating.any(axis=0) & ~exceeds)
    exceeds[suspects] = exceeds_budgets(pdbs, run.victim_rows(places[suspects]))
    return exceeds


def _exceeded_budget_messages(run: DryRun, places: IntArray) -> list[str]:
    """Return [entry of `places`]: a message that names the budgets that the victims exceed."""
    pdbs = budget_index(run.snapshot, run.context.profile.preemption)
    names_at: list[list[str]] = [[] for _ in places]
    nths, budgets = exceeded_budgets(pdbs, run.victim_rows(places))
    for nth, budget in zip(nths.tolist(), budgets.tolist(), strict=True):
        names_at[nth].append(pdbs.names[budget])
    return [
        f"would break disruption {'budgets' if len(names) > 1 else 'budget'} {', '.join(sorted(names))}"
        for names in names_at
    ]


# --- pod groups -------------------------------------------------------------------------------------------------------


def _evict_whole_pod_groups(run: DryRun) -> DryRun:
    """Reprieve members of pod groups that fall below their minimum last: the rest of such a group is of no use."""
    if not run.snapshot.index(PodGroupIndex).members:
        return run
    places = np.flatnonzero(run.makes_room)
    members, broken = _members_of_broken_groups(run, places)
    places, members = places[broken], members[:, broken]
    if not len(places):
        return run
    potential = run.potential.take(places)
    last = members & potential.evictable.mask
    other = run.rerun(places, potential, (potential.violating & ~last, potential.non_violating & ~last, last))
    changed = _replace_victims(run, places, other.victims, WHOLE_POD_GROUPS)
    # Keep the change on nodes where it is better: first by not being vetoed, then by the profile's ranking.
    before, after = (
        RankingKeys({"vetoes": [one.vetoed[places].astype(np.int64)], **ranking_keys(one, places).by_criterion})
        for one in (run, changed)
    )
    better = after.is_better(before) & other.victims.any(axis=0)
    return _replace_victims(run, places[better], other.victims[:, better], WHOLE_POD_GROUPS)


def _members_of_broken_groups(run: DryRun, places: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return [k, entry of `places`]: whether the pod's group falls below its minimum; [entry]: whether any does."""
    groups, victims = run.snapshot.index(PodGroupIndex), run.victim_rows(places)
    broken_at, broken_group, _ = groups.below_minimum(victims.pods, victims.candidate_index)
    pods = run.pods[:, places]
    group_of = np.where(pods >= 0, groups.of_pod[pods], NO_GROUP)
    members = np.zeros(pods.shape, np.bool_)
    for place, group in zip(broken_at.tolist(), broken_group.tolist(), strict=True):
        members[:, place] |= group_of[:, place] == group
    return members, mask_of(broken_at, len(places))


# --- kube-scheduler's victims -----------------------------------------------------------------------------------------


def _prefer_scheduler_victims(
    run: DryRun, scheduler_victims: BoolArray, mixed: IntArray, unrequested: BoolArray, reprieved: BoolArray
) -> DryRun:
    """Exchange our victims for interchangeable pods that kube-scheduler chose.

    `unrequested`: [k, node], our victims that kube-scheduler did not choose; `reprieved`: [k, node], kube-scheduler's
    victims that we put back; `mixed`: indexes of the candidates that have both.
    """
    common = _importances(run, mixed, unrequested) & _importances(run, mixed, reprieved)
    victims, methods = run.victims.copy(), run.methods.copy()
    for place in sorted({place for place, _, _ in common}):
        spared = np.flatnonzero(scheduler_victims[:, place] & ~victims[:, place]).tolist()
        for k in np.flatnonzero(victims[:, place] & ~scheduler_victims[:, place]).tolist():
            other = next((one for one in spared if _are_interchangeable(run, place, k, one)), None)
            if other is not None:
                victims[[k, other], place] = False, True
                spared.remove(other)
                methods[place] = SCHEDULER_PREFERRED
    return replace(run, victims=victims, methods=methods)


def _importances(run: DryRun, places: IntArray, mask: BoolArray) -> set[tuple[int, int, int]]:
    """Return (node index, priority, start time) of the pods in `mask` [k, node]; equal for interchangeable pods."""
    pods, pod_table = run.victim_rows(places, select_columns(mask, places)), run.snapshot.pod_table
    priority, start = pod_table.priority[pods.pods], pod_table.start[pods.pods]
    return set(zip(places[pods.candidate_index].tolist(), priority.tolist(), start.tolist(), strict=True))


def _are_interchangeable(run: DryRun, place: int, k: int, other: int) -> bool:
    """Return whether the pods of ranks `k` and `other` on the node at index `place` can be exchanged as victims.

    They can if they are equally important, have the same demand, and no policy treats them differently.
    """
    policy, pod_table, one = run.context.profile.preemption, run.snapshot.pod_table, np.array([place])
    row, other_row = run.pods[[k, other], place].tolist()
    demands = (
        check.ranked_demand.take(one).to_dense()[:, :, 0] for check in run.checks if isinstance(check, Constraint)
    )
    same = (run.potential.violating, run.potential.non_violating)
    if (
        pod_table.priority[row] != pod_table.priority[other_row]
        or pod_table.start[row] != pod_table.start[other_row]
        or any(mask[k, place] != mask[other, place] for mask in same)
        or any((demand[k] != demand[other]).any() for demand in demands)
    ):
        return False
    if policy == UPSTREAM.preemption:
        return True
    pods, budgets = [run.snapshot.pods[row], run.snapshot.pods[other_row]], budget_index(run.snapshot, policy)
    costs = run.snapshot.index(PodCosts, policy.eviction_cost_annotation).by_criterion.values()
    return (
        bool(pod_table.terminating[row] == pod_table.terminating[other_row])
        and budgets.budgets_of(row) == budgets.budgets_of(other_row)
        and workload_of(pods[0]) == workload_of(pods[1])
        and pods[0].pod_group == pods[1].pod_group
        and all(cost[row] == cost[other_row] for cost in costs)
    )
