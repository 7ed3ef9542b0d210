"""The version of kube-scheduler in a live cluster: before the first decision, and after an upgrade."""

import asyncio
import json
from typing import Any

import pytest

from extender.cluster.apiserver.stream import ApiUnreachable
from extender.cluster.watch.version_finder import VersionFinder
from extender.errors import ConfigError
from extender.k8s.version.found import FoundVersion
from extender.server.settings import LiveSettings
from tests.cluster.watch.source_rig import following, serving
from tests.fakes.api_server import Answer, FakeAPI, Fault, Hang
from tests.k8s.version.test_found import scheduler_pod
from tests.server.conftest import configuration, filter_body, node

pytestmark = pytest.mark.anyio

API_SERVER = FoundVersion(34, "API server v1.34.1; no pod of kube-scheduler names its version", 1)


@pytest.fixture
def api():
    with FakeAPI() as server:
        server.version = "v1.34.1"
        yield server


def put(api, name, tag):
    api.put("Pod", scheduler_pod(name, f"registry.k8s.io/kube-scheduler:{tag}"))


def minor(rig):
    return rig.source.found_version and rig.source.found_version.minor


async def test_kube_scheduler_s_pods_come_before_the_api_server(api):
    put(api, "cp-1", "v1.33.2")
    async with following(api.url) as rig:
        await rig.read()
        expected = FoundVersion(33, "image tag v1.33.2 of pod kube-system/kube-scheduler-cp-1", 2)
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
    api.version = "v1.36.0"
    for name in ("cp-1", "cp-2"):
        put(api, name, "v1.35.4")
    seen = []
    async with following(api.url) as rig:
        rig.source.watch_version(lambda found: seen.append(found and found.minor))
        await rig.read()
        put(api, "cp-1", "v1.36.0")
        await rig.until(lambda: "1.35.4, 1.36.0" in str(rig.source.found_version))
        put(api, "cp-2", "v1.36.0")
        await rig.until(lambda: minor(rig) == 36)
        for name in ("cp-1", "cp-2"):
            api.delete("Pod", f"kube-scheduler-{name}", "kube-system")
        await rig.until(lambda: "API server v1.36.0" in str(rig.source.found_version))
    assert seen == [35, 35, 36, 36, 36] or seen == [35, 35, 36, 36]


async def test_a_kube_scheduler_that_is_replaced_while_the_first_lists_are_read_counts(api):
    """The watch of pods is open long before the list of services comes."""
    put(api, "cp-1", "v1.34.0")
    hang = Hang()
    api.faults.add(Fault("watch" if api.watch_list else "list", "Service", hang))
    async with following(api.url) as rig:
        await asyncio.to_thread(api.wait_for, lambda: api.open_watches("Pod") == 1)
        put(api, "cp-1", "v1.33.2")
        await rig.until(lambda: rig.source._first.changes)
        hang.release()
        await rig.read()
        assert minor(rig) == 33


class Says:
    """An API server that says another version at each read; None: it cannot be reached."""

    def __init__(self, *versions):
        self.versions = list(versions)

    def get(self, path, timeout):
        assert path == "/version"
        version = self.versions.pop(0)
        if version is None:
            raise ApiUnreachable("refused")
        return json.dumps({"gitVersion": version}).encode()


async def found_by(*versions):
    """Return the minors that were found, in order, when the API server says these versions one after the other."""
    api: Any = Says(*versions)
    seen: list[object] = []
    finder = VersionFinder(api)
    finder.on_found = lambda found: seen.append(found and found.minor)

    async def sleep(_):
        if not api.versions:
            raise asyncio.CancelledError

    await finder.read_first(sleep)
    list(finder.look_at([]))
    with pytest.raises(asyncio.CancelledError):
        await finder.follow(sleep)
    return seen


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["v1.34.1", "v1.35.0", "v1.35.0", "v1.35.0"], [34, 35]),
        (["v1.34.1", "v1.35.0", "v1.34.1", "v1.35.0", "v1.34.1"], [34]),
        (["v1.34.1", "v1.35.0", "v1.34.1", "v1.35.0", "v1.35.0"], [34, 35]),
        (["v1.34.1", "v1.35.0", None, "v1.35.0"], [34, 35]),
        ([None, "v1.34.1", "v1.34.1"], [34]),
    ],
    ids=["upgraded", "in turns", "in turns, then upgraded", "unreachable in between", "unreachable at first"],
)
async def test_another_version_of_the_api_server_counts_once_two_reads_in_a_row_say_it(versions, expected):
    """Behind a load balancer, old and new API servers answer in turns while they are upgraded."""
    assert await found_by(*versions) == expected


