"""The version of kube-scheduler in a live cluster: before the first decision, and after an upgrade."""

import asyncio

import pytest

from extender.cluster.watch import version_finder
from extender.errors import ConfigError
from extender.k8s.version.minor import FoundVersion
from extender.server.settings import LiveSettings
from tests.cluster.watch.source_rig import following, serving
from tests.fakes.api_server import Answer, FakeAPI, Fault
from tests.k8s.version.test_found import scheduler_pod
from tests.server.conftest import configuration, filter_body, node

pytestmark = pytest.mark.anyio

API_SERVER = FoundVersion(34, "API server v1.34.1; no pod of kube-scheduler was found")


@pytest.fixture
def api():
    with FakeAPI() as server:
        server.version = "v1.34.1"
        yield server


def put(api, name, tag):
    api.put("Pod", scheduler_pod(name, f"registry.k8s.io/kube-scheduler:{tag}"))


async def until_true(is_so):
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)  # nothing tells when it is so


def minor(rig):
    return rig.source.found_version and rig.source.found_version.minor


async def test_kube_scheduler_s_pods_come_before_the_api_server(api):
    put(api, "cp-1", "v1.33.2")
    async with following(api.url) as rig:
        await rig.read()
        expected = FoundVersion(33, "image tag v1.33.2 of pod kube-system/kube-scheduler-cp-1")
        assert rig.source.found_version == expected


async def test_without_such_pods_the_api_server_s_version_counts(api):
    async with following(api.url) as rig:
        await rig.read()
        assert rig.source.found_version == API_SERVER


@pytest.mark.parametrize(
    "answer", [Answer(403), Answer(404), Answer(200, body=b"{}")], ids=["403", "404", "no version"]
)
async def test_an_api_server_that_does_not_say_it_keeps_no_cache_from_syncing(api, answer):
    api.faults.add(Fault("get", "", answer))
    async with following(api.url) as rig:
        await rig.read()
        assert rig.source.found_version is None


async def test_an_upgrade_is_noticed_node_by_node(api):
    for name in ("cp-1", "cp-2"):
        put(api, name, "v1.35.4")
    seen = []
    async with following(api.url) as rig:
        rig.source.watch_version(lambda found: seen.append(found and found.minor))
        await rig.read()
        put(api, "cp-1", "v1.36.0")
        await rig.until(lambda: "1.35, 1.36" in str(rig.source.found_version))
        put(api, "cp-2", "v1.36.0")
        await rig.until(lambda: minor(rig) == 36)
        for name in ("cp-1", "cp-2"):
            api.delete("Pod", f"kube-scheduler-{name}", "kube-system")
        await rig.until(lambda: rig.source.found_version == API_SERVER)
    assert seen == [35, 35, 36, 36, 34] or seen == [35, 35, 36, 34]


async def test_an_upgrade_of_the_api_server_is_noticed(api, monkeypatch):
    monkeypatch.setattr(version_finder, "READ_INTERVAL_SECONDS", 0.01)
    async with following(api.url) as rig:
        await rig.read()
        api.version = "v1.35.0"
        await until_true(lambda: minor(rig) == 35)


# --- in the service ---------------------------------------------------------------------------------------------------


async def ready(client):
    return (await client.get("/readyz?verbose")).text


async def test_the_first_snapshot_is_built_for_the_version_that_was_found(api):
    put(api, "cp-1", "v1.33.2")
    api.put("Node", node("worker-1"))
    async with serving(api.url) as (client, rig):
        await rig.read()
        assert "kube-scheduler 1.33 (image tag v1.33.2 of pod kube-system/kube-scheduler-cp-1)" in await ready(client)
        assert not rig.cache.snapshot().features.reasons_of_1_34
        first = rig.cache.snapshot()
        put(api, "cp-1", "v1.36.1")
        await rig.until(lambda: minor(rig) == 36)
        await until_true(lambda: rig.cache.snapshot().features.reasons_of_1_34)
        assert "kube-scheduler 1.36 (image tag v1.36.1" in await ready(client)
        assert rig.cache.snapshot() is not first
        answer = await client.post("/filter", content=filter_body(["worker-1"]))
        assert answer.json()["NodeNames"] == ["worker-1"]


async def test_a_version_that_is_set_stays(api):
    put(api, "cp-1", "v1.33.2")
    async with serving(api.url, {"scheduler": {"version": "1.30"}}) as (client, rig):
        await rig.read()
        assert "kube-scheduler 1.30 (configured)" in await ready(client)
        assert rig.cache.snapshot().features.in_tree_volume_limits


async def test_gates_that_the_found_version_lacks_keep_the_settings_and_are_said(api):
    """1.36 knows the gate, which is why the configuration was accepted before the version was found."""
    put(api, "cp-1", "v1.30.1")
    async with serving(api.url, {"scheduler": {"featureGates": {"StorageCapacityScoring": True}}}) as (client, rig):
        await rig.read()
        text = await ready(client)
        assert "kube-scheduler 1.36 (default)" in text
        (said,) = (line for line in text.splitlines() if line.startswith("[!] configuration: "))
        assert "StorageCapacityScoring" in said
        assert "\nextender_config_valid 0.0\n" in (await client.get("/metrics")).text
        put(api, "cp-1", "v1.34.0")
        await rig.until(lambda: minor(rig) == 34)
        assert "kube-scheduler 1.34" in await ready(client)
        assert "[!] configuration" not in await ready(client)


async def test_gates_that_only_the_found_version_has_are_no_mistake_before_it_is_found(api):
    put(api, "cp-1", "v1.33.1")
    sections: dict[str, dict[str, object]] = {
        "scheduler": {"featureGates": {"DynamicResourceAllocation": False}},
        "cluster": {"source": "kubernetes"},
    }
    async with serving(api.url, sections) as (client, rig):
        await rig.read()
        assert "kube-scheduler 1.33 (image tag" in await ready(client)
    with pytest.raises(ConfigError, match="DynamicResourceAllocation"):
        LiveSettings(configuration(scheduler=sections["scheduler"]))
