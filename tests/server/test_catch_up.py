"""D2: a decision that contradicts kube-scheduler waits for the watch, for at most MAX_WAIT_SECONDS."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extender.cluster.cache.cache import Change
from extender.server.app import create_app
from extender.server.catch_up import MAX_WAIT_SECONDS, PAUSE_SECONDS, CatchUp
from extender.server.observability.cache_status import NoSource
from extender.server.observability.metrics import Metrics
from tests.builders import cluster, incoming, node, placed, pod, typed
from tests.server.conftest import client_for, configuration, filled_cache

pytestmark = pytest.mark.anyio

FULL = cluster({node("n1", cpu="1"): [pod("a", priority=5000)]})
GONE = Change("Pod", typed(placed(pod("a"), "n1")), deleted=True)
MORE = Change("Pod", typed(pod("b", metadata={"resourceVersion": "1"})))
ASKED = {"Pod": incoming(), "Nodes": None, "NodeNames": ["n1"]}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Live(NoSource):
    """A cluster of which an event arrives right after the first decision."""

    is_live = True

    def __init__(self, cache, event):
        self.cache, self.events = cache, [event]

    def problem(self):
        if self.events:
            asyncio.get_running_loop().call_soon(self.cache.apply, self.events.pop())


def waits(metrics):
    families = text_string_to_metric_families(metrics.exposition().decode())
    (family,) = (family for family in families if family.name == "extender_watch_waits")
    return {one.labels["result"]: one.value for one in family.samples}


class Decisions:
    """Decisions of which all but the first `contradicting` agree with kube-scheduler; each is followed by an event."""

    def __init__(self, cache, contradicting, *events):
        self.cache, self.contradicting, self.events, self.made = cache, contradicting, list(events), 0

    def decide(self):
        self.made += 1
        if self.events:
            asyncio.get_running_loop().call_soon(self.cache.apply, self.events.pop(0))
        return self.made

    async def result(self, catch_up, metrics):
        return await catch_up.decide(self.cache, metrics, self.decide, lambda number: number <= self.contradicting)


async def test_a_decision_that_agrees_does_not_wait():
    decisions, metrics = Decisions(filled_cache(FULL), 0), Metrics()
    assert await decisions.result(CatchUp(), metrics) == 1
    assert waits(metrics) == {"agreed": 0, "expired": 0}


async def test_a_decision_is_made_again_after_each_event_until_it_agrees():
    decisions, metrics = Decisions(filled_cache(FULL), 2, MORE, GONE, Change("Pod", typed(pod("c")))), Metrics()
    assert await decisions.result(CatchUp(Clock()), metrics) == 3
    assert waits(metrics) == {"agreed": 1, "expired": 0}


async def test_without_an_event_the_last_decision_stands():
    clock, metrics = Clock(), Metrics()
    decisions = Decisions(filled_cache(FULL), 9)
    assert await decisions.result(CatchUp(clock), metrics) == 2
    assert waits(metrics) == {"agreed": 0, "expired": 1}


async def test_after_a_wait_in_vain_there_is_a_pause():
    clock, metrics, cache = Clock(), Metrics(), filled_cache(FULL)
    catch_up = CatchUp(clock)
    await Decisions(cache, 9).result(catch_up, metrics)
    paused = Decisions(cache, 9, MORE)
    assert await paused.result(catch_up, metrics) == 1
    clock.now += PAUSE_SECONDS
    again = Decisions(cache, 1, Change("Pod", typed(pod("c"))))
    assert await again.result(catch_up, metrics) == 2
    assert waits(metrics) == {"agreed": 1, "expired": 1}


async def test_events_that_do_not_help_end_with_the_time():
    """The clock goes on with each decision, as far as the wait may last."""
    clock, metrics, cache = Clock(), Metrics(), filled_cache(FULL)

    class Slow(Decisions):
        def decide(self):
            clock.now += MAX_WAIT_SECONDS
            return super().decide()

    decisions = Slow(cache, 9, MORE)
    assert await decisions.result(CatchUp(clock), metrics) == 3
    assert waits(metrics) == {"agreed": 0, "expired": 1}


@pytest.mark.parametrize(("event", "accepted"), [(GONE, ["n1"]), (MORE, [])], ids=["it resolves it", "it does not"])
async def test_a_node_that_was_offered_is_rejected_only_after_the_wait(event, accepted):
    cache = filled_cache(FULL)
    async with client_for(create_app(cache, configuration(), Live(cache, event))) as client:
        answer = (await client.post("/filter", json=ASKED)).json()
    assert answer["NodeNames"] == accepted


async def test_files_are_not_waited_for():
    cache = filled_cache(FULL)
    source = Live(cache, GONE)
    source.is_live = False
    async with client_for(create_app(cache, configuration(), source)) as client:
        answer = (await client.post("/filter", json=ASKED)).json()
    assert answer["NodeNames"] == []
