"""`POST /simulate` in its child process, and what the engine alone takes for the same scheduling cycles.

CPU time of both processes: the child, which the kernel copies page by page as it writes, and the parent that forks it.
"""

import asyncio
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks import generate
from benchmarks.generate import JSON
from benchmarks.measure import Work
from benchmarks.renamed import cached_verdicts
from benchmarks.works import Maker
from benchmarks.world import World
from extender.core import engine
from extender.core.eviction_history import NO_HISTORY
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.score import score
from extender.core.framework.status import Code
from extender.core.preemption.criteria import best_candidates
from extender.core.preemption.dry_run import dry_run_preemption
from extender.core.profile import UNCONFIGURED, UPSTREAM
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.report.schema import OBJECTS
from extender.server.admin.fork_worker import ForkedWorker
from extender.server.admin.simulate import simulate_request
from extender.server.admin.snapshot_copy import answer_in_child
from extender.server.context import WorkInputs

SECONDS = 600
"""Limit of one simulation."""

FITTING = {"cpu": "100m", "memory": "128Mi"}


def pods(world: World, count: int, fits: bool) -> list[JSON]:
    """Return pods of one template, which fit everywhere or nowhere."""
    template = generate.undemanding(world.plan) if fits else generate.incoming(world.plan)
    if fits:
        template["spec"]["containers"][0]["resources"]["requests"] = FITTING
    names = [f"simulated-{number}" for number in range(count)]
    return [template | {"metadata": template["metadata"] | {"name": name, "uid": name}} for name in names]


def simulating(world: World, count: int, fits: bool, **options: Any) -> Work:
    """Simulate the pods, one after another, on a copy of the cluster."""
    snapshot = engine.prepare(world.snapshot)
    body = msgspec.json.encode({"pods": pods(world, count, fits)} | options)

    inputs = WorkInputs(snapshot, UNCONFIGURED, NO_HISTORY, OBJECTS, None)

    def answer(given: WorkInputs) -> object:
        return simulate_request(given.cluster, given.scheduler, body, given.history, given.source)

    def simulate() -> list[bytes]:
        return [answer_in_child(answer, inputs)]

    return Work(partial(in_child, simulate), clock=cpu_seconds, parts=count)


def deciding(world: World, count: int, fits: bool) -> Work:
    """Decide on the same pods with the engine, each in the cluster that the pod before left; only that is timed."""
    snapshot = engine.prepare(world.snapshot)
    typed = [msgspec.convert(pod, Pod) for pod in pods(world, count, fits)]
    decided, spent = score_and_run if fits else preempt, [0.0]

    def decide() -> Iterator[bytes]:
        yield repr(sum(decided(snapshot, pod) for pod in typed)).encode()

    def run() -> None:
        spent[0] += float(in_child(decide))

    return Work(run, clock=lambda: spent[0], parts=count)


def score_and_run(snapshot: Snapshot, pod: Pod) -> float:
    """Return the CPU seconds in which a pod is filtered and the nodes that take it are scored; then let it run."""
    start = time.thread_time()
    context = scheduling_context(snapshot, pod, UPSTREAM)
    verdicts = cached_verdicts(context)
    assert verdicts is not None
    fitting = np.flatnonzero(verdicts.fits)
    total = score(context, fitting, verdicts.scores(context)).total
    taken = time.thread_time() - start
    best = snapshot.node_names[fitting[total.argmax()]]
    snapshot.put("Pod", replace(pod, spec=replace(pod.spec, node_name=best)))
    snapshot.refresh_layout()
    return taken


def preempt(snapshot: Snapshot, pod: Pod) -> float:
    """Return the CPU seconds of a pod's two cycles: filter, dry run on all nodes and choice of one; filter again."""
    start = time.thread_time()
    run = run_filter_plugins(scheduling_context(snapshot, pod, UPSTREAM))
    best_candidates(dry_run_preemption(run.context, run.checks, run.rows(Code.UNSCHEDULABLE)), 1)
    run_filter_plugins(run.context)
    return time.thread_time() - start


def empty(world: World) -> Work:
    """Fork a child that does nothing: the floor for one pod."""
    engine.prepare(world.snapshot)
    return Work(partial(in_child, lambda: [b""]), clock=cpu_seconds)


def in_child(work: Callable[[], list[bytes] | Iterator[bytes]]) -> bytes:
    """Return what the work writes in a child process."""

    async def run() -> bytes:
        return await ForkedWorker.start(work, SECONDS).result(SECONDS, "take a smaller case")

    return asyncio.run(run())


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


WORKS: dict[str, Maker] = {
    "a child process that does nothing": empty,
    "simulate one pod": partial(simulating, count=1, fits=True),
    "simulate one pod by two policies": partial(simulating, count=1, fits=True, compare=["upstream", "strict"]),
    "simulate one pod, the engine's own part": partial(deciding, count=1, fits=True),
    "simulate one pod that preempts": partial(simulating, count=1, fits=False),
    "simulate one pod that preempts, the engine's own part": partial(deciding, count=1, fits=False),
    "simulate 100 pods": partial(simulating, count=100, fits=True),
    "simulate 100 pods, the engine's own part": partial(deciding, count=100, fits=True),
}
