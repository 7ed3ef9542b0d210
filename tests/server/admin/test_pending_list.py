"""GET /pending: the last report at once, made on a copy of the snapshot while clients ask."""

import asyncio
import os

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.server.admin import fork_worker, pending_list, snapshot_copy
from extender.server.admin.fork_worker import ForkedWorker
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
    assert found["report"]["source"] == {"kind": "objects", "namespace": "default"}
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


async def test_an_old_failure_does_not_hide_that_a_report_is_being_made(monkeypatch):
    monkeypatch.setattr(pending_list, "MIN_AGE_SECONDS", 0.0)
    monkeypatch.setattr(pending_list, "REST_PER_SECOND", 0.0)
    cache = ClusterCache()
    async with client(cache) as people:
        found = await until(people, lambda answer: answer["error"])
        assert (found["error"], found["report"], found["isMaking"]) == ("the cache has not synced yet", None, True)
        assert 0 <= found["errorAgeSeconds"] < 30
        cache.replace(stored_cluster(cluster({node("n1", cpu="4"): []}, waiting=WAITING)))
        found = await until(people, lambda answer: answer["report"])
    assert (found["error"], found["errorAgeSeconds"]) == ("", None)


async def test_a_report_that_is_too_large_is_not_kept(monkeypatch):
    monkeypatch.setattr(pending_list, "MAX_REPORT_BYTES", 100)
    async with client(cache_with(WAITING)) as people, asyncio.timeout(30):
        while (answer := await people.get("/pending")).status_code == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert "more than 0 MiB" in error_of(answer)


async def test_a_backlog_that_takes_too_long_is_reported_as_far_as_it_was_evaluated(monkeypatch):
    monkeypatch.setattr(pending_list, "MAX_EVALUATION_SECONDS", 0.0)
    async with client(cache_with(WAITING)) as people:
        found = await until(people, lambda answer: answer["report"])
    assert (found["error"], found["report"]["pods"], found["report"]["omitted"]) == ("", [], 2)


async def test_a_report_that_takes_too_long_all_the_same_names_the_command(monkeypatch):
    monkeypatch.setattr(snapshot_copy, "SIMULATION_TIMEOUT_SECONDS", 0.0)
    async with client(cache_with(WAITING)) as people, asyncio.timeout(30):
        while (answer := await people.get("/pending")).status_code == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        explained = await people.get("/why/default/large")
    for one in (answer, explained):
        assert (one.status_code, error_of(one)) == (503, "no result within 0 s: extender why has no time limit")


async def test_an_unexpected_failure_is_logged_once_per_interval(monkeypatch, caplog):
    def fork():
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(pending_list, "MIN_AGE_SECONDS", 0.0)
    monkeypatch.setattr(pending_list, "REST_PER_SECOND", 0.0)
    async with client(cache_with(WAITING)) as people:
        found = await until(people, lambda answer: answer["error"])
        await get(people)
    assert found["error"] == "the report could not be made: see the log of the service"
    logged = [one.getMessage() for one in caplog.records if one.name == pending_list.__name__]
    assert logged == ["the report of the pending pods could not be made: BlockingIOError('no more processes')"]


async def test_answers_that_are_being_sent_are_limited(monkeypatch):
    monkeypatch.setattr(pending_list, "MAX_RESPONSES", 0)
    async with client(cache_with(WAITING)) as people:
        answer = await people.get("/pending")
    assert (answer.status_code, error_of(answer)[:31]) == (503, "0 requests for pending pods are")


async def test_one_child_runs_at_a_time_whatever_it_was_asked(monkeypatch):
    running, most, result = [], [], ForkedWorker.result

    async def counted(worker, *limits):
        running.append(worker)
        most.append(len(running))
        try:
            return await result(worker, *limits)
        finally:
            running.remove(worker)

    monkeypatch.setattr(ForkedWorker, "result", counted)
    async with client(cache_with(WAITING)) as people:
        await asyncio.gather(
            people.get("/pending"),
            people.get("/why/default/large"),
            people.post("/simulate", json={"pods": [incoming("new")]}),
        )
        await until(people, lambda answer: answer["report"])
    assert most == [1, 1, 1]
