"""What it costs to keep a decision with all that led to it: the same call with and without, in turns.

All of a call but HTTP: reading the request, deciding, the guard, and writing the answer.
"""

from collections.abc import Iterator

from benchmarks import generate
from benchmarks.bodies import names_body, victims_body
from benchmarks.measure import Limit, Row, Run, Work, in_turns
from benchmarks.world import World
from extender.cluster.store import ClusterStore
from extender.config import Configuration
from extender.server.decisions import Decisions
from extender.server.settings import LiveSettings
from extender.server.verbs import VERBS, Service, answer

GROUP = "tracing"
ROUNDS = 200
FEW = 500
"""Candidates that kube-scheduler offers in a cluster of 5,000 nodes: a tenth of them."""

LIMIT = Limit("≤", 1.3)


def rows(world: World) -> Iterator[Row]:
    store = ClusterStore()
    store.replace(world.objects)
    settings = LiveSettings(Configuration())
    section = Configuration().debug
    keeping = Service(store, settings, decisions=Decisions(section.decisions, section.decisions_size))
    forgetting = Service(store, settings)
    nowhere, everywhere = generate.incoming(world.plan), generate.undemanding(world.plan)
    names, few = world.node_names, world.candidates[:FEW]
    calls = (
        ("preempt", f"{len(few):,} candidates", victims_body(nowhere, few), LIMIT),
        ("preempt", f"{len(world.candidates):,} candidates", victims_body(nowhere, world.candidates), None),
        ("filter", f"{len(names):,} names, the pod fits nowhere", names_body(nowhere, names), None),
        ("prioritize", f"{len(names):,} names, it fits everywhere", names_body(everywhere, names), None),
    )
    for verb, what, body, limit in calls:
        own, others = in_turns([Work(asked(keeping, verb, body)), Work(asked(forgetting, verb, body))], ROUNDS, 20)
        yield Row(GROUP, f"/{verb} of {what}, decisions kept", own, "not kept", others, limit)


def asked(service: Service, verb: str, body: bytes) -> Run:
    """One call; anything but an answer ends the benchmark."""

    def run() -> None:
        given = answer(VERBS[verb], service, body)
        if given.status != 200:
            raise RuntimeError(f"/{verb}: {given.status} {given.body[:200]!r}")

    return run
