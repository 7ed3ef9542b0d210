"""The exhaustive dry run: whom preemption would evict, on every node.

Against the slow reference of the tests, and against the least that numpy could take: one bare pass over the same
arrays, without budgets, groups, verdicts or nominated pods.
"""

import time
from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks import generate
from benchmarks.measure import Limit, Row, Run, Work, in_turns
from benchmarks.world import World, change_a_pod
from extender.core.framework.constraint import Constraint
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.preemption.dry_run import dry_run_preemption
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.snapshot import Snapshot
from tests.parity import reference

GROUP = "dry run"
CHANGED = "after a pod changed"
SAMPLE = 250
"""Nodes that the slow reference tries; it takes them one by one, so that its time grows with their number."""

ROUNDS = 151
FASTER_THAN_REFERENCE = Limit("≥", 10)
TIMES_BARE_NUMPY = Limit("≤", 3)


def rows(world: World) -> Iterator[Row]:
    warm = Work(lambda: dry_run_preemption(world.filter_run.context, world.filter_run.checks, world.tried))
    changed = Work(warm.run, prepare=lambda: change_a_pod(world.snapshot))
    bare = Work(bare_pass(world))
    for name, work in ((CHANGED, changed), ("nothing changed", warm)):
        own, others = in_turns([work, bare], ROUNDS)
        yield Row(GROUP, name, own, "bare numpy pass", others, TIMES_BARE_NUMPY)
    yield against_reference(world, changed)
    yield from on_new_snapshots(world, bare)


def bare_pass(world: World) -> Run:
    """Put the pods of every rank on all nodes at once, wherever the preemptor still fits beside them."""
    snapshot, (fit,) = world.snapshot, (check for check in world.filter_run.checks if isinstance(check, Constraint))
    headroom, demand = fit.headroom + snapshot.used, snapshot.layout.demand
    if fit.dense_demand.shape != demand.shape:
        raise AssertionError("the incoming pod must ask for every resource, so that both sides have all columns")

    def run() -> IntArray:
        use = np.zeros_like(headroom)
        for k in range(len(demand)):
            trial = use + demand[k]
            ok = (trial <= headroom).all(axis=0)
            use = np.where(ok, trial, use)
        return use

    return run


def against_reference(world: World, changed: Work) -> Row:
    """The reference on a sample of the nodes (or on all), its time scaled to all; both must name the same victims."""
    count = world.plan.nodes
    size = count if world.full else min(SAMPLE, count)
    sample = sorted(world.plan.chance("sample").sample(range(count), size))
    cycle = reference.prepare(reference.Cluster.of(generate.as_list(world.plan, sample)), generate.incoming(world.plan))
    same = agrees(world, reference.dry_run(cycle)[0], {generate.node_name(row) for row in sample})
    own, others = in_turns([changed, Work(lambda: reference.dry_run(cycle))], 1 if world.full else 7, warm_up=1)
    whole = [seconds * count / size for seconds in others]
    part = "" if size == count else f" on {size} nodes x {count / size:g}"
    against = f"reference{part}, {'same victims' if same else 'OTHER VICTIMS'}"
    return Row(GROUP, CHANGED, own, against, whole, FASTER_THAN_REFERENCE, faster=True)


def agrees(world: World, found: Mapping[str, reference.Candidate], names: set[str]) -> bool:
    """Do engine and reference name the same victims and violations on these nodes?"""
    ours = {
        candidate.node: ([pod.metadata.uid for pod in candidate.victims], candidate.num_pdb_violations)
        for candidate in world.candidates
        if candidate.node in names
    }
    return ours == {name: ([pod.uid for pod in one.victims], one.violations) for name, one in found.items()}


def on_new_snapshots(world: World, bare: Work) -> Iterator[Row]:
    """The first dry run after the cluster changed, when it is not known either which pod is in which budget."""
    rounds = [(*on_new_snapshot(world), bare.seconds()) for _ in range(3)]
    making, own, others = zip(*rounds, strict=True)
    yield Row(GROUP, "the very first on a new snapshot", own, "bare numpy pass", others)
    yield Row(GROUP, "making a snapshot of all objects", making)


def on_new_snapshot(world: World) -> tuple[float, float]:
    """Seconds of making it, and of the first dry run."""
    start = time.thread_time()
    snapshot = Snapshot.build(world.objects)
    made = time.thread_time() - start
    filter_run = run_filter_plugins(scheduling_context(snapshot, world.pod, world.profile))
    return made, Work(lambda: dry_run_preemption(filter_run.context, filter_run.checks, world.tried)).seconds()
