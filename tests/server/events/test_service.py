"""Events of the whole service: what a call of kube-scheduler leaves at the API server, and when nothing is left."""

import contextlib
import time

import pytest
from pydantic import ValidationError

from extender.server.app import create_app
from tests.cluster.watch.reflector_rig import server_at
from tests.fakes.api_server import FakeAPI, Fault, Hang
from tests.fakes.events import KIND
from tests.server.conftest import client_for, configuration, filled_cache, pod, preempt_body

pytestmark = pytest.mark.anyio

LIVE = {"cluster": {"source": "kubernetes"}}
EVENTS = {"events": {"enabled": True}}


@pytest.fixture
def api():
    with FakeAPI() as fake:
        yield fake


@contextlib.asynccontextmanager
async def served(api, **sections):
    """The service over a cluster of which nothing is followed; all Events are written at the end of the block."""
    server = server_at(api.url)
    app = create_app(filled_cache(), configuration(**LIVE, **sections), api=server)
    async with app.lifespan(), client_for(app) as client:
        yield client
    server.close()


async def preempt(client):
    response = await client.post("/preempt", content=preempt_body())
    assert response.status_code == 200
    return list(response.json()["NodeNameToMetaVictims"])


def reasons(api):
    return sorted((one["reason"], one["regarding"]["name"]) for one in api.objects(KIND))


async def test_a_preemption_leaves_events_on_the_preemptor_and_its_victim(api):
    async with served(api, **EVENTS) as client:
        assert await preempt(client) == ["worker-1"]
    assert reasons(api) == [("PreemptionNominated", "urgent"), ("PreemptionVictim", "small")]


async def test_by_default_nothing_is_written(api):
    async with served(api) as client:
        await preempt(client)
        metrics = (await client.get("/metrics")).text
    assert api.requests == []
    assert "extender_events_total" not in metrics


async def test_in_mode_observe_nothing_happens_so_that_nothing_is_said(api):
    async with served(api, **EVENTS, mode="Observe") as client:
        await preempt(client)
    assert api.requests == []


@pytest.mark.parametrize("answer", ["Veto", "PassThrough"])
async def test_nor_while_the_kill_switch_is_on(api, answer):
    async with served(api, **EVENTS, killSwitch={"enabled": True, "preempt": answer}) as client:
        await preempt(client)
    assert api.requests == []


async def test_a_call_that_fails_leaves_none(api, monkeypatch):
    def fail(*_):
        raise RuntimeError

    async with served(api, **EVENTS) as client:
        monkeypatch.setattr("extender.server.context.EvictionLog.history", fail)
        assert (await client.post("/preempt", content=preempt_body())).status_code == 503
    assert api.requests == []


async def test_a_veto_is_an_event_that_is_counted(api):
    policy = {"preemption": {"protections": {"rules": [{"name": "all"}]}}}
    async with served(api, **EVENTS, **policy) as client:
        assert [await preempt(client) for _ in range(3)] == [[], [], []]
    (event,) = api.objects(KIND)
    assert (event["reason"], event["type"]) == ("PreemptionVetoed", "Warning")
    assert event["note"] == "No pod is evicted: pods that policies protect are in the way on 2 nodes"


async def test_without_kept_decisions_there_are_events_all_the_same(api):
    async with served(api, **EVENTS, debug={"enabled": False}) as client:
        await preempt(client)
    assert len(reasons(api)) == 2


async def test_calls_are_answered_while_the_api_server_hangs(api):
    hang = Hang()
    api.faults.add(Fault("create", KIND, hang, times=None))
    async with served(api, **EVENTS) as client:
        for _ in range(3):
            assert await preempt(client) == ["worker-1"]
        assert (await client.get("/readyz")).status_code == 200
        hang.release()
        api.faults.clear()


async def wait_for_metrics(client, **counts):
    """Wait until the Events are counted so."""
    expected = [f'extender_events_total{{result="{name}"}} {count}.0' for name, count in counts.items()]
    found: list[str] = []
    ends_at = time.monotonic() + 10
    while found != expected and time.monotonic() < ends_at:
        lines = (await client.get("/metrics")).text.splitlines()
        found = [line for line in lines if line.startswith("extender_events")]
    assert found == expected


async def test_the_metrics_count_what_was_written_and_what_was_lost(api, monkeypatch):
    monkeypatch.setattr("extender.server.events.correlator.OBJECT_BURST", 1)
    async with served(api, **EVENTS) as client:
        await wait_for_metrics(client, written=0, dropped=0, failed=0)
        await preempt(client)
        await wait_for_metrics(client, written=2, dropped=0, failed=0)
        api.forbid(KIND, "create")
        await client.post("/preempt", content=preempt_body(pod("other", cpu="4", priority=100)))
        await wait_for_metrics(client, written=2, dropped=1, failed=1)  # a second Event of the victim is one too many


def test_events_need_a_live_cluster():
    with pytest.raises(ValidationError, match=r"events.enabled needs cluster.source: kubernetes"):
        configuration(events={"enabled": True})
