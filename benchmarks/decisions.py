"""The engine's other steps: ranking, and whole decisions as the service requests them."""

from collections.abc import Iterator
from itertools import cycle

import numpy as np
from msgspec.structs import replace

from benchmarks.measure import Row, Run, Work, in_turns
from benchmarks.renamed import SentCandidate
from benchmarks.world import World
from extender.core import engine
from extender.core.preemption.criteria import TIE_BREAKERS, ranking_keys
from extender.core.preemption.dry_run import dry_run_preemption

GROUP = "engine"
ROUNDS = 101


def rows(world: World) -> Iterator[Row]:
    yield compared("ranking of all candidates", rank_all(world), "bare lexsort", bare_sort(world))
    trial = dry_run_all(world)
    yield compared(
        "filter decision: codes, messages, nodes where preemption helps", decide_filter(world), "dry run (warm)", trial
    )
    for limit in (100, len(world.candidates)):
        name = f"preempt decision on {limit:,} candidates"
        yield compared(name, decide_preempt(world, limit), "dry run (warm)", trial)


def compared(name: str, run: Run, against: str, other: Run) -> Row:
    own, others = in_turns([Work(run), Work(other)], ROUNDS)
    return Row(GROUP, name, own, against, others)


def rank_all(world: World) -> Run:
    return lambda: ranking_keys(world.run, world.places, TIE_BREAKERS).order


def bare_sort(world: World) -> Run:
    """Sort by precomputed keys."""
    keys = ranking_keys(world.run, world.places, ("name",)).flat[::-1]
    return lambda: np.lexsort(keys)


def dry_run_all(world: World) -> Run:
    return lambda: dry_run_preemption(world.filter_run.context, world.filter_run.checks, world.tried)


def decide_filter(world: World) -> Run:
    """Decide for two pods in turn, since filter results are cached when the next call is about the same pod."""
    names, pod = world.node_names, world.pod
    another = replace(pod, metadata=replace(pod.metadata, name=f"{pod.metadata.name}-too"))
    pods = cycle((pod, another))
    return lambda: engine.filter(world.snapshot, next(pods), names, world.profile)


def decide_preempt(world: World, limit: int) -> Run:
    sent = {
        candidate.node: SentCandidate(
            tuple(pod.metadata.uid for pod in candidate.victims), candidate.num_pdb_violations
        )
        for candidate in world.candidates[:limit]
    }
    return lambda: engine.preempt(world.snapshot, world.pod, sent, world.profile)
