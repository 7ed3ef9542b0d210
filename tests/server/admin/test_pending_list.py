"""GET /pending: the last report at once, made on a copy of the snapshot while clients ask."""

import asyncio

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.server.admin import fork_worker, pending_list
from extender.server.app import create_app
from tests.builders import cluster, incoming, node, stored_cluster
from tests.server.conftest import admin_client, configuration, error_of

pytestmark = pytest.mark.anyio

WAITING = [incoming("large", cpu="64"), incoming("small", cpu="1")]


def cache_with(waiting):
    cache = ClusterCache()
    cache.replace(stored_cluster(cluster({node("n1", cpu="4"): []}, waiting=waiting)))
    return cache


def client(cache):
    return admin_client(create_app(cache, configuration()).server_context)


async def get(people, **parameters):
    answer = await people.get("/pending", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def until(people, condition, **parameters):
    async with asyncio.timeout(30):
        while not condition(found := await get(people, **parameters)):  # noqa: ASYNC110 (only requests make it go on)
            await asyncio.sleep(0.01)
    return found


async def test_the_first_request_does_not_wait_and_a_later_one_has_the_report():
    async with client(cache_with(WAITING)) as people:
        first = await get(people)
        assert (first["time"], first["report"], first["isMaking"]) == (None, None, True)
        found = await until(people, lambda answer: answer["report"])
    assert {one["pod"]: one["verdict"] for one in found["report"]["pods"]} == {
        "default/large": "DoesNotFit",
        "default/small": "Fits",
    }
    assert found["time"].endswith("Z")
    assert 0 <= found["ageSeconds"] < 30


async def test_a_report_that_the_client_knows_is_left_out():
    async with client(cache_with(WAITING)) as people:
        found = await until(people, lambda answer: answer["report"])
        again = await get(people, known=found["time"])
        assert (again["time"], again["report"]) == (found["time"], None)
        assert (await get(people, known="2026-01-01T00:00:00.000Z"))["report"] == found["report"]


async def test_a_report_is_made_again_only_when_it_is_old(monkeypatch):
    monkeypatch.setattr(pending_list, "REST_PER_SECOND", 0.0)
    cache = cache_with(WAITING)
    async with client(cache) as people:
        found = await until(people, lambda answer: answer["report"])
        cache.replace(stored_cluster(cluster({node("n1", cpu="4"): []})))
        for _ in range(3):
            assert (await get(people))["time"] == found["time"]
    monkeypatch.setattr(pending_list, "MIN_AGE_SECONDS", 0.0)
    async with client(cache) as people:
        await until(people, lambda answer: answer["report"] is not None and answer["report"]["pods"] == [])


async def test_where_the_system_cannot_fork_the_report_is_the_same(monkeypatch):
    async with client(cache_with(WAITING)) as people:
        forked = await until(people, lambda answer: answer["report"])
    monkeypatch.setattr(fork_worker, "IS_FORK_SUPPORTED", False)
    async with client(cache_with(WAITING)) as people:
        assert (await until(people, lambda answer: answer["report"]))["report"] == forked["report"]


async def test_a_cluster_that_is_not_there_yet_is_named_as_the_reason():
    async with client(ClusterCache()) as people, asyncio.timeout(30):
        while (answer := await people.get("/pending")).status_code == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (answer.status_code, error_of(answer)) == (503, "the cache has not synced yet")


async def test_a_failure_after_a_report_is_told_beside_it(monkeypatch):
    monkeypatch.setattr(pending_list, "MIN_AGE_SECONDS", 0.0)
    monkeypatch.setattr(pending_list, "REST_PER_SECOND", 0.0)
    cache = cache_with(WAITING)
    async with client(cache) as people:
        await until(people, lambda answer: answer["report"])
        monkeypatch.setattr(cache, "_snapshot", None)
        found = await until(people, lambda answer: answer["error"])
    assert found["error"] == "the cache has not synced yet"
    assert found["report"] is not None


async def test_a_report_that_is_too_large_is_not_kept(monkeypatch):
    monkeypatch.setattr(pending_list, "MAX_REPORT_BYTES", 100)
    async with client(cache_with(WAITING)) as people, asyncio.timeout(30):
        while (answer := await people.get("/pending")).status_code == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert "more than 0 MiB" in error_of(answer)
