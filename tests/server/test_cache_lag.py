"""D2: a decision that contradicts kube-scheduler waits for the watch, within the limits of a `Wait`."""

import asyncio
import math
from dataclasses import dataclass, replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extender.cluster.cache.cache import Change
from extender.server.app import create_app
from extender.server.cache_lag import BEFORE_PREEMPTION, USUAL, CacheLag
from extender.server.observability.metrics import Metrics
from tests.builders import cluster, incoming, node, placed, pod, snapshot, typed
from tests.fakes.clock import Clock
from tests.fakes.source import Live
from tests.server.conftest import client_for, configuration, filled_cache

pytestmark = pytest.mark.anyio

FULL = cluster({node("n1", cpu="1"): [pod("a", priority=5000)]})
GONE = Change("Pod", typed(placed(pod("a"), "n1")), deleted=True)
MORE = Change("Pod", typed(pod("b", metadata={"resourceVersion": "1"})))
ASKED = {"Pod": incoming(), "Nodes": None, "NodeNames": ["n1"]}


class LiveWithEvent(Live):
    """A live cluster with an event that arrives right after the first decision."""

    def __init__(self, cache, event):
        super().__init__()
        self.cache, self.events = cache, [event]

    def problem(self):
        if self.events:
            asyncio.get_running_loop().call_soon(self.cache.apply, self.events.pop())


def waits(metrics):
    families = text_string_to_metric_families(metrics.exposition().decode())
    (family,) = (family for family in families if family.name == "extender_watch_waits")
    return {one.labels["result"]: one.value for one in family.samples}


@dataclass
class Numbered:
    number: int
    contradicts_scheduler: bool
    leads_to_preemption: bool = False


class Decisions:
    """Decisions of which all but the first `contradicting` agree with kube-scheduler; each is followed by an event."""

    def __init__(self, cache, contradicting, *events):
        self.cache, self.contradicting, self.events, self.made = cache, contradicting, list(events), 0

    def decide(self):
        self.made += 1
        if self.events:
            asyncio.get_running_loop().call_soon(self.cache.apply, self.events.pop(0))
        return Numbered(self.made, self.made <= self.contradicting)

    async def result(self, cache_lag, metrics, uid="uid", deadline=math.inf):
        decided = await cache_lag.decide(self.cache, metrics, uid, deadline, self.decide)
        return decided.number


class BeforePreemption(Decisions):
    """Those that contradict lead to a preemption."""

    def decide(self):
        decision = super().decide()
        return replace(decision, leads_to_preemption=decision.contradicts_scheduler)


def events(name):
    return [Change("Pod", typed(pod(f"{name}{number}"))) for number in range(20)]


async def test_a_decision_that_agrees_does_not_wait():
    decisions, metrics = Decisions(filled_cache(FULL), 0), Metrics()
    assert await decisions.result(CacheLag(), metrics) == 1
    assert waits(metrics) == {"agreed": 0, "expired": 0}


async def test_a_decision_is_made_again_after_each_event_until_it_agrees():
    decisions, metrics = Decisions(filled_cache(FULL), 2, MORE, GONE, Change("Pod", typed(pod("c")))), Metrics()
    assert await decisions.result(CacheLag(Clock()), metrics) == 3
    assert waits(metrics) == {"agreed": 1, "expired": 0}


async def test_without_an_event_the_last_decision_stands():
    clock, metrics = Clock(), Metrics()
    decisions = Decisions(filled_cache(FULL), 9)
    assert await decisions.result(CacheLag(clock), metrics) == 2
    assert waits(metrics) == {"agreed": 0, "expired": 1}


async def test_after_a_wait_that_expired_the_pod_waits_for_nothing_for_a_while():
    clock, metrics, cache = Clock(), Metrics(), filled_cache(FULL)
    cache_lag = CacheLag(clock)
    await Decisions(cache, 9).result(cache_lag, metrics)
    assert await Decisions(cache, 9, MORE).result(cache_lag, metrics) == 1
    assert await Decisions(cache, 1, Change("Pod", typed(pod("c")))).result(cache_lag, metrics, "another") == 2
    clock.now += USUAL.pause
    assert await Decisions(cache, 1, Change("Pod", typed(pod("d")))).result(cache_lag, metrics) == 2
    assert waits(metrics) == {"agreed": 2, "expired": 1}


async def test_a_usual_wait_that_expired_pauses_no_wait_before_a_preemption():
    clock, metrics, cache = Clock(), Metrics(), filled_cache(FULL)
    cache_lag = CacheLag(clock)
    await Decisions(cache, 9).result(cache_lag, metrics)
    assert await BeforePreemption(cache, 1, MORE).result(cache_lag, metrics) == 2
    assert await Decisions(cache, 9).result(cache_lag, metrics) == 1
    assert waits(metrics) == {"agreed": 1, "expired": 1}


async def test_a_wait_before_a_preemption_is_longer_and_then_usual_for_a_while():
    """More events than a usual wait counts, and more time than it has, pass before the one that helps."""
    clock, metrics, cache = Clock(), Metrics(), filled_cache(FULL)
    cache_lag = CacheLag(clock)

    class Slow(BeforePreemption):
        def decide(self):
            clock.now += USUAL.seconds
            return super().decide()

    needed = USUAL.decisions + 2
    assert await Slow(cache, needed - 1, *events("p")).result(cache_lag, metrics) == needed
    assert await Slow(cache, 99, *events("q")).result(cache_lag, metrics) > needed
    for uid in ("another", "uid"):
        assert await BeforePreemption(cache, 99, *events(uid)).result(cache_lag, metrics, uid) == USUAL.decisions
        clock.now += BEFORE_PREEMPTION.pause_of_all
    clock.now += BEFORE_PREEMPTION.pause
    assert await BeforePreemption(cache, needed - 1, *events("r")).result(cache_lag, metrics) == needed


