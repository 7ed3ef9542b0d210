"""What no event tells: differences that only a compare finds (C15), and kinds that may not be read or are not there."""

import asyncio
import logging

import pytest

from extender.cluster.cache.cache import Change
from extender.cluster.watch import source as live_module
from tests.builders import placed, pod, thing
from tests.cluster.watch.source_rig import Piling, following, serving
from tests.fakes.api_server import Answer, FakeAPI, Fault
from tests.server.conftest import CLUSTER, error_of, filter_body, preempt_body
from tests.server.conftest import pod as shop_pod

pytestmark = pytest.mark.anyio

HALF_AN_HOUR = 1800.0


@pytest.fixture(params=[False, True], ids=["lists in pages", "initial events"])
def api(request):
    """With the cluster of the HTTP tests."""
    with FakeAPI() as fake:
        fake.watch_list = request.param
        for one in CLUSTER["items"]:
            fake.put(one["kind"], one)
        yield fake


def silently(api, kind, obj):
    """Change an object without a word to those who watch."""
    with api.changed:
        api.storage.put(kind, obj)


def silently_gone(api, kind, name, namespace):
    with api.changed:
        api.storage.delete(kind, f"{namespace}/{name}")


async def compared(live, kind="Pod"):
    """The answer of a compare that looks twice."""
    task = asyncio.create_task(live.source.compare(kind))
    await live.sleeps.end(live_module.REDELIVERY_GRACE_SECONDS)
    return await task


# --- C15 ------------------------------------------------------------------------------------------------------------

LOST = {
    "an addition": lambda api: silently(api, "Pod", shop_pod("new", on="worker-1")),
    "an update": lambda api: silently(api, "Pod", shop_pod("small", on="worker-1", cpu="2")),
    "a deletion": lambda api: silently_gone(api, "Pod", "small", "shop"),
    "a recreation": lambda api: silently(api, "Pod", shop_pod("small", on="worker-2", uid="another")),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST.keys())
async def test_C15_an_event_that_was_lost_is_found_counted_and_mended(api, lose, caplog):
    async with serving(api.url) as (client, live):
        await live.read()
        lose(api)
        assert len(live.differences(api)) == 1
        assert await compared(live) == 1
        await live.until(lambda: live.holds(api))
        assert live.status("Pod").relists == 1
        assert "extender_cache_divergences_total 1.0" in (await client.get("/metrics")).text
        assert "extender_watch_relists_total 1.0" in (await client.get("/metrics")).text
        await live.followed("Pod", lists=2)
        assert await live.source.compare("Pod") == 0
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["Pod: 1 objects differ from the API server's without an event: listing anew"]


async def test_C15_a_picture_that_was_changed_behind_its_back_is_mended(api):
    async with following(api.url) as live:
        await live.read()
        live.cache.mutable_snapshot().remove("Pod", ("shop", "small"))
        held = live.cache.mutable_snapshot().objects.pods["shop", "large"]
        live.cache.apply(Change("Pod", type(held)(type(held.metadata)(name="ghost", namespace="shop", uid="ghost"))))
        assert len(live.differences(api)) == 2
        assert await compared(live) == 2
        await live.until(lambda: live.holds(api))


async def test_C15_what_is_only_on_its_way_is_no_divergence(api):
    async with following(api.url) as live:
        await live.read()
        silently(api, "Pod", shop_pod("small", on="worker-1", cpu="2"))
        comparing = asyncio.create_task(live.source.compare("Pod"))
        lists = 1 if api.watch_list else 2
        await asyncio.to_thread(api.wait_for, lambda: [one.status for one in api.asked("list", "Pod")] == [200] * lists)
        api.put("Pod", shop_pod("small", on="worker-1", cpu="3"))  # an event, in the end
        await live.sleeps.end(live_module.REDELIVERY_GRACE_SECONDS)
        await live.until(lambda: live.holds(api))
        assert await comparing == 0
        assert live.status("Pod").relists == 0


async def test_C15_where_changes_wait_to_be_applied_nothing_is_called_a_divergence(api):
    async with following(api.url) as live:
        await live.read()
        held = live.cache.mutable_snapshot().objects.pods["shop", "large"]
        piling = Piling([Change("Pod", held)])
        live.source.queue.changed("Pod", piling)
        silently(api, "Pod", shop_pod("small", on="worker-1", cpu="2"))
        assert await compared(live) == 0
        piling.ended = True
        await live.until(lambda: live.source.queue.oldest is None)
        assert await compared(live) == 1


