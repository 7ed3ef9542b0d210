"""Whole calls without HTTP: decode the request, decide, guard, encode the response, record the decision."""

import itertools
from collections.abc import Sequence
from functools import partial

import msgspec

from benchmarks import generate
from benchmarks.arrivals import arriving_body, bound, replica_set
from benchmarks.measure import Run, Work
from benchmarks.renamed import ReplicaSet
from benchmarks.requests import filter_bodies, full_nodes_body, new_preempt_bodies, preempt_body
from benchmarks.works import Maker
from benchmarks.world import World
from extender.cluster.cache.cache import Change
from extender.config import Configuration
from extender.k8s.objects import Pod
from extender.server.context import ServerContext
from extender.server.observability.decision_log import DecisionLog
from extender.server.scheduler.verbs import VERBS, answer
from extender.server.settings import LiveSettings

MOST_BOUND = 10_000
"""Most pods that are bound by one work."""
COPRIME = 7919
"""Step from the row of a bound pod's node to the next, so that no node is full before the others."""

BOTH = ("filter", "prioritize")

_NUMBERS = itertools.count(1)
"""Counter for the whole process, since sent candidates are cached for the whole process."""


def of_names(world: World, verb: str, fits: bool, count: int) -> Work:
    return _call(world, verb, filter_bodies(world, fits, count))


def of_names_twice(world: World, count: int) -> Work:
    """Send each body to both verbs, as kube-scheduler does for a pod that fits everywhere."""
    server_context, bodies = logging_context(world), filter_bodies(world, True, count)
    first, second = (call_in_turns(server_context, verb, bodies) for verb in ("filter", "prioritize"))

    def run() -> None:
        first()
        second()

    return Work(run)


def of_names_after_binding(world: World, count: int, owned: bool = False, verbs: Sequence[str] = BOTH) -> Work:
    """Send the pods of a template to `verbs`, one after another, each after the one before was bound to a node.

    `owned`: by a ReplicaSet, whose selector the default constraints of PodTopologySpread take.
    """
    server_context, ready, numbers = logging_context(world), [b""], itertools.count(next(_NUMBERS) * MOST_BOUND)
    if owned:
        world.cache.apply(Change("ReplicaSet", msgspec.convert(replica_set(world.plan), ReplicaSet)))

    def prepare() -> None:
        number = next(numbers)
        node = generate.node_name(number * COPRIME % world.plan.nodes)
        world.cache.apply(Change("Pod", msgspec.convert(bound(world.plan, number, node, owned), Pod)))
        world.cache.snapshot()
        ready[:] = [arriving_body(world.plan, number + 1, count, owned)]
        for verb in BOTH:
            if verb not in verbs:
                call(server_context, verb, ready[0])

    def run() -> None:
        for verb in verbs:
            call(server_context, verb, ready[0])

    return Work(run, prepare)


def of_candidates(world: World, count: int) -> Work:
    """Send the same candidates every time; they are cached after the first call."""
    return _call(world, "preempt", [preempt_body(world, count)])


def of_new_candidates(world: World, count: int) -> Work:
    """Send candidates that this process has not seen: a new body for each run, built outside the measured time."""
    server_context, ready = logging_context(world), [b""]

    def prepare() -> None:
        ready[:] = new_preempt_bodies(world, count, 1, next(_NUMBERS))

    return Work(lambda: call(server_context, "preempt", ready[0]), prepare)


def of_full_nodes(world: World) -> Work:
    return _call(world, "filter", [full_nodes_body(world, False)])


def _call(world: World, verb: str, bodies: Sequence[bytes]) -> Work:
    return Work(call_in_turns(logging_context(world), verb, bodies))


def logging_context(world: World) -> ServerContext:
    """Return a server context with the default configuration and a decision log."""
    config = Configuration()
    kept = DecisionLog(config.debug.decisions, config.debug.decisions_size)
    return ServerContext(world.cache, LiveSettings(config), decisions=kept)


def call_in_turns(server_context: ServerContext, verb: str, bodies: Sequence[bytes]) -> Run:
    """Return a run that makes one call, with the bodies in turn."""
    turns = itertools.cycle(bodies)
    return lambda: call(server_context, verb, next(turns))


def call(server_context: ServerContext, verb: str, body: bytes) -> None:
    """Make one call; raise RuntimeError for any status but 200."""
    given = answer(VERBS[verb], server_context, body)
    if given.status != 200:
        raise RuntimeError(f"/{verb}: {given.status} {given.body[:200]!r}")


WORKS: dict[str, Maker] = {
    "/filter, all names, it fits nowhere": partial(of_names, verb="filter", fits=False, count=0),
    "/filter, all names, it fits everywhere": partial(of_names, verb="filter", fits=True, count=0),
    "/filter, 500 names, it fits everywhere": partial(of_names, verb="filter", fits=True, count=500),
    "/prioritize, 500 names, it fits everywhere": partial(of_names, verb="prioritize", fits=True, count=500),
    "/filter and /prioritize, 500 names, it fits everywhere": partial(of_names_twice, count=500),
    "/filter and /prioritize, 500 names, after a pod of the template was bound": partial(
        of_names_after_binding, count=500
    ),
    "/prioritize, 500 names, after a pod of the ReplicaSet was bound": partial(
        of_names_after_binding, count=500, owned=True, verbs=("prioritize",)
    ),
    "/preempt, 500 candidates": partial(of_candidates, count=500),
    "/preempt, 500 candidates, never sent before": partial(of_new_candidates, count=500),
    "/preempt, all candidates": partial(of_candidates, count=0),
    "/filter, full nodes": of_full_nodes,
}