async def test_the_wait_before_a_preemption_ends_with_the_first_node_that_is_accepted():
    """Another node that was offered is still rejected."""

    class FirstRejectsAll(Decisions):
        def decide(self):
            decision = super().decide()
            return replace(decision, leads_to_preemption=decision.number == 1)

    metrics = Metrics()
    assert await FirstRejectsAll(filled_cache(FULL), 99, *events("p")).result(CacheLag(Clock()), metrics) == 2
    assert waits(metrics) == {"agreed": 1, "expired": 0}


async def test_the_pods_that_do_not_wait_are_bounded(monkeypatch):
    monkeypatch.setattr("extender.server.cache_lag.MAX_REMEMBERED_PODS", 2)
    clock, metrics, cache = Clock(), Metrics(), filled_cache(FULL)
    cache_lag = CacheLag(clock)
    for uid in "abc":
        await Decisions(cache, 9).result(cache_lag, metrics, uid)
    assert [await Decisions(cache, 9).result(cache_lag, metrics, uid) for uid in "cba"] == [1, 1, 2]


async def test_events_that_do_not_help_cost_a_few_decisions():
    decisions, metrics = Decisions(filled_cache(FULL), 99, *events("p")), Metrics()
    assert await decisions.result(CacheLag(Clock()), metrics) == USUAL.decisions
    assert waits(metrics) == {"agreed": 0, "expired": 1}


@pytest.mark.parametrize("deadline", [math.inf, 0.5 * USUAL.seconds], ids=["of the wait", "of the call"])
async def test_no_wait_is_longer_than_its_end(deadline):
    """The clock goes on with each decision."""
    clock, metrics, cache = Clock(0.0), Metrics(), filled_cache(FULL)

    class Slow(Decisions):
        def decide(self):
            clock.now += USUAL.seconds if deadline == math.inf else deadline
            return super().decide()

    assert await Slow(cache, 9).result(CacheLag(clock), metrics, deadline=deadline) == 2


async def test_a_node_that_the_watch_has_not_shown_yet_is_waited_for():
    cache = filled_cache(FULL)
    source = LiveWithEvent(cache, Change("Node", typed_node("n2")))
    async with client_for(create_app(cache, configuration(), source)) as client:
        answer = await client.post("/filter", json=ASKED | {"NodeNames": ["n2"]})
    assert answer.json()["NodeNames"] == ["n2"]


def typed_node(name):
    (found,) = snapshot({node(name): []}).nodes
    return found


@pytest.mark.parametrize(("event", "accepted"), [(GONE, ["n1"]), (MORE, [])], ids=["it resolves it", "it does not"])
async def test_a_node_that_was_offered_is_rejected_only_after_the_wait(event, accepted):
    cache = filled_cache(FULL)
    async with client_for(create_app(cache, configuration(), LiveWithEvent(cache, event))) as client:
        answer = (await client.post("/filter", json=ASKED)).json()
    assert answer["NodeNames"] == accepted


async def test_room_is_waited_for_although_an_earlier_wait_of_the_pod_expired():
    """kube-scheduler knows before the watch that a is gone: if n1 were rejected, pods would be evicted elsewhere."""
    cache = filled_cache(FULL)
    source = LiveWithEvent(cache, MORE)
    offered = {"n1": {"Pods": [{"UID": "uid-x"}], "NumPDBViolations": 0}}
    async with client_for(create_app(cache, configuration(), source)) as client:
        unknown = await client.post("/preempt", json={"Pod": incoming(), "NodeNameToMetaVictims": offered})
        source.events.append(GONE)
        answer = (await client.post("/filter", json=ASKED)).json()
    assert (unknown.json()["NodeNameToMetaVictims"], answer["NodeNames"]) == ({}, ["n1"])


async def test_files_are_not_waited_for():
    cache = filled_cache(FULL)
    source = LiveWithEvent(cache, GONE)
    source.is_live = False
    async with client_for(create_app(cache, configuration(), source)) as client:
        answer = (await client.post("/filter", json=ASKED)).json()
    assert answer["NodeNames"] == []


async def test_a_pod_that_fits_on_a_sent_node_is_left_to_kube_scheduler_once():
    """n1 has room since b is gone, which kube-scheduler did not choose; c on n2 is evicted if it asks again."""
    nodes = {node("n1", cpu="2"): [pod("a"), pod("b")], node("n2", cpu="1"): [pod("c")]}
    cache = filled_cache(cluster(nodes))
    cache.apply(Change("Pod", typed(placed(pod("b"), "n1")), deleted=True))
    sent = {"n1": "a", "n2": "c"}.items()
    offered = {name: {"Pods": [{"UID": f"uid-{one}"}], "NumPDBViolations": 0} for name, one in sent}
    asked = {"Pod": incoming(), "NodeNameToVictims": None, "NodeNameToMetaVictims": offered}
    async with client_for(create_app(cache, configuration(), LiveWithEvent(cache, MORE))) as client:
        first, again = [await client.post("/preempt", json=asked) for _ in range(2)]
    assert first.headers["X-Extender-Vetoed"] == "no eviction is needed: the pod fits on node n1 now"
    assert list(again.json()["NodeNameToMetaVictims"]) == ["n2"]
