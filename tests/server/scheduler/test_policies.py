"""Policies of preemption as kube-scheduler meets them: over HTTP, on a live cluster, from one call to the next.

Two nodes of 4 cores run one replica of `cart` each, 3 cores; a budget keeps one of them. Preemptors want 4 cores.
"""

import asyncio

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.config.scheduler.load import load_kube_scheduler
from extender.core.profile import PreemptionPolicy
from extender.server.app import create_app
from extender.server.settings import ConfigFile, LiveSettings
from tests.builders import stored_cluster
from tests.cluster.watch.source_rig import serving
from tests.fakes.api_server import FakeAPI
from tests.server.conftest import client_for, configuration, filled_cache, node, pod, preempt_body

pytestmark = pytest.mark.anyio

VETOED = "X-Extender-Vetoed"
STRICT, LIVE = {"disruptionBudgets": "Strict"}, {"disruptionBudgets": "Strict", "budgetAccounting": "Live"}


def replica(number, **fields):
    one = pod(f"cart-{number}", on=f"worker-{number}", cpu="3", priority=10)
    one["metadata"] |= {
        "labels": {"app": "cart"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "cart", "controller": True}],
    }
    one["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    one["metadata"] |= fields
    return one


def budget(allowed=1):
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "cart"}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2},
    }


@pytest.fixture
def api():
    with FakeAPI() as fake:
        for one in (node("worker-1"), node("worker-2"), replica(1), replica(2), budget()):
            fake.put(one["kind"], one)
        yield fake


def preemptor(name):
    return pod(name, cpu="4", priority=100)


async def preempt(client, name, number):
    """A preemptor is offered one of the nodes -> (the nodes in the answer, why there is none)."""
    body = preempt_body(preemptor(name), **{f"worker-{number}": [f"uid-cart-{number}"]})
    answer = await client.post("/preempt", content=body)
    assert answer.status_code == 200
    return list(answer.json()["NodeNameToMetaVictims"]), answer.headers.get(VETOED)


@pytest.mark.parametrize(
    ("preemption", "second", "why"),
    [
        pytest.param({}, ["worker-2"], None, id="1: as kube-scheduler, which breaks the budget"),
        pytest.param(STRICT, ["worker-2"], None, id="2: Strict by a status that does not know of the first eviction"),
        pytest.param(LIVE, [], "1 node: would break disruption budget shop/cart", id="3: Strict and Live"),
    ],
)
async def test_a_second_preemption_before_the_status_of_the_budget_has_changed(api, preemption, second, why):
    async with serving(api.url, {"preemption": preemption}) as (client, live):
        await live.read()
        assert await preempt(client, "first", 1) == (["worker-1"], None)
        assert await preempt(client, "second", 2) == (second, why)


async def test_what_was_approved_before_a_restart_counts_by_its_terminating_pods(api):
    """cart-1 is on its way out; the status of the budget still allows one."""
    api.put("Pod", replica(1, deletionTimestamp="2026-11-21T10:00:00Z"))
    async with serving(api.url, {"preemption": LIVE}) as (client, live):
        await live.read()
        assert await preempt(client, "second", 2) == ([], "1 node: would break disruption budget shop/cart")


async def test_what_did_not_come_about_is_given_back(api):
    """kube-scheduler asks about the first preemptor again, without a nomination: no pod was evicted for it."""
    async with serving(api.url, {"preemption": LIVE}) as (client, live):
        await live.read()
        assert (await preempt(client, "first", 1))[0] == ["worker-1"]
        assert (await preempt(client, "second", 2))[0] == []
        assert (await preempt(client, "first", 1))[0] == ["worker-1"]
        await live.read()


async def test_a_workload_is_left_alone_for_a_while(api):
    async with serving(api.url, {"preemption": {"limits": {"workloadCooldown": "5m"}}}) as (client, live):
        await live.read()
        assert (await preempt(client, "first", 1))[0] == ["worker-1"]
        nodes, why = await preempt(client, "second", 2)
        assert nodes == []
        assert "not evictable: shop/cart-2 is cooling down after an eviction from its workload, until 20" in why


async def test_a_preemptor_that_never_comes_to_run_stops_evicting(api):
    async with serving(api.url, {"preemption": {"limits": {"maxAttempts": 2}}}) as (client, live):
        await live.read()
        for _ in range(2):
            assert (await preempt(client, "first", 1))[0] == ["worker-1"]
        nodes, why = await preempt(client, "first", 1)
        assert nodes == []
        assert why.startswith("the pod has preempted 2 times without starting to run: may not preempt until 20")
        assert (await preempt(client, "other", 2))[0] == ["worker-2"]


async def test_what_is_only_observed_is_not_remembered(api):
    """Were it, the second answer would be a veto, and so differ from what is offered."""
    sections = {"mode": "Observe", "preemption": {"limits": {"maxAttempts": 1}}}
    async with serving(api.url, sections) as (client, live):
        await live.read()
        for _ in range(2):
            assert (await preempt(client, "first", 1))[0] == ["worker-1"]
        assert (
            'extender_observed_answers_total{outcome="same",verb="preempt"} 2.0' in (await client.get("/metrics")).text
        )


async def test_questions_about_a_cluster_file_use_up_no_limits():
    config = configuration(preemption={"limits": {"maxAttempts": 1, "workloadCooldown": "5m"}})
    async with client_for(create_app(filled_cache(), config)) as client:
        for _ in range(2):
            answer = await client.post("/preempt", content=preempt_body(**{"worker-1": ["uid-small"]}))
            assert list(answer.json()["NodeNameToMetaVictims"]) == ["worker-1"]


async def test_why_nobody_is_evicted_is_at_most_500_characters_of_plain_text(api):
    """Names of files may be anything; whatever stands there, the header is one."""
    odd = pod("été\n" + 600 * "x", on="worker-1", cpu="3", priority=10, uid="uid-odd")
    config = configuration(preemption={"protections": {"rules": [{"name": "everybody"}]}})
    cache = ClusterCache()
    cache.replace(stored_cluster({"kind": "List", "items": [node("worker-1"), odd]}))
    async with client_for(create_app(cache, config)) as client:
        answer = await client.post("/preempt", content=preempt_body(preemptor("first"), **{"worker-1": ["uid-odd"]}))
    why = answer.headers[VETOED]
    assert why.startswith("1 node: ")
    assert len(why) == 500
    assert why.isascii()
    assert why.isprintable()


async def test_other_policies_are_in_effect_once_the_picture_is_ready_for_them(api, tmp_path):
    """The kill switch does not wait for that: it is on at once."""
    path = tmp_path / "extender.yaml"
    path.write_text("read by the fake below")
    wanted = configuration(preemption=LIVE, killSwitch={"enabled": True})
    async with serving(api.url) as (_, live):
        await live.read()
        settings = LiveSettings(configuration())
        settings.cache, settings.adopt = live.cache, live.source.adopt
        before, file = live.cache.snapshot(), ConfigFile(path, lambda: wanted)
        while not await settings.poll(file):
            pass
        assert settings.active.kill_switch == "Veto"
        assert settings.active.scheduler.profiles[0].preemption == PreemptionPolicy()
        assert any("once the cluster cache is prepared" in line for line in settings.warnings())
        (preparing,) = (task for task in asyncio.all_tasks() if task.get_name() == "adopt")
        await asyncio.wait_for(preparing, 20)
        assert settings.active.scheduler == load_kube_scheduler(wanted)
        assert live.cache.snapshot() is not before
        assert live.holds(api)
