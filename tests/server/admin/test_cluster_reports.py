"""The nodes of the cluster, and why a pod is pending: answers over HTTP, from the cluster cache of the service."""

import threading

import msgspec
import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.requests import incoming_requests
from extender.report.lists import nodes
from extender.report.schema import SourceReport
from extender.server.admin import cluster_reports, fork_worker, routes
from extender.server.app import create_app
from extender.utilities.text import suggestion
from tests.builders import cluster, incoming, node, pod, stored_cluster
from tests.server.conftest import admin_client, client_for, configuration, error_of, filter_body

pytestmark = pytest.mark.anyio

GI = 1 << 30
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
NODES = {
    node("n1", cpu="4", memory="8Gi", pods="10", labels={"zone": "a"}): [
        pod("web", cpu="1", memory="1Gi", priority=5),
        pod("small", cpu="500m", priority=1, metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"}),
    ],
    node("n2", cpu="8", memory="2Gi", pods="20", taints=[TAINT, {"key": "plain", "effect": "NoExecute"}]): [],
    node("n3", cpu="2", memory="16Gi", pods="5", unschedulable=True, allocatable={"nvidia.com/gpu": "4"}): [
        pod("gpu", cpu="1", requests={"nvidia.com/gpu": "3"})
    ],
}
WAITING = [incoming("large", cpu="4", priority=3, status={"nominatedNodeName": "n1"}), incoming("huge", cpu="64")]


@pytest.fixture
async def people():
    cache = ClusterCache()
    cache.replace(stored_cluster(cluster(NODES, waiting=WAITING)))
    async with admin_client(create_app(cache, configuration()).server_context) as people:
        yield people


async def get(people, path, **parameters):
    answer = await people.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def names(people, **parameters):
    return [one["name"] for one in (await get(people, "/nodes", **parameters))["nodes"]]


# --- nodes ----------------------------------------------------------------------------------------------------------


async def test_a_list_has_what_nodes_have_and_what_their_pods_request(people):
    answer = await get(people, "/nodes")
    assert (answer["matching"], answer["total"]) == (3, 3)
    first, second, third = answer["nodes"]
    assert first == {
        "name": "n1",
        "pods": 2,
        "allocatable": {"cpu": 4000, "memory": 8 * GI, "pods": 10},
        "requested": {"cpu": 1500, "memory": GI, "pods": 2},
    }
    assert second["taints"] == ["dedicated=gpu:NoSchedule", "plain:NoExecute"]
    assert third["unschedulable"]
    assert third["requested"]["nvidia.com/gpu"] == 3


async def test_extended_resources_are_not_summed_up_on_the_thread_that_decides(people, monkeypatch):
    monkeypatch.setattr(Snapshot, "scalar_demand", lambda *_: pytest.fail("summed up"))
    assert (await get(people, "/nodes"))["nodes"][2]["requested"] == {"cpu": 1000, "pods": 1, "nvidia.com/gpu": 3}


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({"text": "N2"}, ["n2"]),
        ({"text": "gpu:NoSched"}, ["n2"]),
        ({"text": "zone=a"}, ["n1"]),
        ({"text": "nowhere"}, []),
        ({"sort": "cpu"}, ["n2", "n1", "n3"]),
        ({"sort": "memory"}, ["n3", "n1", "n2"]),
        ({"sort": "pods"}, ["n2", "n1", "n3"]),
        ({"limit": "2"}, ["n1", "n2"]),
        ({"limit": "2", "offset": "2"}, ["n3"]),
        ({"offset": "9"}, []),
    ],
    ids=str,
)
async def test_nodes_are_found_by(people, parameters, found):
    assert await names(people, **parameters) == found


async def test_the_number_of_matches_is_that_of_all_pages(people):
    answer = await get(people, "/nodes", text="n", limit="1")
    assert (len(answer["nodes"]), answer["matching"]) == (1, 3)


async def test_a_node_has_its_labels_and_pods_and_those_that_wait_for_room(people):
    answer = await get(people, "/nodes/n1")
    assert answer["labels"] == {"kubernetes.io/hostname": "n1", "zone": "a"}
    assert [(one["key"], one.get("terminating", False)) for one in answer["running"]] == [
        ("default/web", False),
        ("default/small", True),
    ]
    assert answer["running"][0]["requests"] == {"cpu": 1000, "memory": GI}
    assert [one["key"] for one in answer["nominated"]] == ["default/large"]
    assert (await get(people, "/nodes/n3"))["requested"] == {"cpu": 1000, "pods": 1, "nvidia.com/gpu": 3}


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/nodes?order=cpu", 400, "order: no such parameter; available: text, sort, offset and limit"),
        ("/nodes?sort=disk", 400, "sort: must be one of name, cpu, memory, pods, not 'disk'"),
        ("/nodes?limit=0", 400, "limit: must be a number from 1 to 1000, not '0'"),
        ("/nodes/n4", 404, "the cluster has no node 'n4'"),
        ("/why/default/missing", 404, "the cluster has no pod default/missing"),
        ("/why/default/large?node=n4", 400, "node 'n4' does not exist"),
        ("/why/default/large?pod=x", 400, "pod: no such parameter; available: node"),
        ("/why/default", 404, "no such path"),
    ],
)
async def test_it_says_what_is_wrong_with(people, path, status, message):
    answer = await people.get(path)
    assert (answer.status_code, error_of(answer)[: len(message)]) == (status, message)


