"""Cost of a change: from the watch event to a snapshot that is ready for decisions."""

import gc
from functools import partial

from msgspec.structs import replace

from benchmarks.events import BATCH, Changing, take
from benchmarks.measure import Run, Work
from benchmarks.works import Maker, needing
from benchmarks.works.decisions import filter_all, preempting
from benchmarks.world import World
from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.watch.decode import Decoder
from extender.k8s.kinds import ClusterObjects, key_of
from extender.k8s.objects import Pod

LINES = 2000
LARGE_BATCH = 1000
NODES_MADE = 500
"""Number of nodes of the snapshot that is made from all objects, so that two revisions can be compared in seconds."""


def making_a_snapshot(objects: ClusterObjects) -> Work:
    """Build the cluster cache from all objects at once; the reported time is that of one pod."""
    made: list[ClusterCache] = []

    def run() -> None:
        gc.disable()  # as the service does while it syncs
        try:
            made.append(ClusterCache())
            made[0].replace(objects)
        finally:
            gc.enable()

    return Work(run, prepare=made.clear, parts=len(objects.pods))


def making_some(world: World) -> Work:
    """Build it from the first nodes with their pods, and everything else."""
    nodes = world.objects.nodes[:NODES_MADE]
    names = {node.metadata.name for node in nodes}
    pods = tuple(pod for pod in world.objects.pods if pod.spec.node_name in names)
    return making_a_snapshot(replace(world.objects, nodes=nodes, pods=pods))


def event(world: World, batch: int = BATCH) -> Work:
    """Decode and apply one pod event of a batch; half of the events matter to decisions."""
    cache, decoder, changing = ClusterCache(), Decoder("Pod"), Changing(world.plan)
    cache.replace(world.objects)
    take(cache, decoder, changing.all())
    lines: list[bytes] = []

    def prepare() -> None:
        lines[:] = changing.events(LINES)

    return Work(lambda: take(cache, decoder, lines, batch), prepare, parts=LINES)


def dirty(world: World, count: int) -> Work:
    """Change a pod on each of `count` nodes and settle the snapshot."""
    of_nodes = {pod.spec.node_name: pod for pod in world.objects.pods}
    keys = [key_of("Pod", of_nodes[name]) for name in world.node_names[:count]]
    ready: list[Change] = []

    def prepare() -> None:
        pods = world.cache.snapshot().objects.pods
        ready[:] = [Change("Pod", relabelled(pods[key])) for key in keys]

    def run() -> None:
        for change in ready:
            world.cache.apply(change)
        world.cache.snapshot()

    return Work(run, prepare)


def relabelled(pod: Pod) -> Pod:
    """Return the pod with a changed label."""
    labels = dict(pod.metadata.labels or {})
    labels["revision"] = str(int(labels.get("revision", 0)) + 1)
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def first_filter(world: World, count: int) -> Work:
    """Run the first filter after `count` nodes became dirty, with resources only."""
    return Work(lambda: filter_all(world, world.pod), _changing(world, count))


def first_dry_run(world: World, count: int) -> Work:
    """Run the first dry run after `count` nodes became dirty, with precomputed filter results, resources only."""
    change, work = _changing(world, count), preempting(world, mixed=False, changed=False)

    def prepare() -> None:
        change()
        work.prepare()

    return Work(work.run, prepare)


def _changing(world: World, count: int) -> Run:
    work = dirty(world, count)

    def change() -> None:
        work.prepare()
        work.run()

    return change


WORKS: dict[str, Maker] = {
    f"making a snapshot of {NODES_MADE} nodes, for each pod": making_some,
    "one event, decoded and applied": event,
    f"one event of {LARGE_BATCH:,} at once, decoded and applied": partial(event, batch=LARGE_BATCH),
    **{
        f"snapshot after {count:,} dirty nodes": needing(count, partial(dirty, count=count))
        for count in (1, 10, 100, 1000)
    },
    "first filter after 10 dirty nodes": needing(10, partial(first_filter, count=10)),
    "first dry run and ranking after 10 dirty nodes": needing(10, partial(first_dry_run, count=10)),
}
