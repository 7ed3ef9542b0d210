"""Whom to evict from each of some nodes: what the reprieve leaves, or a better set where a policy asks for one.

    dry run -> the other order, where a budget would break -> whole gangs -> the fewest on the best nodes -> what is out

Each step proposes other victims for some nodes; they are taken where they are better, and never otherwise: what a
policy forbids is worse than what none does, and then the profile's ranking decides.

Rule: pods are put back in `dry_run` alone; here it is only said in which groups and in which order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from extender.core.framework.constraint import Check, Constraint, Evictable, Rows, SchedulingContext
from extender.core.preemption.criteria import Losses, keys_in_turn, top_k
from extender.core.preemption.dry_run import (
    FEWEST,
    OTHER_ORDER,
    WHOLE_GANGS,
    DryRun,
    PolicyVeto,
    dry_run_preemption,
    fits_emptied,
    remove_pods,
)
from extender.core.preemption.minimal_victims import Problem, fewest
from extender.core.preemption.pdb.violations import charging_of, exceeded, overdrawn
from extender.core.preemption.potential_victims import in_other_order
from extender.core.preemption.rate_limits import barriers, rule_out_victims
from extender.core.snapshot.arrays import BoolArray, IntArray, columns, mask_of
from extender.core.snapshot.workloads import NONE, Gangs

FINALISTS = 2
"""On how many of the best nodes the fewest victims are searched for, if no more are to be answered, …"""

MOST_FINALISTS = 16
"""… and on how many at most."""


def find_candidates(
    incoming: SchedulingContext, checks: Sequence[Check], rows: Rows, chosen: BoolArray | None = None
) -> DryRun:
    """A dry run with the victims that the profile's policies prefer, and what they forbid.

    `checks` are of the whole snapshot; `chosen`: see `core.preemption.protections.Protections.mask`.
    """
    policy = incoming.profile.preemption
    run = dry_run_preemption(incoming, checks, rows, chosen)
    run = replace(run, barriers=tuple(_barriers(run, np.arange(len(rows)))))
    if policy.disruption_budgets == "Strict":
        run = _in_the_other_order(run, run.barriers[0].nodes, chosen)
    if policy.reads_pod_groups:
        run = _whole_gangs(run)
    if policy.victims == "Fewest":
        run = _fewest(run)
    return run


def preemption_would_help(incoming: SchedulingContext, checks: Sequence[Check], rows: Rows) -> BoolArray:
    """[row]: would `find_candidates` find a candidate, on nodes that do not take the pod as they are?

    Victims are chosen only where policies may rule them out.
    """
    if incoming.profile.preemption.disruption_budgets == "Strict" or rule_out_victims(incoming):
        return find_candidates(incoming, checks, rows).candidate
    helped: BoolArray = fits_emptied(incoming, checks)[rows]
    return helped


def with_victims(run: DryRun, places: IntArray, victims: BoolArray, way: int) -> DryRun:
    """Other victims on some of the nodes, [k, place]; `way`: see `core.preemption.dry_run_preemption.WAYS`."""
    if not len(places):
        return run
    changed = run.victims.copy()
    changed[:, places] = victims
    ways = run.ways.copy()
    ways[places] = way
    run = replace(run, victims=changed, ways=ways)
    return replace(run, barriers=tuple(_renewed(run, places)))


def _renewed(run: DryRun, places: IntArray) -> Iterator[PolicyVeto]:
    for before, after in zip(run.barriers, _barriers(run, places), strict=True):
        nodes = before.nodes.copy()
        nodes[places] = after.nodes
        yield replace(before, nodes=nodes)


def _barriers(run: DryRun, places: IntArray) -> Iterator[PolicyVeto]:
    """Which of these nodes are out, given their victims, [place]; that of Strict budgets comes first."""
    if run.incoming.profile.preemption.disruption_budgets == "Strict":
        yield PolicyVeto(_breaks(run, places), _what_breaks)
    yield from barriers(run, places)


def _where_cheaper(run: DryRun, places: IntArray, victims: BoolArray, way: int) -> DryRun:
    """Other victims on those of some nodes, [k, place], where they are allowed and were not, or else are cheaper."""
    other = with_victims(run, places, victims, way)
    cheaper = _is_cheaper(other, run, places) & victims.any(axis=0)
    return with_victims(run, places[cheaper], victims[:, cheaper], way)


def _is_cheaper(run: DryRun, other: DryRun, places: IntArray) -> BoolArray:
    """[place]: is the first key that differs smaller than in the other?"""
    cheaper, equal = np.zeros(len(places), np.bool_), np.ones(len(places), np.bool_)
    for this, that in zip(_keys(run, places), _keys(other, places), strict=True):
        cheaper |= equal & (this < that)
        equal &= this == that
        if not equal.any():
            break
    return cheaper


def _keys(run: DryRun, places: IntArray) -> Iterator[IntArray]:
    """By what two choices of victims are compared: [place] each, the smaller the better."""
    yield run.forbidden[places].astype(np.int64)
    yield from keys_in_turn(run, places)


# --- budgets ----------------------------------------------------------------------------------------------------------


def _breaks(run: DryRun, places: IntArray) -> BoolArray:
    """[place]: do the victims charge a budget more than it allows? Not if none of them is violating."""
    flagged = columns(run.victims, places) & columns(run.grouped.violating, places)
    charging = charging_of(run.snapshot, run.incoming.profile.preemption)
    breaks = overdrawn(charging, run.taken_on(places, flagged))  # the violating ones alone tell of most nodes
    suspects = np.flatnonzero(flagged.any(axis=0) & ~breaks)
    breaks[suspects] = overdrawn(charging, run.taken_on(places[suspects]))
    return breaks


def _what_breaks(run: DryRun, places: IntArray) -> list[str]:
    """[place]: the budgets that the victims charge more than they allow."""
    charging = charging_of(run.snapshot, run.incoming.profile.preemption)
    broken: list[list[str]] = [[] for _ in places]
    for nth, budget in zip(*(found.tolist() for found in exceeded(charging, run.taken_on(places))), strict=True):
        broken[nth].append(charging.names[budget])
    said = (f"{'budgets' if len(names) > 1 else 'budget'} {', '.join(sorted(names))}" for names in broken)
    return [f"would break disruption {one}" for one in said]


def _in_the_other_order(run: DryRun, breaks: BoolArray, chosen: BoolArray | None) -> DryRun:
    """Where a budget would break, charge the least important pods first: others are spared then."""
    other_groups = in_other_order(run.incoming, chosen, run.grouped)
    differs = (columns(other_groups.violating, run.rows) != run.grouped.violating).any(axis=0)
    places = np.flatnonzero(run.makes_room & breaks & differs)
    if not len(places):
        return run
    grouped = other_groups.at(run.rows[places])
    other = run.again(places, grouped, (grouped.violating, grouped.others))
    keeps = other.makes_room & ~_breaks(other, np.arange(len(places)))
    return with_victims(run, places[keeps], other.victims[:, keeps], OTHER_ORDER)


# --- gangs ------------------------------------------------------------------------------------------------------------


def _whole_gangs(run: DryRun) -> DryRun:
    """Where a gang falls below its minimum, its other members are worth nothing: put them back last."""
    if not run.snapshot.index(Gangs).members:
        return run
    places = np.flatnonzero(run.makes_room)
    members, broken = _of_broken_gangs(run, places)
    places, members = places[broken], members[:, broken]
    if not len(places):
        return run
    grouped = run.grouped.at(places)
    last = members & grouped.evictable.mask
    other = run.again(places, grouped, (grouped.violating & ~last, grouped.others & ~last, last))
    return _where_cheaper(run, places, other.victims, WHOLE_GANGS)


def _of_broken_gangs(run: DryRun, places: IntArray) -> tuple[BoolArray, BoolArray]:
    """[k, place]: members of gangs that break there; [place]: is there one?"""
    gangs, losses = run.snapshot.index(Gangs), Losses(run, places)
    place, gang, _ = gangs.broken(losses.pods, losses.of)
    pods = run.pods[:, places]
    numbers = np.where(pods >= 0, gangs.of_pod[pods], NONE)
    members = np.zeros(pods.shape, np.bool_)
    for where, number in zip(place.tolist(), gang.tolist(), strict=True):
        members[:, where] |= numbers[:, where] == number
    return members, mask_of(place, len(places))


# --- the fewest -------------------------------------------------------------------------------------------------------


def _fewest(run: DryRun) -> DryRun:
    """Search the best sets on the best nodes; on more of them where all that is known is ruled out."""
    places = np.flatnonzero(run.makes_room)
    strict = run.incoming.profile.preemption.disruption_budgets == "Strict"
    names = run.snapshot.name_order[run.rows[places]]
    victims = run.victims.copy()
    answered = run.incoming.profile.keep_candidates or MOST_FINALISTS
    wanted = MOST_FINALISTS if run.forbidden[places].all() else max(answered, FINALISTS)
    finalists = min(wanted, MOST_FINALISTS)
    for place in top_k(run, places, finalists, (run.forbidden[places].astype(np.int64),), (names,)).tolist():
        known = frozenset(np.flatnonzero(run.victims[:, place]).tolist())
        found = fewest(_problem(run, place, strict=strict), known).victims
        if found is not None:
            victims[:, place] = False
            victims[list(found), place] = True
    changed = np.flatnonzero((victims != run.victims).any(axis=0))
    return _where_cheaper(run, changed, victims[:, changed], FEWEST) if len(changed) else run


def _problem(run: DryRun, place: int, *, strict: bool) -> Problem:
    """One node, its evictable pods taken off; where budgets are strict, those stay whose budgets allow nothing."""
    one = np.array([place])
    mask, pods = run.grouped.evictable.mask[:, one].copy(), run.incoming.layout.pod[:, run.rows[place]].tolist()
    charging = charging_of(run.snapshot, run.incoming.profile.preemption)
    charges = {k: charging.charged_by(pods[k]) for k in np.flatnonzero(mask[:, 0]).tolist()}
    if strict:
        spent = {k for k, budgets in charges.items() if any(charging.allowed[budget] <= 0 for budget in budgets)}
        mask[list(spent)] = False
    constraints = [check.at(one) for check in run.checks if isinstance(check, Constraint)]
    return Problem(
        constraints=tuple(constraints),
        rooms=tuple(remove_pods(constraints, Evictable(mask))),
        evictable=tuple(np.flatnonzero(mask[:, 0]).tolist()),
        priority=run.incoming.layout.priority[:, run.rows[place]],
        violating=run.grouped.violating[:, place],
        charges=charges,
        allowed=charging.allowed,
        strict=strict,
    )
