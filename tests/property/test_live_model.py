"""C14: whatever happened to the API server, the network and the cluster, the cache is right once calm has returned.

A seed gives a schedule: changes of the cluster, faults of the kinds C1 to C9, decisions in between. A failure prints
the seed and the schedule; threads and sockets are real, so that the same seed may need a few runs to fail again:

    python -c 'from tests.property.test_live_model import check; check(4711)'
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given

from extender.cluster.cache import cache as cache_module
from extender.cluster.watch import source as source_module
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.list_watch import WatchSettings
from extender.cluster.watch.verification import EVENT_GRACE_SECONDS
from extender.core.evaluation import Evaluation
from extender.core.profile import Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import NotReady
from extender.k8s.kinds import KINDS, key_of
from tests.builders import stored_cluster
from tests.cluster.watch.source_rig import SourceRig, following
from tests.fakes.api_server import FakeAPI
from tests.fakes.chaos import Chaos
from tests.fakes.clock import Clock
from tests.profiles import SEEDS, examples
from tests.property.live_world import FAULTS, SILENT_FAULTS, World

STEPS = 25
CALM = 20.0
"""Seconds after which the cache must equal the server's."""

PATIENCE = 1.25
"""Seconds after which a compare may help."""

SHORT = WatchSettings(
    backoff=(0.005, 0.02),
    min_watch_seconds=0.05,
    list_timeout=0.3,
    initial_events_timeout=0.3,
    max_retry_after=0.02,
    unreadable_retry_seconds=0.02,
)
"""Seconds; what is minutes otherwise."""

SILENCE = 0.15
"""Faults of watches, as above. Two that bring nothing cost a list, which would mend what went wrong before: only some
schedules have it, and with it the faults that nothing else tells of."""


# --- the check ------------------------------------------------------------------------------------------------------


def check(seed: int, only: Callable[[World], str] | None = None) -> None:
    """Run the schedule of a seed, or one with a single kind of fault.

    AssertionError, with the schedule, if the cache differs from the server in the end.
    """
    with FakeAPI() as api, Chaos(("127.0.0.1", api.port)) as chaos, small_steps(seed), bugs() as found:
        world = World(seed, api, chaos)
        if only is not None:
            world.faults, world.is_silent = {only: 1}, only in SILENT_FAULTS
        try:
            asyncio.run(play(world))
            assert not found, found
        except Exception as error:
            raise AssertionError("\n".join([f"seed {seed}: {error!r}", *world.log])) from error


@contextlib.contextmanager
def small_steps(seed: int) -> Iterator[None]:
    """Small clusters are to take the path of large ones, too: a new snapshot, in many turns."""
    at_once, turn = cache_module.MAX_CHANGES_IN_PLACE, source_module.TURN_SECONDS
    cache_module.MAX_CHANGES_IN_PLACE, source_module.TURN_SECONDS = (0, 3, at_once)[seed % 3], (0.0, turn)[seed % 2]
    try:
        yield
    finally:
        cache_module.MAX_CHANGES_IN_PLACE, source_module.TURN_SECONDS = at_once, turn


@contextlib.contextmanager
def bugs() -> Iterator[list[str]]:
    """What is logged with a stack in the block."""
    found = Bugs()
    logging.getLogger("extender").addHandler(found)
    try:
        yield found.found
    finally:
        logging.getLogger("extender").removeHandler(found)


class Bugs(logging.Handler):
    """Keeps what is logged with a stack."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


async def at_once(seconds: float) -> None:
    """The source's sleep: a second look comes at once, everything else never."""
    if seconds == EVENT_GRACE_SECONDS:
        await asyncio.sleep(0)
    else:
        await asyncio.Event().wait()


async def play(world: World) -> None:
    chance, clock = world.chance, Clock()
    silence = SILENCE if world.is_silent else 10 * CALM
    settings = replace(SHORT, idle_timeout=silence, page_size=chance.choice((2, 5, 500)))
    async with following(
        world.chaos.url(), clock=time.monotonic, cache_clock=clock, settings=settings, sleep=at_once
    ) as rig:
        if chance.random() < 0.7:
            await rig.read()
        for _ in range(STEPS):
            await step(world, rig, clock)
        if world.is_silent and chance.random() < 0.3:
            world.log.append(world.rewind())
        world.log.append("calm")
        world.calm()
        for reflector in rig.source.reflectors.values():  # a busy machine may need longer for a list than a fault lasts
            reflector.settings = replace(reflector.settings, list_timeout=CALM, initial_events_timeout=CALM)
        clock.now += 31.0  # nothing is assumed any more
        await to_be_true(world, rig)
        if not world.is_ambiguous:
            compare_all(world, rig)


