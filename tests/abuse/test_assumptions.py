"""Rows 5 and 13: /preempt for pods that kube-scheduler never sends, beside a real watch."""

import contextlib
import json
from random import Random

import pytest

from tests.abuse.service import service, until
from tests.cluster.apiserver.credentials.kubeconfigs import kubeconfig
from tests.fakes.api_server import FakeAPI
from tests.server.conftest import CLUSTER, URGENT, filter_body, pod, preempt_body

WAITING = pod("waiting", cpu="1", priority=5)
TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.fixture(scope="module")
def api():
    with FakeAPI() as fake:
        for one in (*CLUSTER["items"], WAITING, URGENT):
            fake.put(one["kind"], one)
        yield fake


@pytest.fixture(scope="module")
def cluster(api, tmp_path_factory):
    """The service, once it follows the API server. What a test's last call assumed ends with the pod's next call."""
    access = kubeconfig(tmp_path_factory.mktemp("cluster") / "kubeconfig", {"token": "t"}, {"server": api.url})
    with service(CLUSTER__SOURCE="kubernetes", CLUSTER__KUBECONFIG=access) as process:
        until(lambda: process.readyz() == 200)
        yield process
        assert not [line for line in process.lines if "Traceback" in line or " ERROR " in line], process.lines


def preempt(process, preemptor, **victims):
    """(victims by node, reason for none)."""
    with contextlib.closing(process.connection()) as connection:
        body = preempt_body(incoming=preemptor, **victims)
        connection.request("POST", "/preempt", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        nodes = json.loads(response.read())["NodeNameToMetaVictims"]
        reason = response.getheader("X-Extender-Vetoed")
    return {node: [one["UID"] for one in one["Pods"]] for node, one in nodes.items()}, reason


def pods_shown(process):
    """(name, UID, node) of the pods that the cluster cache has from the API server."""
    status, body = process.get("/cluster")
    assert status == 200
    return {identity(one) for one in json.loads(body)["items"] if one["kind"] == "Pod"}


def pods_there(api):
    return {identity(one) for one in api.objects("Pod")}


def identity(one):
    return one["metadata"]["name"], one["metadata"]["uid"], one["spec"].get("nodeName", "")


def changed(one, **metadata):
    return one | {"metadata": one["metadata"] | metadata}


NEVER_SENT = {
    "it runs": (pod("stranger", on="worker-1", cpu="4", priority=50), "is assigned to node worker-1 already"),
    "it runs, by the cache": (pod("large", priority=50), "is assigned to node worker-2 already"),
    "the UID of a pod that runs": (pod("stranger", uid="uid-large", priority=50), "its UID is that of pod shop/large"),
    "its own victim": (pod("small", priority=50), "is assigned to node worker-1 already"),
    "it terminates": (changed(URGENT, **TERMINATING), "skip schedule deleting pod: shop/urgent"),
    "it is gated": (URGENT | {"spec": URGENT["spec"] | {"schedulingGates": [{"name": "g"}]}}, "waits for 1 scheduling"),
    "it has finished": (URGENT | {"status": {"phase": "Failed"}}, "is Failed already"),
}


def test_H6_a_preemptor_that_does_not_wait_gets_no_victims_and_a_reason(cluster):
    for preemptor, reason in NEVER_SENT.values():
        victims, given = preempt(cluster, preemptor, **{"worker-1": ["uid-small"]})
        assert victims == {}
        assert reason in given
    _, metrics = cluster.get("/metrics")
    assert b"extender_assumed_pods 0.0" in metrics
    assert preempt(cluster, URGENT, **{"worker-1": ["uid-small"]}) == ({"worker-1": ["uid-small"]}, None)


def test_H6_a_pod_that_only_a_call_showed_never_runs_and_is_no_victim(cluster):
    preempt(cluster, pod("stranger", on="worker-1", cpu="4", priority=50), **{"worker-1": ["uid-small"]})
    assert preempt(cluster, URGENT, **{"worker-1": ["uid-small"]}) == ({"worker-1": ["uid-small"]}, None)


def test_H6_the_uid_of_a_waiting_pod_in_another_name_does_not_hide_it(api, cluster):
    strangers = [
        pod(name, on=on, cpu="4", priority=50, uid="uid-waiting") for name, on in (("a", ""), ("b", "worker-1"))
    ]
    for stranger in strangers:
        preempt(cluster, stranger, **{"worker-1": ["uid-small"]})
    api.put("Pod", pod("waiting", on="worker-2", cpu="1", priority=5))
    until(lambda: pods_shown(cluster) == pods_there(api))
    for stranger in strangers:  # ends what was assumed, as 30 s do
        assert cluster.call("/filter", filter_body(["worker-1"], stranger))[0] == 200
    victims, _ = preempt(cluster, URGENT, **{"worker-2": ["uid-large", "uid-waiting"]})
    assert victims == {"worker-2": ["uid-large", "uid-waiting"]}


def test_H6_after_any_calls_the_cache_has_every_pod_of_the_api_server_and_names_no_other(api, cluster):
    chance, known = Random(7), {one["metadata"]["uid"] for one in api.objects("Pod")}
    for number in range(200):
        name, uid, on = chance.choice(("a", "b", "c")), f"uid-{chance.randrange(12)}", f"worker-{chance.choice('12')}"
        if chance.random() < 0.3:
            there = api.get("Pod", name, "shop")
            if there is not None and chance.random() < 0.5:
                api.delete("Pod", name, "shop")
            elif there is None and uid not in known:
                known.add(uid)
                api.put("Pod", pod(name, on=chance.choice(("", on)), cpu="100m", priority=1, uid=uid))
            continue
        claims = {"resourceVersion": chance.choice(("1", "9" * 18))}
        preemptor = changed(pod(name, on=chance.choice(("", "", on)), cpu="4", priority=20 + number, uid=uid), **claims)
        sent = [one["metadata"]["uid"] for one in api.objects("Pod") if one["spec"].get("nodeName") == on]
        victims, _ = preempt(cluster, preemptor, **{on: sent})
        assert uid not in {one for found in victims.values() for one in found}
        assert {one for found in victims.values() for one in found} <= known
    until(lambda: pods_shown(cluster) == pods_there(api))
