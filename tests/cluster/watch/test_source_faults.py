"""A live cluster with everything that can go wrong: what the cache then holds, and what the service answers.

C1, C5 and C8 to C10 are the reflector's (test_reflector_faults.py); all of them together are test_live_model.py's.
"""

import asyncio
import logging
import time

import pytest

from extender.cluster.cache.cache import Change
from extender.cluster.watch import source as source_module
from extender.k8s.requests import running_usage
from extender.k8s.version.features import DEFAULT_FEATURES
from tests.builders import node, placed, pod
from tests.cluster.watch.source_rig import MANY, following, serving, unseen
from tests.fakes.api_server import Answer, Fault, Hang
from tests.fakes.clock import Clock
from tests.server.conftest import error_of, filter_body, preempt_body

pytestmark = pytest.mark.anyio


# --- C4 -------------------------------------------------------------------------------------------------------------


async def test_C4_while_the_server_shows_an_older_state_nothing_is_decided(shop):
    backup = shop.revision
    async with serving(shop.url, clock=time.monotonic) as (client, rig):
        await rig.read()
        rig.impatient("Pod", 0.1)
        shop.delete("Pod", "small", "shop")
        await rig.until(lambda: rig.holds(shop))
        second_list = Hang()
        shop.faults.add(Fault("list", "Pod", second_list, skip=1))
        shop.rewind(backup)
        await rig.until(lambda: rig.state("Pod").regressed)
        problem = "resourceVersion of pods went backwards, waiting for a second list to confirm it"
        await rig.until(lambda: rig.source.problem() == problem)
        assert error_of(await client.get("/readyz")) == problem
        assert (await client.post("/filter", content=filter_body())).status_code == 503
        assert "small" not in rig.names()
        second_list.release()
        await rig.until(lambda: rig.holds(shop) and rig.source.problem() is None)
        assert "small" in rig.names()
        assert (await client.get("/readyz")).status_code == 200


async def test_C4_what_bears_a_version_for_the_second_time_is_taken_for_what_it_is_now(api):
    """A restored etcd gives versions away again: the same uid and version need not be the same object."""
    api.put("Pod", pod("a", cpu="1"))
    backup = api.revision
    async with following(api.url, clock=time.monotonic) as rig:
        await rig.read()
        rig.impatient("Pod", 0.1)
        api.put("Pod", pod("a", cpu="2"))
        api.put("Pod", pod("b"))
        await rig.until(lambda: rig.holds(api))
        api.rewind(backup)
        api.put("Pod", pod("a", cpu="3"))
        await rig.until(lambda: rig.holds(api))
        assert [
            running_usage(one, DEFAULT_FEATURES).requests["cpu"] for one in rig.cache.snapshot().objects.pods.values()
        ] == [3000]


# --- C7 -------------------------------------------------------------------------------------------------------------


async def broken(api, rig, kind):
    """One stream ends, and does not come back."""
    api.faults.add(Fault("*", kind, Answer(500, "etcd has no leader"), times=None))
    api.end_watches(kind)
    await rig.until(lambda: rig.state(kind).broken_since is not None)


@pytest.mark.parametrize("kind", ["Pod", "Service"])
async def test_C7_one_broken_stream_is_a_problem_although_all_others_are_fine(api, kind):
    clock, plural = Clock(), {"Pod": "pods", "Service": "services"}[kind]
    async with following(api.url, clock=clock, stale_after=30.0) as rig:
        await rig.read()
        await broken(api, rig, kind)
        clock.now += 30.0
        assert rig.source.problem() is None
        clock.now += 1.0
        problem = rig.source.problem() or ""
        assert problem.startswith(f"{plural} are stale: not watched for 31s: ")
        assert "etcd has no leader" in problem
        assert {view.kind for view in rig.source.reflector_statuses() if view.phase != "watching"} == {kind}
        api.faults.clear()
        await rig.until(lambda: rig.source.problem() is None)


@pytest.mark.parametrize(("on_failure", "status"), [("Error", 503), ("Veto", 200)])
async def test_C7_the_failure_rule_as_long_as_a_stream_is_broken(shop, on_failure, status):
    clock = Clock()
    sections = {"preemption": {"onFailure": on_failure}}
    async with serving(shop.url, sections, clock=clock) as (client, rig):
        await rig.read()
        assert await ask(client) == {"/readyz": 200, "/filter": 200, "/prioritize": 200, "/preempt": 200}
        await broken(shop, rig, "PodDisruptionBudget")
        assert await ask(client) == {"/readyz": 200, "/filter": 200, "/prioritize": 200, "/preempt": 200}
        clock.now += 31.0
        assert await ask(client) == {"/readyz": 503, "/filter": 503, "/prioritize": 200, "/preempt": status}
        assert (await client.post("/prioritize", content=filter_body())).json() == []
        if on_failure == "Veto":
            answer = await client.post("/preempt", content=preempt_body())
            assert answer.json() == {"NodeNameToMetaVictims": {}}
        assert "poddisruptionbudgets are stale: not watched for" in error_of(await client.get("/readyz"))
        assert "[-] PodDisruptionBudget: broken" in (await client.get("/readyz?verbose")).text
        assert "extender_cache_ready 0.0" in (await client.get("/metrics")).text
        assert 'extender_watch_streams{phase="broken"} 1.0' in (await client.get("/metrics")).text
        assert (await client.get("/livez")).status_code == 200
        shop.faults.clear()
        await rig.until(lambda: rig.source.problem() is None)
        assert await ask(client) == {"/readyz": 200, "/filter": 200, "/prioritize": 200, "/preempt": 200}


