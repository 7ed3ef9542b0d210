"""Measure the CPU time of events, and of the snapshot after some nodes changed."""

import json
import statistics
from collections.abc import Iterator, Sequence

import msgspec
from kubernetes.client import ApiClient

from benchmarks.events import Changing
from benchmarks.measure import Limit, Row, Work, in_turns
from benchmarks.works.changes import LINES, dirty, event, first_dry_run, first_filter
from benchmarks.works.decisions import filtering, preempting
from benchmarks.world import World
from extender.k8s.objects import Pod

GROUP = "targets"
ROUNDS = 15
ROUNDS_MODELS = 5
LINES_MODELS = 300
EVENT = "one event, decoded and applied"
TIMES_TYPED = Limit("≤", 2)
LINEAR = Limit("≤", 1.2)
COUNTS = (10, 100, 1000)


def rows(world: World) -> Iterator[Row]:
    yield from events(world)
    yield from snapshots_after_changes(world)
    plain, changed = filtering(world, mixed=False, changed=False), first_filter(world, 10)
    own, others = in_turns([changed, plain], 51)
    yield Row(GROUP, "first filter after 10 dirty nodes, resources", own, "nothing changed", others)
    plain, changed = preempting(world, mixed=False, changed=False), first_dry_run(world, 10)
    own, others = in_turns([changed, plain], 51)
    yield Row(GROUP, "first dry run and ranking after 10 dirty nodes, resources", own, "nothing changed", others)


def events(world: World) -> Iterator[Row]:
    work, lines = event(world), Changing(world.plan).events(LINES)
    typed = Work(lambda: [TYPED.decode(line) for line in lines], parts=LINES)
    models = Work(lambda: deserialize(lines[:LINES_MODELS]), parts=LINES_MODELS)
    own, others = in_turns([work, typed], ROUNDS)
    note = f"{1 / statistics.median(own):,.0f} a second"
    yield Row(GROUP, EVENT, own, "only decoded to typed objects", others, TIMES_TYPED, note=note)
    own, others = in_turns([work, models], ROUNDS_MODELS)
    yield Row(GROUP, EVENT, own, "the client's models, only decoded", others, faster=True)


class Event(msgspec.Struct):
    """One line of a watch of pods, with all that decisions read."""

    type: str
    object: Pod


TYPED = msgspec.json.Decoder(Event)

_CLIENT = ApiClient()


def deserialize(lines: Sequence[bytes]) -> None:
    for line in lines:
        _CLIENT.deserialize(json.dumps(json.loads(line)["object"]), "V1Pod", "application/json")


def snapshots_after_changes(world: World) -> Iterator[Row]:
    one = dirty(world, 1)
    (alone,) = in_turns([one], ROUNDS)
    yield Row(GROUP, "snapshot after 1 dirty node", alone)
    for count in (count for count in COUNTS if count <= world.plan.nodes):
        own, others = in_turns([dirty(world, count), one], ROUNDS)
        times = [count * seconds for seconds in others]
        note = f"{1e6 * statistics.median(own) / count:,.0f} µs each"
        name = f"snapshot after {count:,} dirty nodes"
        yield Row(GROUP, name, own, f"{count:,} times one dirty node", times, LINEAR, note=note)