async def step(world: World, rig: SourceRig, clock: Clock) -> None:
    chance = world.chance.random()
    if chance < 0.45:
        world.log.append(world.change())
    elif chance < 0.75:
        (fault,) = world.chance.choices(list(world.faults), list(world.faults.values()))
        world.log.append(fault(world))
    elif chance < 0.9:
        decide(world, rig, clock)
    else:
        world.log.append("a moment")
        await rig.a_moment(world.chance.randint(1, 10))
    await asyncio.sleep(0)


def decide(world: World, rig: SourceRig, clock: Clock) -> None:
    """Decide on the cache as it is, and have kube-scheduler act on that; the cache must be whole, or not ready."""
    clock.now += world.chance.choice((0.0, 1.0, 20.0))
    preemptor, node = world.preemptor(), f"n{world.chance.randint(0, 7)}"
    bound = world.chance.random()
    rig.source.problem()
    rig.cache.assumed.forget_preemption(preemptor)
    try:
        snapshot = rig.cache.snapshot()
    except NotReady:
        world.log.append("no decision")
        return
    found = Evaluation(snapshot, preemptor, Profile()).to_dict()
    world.log.append(f"a decision about {preemptor.key}")
    uids = found["candidates"].get(node, {"victims": ()})["victims"]
    if node in found["filter"] and not preemptor.spec.node_name:
        victims = [one for one in snapshot.pods_on(node) if not uids or one.metadata.uid in uids]
        rig.cache.assumed.assume_preempted(preemptor, node, victims)
    for one in list(snapshot.objects.pods.values())[:1]:
        if bound < 0.5 and not one.spec.node_name:
            rig.cache.assumed.assume_bound(one.metadata.namespace, one.metadata.name, one.metadata.uid, node)


async def to_be_true(world: World, rig: SourceRig) -> None:
    """Wait for calm to show; a compare may help only where nothing else can."""

    def is_true() -> bool:
        if rig.source.problem() is not None:
            return False
        rig.cache.assumed.expire()
        return rig.holds(world.api) and not rig.cache.mutable_snapshot().unreadable_tables

    if world.doubtful:
        for _ in range(12):
            try:
                await rig.until(is_true, PATIENCE)
            except AssertionError:
                for kind in KINDS:
                    await rig.source.verification.verify(kind)
    try:
        await rig.until(is_true, CALM)
    except AssertionError as error:
        raise AssertionError("\n".join([*rig.differences(world.api), str(error)])) from None
    views = rig.source.reflector_statuses()
    if not world.doubtful:
        assert not sum(view.divergences for view in views), "a list found what the watch had lost"
        assert world.expired or world.is_silent or not sum(view.relists for view in views), "a relist without a cause"


def compare_all(world: World, rig: SourceRig) -> None:
    """Every object, and decisions about some pods, against what is built from the server's objects."""
    snapshot = rig.cache.snapshot()
    items = list(in_order(world.api, snapshot))
    decoders = {kind: Decoder(kind) for kind, _ in items}  # each defines its own types, which takes a while
    for kind, item in items:
        decoded = decoders[kind].decode(msgspec.json.encode(item))
        assert snapshot.objects.of(kind)[key_of(kind, decoded)] == decoded, "an object differs from the API server"
    rebuilt = Snapshot.build(stored_cluster({"kind": "List", "items": [item for _, item in items]}))
    for pod in world.pods[:2]:
        assert Evaluation(snapshot, pod, Profile()).to_dict() == Evaluation(rebuilt, pod, Profile()).to_dict(), (
            "the cache decides otherwise than the objects of the API server"
        )


def in_order(api: FakeAPI, snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    """The server's objects, in the cache's order: that breaks ties."""
    for kind in KINDS:
        for namespace, name in snapshot.objects.of(kind):
            yield kind, api.get(kind, name, namespace)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*FAULTS, *SILENT_FAULTS], ids=lambda fault: fault.__name__)
def test_C14_after_faults_of_one_kind_the_picture_is_the_server_s(fault):
    check(7, fault)


@examples(3, 100, 2_000)
@given(SEEDS)
def test_C14_after_any_schedule_of_faults_the_picture_is_the_server_s(seed):
    check(seed)
