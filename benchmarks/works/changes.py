"""Cost of a change: from the watch event to a snapshot that is ready for decisions."""

from functools import partial

from msgspec.structs import replace

from benchmarks.events import Changing, take
from benchmarks.measure import Run, Work
from benchmarks.works import Maker, needing
from benchmarks.works.decisions import filter_all, preempting
from benchmarks.world import World
from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.watch.decode import Decoder
from extender.k8s.kinds import key_of
from extender.k8s.objects import Pod

LINES = 2000


def event(world: World) -> Work:
    """Decode and apply one pod event; half of the events matter to decisions."""
    cache, decoder, changing = ClusterCache(), Decoder("Pod"), Changing(world.plan)
    cache.replace(world.objects)
    take(cache, decoder, changing.all())
    lines: list[bytes] = []

    def prepare() -> None:
        lines[:] = changing.events(LINES)

    return Work(lambda: take(cache, decoder, lines), prepare, parts=LINES)


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
    "one event, decoded and applied": event,
    **{
        f"snapshot after {count:,} dirty nodes": needing(count, partial(dirty, count=count))
        for count in (1, 10, 100, 1000)
    },
    "first filter after 10 dirty nodes": needing(10, partial(first_filter, count=10)),
    "first dry run and ranking after 10 dirty nodes": needing(10, partial(first_dry_run, count=10)),
}
