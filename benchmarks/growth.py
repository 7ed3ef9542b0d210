"""Measure how cost grows with the cluster: the same work in clusters of several sizes, each in its own process.

The objects are decoded from JSON as the service decodes them, so that memory use equals that of the service.

Rule: twice the nodes must cost no more than twice as much.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from benchmarks import calibration, cores, generate, process
from benchmarks.fullpods import full_pod
from benchmarks.generate import JSON, Plan
from benchmarks.measure import Limit, Row, Work, in_turns, start_over
from benchmarks.works.changes import dirty, event, making_a_snapshot
from benchmarks.works.decisions import filtering, preempting
from benchmarks.world import World
from extender.cluster.watch.decode import Decoder
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Node, Pod

GROUP = "growth"
QUICK_SIZES = (1000, 5000, 15_000)
SIZES = (500, 1000, 2000, 5000, 15_000, 50_000)
COPIED = 5000
"""Number of nodes of the cluster whose copies make a larger one than those of `QUICK_SIZES`."""
LINEAR = Limit("≤", 1.15)
"""Limit on the exponent over the larger half of the sizes, where fixed costs do not hide it; 0.15 allows for noise."""

DIRTY_NODES = 10
LINEAR_MAKING = Limit("≤", 1.05)
AS_SMALL = Limit("≤", 2)
ROUNDS = 31
ROUNDS_MAKING = 3

LOOP = "the calibration loop"
MAKING = "making a snapshot of all objects"
MEMORY = "memory of the cluster cache"
CHANGED_FEW = f"snapshot after {DIRTY_NODES} dirty nodes"
EVENT = "one event, decoded and applied"
NOT_GROWING = (CHANGED_FEW, EVENT)


def rows(world: World) -> Iterator[Row]:
    """Yield the rows of each size, then the growth exponent of each work."""
    sizes = SIZES if world.full else QUICK_SIZES
    found = list(chain.from_iterable(in_its_own_process(world.plan.seed, nodes) for nodes in sizes))
    yield from found
    for name in dict.fromkeys(row.name for row in found):
        yield growing([row for row in found if row.name == name])


def growing(found: Sequence[Row]) -> Row:
    """Compute the growth from the middle size to the largest, by ratios, since the machine may slow down for one."""
    larger = found[len(found) // 2 :]
    first, last = larger[0], larger[-1]
    sizes = f"{first.nodes:,} to {last.nodes:,} nodes"
    medians = [statistics.median(row.times) for row in larger]
    costs = [row.ratio or median for row, median in zip(larger, medians, strict=True)]
    if last.name in NOT_GROWING:
        against, given, limit = "the smaller cluster", costs[-1] / costs[0], AS_SMALL
    else:
        against, limit = "exponent of nodes", LINEAR_MAKING if last.name == MAKING else LINEAR
        given = exponent([row.nodes or 0 for row in larger], costs)
    return Row(GROUP, f"{last.name}, {sizes}", medians, against, limit=limit, unit=last.unit, given=given)


def exponent(nodes: Sequence[int], costs: Sequence[float]) -> float:
    """Return the slope of the logarithms: 1 for linear growth, 2 for quadratic growth."""
    slope, _ = np.polyfit(np.log(nodes), np.log(costs), 1)
    return float(slope)


def in_its_own_process(seed: int, nodes: int) -> Iterator[Row]:
    command = [sys.executable, "-m", "benchmarks.growth", "--seed", str(seed), "--nodes", str(nodes)]
    done = subprocess.run(command, env=os.environ.copy(), stdout=subprocess.PIPE, text=True, check=True)
    for found in json.loads(done.stdout):
        against = LOOP if found["others"] else ""
        yield Row(GROUP, found["name"], found["figures"], against, found["others"], unit=found["unit"], nodes=nodes)


# --- in the child process ---------------------------------------------------------------------------------------------


class DecodedWorld(World):
    """The cluster decoded from the JSON of whole objects."""

    @cached_property
    def objects(self) -> ClusterObjects:
        plan = self.plan
        pods = chain.from_iterable(generate.pods_on(plan, row) for row in range(plan.nodes))
        return ClusterObjects(
            nodes=decoded("Node", (generate.full_node(plan, row) for row in range(plan.nodes))),
            pods=decoded("Pod", (full_pod(pod, number) for number, pod in enumerate(pods))),
            budgets=decoded("PodDisruptionBudget", generate.budgets(plan)),
            namespaces=decoded("Namespace", generate.namespaces()),
        )


class CopiedWorld(World):
    """A larger cluster, made in memory of copies of a decoded one; nodes and pods have names of their own."""

    @cached_property
    def objects(self) -> ClusterObjects:
        some, starts = DecodedWorld(Plan(self.plan.seed, COPIED)).objects, range(0, self.plan.nodes, COPIED)
        return structs.replace(
            some,
            nodes=tuple(chain.from_iterable(copied_nodes(some.nodes, start) for start in starts)),
            pods=tuple(chain.from_iterable(copied_pods(some, start) for start in starts)),
        )


def copied_nodes(nodes: Sequence[Node], start: int) -> Iterator[Node]:
    """Copy the nodes to the rows from `start` on."""
    for row, node in enumerate(nodes, start):
        name, meta = generate.node_name(row), node.metadata
        labels = {**(meta.labels or {}), generate.HOSTNAME: name}
        yield structs.replace(node, metadata=structs.replace(meta, name=name, uid=f"{start}-{meta.uid}", labels=labels))


def copied_pods(objects: ClusterObjects, start: int) -> Iterator[Pod]:
    """Copy the pods to the nodes from row `start` on."""
    names = {node.metadata.name: generate.node_name(row) for row, node in enumerate(objects.nodes, start)}
    for pod in objects.pods:
        meta, spec = pod.metadata, pod.spec
        yield structs.replace(
            pod,
            metadata=structs.replace(meta, name=f"{meta.name}-{start}", uid=f"{meta.uid[:-6]}{start:06}"),
            spec=structs.replace(spec, node_name=names[spec.node_name]),
        )


def decoded(kind: str, objects: Iterable[JSON]) -> tuple[Any, ...]:
    decoder = Decoder(kind)
    return tuple(decoder.decode(msgspec.Raw(msgspec.json.encode(one))) for one in objects)


def measure(world: World) -> Iterator[tuple[str, str, list[float], list[float]]]:
    """Yield name, unit, seconds or bytes, and seconds of the calibration loop; decisions run after a pod changed."""
    before = process.resident(os.getpid())
    _ = world.snapshot
    gc.collect()
    held = process.resident(os.getpid())
    if before is not None and held is not None:
        yield MEMORY, "MB", [held - before], []
    gc.freeze()
    for what, work in (("filter", filtering), ("dry run and ranking", preempting)):
        for kind, mixed in (("resources", False), ("spread and anti-affinity", True)):
            yield f"{what}, {kind}", "ms", *taken(work(world, mixed, changed=True), ROUNDS)
    yield CHANGED_FEW, "ms", *taken(dirty(world, DIRTY_NODES), ROUNDS)
    is_copied = isinstance(world, CopiedWorld)
    if not is_copied:  # a second cache of that size
        yield EVENT, "ms", *taken(event(world), ROUNDS_MAKING)
    making = replace(making_a_snapshot(world.objects), parts=1)
    yield MAKING, "ms", *taken(making, 1 if is_copied else ROUNDS_MAKING, warm_up=0)


def taken(work: Work, rounds: int, warm_up: int = 1) -> tuple[list[float], list[float]]:
    own, loops = in_turns([work, Work(calibration.loop())], rounds, warm_up)
    return own, loops


def main() -> None:
    start_over("benchmarks.growth")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    given = parser.parse_args()
    cores.pin()
    is_copied = given.nodes > max(QUICK_SIZES)
    found = measure((CopiedWorld if is_copied else DecodedWorld)(Plan(given.seed, given.nodes)))
    print(json.dumps([dict(zip(("name", "unit", "figures", "others"), one, strict=True)) for one in found]))


if __name__ == "__main__":
    main()