async def test_C15_what_a_list_cannot_mend_is_listed_once_and_not_for_ever(api):
    """An object that decisions cannot read is never held."""
    api.put("Pod", pod("many", cpu="many"))
    async with following(api.url) as live:
        await live.read()
        assert await compared(live) == 1
        await live.followed("Pod", lists=2)
        for _ in range(3):
            assert await compared(live) == 0
        assert live.status("Pod").relists == 1
        silently(api, "Pod", shop_pod("new", on="worker-1"))  # another one all the same
        assert await compared(live) == 1
        await live.until(lambda: "new" in live.names())
        assert live.status("Pod").relists == 2


async def test_C15_what_is_assumed_of_a_pod_is_no_divergence(api):
    async with following(api.url) as live:
        await live.read()
        incoming = shop_pod("incoming", cpu="4", priority=100)
        api.put("Pod", incoming)
        await live.until(lambda: live.holds(api))
        snapshot = live.cache.snapshot()
        pods = snapshot.objects.pods
        live.cache.assumed.assume_preempted(pods["shop", "incoming"], "worker-1", [pods["shop", "small"]])
        assert len(live.cache.assumed) == 2
        assert await live.source.compare("Pod") == 0


async def test_C15_every_kind_is_compared_every_half_hour_whatever_becomes_of_one(api, caplog):
    api.put("StorageClass", thing("StorageClass", "fast", provisioner="disk"))
    async with following(api.url, verify_interval=HALF_AN_HOUR) as live:
        await live.read()
        silently(api, "StorageClass", thing("StorageClass", "fast", provisioner="another"))
        api.faults.add(Fault("list", "Pod", Answer(500), times=1))

        def fail():
            raise RuntimeError("a bug")

        live.source.reflectors["Service"].metadata_list = fail  # type: ignore[method-assign]
        await live.sleeps.end(HALF_AN_HOUR)
        await live.sleeps.end(live_module.REDELIVERY_GRACE_SECONDS)
        await live.until(lambda: live.holds(api))
        await live.sleeps.end(HALF_AN_HOUR)  # it goes on
        assert live.source.problem() is None
        assert live.source.fatal is None
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "Service: could not be compared with the API server's"
    ]


async def test_C15_what_was_lost_while_a_stream_was_broken_is_found_soon(api):
    async with following(api.url, verify_interval=HALF_AN_HOUR) as live:
        await live.read()
        api.drop_connections()
        await live.until(lambda: live.status("Pod").interruptions and live.status("Pod").phase == "watching")
        silently(api, "Pod", shop_pod("small", on="worker-1", cpu="2"))  # after the reconnect: no event tells of it
        await live.sleeps.end(live_module.INTERRUPTION_CHECK_SECONDS)
        await live.sleeps.end(live_module.REDELIVERY_GRACE_SECONDS)
        await live.until(lambda: live.holds(api))
        assert live.status("Pod").relists == 1


async def test_C15_a_stream_that_is_broken_is_not_compared(api):
    async with following(api.url) as live:
        await live.read()
        api.faults.add(Fault("watch", "Pod", Answer(500), times=None))
        api.end_watches("Pod")
        await live.until(lambda: live.status("Pod").phase == "broken")
        silently(api, "Pod", shop_pod("new", on="worker-1"))
        assert await live.source.compare("Pod") == 0


# --- kinds that may not be read -------------------------------------------------------------------------------------


def with_claim(name):
    found = shop_pod(name, cpu="2", priority=100)
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    return found | {"spec": found["spec"] | {"volumes": [claim]}}


BLIND = "NodeVolumeLimits, VolumeBinding, VolumeZone"


