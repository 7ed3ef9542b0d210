"""The engine's other steps: filter, ranking, and whole decisions as the service asks for them."""

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Row, Run, Work, in_turns
from benchmarks.world import World
from extender.core import engine
from extender.core.checks import Constraint
from extender.core.criteria import costs
from extender.core.engine import Offer
from extender.core.filtering import meet, run_filters
from extender.core.preemption import dry_run
from extender.core.ranking import rank

GROUP = "engine"
ROUNDS = 101


def rows(world: World) -> Iterator[Row]:
    yield compared("filter: a code for every node", filter_all(world), "bare comparison", bare_filter(world))
    yield compared("ranking of all candidates", rank_all(world), "bare lexsort", bare_sort(world))
    trial = dry_run_all(world)
    yield compared("filter decision: codes, messages, who is helped", decide_filter(world), "dry run (warm)", trial)
    for limit in (100, len(world.candidates)):
        name = f"preempt decision on {limit:,} candidates"
        yield compared(name, decide_preempt(world, limit), "dry run (warm)", trial)


def compared(name: str, run: Run, against: str, other: Run) -> Row:
    own, others = in_turns([Work(run), Work(other)], ROUNDS)
    return Row(GROUP, name, own, against, others)


def filter_all(world: World) -> Run:
    return lambda: run_filters(meet(world.snapshot, world.pod, world.profile))


def bare_filter(world: World) -> Run:
    """What is left beside the incoming pod, column by column, is it enough: no more than that."""
    used = world.snapshot.used
    (room,) = (check.room + used for check in world.filtering.checks if isinstance(check, Constraint))
    return lambda: (used <= room).all(axis=0)


def rank_all(world: World) -> Run:
    order = world.snapshot.name_order[world.tried[world.places]]
    return lambda: rank(costs(world.run, world.places), order)


def bare_sort(world: World) -> Run:
    """Sort by keys that are there already."""
    order = world.snapshot.name_order[world.tried[world.places]]
    keys = (order, *reversed(costs(world.run, world.places)))
    return lambda: np.lexsort(keys)


def dry_run_all(world: World) -> Run:
    return lambda: dry_run(world.filtering.incoming, world.filtering.checks, world.tried)


def decide_filter(world: World) -> Run:
    names = world.node_names
    return lambda: engine.filter(world.snapshot, world.pod, names, world.profile)


def decide_preempt(world: World, limit: int) -> Run:
    offers = {
        candidate.node: Offer(tuple(pod.metadata.uid for pod in candidate.victims), candidate.num_pdb_violations)
        for candidate in world.candidates[:limit]
    }
    return lambda: engine.preempt(world.snapshot, world.pod, offers, world.profile)
