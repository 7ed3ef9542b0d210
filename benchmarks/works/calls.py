"""Whole calls but for HTTP: reading the request, deciding, the guard, writing the answer, decisions kept."""

import itertools
from collections.abc import Sequence
from functools import partial

from benchmarks.measure import Run, Work
from benchmarks.requests import filter_bodies, full_nodes_body, new_preempt_bodies, preempt_body
from benchmarks.works import Maker
from benchmarks.world import World
from extender.config import Configuration
from extender.server.context import ServerContext
from extender.server.observability.decision_log import DecisionLog
from extender.server.scheduler.verbs import VERBS, answer
from extender.server.settings import LiveSettings

_NUMBERS = itertools.count(1)
"""For the whole process, as offers are remembered for the whole process."""


def of_names(world: World, verb: str, fits: bool, count: int) -> Work:
    return _call(world, verb, filter_bodies(world, fits, count))


def of_names_twice(world: World, count: int) -> Work:
    """What kube-scheduler asks for a pod that fits everywhere: each body goes to both verbs."""
    server_context, bodies = keeping(world), filter_bodies(world, True, count)
    first, second = (asked(server_context, verb, bodies) for verb in ("filter", "prioritize"))

    def run() -> None:
        first()
        second()

    return Work(run)


def of_candidates(world: World, count: int) -> Work:
    """Send the same candidates every time; they are cached after the first call."""
    return _call(world, "preempt", [preempt_body(world, count)])


def of_new_candidates(world: World, count: int) -> Work:
    """Offers that this process was never sent: a body for each run, made before its time is taken."""
    server_context, ready = keeping(world), [b""]

    def prepare() -> None:
        ready[:] = new_preempt_bodies(world, count, 1, next(_NUMBERS))

    return Work(lambda: ask(server_context, "preempt", ready[0]), prepare)


def of_full_nodes(world: World) -> Work:
    return _call(world, "filter", [full_nodes_body(world, False)])


def _call(world: World, verb: str, bodies: Sequence[bytes]) -> Work:
    return Work(asked(keeping(world), verb, bodies))


def keeping(world: World) -> ServerContext:
    """With the default configuration."""
    config = Configuration()
    kept = DecisionLog(config.debug.decisions, config.debug.decisions_size)
    return ServerContext(world.cache, LiveSettings(config), decisions=kept)


def asked(server_context: ServerContext, verb: str, bodies: Sequence[bytes]) -> Run:
    """One call, with the bodies in turn."""
    turns = itertools.cycle(bodies)
    return lambda: ask(server_context, verb, next(turns))


def ask(server_context: ServerContext, verb: str, body: bytes) -> None:
    """RuntimeError for anything but an answer."""
    given = answer(VERBS[verb], server_context, body)
    if given.status != 200:
        raise RuntimeError(f"/{verb}: {given.status} {given.body[:200]!r}")


WORKS: dict[str, Maker] = {
    "/filter, all names, it fits nowhere": partial(of_names, verb="filter", fits=False, count=0),
    "/filter, all names, it fits everywhere": partial(of_names, verb="filter", fits=True, count=0),
    "/filter, 500 names, it fits everywhere": partial(of_names, verb="filter", fits=True, count=500),
    "/prioritize, 500 names, it fits everywhere": partial(of_names, verb="prioritize", fits=True, count=500),
    "/filter and /prioritize, 500 names, it fits everywhere": partial(of_names_twice, count=500),
    "/preempt, 500 candidates": partial(of_candidates, count=500),
    "/preempt, 500 candidates, never sent before": partial(of_new_candidates, count=500),
    "/preempt, all candidates": partial(of_candidates, count=0),
    "/filter, full nodes": of_full_nodes,
}