async def test_an_optional_kind_that_is_forbidden_costs_what_depends_on_it_and_nothing_else(api, caplog):
    api.put("PersistentVolumeClaim", thing("PersistentVolumeClaim", "data", namespace="shop", spec={"volumeName": "v"}))
    api.forbid("PersistentVolume")
    body = filter_body(incoming=with_claim("incoming"))
    async with serving(api.url) as (client, live):
        await live.read()
        assert (await client.get("/readyz")).status_code == 200
        verbose = (await client.get("/readyz?verbose")).text
        assert "[!] PersistentVolume: forbidden" in verbose
        assert "[!] PersistentVolume may not be read, so that some plugins are not evaluated" in verbose
        answer = await client.post("/filter", content=body)
        assert (answer.status_code, left_out(answer)) == (200, BLIND)
        assert left_out(await client.post("/prioritize", content=body)) == BLIND
        assert left_out(await client.post("/preempt", content=preempt_body(with_claim("urgent")))) == BLIND
        assert left_out(await client.post("/filter", content=filter_body())) is None
        # Asked again and again, and refused:
        await asyncio.to_thread(api.wait_for, lambda: refusals(api, "PersistentVolume") >= 5)
        api.allow("PersistentVolume")
        await live.until(lambda: live.status("PersistentVolume").phase == "watching" and not live.source.warnings())
        await live.until(lambda: not live.cache.snapshot().unread)
        assert left_out(await client.post("/filter", content=body)) is None
        assert live.source.problem() is None
    assert sum("PersistentVolume: forbidden" in record.getMessage() for record in caplog.records) == 1


def left_out(answer):
    return answer.headers.get("X-Extender-Not-Evaluated")


def refusals(api, kind):
    return sum(request.status == 403 for request in api.requests if request.kind == kind)


async def test_an_optional_kind_that_is_forbidden_later_is_not_decided_on_any_more(api):
    api.put("PersistentVolume", thing("PersistentVolume", "v"))
    async with following(api.url) as live:
        await live.read()
        assert live.names("PersistentVolume") == {"v"}
        api.forbid("PersistentVolume")
        api.end_watches("PersistentVolume")
        await live.until(lambda: live.cache.snapshot().unread == {"volumes"})
        assert live.names("PersistentVolume") == set()
        assert live.source.problem() is None


@pytest.mark.parametrize("kind", ["Node", "Pod", "PodDisruptionBudget"])
async def test_a_core_kind_that_is_forbidden_ends_the_service_and_says_why(api, kind):
    plural = {"Node": "nodes", "Pod": "pods", "PodDisruptionBudget": "poddisruptionbudgets"}[kind]
    api.forbid(kind)
    stopped = asyncio.Event()
    async with serving(api.url, on_stop=stopped.set) as (client, live):
        await asyncio.wait_for(stopped.wait(), 20)
        why = error_of(await client.get("/readyz"))
        assert why.startswith("no permission to ")
        assert f" {plural}, which must be read: 403 Forbidden: {plural}" in why
        assert (await client.post("/filter", content=filter_body())).status_code == 503
        assert live.source.fatal == live.source.problem()


async def test_a_core_kind_that_is_forbidden_later_is_a_broken_stream(api):
    async with following(api.url) as live:
        await live.read()
        api.forbid("Pod")
        api.end_watches("Pod")
        await live.until(lambda: live.status("Pod").broken_since is not None)
        assert live.source.fatal is None
        live.clock.now += 31.0  # type: ignore[attr-defined]
        assert (live.source.problem() or "").startswith("pods have not been followed for 31 s: 403 Forbidden")
        api.allow("Pod")
        await live.until(lambda: live.source.problem() is None)


async def test_a_kind_that_the_cluster_does_not_have_is_empty_and_decided_on(api):
    api.remove_resource("DeviceClass")
    api.remove_resource("PersistentVolume")
    async with serving(api.url) as (client, live):
        await live.read()
        assert live.cache.snapshot().unread == frozenset()
        assert not live.source.warnings()
        assert (await client.get("/readyz")).status_code == 200
        answer = await client.post("/filter", content=filter_body(incoming=with_claim("incoming")))
        assert left_out(answer) is None
        assert answer.json()["NodeNames"] == []  # its claim is not there
        api.restore_resource("PersistentVolume")
        api.put("PersistentVolume", thing("PersistentVolume", "v"))
        await live.until(lambda: live.names("PersistentVolume") == {"v"})


async def test_a_kind_that_vanishes_is_empty(api):
    api.put("PersistentVolume", thing("PersistentVolume", "v"))
    api.put("Pod", placed(pod("a"), "worker-1"))
    async with following(api.url) as live:
        await live.read()
        api.remove_resource("PersistentVolume")
        await live.until(lambda: live.names("PersistentVolume") == set())
        assert live.cache.snapshot().unread == frozenset()
        assert live.source.problem() is None