# --- in the service ---------------------------------------------------------------------------------------------------


async def ready(client):
    return (await client.get("/readyz?verbose")).text


async def test_the_first_snapshot_is_built_for_the_version_that_was_found(api):
    api.version = "v1.36.1"
    put(api, "cp-1", "v1.33.2")
    api.put("Node", node("worker-1"))
    async with serving(api.url) as (client, rig):
        await rig.read()
        assert "kube-scheduler 1.33.2 (image tag v1.33.2 of pod kube-system/kube-scheduler-cp-1)" in await ready(client)
        assert not rig.cache.snapshot().features.read_write_once_pod_reason_of_1_34
        first = rig.cache.snapshot()
        put(api, "cp-1", "v1.36.1")
        await rig.until(lambda: minor(rig) == 36)
        while not rig.cache.snapshot().features.read_write_once_pod_reason_of_1_34:
            await asyncio.wait_for(rig.cache.next_change(), 10)
        assert "kube-scheduler 1.36.1 (image tag v1.36.1" in await ready(client)
        assert rig.cache.snapshot() is not first
        answer = await client.post("/filter", content=filter_body(["worker-1"]))
        assert answer.json()["NodeNames"] == ["worker-1"]


async def test_a_version_that_is_set_stays(api):
    put(api, "cp-1", "v1.33.2")
    async with serving(api.url, {"scheduler": {"version": "1.30"}}) as (client, rig):
        await rig.read()
        assert "kube-scheduler 1.30 (configured)" in await ready(client)
        assert rig.cache.snapshot().features.in_tree_volume_limits


async def test_nothing_is_decided_before_the_configuration_fits_the_version_that_was_found(api):
    """1.36 knows the gate, which is why the configuration was accepted before the version was found."""
    put(api, "cp-1", "v1.32.1")
    api.put("Node", node("worker-1"))
    async with serving(api.url, {"scheduler": {"featureGates": {"StorageCapacityScoring": True}}}) as (client, rig):
        await rig.read()
        text = await ready(client)
        found = "for kube-scheduler 1.32.1 (image tag v1.32.1 of pod kube-system/kube-scheduler-cp-1)"
        (said,) = (line for line in text.splitlines() if line.startswith("[!] configuration: "))
        assert "StorageCapacityScoring" in said
        assert said.endswith(f"{found}; nothing is decided by it")
        assert "[-] cluster: kube-scheduler's configuration is not valid: scheduler.featureGates: " in text
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.post("/filter", content=filter_body(["worker-1"]))).status_code == 503
        assert "\nextender_config_valid 0.0\n" in (await client.get("/metrics")).text
        unfit = rig.cache.snapshot()
        put(api, "cp-1", "v1.34.0")
        while rig.cache.snapshot() is unfit:
            await asyncio.wait_for(rig.cache.next_change(), 10)
        assert "kube-scheduler 1.34" in await ready(client)
        assert "[!] configuration" not in await ready(client)
        answer = await client.post("/filter", content=filter_body(["worker-1"]))
        assert answer.json()["NodeNames"] == ["worker-1"]


async def test_an_upgrade_that_the_configuration_does_not_fit_keeps_the_previous_version(api):
    api.version = "v1.34.1"
    put(api, "cp-1", "v1.34.0")
    async with serving(api.url, {"scheduler": {"featureGates": {"StorageCapacityScoring": True}}}) as (client, rig):
        await rig.read()
        put(api, "cp-1", "v1.32.1")
        await rig.until(lambda: minor(rig) == 32)
        text = await ready(client)
        assert "[+] kube-scheduler 1.34.0 (image tag v1.34.0" in text
        assert "kube-scheduler-cp-1); using the previous one" in text
        assert (await client.get("/readyz")).status_code == 200


async def test_gates_that_only_the_found_version_has_are_no_mistake_before_it_is_found(api):
    put(api, "cp-1", "v1.33.1")
    sections: dict[str, dict[str, object]] = {
        "scheduler": {"featureGates": {"DynamicResourceAllocation": False}},
        "cluster": {"source": "kubernetes"},
    }
    async with serving(api.url, sections) as (client, rig):
        await rig.read()
        assert "kube-scheduler 1.33.1 (image tag" in await ready(client)
    with pytest.raises(ConfigError, match="DynamicResourceAllocation"):
        LiveSettings(configuration(scheduler=sections["scheduler"]))
