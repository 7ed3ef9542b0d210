"""Measure the exhaustive dry run, which selects the victims on every node.

Baselines are the slow reference of the tests, and the least that numpy could take: one bare pass over the same
arrays, without budgets, pod groups, statuses or nominated pods.
"""

import time
from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks import generate
from benchmarks.measure import Limit, Row, Run, Work, in_turns
from benchmarks.renamed import Constraint
from benchmarks.world import World, change_a_pod
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.preemption.dry_run import dry_run_preemption
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.snapshot import Snapshot
from tests.parity import reference

GROUP = "dry run"
CHANGED = "after a pod changed"
SAMPLE = 250
"""Number of nodes that the slow reference tries; its time is proportional to it, since it tries them one by one."""

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
    """Add the pods of each rank on all nodes at once, wherever the preemptor still fits."""
    snapshot, (fit,) = world.snapshot, (check for check in world.filter_run.checks if isinstance(check, Constraint))
    headroom, demand = fit.headroom + snapshot.used, snapshot.layout.demand
    if fit.ranked_demand.to_dense().shape != demand.shape:
        raise AssertionError("the incoming pod must request every resource, so that both sides have all columns")

    def run() -> IntArray:
        use = np.zeros_like(headroom)
        for k in range(len(demand)):
            trial = use + demand[k]
            ok = (trial <= headroom).all(axis=0)
            use = np.where(ok, trial, use)
        return use

    return run


def against_reference(world: World, changed: Work) -> Row:
    """Run the reference on a sample of the nodes (or on all), scale its time to all, and require the same victims."""
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
    """Return whether engine and reference select the same victims and violations on these nodes."""
    ours = {
        candidate.node: ([pod.metadata.uid for pod in candidate.victims], candidate.num_pdb_violations)
        for candidate in world.candidates
        if candidate.node in names
    }
    return ours == {name: ([pod.uid for pod in one.victims], one.violations) for name, one in found.items()}


def on_new_snapshots(world: World, bare: Work) -> Iterator[Row]:
    """Time the first dry run on a new snapshot, which must also match pods to budgets."""
    rounds = [(*on_new_snapshot(world), bare.seconds()) for _ in range(3)]
    making, own, others = zip(*rounds, strict=True)
    yield Row(GROUP, "the very first on a new snapshot", own, "bare numpy pass", others)
    yield Row(GROUP, "making a snapshot of all objects", making)


def on_new_snapshot(world: World) -> tuple[float, float]:
    """Return the seconds of building a snapshot, and of the first dry run on it."""
    start = time.thread_time()
    snapshot = Snapshot.build(world.objects)
    made = time.thread_time() - start
    filter_run = run_filter_plugins(scheduling_context(snapshot, world.pod, world.profile))
    return made, Work(lambda: dry_run_preemption(filter_run.context, filter_run.checks, world.tried)).seconds()
