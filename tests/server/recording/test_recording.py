"""The application records calls over HTTP: from its start, or after POST /recording."""

import pytest

import extender
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files.manifests import example_cluster
from extender.server.app import create_app
from tests.cluster.watch.source_rig import serving
from tests.fakes.api_server import FakeAPI
from tests.server.conftest import (
    BODIES,
    CLUSTER,
    URGENT,
    admin_client,
    client_for,
    configuration,
    filled_cache,
    preempt_body,
)
from tests.server.conftest import filter_body as body_of
from tests.server.conftest import pod as shop_pod

pytestmark = pytest.mark.anyio


def recording_into(directory, **sections):
    return configuration(recording={"directory": str(directory)}, **sections)


def replayed(directory):
    """The answers that were recorded, all of which are given again."""
    results = list(extender.replay(directory))
    assert [result.differences for result in results] == [()] * len(results)
    return [result.call.answer for result in results]


async def test_what_is_answered_is_recorded_from_the_start_to_the_end(tmp_path):
    app = create_app(filled_cache(), recording_into(tmp_path))
    async with app.lifespan(), client_for(app) as client:
        answers = [(await client.post(path, content=body)).content for path, body in BODIES.items()]
        assert (await client.post("/filter", content=b"{")).status_code == 400
    assert replayed(tmp_path) == answers


async def test_the_example_cluster_is_recorded(tmp_path):
    cache = ClusterCache()
    cache.replace(example_cluster())
    app = create_app(cache, recording_into(tmp_path))
    sent: dict[str, list[str]] = {node.metadata.name: [] for node in cache.snapshot().nodes}
    answers = []
    async with app.lifespan(), client_for(app) as client:
        for cpu in ("500m", "3", "64"):
            urgent = shop_pod("cart-9", cpu=cpu, priority=100_000)
            answers += [
                (await client.post("/filter", content=body_of(list(sent), urgent))).content,
                (await client.post("/prioritize", content=body_of(list(sent), urgent))).content,
                (await client.post("/preempt", content=preempt_body(urgent, **sent))).content,
            ]
    assert replayed(tmp_path) == answers
    assert len(set(answers)) > 6


async def test_nothing_is_recorded_unless_that_is_wanted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = create_app(filled_cache(), configuration())
    async with app.lifespan(), client_for(app) as client:
        await client.post("/filter", content=body_of())
    assert list(tmp_path.iterdir()) == []


async def test_it_is_switched_on_and_off_by_the_admin_listener(tmp_path):
    app = create_app(filled_cache(), recording_into(tmp_path))
    async with (
        app.lifespan(),
        client_for(app) as client,
        admin_client(app.server_context) as people,
    ):
        answers = []
        for number, enabled in enumerate((False, True, False)):
            switched = await people.post("/recording", json={"enabled": enabled})
            assert (switched.status_code, switched.json()["enabled"]) == (200, enabled)
            answers.append((await client.post("/filter", content=body_of(incoming=shop_pod(f"p{number}")))).content)
        assert (await people.get("/recording")).json()["calls"] == 1
    assert replayed(tmp_path) == answers[1:2]


async def test_the_directory_cannot_be_chosen_over_http(tmp_path):
    app = create_app(filled_cache(), configuration())
    async with admin_client(app.server_context) as people:
        refused = await people.post("/recording", json={"enabled": True})
        assert refused.status_code == 409
        assert "recording.directory" in refused.json()["Error"]
        chosen = await people.post("/recording", json={"enabled": True, "directory": str(tmp_path / "mine")})
        assert chosen.status_code == 400
    assert list(tmp_path.iterdir()) == []


async def test_a_live_cluster_is_recorded_with_what_is_assumed_of_it(tmp_path):
    with FakeAPI() as api:
        for one in CLUSTER["items"]:
            api.put(one["kind"], one)
        modest = shop_pod("modest", cpu="3", priority=50)
        sections = {"recording": {"directory": str(tmp_path)}}
        async with serving(api.url, sections) as (client, live):
            assert (await client.post("/filter", content=body_of())).status_code == 503
            await live.read()
            answers = []
            for path, body in (
                ("/filter", body_of(incoming=modest)),
                ("/preempt", preempt_body(**{"worker-1": ["uid-small"]})),
                ("/filter", body_of(incoming=modest)),
                ("/filter", body_of(incoming=URGENT)),
                ("/filter", body_of(incoming=modest)),
            ):
                answers.append((await client.post(path, content=body)).content)
                if path == "/preempt":
                    api.put("Pod", shop_pod("late", on="worker-2", cpu="1"))
                    await live.until(lambda: ("shop", "late") in live.cache.mutable_snapshot().objects.pods)
    found = replayed(tmp_path)
    assert found[1:] == answers
    assert answers[0] != answers[2]
    assert answers[0] == answers[4]
