"""Compare an extender of two profiles with one of a single profile: per call in this process, and at the first sync.

The second profile packs bins. Calls are about pods of the first one, or of each in turn; both sides get the same bodies
but for the name of the scheduler, and decide on the same cluster cache.

Rule: both sides run in turns; the ratio, not the time, is the figure.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from benchmarks import generate
from benchmarks.api_cluster import ApiCluster
from benchmarks.bodies import names_body, victims_body
from benchmarks.generate import JSON
from benchmarks.measure import Limit, Row, Run, Work, in_turns
from benchmarks.requests import replicas
from benchmarks.serve_live import PROFILES, SECOND
from benchmarks.targets.sync import sync
from benchmarks.works.calls import call
from benchmarks.world import World
from extender.config import Configuration
from extender.server.context import ServerContext
from extender.server.observability.decision_log import DecisionLog
from extender.server.settings import LiveSettings

GROUP = "profiles"
ROUNDS = 200
NAMES = 500
SYNCS = 3
PER_CALL = Limit("≤", 1.05)
"""A second profile costs a call nothing; 5 % is what remains of noise after 200 pairs."""
AT_FIRST_SYNC = Limit("≤", 1.1)


def rows(world: World) -> Iterator[Row]:
    yield from of_calls(world)
    yield from of_first_sync(world)


def of_calls(world: World) -> Iterator[Row]:
    one, two = (deciding_by(world, count) for count in (1, 2))
    for verbs, what, first, both in calls(world):
        alone = Work(cycle_of(one, verbs, first))
        for pods, bodies in (("pods of the first", first), ("pods of each in turn", both)):
            own, others = in_turns([Work(cycle_of(two, verbs, bodies)), alone], ROUNDS, 20)
            yield Row(GROUP, f"{what}, two profiles, {pods}", own, "one profile", others, PER_CALL)


def deciding_by(world: World, count: int) -> ServerContext:
    """Return a server context with the first `count` profiles."""
    config = Configuration.model_validate({"scheduler": {"profiles": PROFILES[:count], "version": "1.36"}})
    kept = DecisionLog(config.debug.decisions, config.debug.decisions_size)
    return ServerContext(world.cache, LiveSettings(config), decisions=kept)


def cycle_of(server_context: ServerContext, verbs: Sequence[str], bodies: Sequence[bytes]) -> Run:
    """Return a run that sends the next body to all verbs, as kube-scheduler does for one pod."""
    turns = itertools.cycle(bodies)

    def run() -> None:
        body = next(turns)
        for verb in verbs:
            call(server_context, verb, body)

    return run


def calls(world: World) -> Iterator[tuple[Sequence[str], str, list[bytes], list[bytes]]]:
    """Yield (verbs, what is sent, bodies for the first profile, the same with every other pod of the second)."""
    names = world.node_names[:NAMES]
    for verbs, fits in ((("filter", "prioritize"), True), (("filter",), False)):
        pods = list(replicas(generate.undemanding(world.plan) if fits else generate.incoming(world.plan)))
        sent = " and ".join(f"/{verb}" for verb in verbs)
        what = f"{sent} of {len(names):,} names, {'fits everywhere' if fits else 'fits nowhere'}"
        first, both = ([names_body(pod, names) for pod in some] for some in (pods, in_turns_of(pods)))
        yield verbs, what, first, both
    few, pods = world.candidates[:NAMES], [generate.incoming(world.plan)] * 2
    first, both = ([victims_body(pod, few) for pod in some] for some in (pods, in_turns_of(pods)))
    yield ("preempt",), f"/preempt of {len(few):,} candidates", first, both


def in_turns_of(pods: Sequence[JSON]) -> list[JSON]:
    """Give every other pod the second profile."""
    second = {"schedulerName": SECOND}
    return [pod | {"spec": pod["spec"] | (second if place % 2 else {})} for place, pod in enumerate(pods)]


def of_first_sync(world: World) -> Iterator[Row]:
    """Start the service with each number of profiles in turns, until it is ready.

    The limit is on its CPU time, which depends less on what else the machine does.
    """
    worked: dict[int, list[float]] = {2: [], 1: []}
    with contextlib.closing(ApiCluster(world.plan, tls=True)) as cluster:
        pairs = [[sync(cluster, [], count, spent) for count, spent in worked.items()] for _ in range(SYNCS)]
    own, others = ([pair[place] for pair in pairs] for place in (0, 1))
    name = f"first sync over TLS, {len(world.objects.pods):,} pods, two profiles"
    yield Row(GROUP, name, own, "one profile", others)
    yield Row(GROUP, f"{name}, CPU time", worked[2], "one profile", worked[1], AT_FIRST_SYNC)
