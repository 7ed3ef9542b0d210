"""Whom to evict from each of some nodes: what the reprieve leaves, or a better set where a policy asks for one.

    dry run -> the other order, where a budget would break -> whole gangs -> the fewest on the best nodes -> what is out

Each step proposes other victims for some nodes; they are taken where they are better, and never otherwise.

Rule: pods are put back in `core.preemption` alone; here it is only said in which groups and in which order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from extender.core.checks import Check, Incoming, Rows
from extender.core.columns import BoolArray, IntArray
from extender.core.criteria import Losses, costs
from extender.core.fewest import Problem, fewest
from extender.core.limits import barriers
from extender.core.preemption import Barrier, DryRun, dry_run, groups
from extender.core.ranking import Keys, rank
from extender.core.violations import charging_of, overdrawn
from extender.core.workloads import NONE, Gangs

FINALISTS = 8
"""On how many of the best nodes the fewest victims are searched for."""


def choose(incoming: Incoming, checks: Sequence[Check], rows: Rows, chosen: BoolArray | None = None) -> DryRun:
    """A dry run with the victims that the profile's policies prefer; see `core.preemption.dry_run`.

    `ruled_out` has still to be asked, once nobody changes the victims any more.
    """
    policy = incoming.profile.preemption
    run = dry_run(incoming, checks, rows, chosen)
    if policy.disruption_budgets == "Strict":
        run = _in_the_other_order(run, chosen)
    if "PodGroups" in policy.ranking:
        run = _whole_gangs(run)
    if policy.victims == "Fewest":
        run = _fewest(run)
    return run


def ruled_out(run: DryRun) -> DryRun:
    """The same; nodes where a policy forbids to take these victims are no candidates."""
    return replace(run, barriers=tuple(_barriers(run)))


def _barriers(run: DryRun) -> Iterator[Barrier]:
    if run.incoming.profile.preemption.disruption_budgets == "Strict":
        yield Barrier(_breaks(run), lambda place: f"would break {_broken_on(run, place)}")
    yield from barriers(run)


# --- budgets ----------------------------------------------------------------------------------------------------------


def _breaks(run: DryRun) -> BoolArray:
    """[node]: do the victims charge a budget more than it allows?"""
    k, node = np.nonzero(run.victims)
    charging = charging_of(run.snapshot, run.incoming.profile.preemption)
    breaks: BoolArray = overdrawn(charging, run.pods[k, node].astype(np.int64), node, len(run.rows)) > 0
    return breaks


def _broken_on(run: DryRun, place: int) -> str:
    charging = charging_of(run.snapshot, run.incoming.profile.preemption)
    pods = run.pods[np.flatnonzero(run.victims[:, place]), place]
    names = charging.broken_by(pods.tolist())
    return f"disruption budgets {', '.join(names)}" if len(names) > 1 else f"disruption budget {names[0]}"


def _in_the_other_order(run: DryRun, chosen: BoolArray | None) -> DryRun:
    """Where a budget would break, charge the least important pods first: others are spared then."""
    broken = np.flatnonzero(run.makes_room & _breaks(run))
    if not len(broken):
        return run
    grouped = groups(run.incoming, chosen, other_order=True).at(run.rows[broken])
    differs = (grouped.violating != run.grouped.violating[:, broken]).any(axis=0)
    places, grouped = broken[differs], grouped.at(np.flatnonzero(differs))
    if not len(places):
        return run
    other = run.again(places, grouped, (grouped.violating, grouped.others))
    better = np.flatnonzero(~_breaks(other))
    return run.with_victims(places[better], other.victims[:, better])


# --- gangs ------------------------------------------------------------------------------------------------------------


def _whole_gangs(run: DryRun) -> DryRun:
    """Where a gang falls below its minimum, its other members are worth nothing: put them back last."""
    places = np.flatnonzero(run.makes_room)
    members, broken = _of_broken_gangs(run, places)
    places, members = places[broken], members[:, broken]
    if not len(places):
        return run
    grouped = run.grouped.at(places)
    last = members & grouped.evictable.mask
    other = run.again(places, grouped, (grouped.violating & ~last, grouped.others & ~last, last))
    cheaper = _is_better(costs(other, np.arange(len(places))), costs(run, places))
    better = np.flatnonzero(cheaper & other.makes_room & ~_newly_breaks(other, run, places))
    return run.with_victims(places[better], other.victims[:, better])


def _newly_breaks(other: DryRun, run: DryRun, places: IntArray) -> BoolArray:
    """[place]: does a budget break that did not?"""
    if run.incoming.profile.preemption.disruption_budgets != "Strict":
        return np.zeros(len(places), np.bool_)
    return _breaks(other) & ~_breaks(run)[places]


def _of_broken_gangs(run: DryRun, places: IntArray) -> tuple[BoolArray, BoolArray]:
    """[k, place]: members of gangs that break there; [place]: is there one?"""
    gangs, losses = run.snapshot.index(Gangs), Losses(run, places)
    place, gang, _ = gangs.broken(losses.pods, losses.of)
    pods = run.pods[:, places]
    numbers = np.where(pods >= 0, gangs.of_pod[pods], NONE)
    members = np.zeros(pods.shape, np.bool_)
    for where, number in zip(place.tolist(), gang.tolist(), strict=True):
        members[:, where] |= numbers[:, where] == number
    broken = np.zeros(len(places), np.bool_)
    broken[place] = True
    return members, broken


def _is_better(these: Keys, those: Keys) -> BoolArray:
    """[place]: is the first key that differs smaller?"""
    better = np.zeros(len(these[0]), np.bool_)
    open_ = np.ones(len(these[0]), np.bool_)
    for this, that in zip(these, those, strict=True):
        better |= open_ & (this < that)
        open_ &= this == that
    return better


# --- the fewest -------------------------------------------------------------------------------------------------------


def _fewest(run: DryRun) -> DryRun:
    """Search the best set on the best nodes, and on nodes where only sets that break a budget are known so far."""
    places = np.flatnonzero(run.makes_room)
    if not len(places):
        return run
    strict = run.incoming.profile.preemption.disruption_budgets == "Strict"
    breaks = _breaks(run)[places] if strict else np.zeros(len(places), np.bool_)
    order = rank([breaks.astype(np.int64), *costs(run, places)], run.snapshot.name_order[run.rows[places]])
    for place in places[order[:FINALISTS]].tolist():
        found = fewest(_problem(run, place, strict=strict), frozenset(np.flatnonzero(run.victims[:, place]).tolist()))
        if found.victims is not None:
            victims = np.zeros((len(run.victims), 1), np.bool_)
            victims[list(found.victims)] = True
            run = run.with_victims(np.array([place]), victims)
    return run


def _problem(run: DryRun, place: int, *, strict: bool) -> Problem:
    """One node, all of its evictable pods taken off."""
    one = np.array([place])
    grouped = run.grouped.at(one)
    node = run.again(one, grouped, (np.zeros_like(grouped.violating),))
    evictable = np.flatnonzero(node.grouped.evictable.mask[:, 0]).tolist()
    charging = charging_of(run.snapshot, run.incoming.profile.preemption)
    pods = node.pods[:, 0].tolist()
    return Problem(
        constraints=tuple(node.trial.constraints),
        rooms=tuple(node.trial.rooms),
        evictable=tuple(evictable),
        priority=run.incoming.layout.priority[:, run.rows[place]],
        violating=node.grouped.violating[:, 0],
        charges={k: charging.charged_by(pods[k]) for k in evictable},
        allowed=charging.allowed,
        strict=strict,
    )
