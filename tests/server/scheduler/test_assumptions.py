"""An approved eviction or bind counts in the next answer, before the watch shows it; a guess does not."""

import asyncio
import json

import pytest

from extender.server.app import create_app
from tests.cluster.watch.source_rig import serving
from tests.fakes.api_server import FakeAPI, Fault, Hang
from tests.server.conftest import CLUSTER, URGENT, client_for, configuration, filled_cache, filter_body, preempt_body
from tests.server.conftest import pod as shop_pod

pytestmark = pytest.mark.anyio


@pytest.fixture
def api():
    with FakeAPI() as fake:
        for one in CLUSTER["items"]:
            fake.put(one["kind"], one)
        yield fake


SMALL = shop_pod("modest", cpu="3", priority=50)


async def offers(client, one=SMALL):
    """The nodes that take the pod."""
    return (await client.post("/filter", content=filter_body(incoming=one))).json()["NodeNames"]


@pytest.mark.parametrize("known", [True, False], ids=["known preemptor", "unknown preemptor"])
async def test_after_preempt_a_pod_of_lower_priority_does_not_fit_any_more(api, known):
    if known:
        api.put("Pod", URGENT)
    async with serving(api.url) as (client, live):
        await live.read()
        assert await offers(client) == ["worker-1"]
        answer = (await client.post("/preempt", content=preempt_body(**{"worker-1": ["uid-small"]}))).json()
        assert list(answer["NodeNameToMetaVictims"]) == ["worker-1"]
        assert await offers(client) == []
        assert "extender_assumed_pods 2.0" in (await client.get("/metrics")).text
        await offers(client, URGENT)  # kube-scheduler tries it again, without a nomination
        assert await offers(client) == ["worker-1"]
        assert "extender_assumed_pods 0.0" in (await client.get("/metrics")).text


async def test_H6_an_eviction_counts_although_nothing_is_assumed_for_a_preemptor_that_the_cache_contradicts(api):
    """As the successor of a pod of a StatefulSet, of which our watch shows the predecessor."""
    api.put("Pod", shop_pod("urgent", cpu="4", priority=100, uid="uid-predecessor"))
    async with serving(api.url, {"preemption": {"limits": {"evictionsPerMinute": 1}}}) as (client, live):
        await live.read()
        evicted = await client.post("/preempt", content=preempt_body(**{"worker-1": ["uid-small"]}))
        assert list(evicted.json()["NodeNameToMetaVictims"]) == ["worker-1"]
        assert len(live.cache.assumed) == 0
        vetoed = await client.post("/preempt", content=preempt_body(**{"worker-2": ["uid-large"]}))
        assert vetoed.headers["x-extender-vetoed"].startswith("eviction rate limit (1 per minute) reached")


@pytest.mark.parametrize("on", ["", "worker-1"])
async def test_H6_a_preemptor_with_the_uid_of_another_pod_is_not_assumed(api, on):
    api.put("Pod", shop_pod("waiting"))
    async with serving(api.url) as (client, live):
        await live.read()
        stranger = shop_pod("stranger", on=on, cpu="4", priority=100, uid="uid-waiting")
        await client.post("/preempt", content=preempt_body(stranger, **{"worker-1": ["uid-small"]}))
        assert len(live.cache.assumed) == 0


async def test_an_answer_with_several_nodes_assumes_nothing(api):
    async with serving(api.url, {"preemption": {"keepCandidates": "All"}}) as (client, live):
        await live.read()
        answer = (await client.post("/preempt", content=preempt_body())).json()
        assert len(answer["NodeNameToMetaVictims"]) == 2
        assert len(live.cache.assumed) == 0


async def test_nothing_is_assumed_of_a_cluster_file():
    cache = filled_cache()
    async with client_for(create_app(cache, configuration())) as client:
        await client.post("/preempt", content=preempt_body(**{"worker-1": ["uid-small"]}))
        assert await offers(client) == ["worker-1"]
        assert len(cache.assumed) == 0


async def test_after_bind_the_room_is_taken_before_the_watch_shows_it(api):
    api.put("Pod", shop_pod("incoming", cpu="2"))
    sections = {"cluster": {"source": "kubernetes"}, "bind": {"enabled": True}}
    async with serving(api.url, sections) as (client, live):
        await live.read()
        hang = Hang()
        api.faults.add(Fault("watch", "Pod", hang))
        api.end_watches("Pod")
        await asyncio.to_thread(api.wait_for, lambda: api.open_watches("Pod") == 0)
        body = {"PodName": "incoming", "PodNamespace": "shop", "PodUID": "uid-incoming", "Node": "worker-1"}
        assert await offers(client) == ["worker-1"]
        assert (await client.post("/bind", content=json.dumps(body))).json() == {"Error": ""}
        assert await offers(client) == []
        assert not live.holds(api)
        hang.release()
        await live.until(lambda: live.holds(api))
        assert await offers(client) == []
        assert len(live.cache.assumed) == 0
