"""What no event tells: differences that only a compare finds (C15), and kinds that may not be read or are not there."""

import asyncio
import logging
import threading

import pytest

from extender.cluster.cache.cache import Change
from extender.cluster.watch import verification
from extender.cluster.watch.delta_queue import Deltas
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
    """Change an object without an event for its watches."""
    with api.changed:
        api.storage.put(kind, obj)


def silently_gone(api, kind, name, namespace):
    with api.changed:
        api.storage.delete(kind, f"{namespace}/{name}")


async def compared(rig, kind="Pod"):
    """The answer of a compare that looks twice."""
    task = asyncio.create_task(rig.source.verification.verify(kind))
    await rig.sleeps.end(verification.EVENT_GRACE_SECONDS)
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
    async with serving(api.url) as (client, rig):
        await rig.read()
        lose(api)
        assert len(rig.differences(api)) == 1
        assert await compared(rig) == 1
        await rig.until(lambda: rig.holds(api))
        assert rig.state("Pod").relists == 1
        assert "extender_cache_divergences_total 1.0" in (await client.get("/metrics")).text
        assert "extender_watch_relists_total 1.0" in (await client.get("/metrics")).text
        await rig.followed("Pod", lists=2)
        assert await rig.source.verification.verify("Pod") == 0
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["verification of Pod: 1 objects differ from the API server, relisting"]


async def test_C15_a_cache_that_was_changed_behind_its_back_is_mended(api):
    async with following(api.url) as rig:
        await rig.read()
        rig.cache.mutable_snapshot().remove("Pod", ("shop", "small"))
        held = rig.cache.mutable_snapshot().objects.pods["shop", "large"]
        rig.cache.apply(Change("Pod", type(held)(type(held.metadata)(name="ghost", namespace="shop", uid="ghost"))))
        assert len(rig.differences(api)) == 2
        assert await compared(rig) == 2
        await rig.until(lambda: rig.holds(api))


async def test_C15_what_is_only_on_its_way_is_no_divergence(api):
    async with following(api.url) as rig:
        await rig.read()
        silently(api, "Pod", shop_pod("small", on="worker-1", cpu="2"))
        comparing = asyncio.create_task(rig.source.verification.verify("Pod"))
        lists = 1 if api.watch_list else 2
        await asyncio.to_thread(api.wait_for, lambda: [one.status for one in api.asked("list", "Pod")] == [200] * lists)
        api.put("Pod", shop_pod("small", on="worker-1", cpu="3"))  # an event, in the end
        await rig.sleeps.end(verification.EVENT_GRACE_SECONDS)
        await rig.until(lambda: rig.holds(api))
        assert await comparing == 0
        assert rig.state("Pod").relists == 0


async def test_C15_where_changes_wait_to_be_applied_nothing_is_called_a_divergence(api):
    async with following(api.url) as rig:
        await rig.read()
        held = rig.cache.mutable_snapshot().objects.pods["shop", "large"]
        piling = Piling([Change("Pod", held)])
        rig.source.queue.put(Deltas("Pod", piling))
        silently(api, "Pod", shop_pod("small", on="worker-1", cpu="2"))
        assert await compared(rig) == 0
        piling.ended = True
        await rig.until(lambda: rig.source.queue.oldest is None)
        assert await compared(rig) == 1


async def test_C15_what_a_list_cannot_mend_is_listed_once_and_not_for_ever(api):
    """An object that decisions cannot read is never held."""
    api.put("Pod", pod("many", cpu="many"))
    async with following(api.url) as rig:
        await rig.read()
        assert await compared(rig) == 1
        await rig.followed("Pod", lists=2)
        for _ in range(3):
            assert await compared(rig) == 0
        assert rig.state("Pod").relists == 1
        silently(api, "Pod", shop_pod("new", on="worker-1"))  # another one all the same
        assert await compared(rig) == 1
        await rig.until(lambda: "new" in rig.names())
        assert rig.state("Pod").relists == 2


