"""What it costs to keep a decision with all that led to it: the same call with and without, in turns.

All of a call but HTTP: reading the request, deciding, the guard, and writing the answer.
"""

from collections.abc import Iterator

from benchmarks import generate
from benchmarks.bodies import names_body, victims_body
from benchmarks.measure import Limit, Row, Work, in_turns
from benchmarks.works.calls import asked, keeping
from benchmarks.world import World
from extender.config import Configuration
from extender.server.context import ServerContext
from extender.server.settings import LiveSettings

GROUP = "tracing"
ROUNDS = 200
FEW = 500
"""Candidates that kube-scheduler offers in a cluster of 5,000 nodes: a tenth of them."""

LIMIT = Limit("≤", 1.3)


def rows(world: World) -> Iterator[Row]:
    kept, forgotten = keeping(world), ServerContext(world.cache, LiveSettings(Configuration()))
    nowhere, everywhere = generate.incoming(world.plan), generate.undemanding(world.plan)
    names, few = world.node_names, world.candidates[:FEW]
    calls = (
        ("preempt", f"{len(few):,} candidates", victims_body(nowhere, few), LIMIT),
        ("preempt", f"{len(world.candidates):,} candidates", victims_body(nowhere, world.candidates), None),
        ("filter", f"{len(names):,} names, the pod fits nowhere", names_body(nowhere, names), None),
        ("prioritize", f"{len(names):,} names, it fits everywhere", names_body(everywhere, names), None),
    )
    for verb, what, body, limit in calls:
        own, others = in_turns([Work(asked(kept, verb, [body])), Work(asked(forgotten, verb, [body]))], ROUNDS, 20)
        yield Row(GROUP, f"/{verb} of {what}, decisions kept", own, "not kept", others, limit)
