"""Find the preemption candidates (framework/preemption Evaluator.findCandidates, v1.36) and apply the policies to them.

    dry run                          the victims that kube-scheduler would select
    least important first (Strict)   on nodes where these exceed a budget: count the least important pods first instead
    whole pod groups                 on nodes where a pod group falls below its minimum: reprieve its members last
    policy vetoes                    a candidate whose victims a policy rejects is not a candidate

Without policies only the first step runs. Each later step proposes other victims for some nodes, and they replace the
earlier ones only if they are better: vetoed victims are worse than victims that are not, then the profile's ranking
decides.

Rule: pods are put back in `dry_run` only; this module decides in which groups and in which order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from extender.core.framework.constraint import Check, NodeRows, SchedulingContext
from extender.core.preemption.criteria import CandidateVictims, iter_ranking_keys
from extender.core.preemption.dry_run import (
    LEAST_IMPORTANT_FIRST,
    WHOLE_POD_GROUPS,
    DryRun,
    PolicyVeto,
    dry_run_preemption,
    fits_without_potential_victims,
)
from extender.core.preemption.pdb.violations import budget_index, exceeded_budgets, exceeds_budgets
from extender.core.preemption.potential_victims import potential_victims
from extender.core.preemption.rate_limits import has_victim_limits, victim_limit_vetoes
from extender.core.snapshot.arrays import BoolArray, IntArray, mask_of, select_columns
from extender.core.snapshot.workloads import NO_GROUP, PodGroupIndex


def find_candidates(
    context: SchedulingContext, checks: Sequence[Check], rows: NodeRows, scheduler_victims: BoolArray | None = None
) -> DryRun:
    """Dry-run the preemption on `rows`, with the victims that the profile's policies prefer and with their vetoes.

    Mirrors framework/preemption Evaluator.findCandidates, v1.36. `checks` cover the whole snapshot;
    `scheduler_victims`: see `core.preemption.protections.ProtectionIndex.protected`.
    """
    policy = context.profile.preemption
    run = dry_run_preemption(context, checks, rows, scheduler_victims)
    run = replace(run, vetoes=tuple(_policy_vetoes(run, np.arange(len(rows)))))
    if policy.disruption_budgets == "Strict":
        run = _retry_least_important_first(run, run.vetoes[0].nodes, scheduler_victims)
    if policy.reads_pod_groups:
        run = _evict_whole_pod_groups(run)
    return run


def preemption_would_help(context: SchedulingContext, checks: Sequence[Check], rows: NodeRows) -> BoolArray:
    """Return [row]: whether `find_candidates` would find a candidate there; all `rows` must reject the pod as they are.

    Victims are selected only if a policy may veto them; otherwise it is enough that the pod fits without all potential
    victims.
    """
    if context.profile.preemption.disruption_budgets == "Strict" or has_victim_limits(context):
        return find_candidates(context, checks, rows).candidate
    helped: BoolArray = fits_without_potential_victims(context, checks)[rows]
    return helped


def replace_victims(run: DryRun, places: IntArray, victims: BoolArray, method: int) -> DryRun:
    """Replace the victims on the nodes in `places` by `victims` [k, place]; `method`: how they were selected.

    Updates the vetoes as well. `method` is a place in `core.preemption.dry_run.VICTIM_SELECTION_METHODS`.
    """
    if not len(places):
        return run
    changed = run.victims.copy()
    changed[:, places] = victims
    methods = run.methods.copy()
    methods[places] = method
    run = replace(run, victims=changed, methods=methods)
    return replace(run, vetoes=tuple(_updated_vetoes(run, places)))


def _updated_vetoes(run: DryRun, places: IntArray) -> Iterator[PolicyVeto]:
    """Yield the vetoes of `run` with those on the nodes in `places` decided again."""
    for before, after in zip(run.vetoes, _policy_vetoes(run, places), strict=True):
        nodes = before.nodes.copy()
        nodes[places] = after.nodes
        yield replace(before, nodes=nodes)


def _policy_vetoes(run: DryRun, places: IntArray) -> Iterator[PolicyVeto]:
    """Yield the vetoes on the victims of these nodes, [place], in a fixed order: that of Strict budgets comes first."""
    if run.context.profile.preemption.disruption_budgets == "Strict":
        yield PolicyVeto(_exceeds_budgets(run, places), _exceeded_budget_messages)
    yield from victim_limit_vetoes(run, places)


def _replace_where_better(run: DryRun, places: IntArray, victims: BoolArray, method: int) -> DryRun:
    """Replace the victims on those nodes in `places` where `victims` [k, place] are better, and not empty."""
    other = replace_victims(run, places, victims, method)
    better = _is_better(other, run, places) & victims.any(axis=0)
    return replace_victims(run, places[better], victims[:, better], method)


def _is_better(run: DryRun, other: DryRun, places: IntArray) -> BoolArray:
    """Return [place]: whether the victims of `run` rank before those of `other`, by the first key that differs."""
    better, equal = np.zeros(len(places), np.bool_), np.ones(len(places), np.bool_)
    for this, that in zip(_comparison_keys(run, places), _comparison_keys(other, places), strict=True):
        better |= equal & (this < that)
        equal &= this == that
        if not equal.any():
            break
    return better


def _comparison_keys(run: DryRun, places: IntArray) -> Iterator[IntArray]:
    """Yield the keys [place] for comparing two selections of victims, the smaller the better."""
    yield run.vetoed[places].astype(np.int64)
    yield from iter_ranking_keys(run, places)


# --- budgets ----------------------------------------------------------------------------------------------------------


def _exceeds_budgets(run: DryRun, places: IntArray) -> BoolArray:
    """Return [place]: whether a budget selects more of the victims than it allows.

    The split of `pods_violating_pdbs` narrows the work down. If no victim is in the violating group, no budget is
    exceeded, for the split counts all evictable pods and the victims are among them. If the violating victims alone
    exceed a budget, so do all of them.
    """
    violating = select_columns(run.victims, places) & select_columns(run.potential.violating, places)
    pdbs = budget_index(run.snapshot, run.context.profile.preemption)
    exceeds = exceeds_budgets(pdbs, run.victim_rows(places, violating))
    suspects = np.flatnonzero(violating.any(axis=0) & ~exceeds)
    exceeds[suspects] = exceeds_budgets(pdbs, run.victim_rows(places[suspects]))
    return exceeds


def _exceeded_budget_messages(run: DryRun, places: IntArray) -> list[str]:
    """Return [place]: a message that names the budgets that the victims exceed."""
    pdbs = budget_index(run.snapshot, run.context.profile.preemption)
    names_at: list[list[str]] = [[] for _ in places]
    nths, budgets = exceeded_budgets(pdbs, run.victim_rows(places))
    for nth, budget in zip(nths.tolist(), budgets.tolist(), strict=True):
        names_at[nth].append(pdbs.names[budget])
    return [
        f"would break disruption {'budgets' if len(names) > 1 else 'budget'} {', '.join(sorted(names))}"
        for names in names_at
    ]


def _retry_least_important_first(run: DryRun, exceeds: BoolArray, scheduler_victims: BoolArray | None) -> DryRun:
    """Retry the nodes whose victims exceed a budget, with budgets counted from the least important pod on.

    The order of counting decides which pods of a budget are violating and so get the headroom first. Where one order
    keeps the wrong ones, so that more of the budget must go than it allows, the other order sometimes does not.
    """
    other_groups = potential_victims(run.context, scheduler_victims, reverse_of=run.potential)
    differs = (select_columns(other_groups.violating, run.rows) != run.potential.violating).any(axis=0)
    places = np.flatnonzero(run.makes_room & exceeds & differs)
    if not len(places):
        return run
    potential = other_groups.at(run.rows[places])
    other = run.rerun(places, potential, (potential.violating, potential.non_violating))
    within_budgets = other.makes_room & ~_exceeds_budgets(other, np.arange(len(places)))
    return replace_victims(run, places[within_budgets], other.victims[:, within_budgets], LEAST_IMPORTANT_FIRST)


# --- pod groups -------------------------------------------------------------------------------------------------------


def _evict_whole_pod_groups(run: DryRun) -> DryRun:
    """Reprieve the other members of pod groups that fall below their minimum last: alone they serve no purpose."""
    if not run.snapshot.index(PodGroupIndex).members:
        return run
    places = np.flatnonzero(run.makes_room)
    members, broken = _members_of_broken_groups(run, places)
    places, members = places[broken], members[:, broken]
    if not len(places):
        return run
    potential = run.potential.at(places)
    last = members & potential.evictable.mask
    other = run.rerun(places, potential, (potential.violating & ~last, potential.non_violating & ~last, last))
    return _replace_where_better(run, places, other.victims, WHOLE_POD_GROUPS)


def _members_of_broken_groups(run: DryRun, places: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return [k, place]: members of pod groups that fall below their minimum; and [place]: whether there are any."""
    groups, victims = run.snapshot.index(PodGroupIndex), CandidateVictims(run, places)
    broken_at, broken_group, _ = groups.below_minimum(victims.pods, victims.candidate_of)
    pods = run.pods[:, places]
    group_of = np.where(pods >= 0, groups.of_pod[pods], NO_GROUP)
    members = np.zeros(pods.shape, np.bool_)
    for place, group in zip(broken_at.tolist(), broken_group.tolist(), strict=True):
        members[:, place] |= group_of[:, place] == group
    return members, mask_of(broken_at, len(places))
