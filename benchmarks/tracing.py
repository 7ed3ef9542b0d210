"""Measure the cost of recording decisions in the decision log: the same call with and without it, in turns.

Measures all of a call but HTTP: decoding the request, deciding, the guard, and encoding the answer.
"""

from collections.abc import Iterator

from benchmarks import generate
from benchmarks.bodies import names_body, victims_body
from benchmarks.measure import Limit, Row, Work, in_turns
from benchmarks.works.calls import call_in_turns, logging_context
from benchmarks.world import World
from extender.config import Configuration
from extender.server.context import ServerContext
from extender.server.settings import LiveSettings

GROUP = "tracing"
ROUNDS = 200
DEFAULT_CANDIDATES = 500
"""Number of candidates that kube-scheduler sends in a cluster of 5,000 nodes: a tenth of them."""

LIMIT = Limit("≤", 1.3)


def rows(world: World) -> Iterator[Row]:
    kept, forgotten = logging_context(world), ServerContext(world.cache, LiveSettings(Configuration()))
    nowhere, everywhere = generate.incoming(world.plan), generate.undemanding(world.plan)
    names, few = world.node_names, world.candidates[:DEFAULT_CANDIDATES]
    calls = (
        ("preempt", f"{len(few):,} candidates", victims_body(nowhere, few), LIMIT),
        ("preempt", f"{len(world.candidates):,} candidates", victims_body(nowhere, world.candidates), None),
        ("filter", f"{len(names):,} names, the pod fits nowhere", names_body(nowhere, names), None),
        ("prioritize", f"{len(names):,} names, it fits everywhere", names_body(everywhere, names), None),
    )
    for verb, what, body, limit in calls:
        own, others = in_turns(
            [Work(call_in_turns(kept, verb, [body])), Work(call_in_turns(forgotten, verb, [body]))], ROUNDS, 20
        )
        yield Row(GROUP, f"/{verb} of {what}, decisions kept", own, "not kept", others, limit)