@pytest.mark.parametrize("path", ["/nodes", "/nodes/n1", "/why/default/large"])
async def test_a_cluster_that_is_not_there_yet_is_named_as_the_reason(path):
    async with admin_client(create_app(ClusterCache(), configuration()).server_context) as people:
        answer = await people.get(path)
    assert (answer.status_code, error_of(answer)) == (503, "the cache has not synced yet")


async def test_the_pods_of_a_node_are_rendered_on_another_thread_than_the_one_that_decides(people, monkeypatch):
    threads = []

    def watched(*given):
        threads.append(threading.get_ident())
        return incoming_requests(*given)

    monkeypatch.setattr(nodes, "incoming_requests", watched)
    await get(people, "/nodes/n1")
    assert len(threads) == 3
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("path", ["/nodes/n11", "/decisions/filter-1?node=n11"])
async def test_similar_names_are_looked_for_on_another_thread_than_the_one_that_decides(monkeypatch, path):
    cache, threads = ClusterCache(), []
    cache.replace(stored_cluster(cluster(NODES)))
    app = create_app(cache, configuration())

    def suggest(*names):
        threads.append(threading.get_ident())
        return suggestion(*names)

    for module in (cluster_reports, routes):
        monkeypatch.setattr(module, "suggestion", suggest)
    async with client_for(app) as scheduler, admin_client(app.server_context) as people:
        assert (await scheduler.post("/filter", content=filter_body(["n1"]))).status_code == 200
        answer = await people.get(path)
    assert (answer.status_code, error_of(answer)) == (404, "the cluster has no node 'n11' (did you mean n1?)")
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


# --- why ------------------------------------------------------------------------------------------------------------


async def test_a_pod_is_explained_on_all_nodes_with_the_sentences_of_its_facts(people):
    answer = await get(people, "/why/default/huge")
    found = answer["diagnosis"]
    assert (found["verdict"], [one["name"] for one in found["nodes"]]) == ("DoesNotFit", ["n1", "n2", "n3"])
    assert answer["factSentences"]["n2"] == ["dedicated=gpu:NoSchedule", "plain:NoExecute"]


async def test_a_node_of_it_is_shown_in_full(people):
    found = (await get(people, "/why/default/large", node="n1"))["diagnosis"]
    assert found["details"]["name"] == "n1"
    assert {one["key"] for one in found["details"]["pods"]} == {"default/web", "default/small"}


async def test_a_running_pod_is_explained_and_stays_where_it_is(people):
    before = await get(people, "/nodes/n1")
    assert (await get(people, "/why/default/web"))["diagnosis"]["state"] == "Assigned"
    assert await get(people, "/nodes/n1") == before


async def test_where_the_system_cannot_fork_the_explanation_is_the_same(people, monkeypatch):
    forked = await get(people, "/why/default/large")
    monkeypatch.setattr(fork_worker, "IS_FORK_SUPPORTED", False)
    assert await get(people, "/why/default/large") == forked


# --- the source -----------------------------------------------------------------------------------------------------


def answering_with(where):
    cache = ClusterCache()
    cache.replace(stored_cluster(cluster(NODES, waiting=WAITING)))
    return admin_client(create_app(cache, configuration(), where=lambda: where).server_context)


async def test_every_answer_says_of_which_cluster_it_is():
    live = {"kind": "live", "context": "prod", "server": "https://api:6443", "namespace": "shop"}
    async with answering_with(msgspec.convert(live, SourceReport)) as people:
        body = {"pod": incoming("new"), "compare": ["upstream", "strict"]}
        compared = (await people.post("/simulate", json=body)).json()
        plain = (await people.post("/simulate", json={"pod": incoming("new")})).json()
        assert [one["source"] for one in (plain, *compared["results"])] == [live] * 3
        assert (plain["release"], plain["versionSource"]) == ("1.37", "assumed: its version is not known")
        assert (await get(people, "/why/default/huge"))["diagnosis"]["source"] == live
        assert (await get(people, "/status"))["source"] == live
        assert "[+] source: context prod (https://api:6443)" in (await people.get("/readyz?verbose")).text