async def ask(client):
    """Path -> status."""
    found = {"/readyz": (await client.get("/readyz")).status_code}
    for path, body in (("/filter", filter_body()), ("/prioritize", filter_body()), ("/preempt", preempt_body())):
        found[path] = (await client.post(path, content=body)).status_code
    return found


# --- C13 ------------------------------------------------------------------------------------------------------------

ODD = (
    b'{"type":"SURPRISE","object":{}}\n',
    b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"x"}}}\n',
    b'{"type":"ADDED","object":{"kind":"Pod","metadata":null}}\n',
    b'{"type":"ADDED","object":null}\n',
    b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":null}}\n',
)


async def test_C13_what_cannot_be_read_is_counted_and_left_out_and_the_rest_goes_on(shop):
    async with serving(shop.url) as (client, rig):
        await rig.read()
        for line in ODD:
            shop.send_raw("Pod", line)
        shop.put("Pod", pod("many", cpu="many"))
        shop.put("Pod", pod("wrong") | {"spec": {"containers": 7}})
        shop.put("Pod", pod("good"))
        await rig.until(lambda: "good" in rig.names())
        assert not {"many", "wrong", "x"} & rig.names()
        assert f"extender_watch_skipped_objects_total {len(ODD) + 2}.0" in (await client.get("/metrics")).text
        assert (await client.get("/readyz")).status_code == 200
        assert rig.state("Pod").relists == 0


@pytest.mark.parametrize("count", [1, MANY])
async def test_C13_what_cannot_be_read_is_left_out_of_lists(shop, count):
    """Before the first sync, when few objects differ from it, and when many do."""
    shop.put("Pod", pod("many", cpu="many"))
    shop.put("Node", node("n1", cpu="lots").raw)
    async with following(shop.url) as rig:
        await rig.read()
        assert rig.names() == {"small", "large"}
        with unseen(shop, "Pod"):
            shop.put("Pod", pod("more", cpu="even more"))
            for number in range(count):
                shop.put("Pod", pod(f"p{number}"))
        await rig.until(lambda: f"p{count - 1}" in rig.names())
        assert len(rig.names()) == 2 + count
        assert rig.source.problem() is None
        assert rig.state("Pod").relists == 1


@pytest.mark.parametrize("count", [1, MANY])
async def test_C13_two_pods_of_one_uid_cost_one_of_them_and_nothing_else(shop, count):
    """No API server gives one away twice; what a bug or a restored backup makes of that must not stop everything."""

    def put(namespace):
        shop.put("Pod", placed(pod("a", namespace=namespace, metadata={"uid": "the same"}), "worker-1"))

    put("one")
    put("two")
    async with following(shop.url) as rig:
        await rig.read()
        assert len(rig.cache.snapshot().objects.pods) == 3
        with unseen(shop, "Pod"):
            put("three")
            for number in range(count):
                shop.put("Pod", pod(f"p{number}"))
        await rig.until(lambda: f"p{count - 1}" in rig.names())
        put("four")
        shop.put("Pod", pod("last"))
        await rig.until(lambda: "last" in rig.names())
        assert rig.names() == {"small", "large", "a", "last", *(f"p{number}" for number in range(count))}
        assert rig.state("Pod").relists == 1
        assert rig.source.problem() is None
        (view,) = (view for view in rig.source.reflector_statuses() if view.kind == "Pod")
        assert view.skipped >= 3


# --- a bug of ours --------------------------------------------------------------------------------------------------


async def test_what_cannot_be_applied_for_a_bug_costs_a_new_snapshot_and_a_list(api, monkeypatch, caplog):
    api.put("Pod", pod("a"))
    async with following(api.url) as rig:
        await rig.read()
        apply = rig.cache.apply

        def apply_wrongly(change: Change) -> bool:
            rig.cache.apply = apply  # type: ignore[method-assign]
            rig.cache.mutable_snapshot().remove("Pod", ("default", "a"))
            raise RuntimeError("a bug")

        rig.cache.apply = apply_wrongly  # type: ignore[method-assign]
        api.put("Pod", pod("b"))
        await rig.sleeps.end(source_module.RELIST_DELAY_SECONDS)
        await rig.until(lambda: rig.state("Pod").relists == 1 and rig.holds(api))
        api.put("Pod", pod("c"))
        await rig.until(lambda: rig.holds(api))
        assert rig.source.problem() is None
    assert [r.getMessage() for r in caplog.records if r.exc_info] == ["applying changes of Pod failed, relisting"]


async def test_arrays_that_cannot_be_updated_for_a_bug_cost_a_new_snapshot_and_a_list(api):
    def update_wrongly(max_nodes: int | None = None) -> bool:
        raise RuntimeError("a bug")

    async with following(api.url) as rig:
        await rig.read()
        rig.cache.mutable_snapshot().refresh_layout = update_wrongly  # type: ignore[method-assign]
        api.put("Pod", pod("a"))
        await rig.sleeps.end(source_module.RELIST_DELAY_SECONDS)
        await rig.until(lambda: rig.state("Pod").relists == 1 and rig.holds(api))


async def test_a_bug_that_cannot_be_mended_is_openly_the_end(shop, monkeypatch, caplog):
    """A restart of the service helps; a cache that no reflector updates any more never counts as current."""

    def fail(*_):
        raise RuntimeError("a bug")

    stopped = asyncio.Event()
    async with serving(shop.url, on_stop=stopped.set) as (client, rig):
        await rig.read()
        rig.cache.apply = fail  # type: ignore[method-assign]
        rig.cache.rebuild = fail  # type: ignore[method-assign]
        shop.put("Pod", pod("a"))
        await asyncio.wait_for(stopped.wait(), 20)
        assert "internal error" in error_of(await client.get("/readyz"))
        assert (await client.post("/filter", content=filter_body())).status_code == 503
    assert any(record.levelno == logging.CRITICAL for record in caplog.records)
