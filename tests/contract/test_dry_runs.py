"""Recorded calls of a real kube-scheduler, sent to /filter-dryrun.

Cluster Autoscaler uses the extender client of kube-scheduler (kubernetes/autoscaler #9786), `nodeCacheCapable: false`.

A template is what it makes of a recorded Node: another name and UID, and the label of its host name.
"""

import json
from functools import cache

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.server.app import create_app
from tests.builders import stored_cluster
from tests.contract.test_recordings import KINDS, RECORDINGS, Call, read
from tests.server.conftest import client_for, configuration

pytestmark = pytest.mark.anyio

MODE = "nodeCacheCapable-false"
SCENARIO = "preempt-rich-preemptor"


@cache
def whole_cluster():
    return json.loads(read(RECORDINGS / "nodeCacheCapable-true" / "cluster" / f"{SCENARIO}.json"))


def cluster_of(items):
    listed = [{**one, "kind": kind} for key, kind in KINDS.items() for one in items.get(key, ())]
    cached = ClusterCache()
    cached.replace(stored_cluster({"kind": "List", "items": listed}))
    return cached


def calls():
    index = json.loads((RECORDINGS / MODE / "index.json").read_bytes())
    names = [name for entry in index if entry["scenario"] == SCENARIO for name in entry["calls"]]
    return [Call(MODE, name) for name in names if name.endswith("-filter")]


def as_template(sent, number):
    name = f"template-node-for-pool-{number}"
    labels = (sent["metadata"].get("labels") or {}) | {"kubernetes.io/hostname": name}
    return sent | {"metadata": sent["metadata"] | {"name": name, "uid": f"uid-{number}", "labels": labels}}


async def dry_run(cached, body):
    async with client_for(create_app(cached, configuration())) as client:
        return await client.post("/filter-dryrun", content=body)


@pytest.mark.parametrize("call", calls(), ids=lambda call: call.name)
async def test_recorded_nodes_come_back_byte_for_byte_even_if_none_is_in_the_cluster(call):
    everything = whole_cluster()
    response = await dry_run(cluster_of(everything), call.request)
    without_nodes = await dry_run(cluster_of(everything | {"nodes": []}), call.request)
    answer = response.json()
    assert answer["Error"] == ""
    accepted = {json.dumps(one, sort_keys=True) for one in answer["Nodes"]["items"]}
    assert accepted <= {json.dumps(one, sort_keys=True) for one in call.body["Nodes"]["items"]}
    rejected = answer["FailedNodes"].keys() | answer["FailedAndUnresolvableNodes"].keys()
    assert len(accepted) + len(rejected) == len(call.nodes)
    assert without_nodes.content == response.content  # the pods that are bound to the sent nodes run there


@pytest.mark.parametrize("call", calls(), ids=lambda call: call.name)
async def test_templates_of_recorded_nodes_are_judged_like_such_nodes_in_the_cluster(call):
    everything = whole_cluster()
    templates = [as_template(one, number) for number, one in enumerate(call.body["Nodes"]["items"])]
    body = json.dumps(call.body | {"Nodes": {"metadata": {}, "items": templates}}).encode()
    dry = await dry_run(cluster_of(everything), body)
    added = cluster_of(everything | {"nodes": everything["nodes"] + templates})
    async with client_for(create_app(added, configuration())) as client:
        real = await client.post("/filter", content=body)
    assert dry.content == real.content
    assert dry.json()["Nodes"]["items"], "no template fits: the test would show nothing"