async def test_C15_what_is_assumed_of_a_pod_is_no_divergence(api):
    async with following(api.url) as rig:
        await rig.read()
        incoming = shop_pod("incoming", cpu="4", priority=100)
        api.put("Pod", incoming)
        await rig.until(lambda: rig.holds(api))
        snapshot = rig.cache.snapshot()
        pods = snapshot.objects.pods
        rig.cache.assumed.assume_preempted(pods["shop", "incoming"], "worker-1", [pods["shop", "small"]])
        assert len(rig.cache.assumed) == 2
        assert await rig.source.verification.verify("Pod") == 0


async def test_C15_every_kind_is_compared_every_half_hour_whatever_becomes_of_one(api, caplog):
    api.put("StorageClass", thing("StorageClass", "fast", provisioner="disk"))
    async with following(api.url, verify_interval=HALF_AN_HOUR) as rig:
        await rig.read()
        silently(api, "StorageClass", thing("StorageClass", "fast", provisioner="another"))
        api.faults.add(Fault("list", "Pod", Answer(500), times=1))

        def fail():
            raise RuntimeError("a bug")

        rig.source.reflectors["Service"].list_metadata = fail  # type: ignore[method-assign]
        await rig.sleeps.end(HALF_AN_HOUR)
        await rig.sleeps.end(verification.EVENT_GRACE_SECONDS)
        await rig.until(lambda: rig.holds(api))
        await rig.sleeps.end(HALF_AN_HOUR)  # it goes on
        assert rig.source.problem() is None
        assert rig.source.fatal is None
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["verification of Service failed"]


async def test_C15_what_was_lost_while_a_stream_was_broken_is_found_soon(api):
    async with following(api.url, verify_interval=HALF_AN_HOUR) as rig:
        await rig.read()
        api.drop_connections()
        await rig.until(lambda: rig.state("Pod").interruptions and rig.state("Pod").phase == "watching")
        silently(api, "Pod", shop_pod("small", on="worker-1", cpu="2"))  # after the reconnect: no event tells of it
        await rig.sleeps.end(verification.INTERRUPTION_CHECK_SECONDS)
        await rig.sleeps.end(verification.EVENT_GRACE_SECONDS)
        await rig.until(lambda: rig.holds(api))
        assert rig.state("Pod").relists == 1


async def test_C15_a_stream_that_is_broken_is_not_compared(api):
    async with following(api.url) as rig:
        await rig.read()
        api.faults.add(Fault("watch", "Pod", Answer(500), times=None))
        api.end_watches("Pod")
        await rig.until(lambda: rig.state("Pod").phase == "broken")
        silently(api, "Pod", shop_pod("new", on="worker-1"))
        assert await rig.source.verification.verify("Pod") == 0


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
    async with serving(api.url) as (client, rig):
        await rig.read()
        assert (await client.get("/readyz")).status_code == 200
        verbose = (await client.get("/readyz?verbose")).text
        assert "[!] PersistentVolume: forbidden" in verbose
        assert "[!] no permission to list PersistentVolume: plugins that read them are not evaluated" in verbose
        answer = await client.post("/filter", content=body)
        assert (answer.status_code, left_out(answer)) == (200, BLIND)
        assert left_out(await client.post("/prioritize", content=body)) == BLIND
        assert left_out(await client.post("/preempt", content=preempt_body(with_claim("urgent")))) == BLIND
        assert left_out(await client.post("/filter", content=filter_body())) is None
        # Asked again and again, and refused:
        await asyncio.to_thread(api.wait_for, lambda: refusals(api, "PersistentVolume") >= 5)
        api.allow("PersistentVolume")
        await rig.until(lambda: rig.state("PersistentVolume").phase == "watching" and not rig.source.warnings())
        await rig.until(lambda: not rig.cache.snapshot().unreadable_tables)
        assert left_out(await client.post("/filter", content=body)) is None
        assert rig.source.problem() is None
    assert sum("persistentvolumes forbidden, retrying" in record.getMessage() for record in caplog.records) == 1


def left_out(answer):
    return answer.headers.get("X-Extender-Not-Evaluated")


def refusals(api, kind):
    return sum(request.status == 403 for request in api.requests if request.kind == kind)


async def test_an_optional_kind_that_is_forbidden_later_is_not_decided_on_any_more(api):
    api.put("PersistentVolume", thing("PersistentVolume", "v"))
    async with following(api.url) as rig:
        await rig.read()
        assert rig.names("PersistentVolume") == {"v"}
        api.forbid("PersistentVolume")
        api.end_watches("PersistentVolume")
        await rig.until(lambda: rig.cache.snapshot().unreadable_tables == {"volumes"})
        assert rig.names("PersistentVolume") == set()
        assert rig.source.problem() is None


@pytest.mark.parametrize("kind", ["Node", "Pod", "PodDisruptionBudget"])
async def test_a_core_kind_that_is_forbidden_ends_the_service_and_says_why(api, kind):
    plural = {"Node": "nodes", "Pod": "pods", "PodDisruptionBudget": "poddisruptionbudgets"}[kind]
    api.forbid(kind)
    stopped = asyncio.Event()
    async with serving(api.url, on_stop=stopped.set) as (client, rig):
        await asyncio.wait_for(stopped.wait(), 20)
        why = error_of(await client.get("/readyz"))
        assert why.startswith("no permission to ")
        assert f" {plural}, which is required: 403 Forbidden: {plural}" in why
        assert (await client.post("/filter", content=filter_body())).status_code == 503
        assert rig.source.fatal == rig.source.problem()


async def test_a_core_kind_that_is_forbidden_later_is_a_broken_stream(api):
    async with following(api.url) as rig:
        await rig.read()
        api.forbid("Pod")
        api.end_watches("Pod")
        await rig.until(lambda: rig.state("Pod").broken_since is not None)
        assert rig.source.fatal is None
        rig.clock.now += 31.0  # type: ignore[attr-defined]
        assert (rig.source.problem() or "").startswith("pods are stale: not watched for 31s: 403 Forbidden")
        api.allow("Pod")
        await rig.until(lambda: rig.source.problem() is None)


async def test_a_kind_that_the_cluster_does_not_have_is_empty_and_decided_on(api):
    api.remove_resource("DeviceClass")
    api.remove_resource("PersistentVolume")
    async with serving(api.url) as (client, rig):
        await rig.read()
        assert rig.cache.snapshot().unreadable_tables == frozenset()
        assert not rig.source.warnings()
        assert (await client.get("/readyz")).status_code == 200
        answer = await client.post("/filter", content=filter_body(incoming=with_claim("incoming")))
        assert left_out(answer) is None
        assert answer.json()["NodeNames"] == []  # its claim is not there
        api.restore_resource("PersistentVolume")
        api.put("PersistentVolume", thing("PersistentVolume", "v"))
        await rig.until(lambda: rig.names("PersistentVolume") == {"v"})


async def test_a_kind_that_vanishes_is_empty(api):
    api.put("PersistentVolume", thing("PersistentVolume", "v"))
    api.put("Pod", placed(pod("a"), "worker-1"))
    async with following(api.url) as rig:
        await rig.read()
        api.remove_resource("PersistentVolume")
        await rig.until(lambda: rig.names("PersistentVolume") == set())
        assert rig.cache.snapshot().unreadable_tables == frozenset()
        assert rig.source.problem() is None


async def test_H8_a_metadata_list_that_hangs_does_not_keep_the_process_from_exiting(api, monkeypatch):
    """It runs in a daemon thread: the threads of asyncio.to_thread are joined when the process ends."""
    threads = []
    async with following(api.url) as live:
        await live.until(lambda: live.holds(api))
        reflector = live.source.reflectors["Pod"]
        list_metadata = reflector.list_metadata

        def listing():
            threads.append(threading.current_thread())
            return list_metadata()

        monkeypatch.setattr(reflector, "list_metadata", listing)
        assert await live.source.verification.verify("Pod") == 0
    (thread,) = threads
    assert thread.daemon
    assert thread.name == "read-listing"
