"""Added nodes and how many more pods fit: what `extender simulate` foretells is what a real kube-scheduler does."""

import copy
import json
import random
from collections import Counter
from typing import Any

import pytest

from tests.e2e.control_plane.lab.objects import node, pod
from tests.e2e.control_plane.lab.pods_of_all_kinds import ZONE, constrain, settle
from tests.e2e.control_plane.lab.small_clusters import SEEDS, Placements, clear_cluster, create_cluster, simulate

JSON = dict[str, Any]

KINDS = ("plain", "anti-affinity", "zone-spread", "host-port")
WITH_EQUAL_ENDS = ("plain", "anti-affinity", "host-port")
"""Kinds whose pods are distributed alike in the end, whichever of equal nodes took them first."""
MORE = 2
"""Pods that are created although no more fit."""


COMPARED: dict[int, bool] = {}
"""Seed -> whether all placements of that cluster were compared."""


@pytest.fixture(scope="module")
def cluster(plane):
    plane.kubelet.deletion_seconds = 0.05
    plane.start_scheduler({}, verbosity=1)
    return plane


@pytest.mark.parametrize("seed", SEEDS)
def test_capacity_is_as_foretold(cluster, seed, tmp_path):
    try:
        create_cluster(cluster.api, seed)
        assert_so_many_fit(cluster, seed)
        assert_added_nodes_are_used(cluster, seed, tmp_path)
    finally:
        clear_cluster(cluster.api)


def test_most_clusters_were_compared_to_the_end():
    assert sum(COMPARED.values()) >= len(COMPARED) // 2


def assert_so_many_fit(cluster, seed: int) -> None:
    """As many copies as were foretold are bound, and the next one is refused with the same message."""
    api, draw, kind = cluster.api, random.Random(seed), KINDS[seed % len(KINDS)]
    one = pod("copy", f"{draw.randrange(50, 150)}0m", "256Mi", labels={"app": "copy"}, grace=0)
    constrain(one, kind)
    said = simulate(cluster, "--until-full", "--pod", "-", stdin=[one])["scenario"]["untilFull"]
    names = [f"copy-{number}" for number in range(said["fits"] + MORE)]
    api.create(*(named(one, name) for name in names))
    settled = [settle(api, name) for name in names]
    bound = [it["spec"]["nodeName"] for it in settled if it["spec"].get("nodeName")]
    assert len(bound) == said["fits"]
    if kind in WITH_EQUAL_ENDS:
        assert Counter(bound) == {it["node"]: it["pods"] for it in said["nodes"]}
        assert message_of(settled[-1]) == said["next"]["message"]
    api.request("DELETE", f"{api.path('Pod', 'default')}?labelSelector=app%3Dcopy", {"gracePeriodSeconds": 0})
    api.wait_until(lambda: not api.list("Pod", "default", labelSelector="app=copy"), 20, "the copies to go")


def assert_added_nodes_are_used(cluster, seed: int, folder) -> None:
    """Pods that arrive one after another go where they were foretold, most of them to the added nodes."""
    api, draw = cluster.api, random.Random(seed)
    added = node("added", f"{draw.randrange(40, 90)}00m", "24Gi", labels={ZONE: f"z{seed % 3}"})
    file = folder / "node.json"
    file.write_text(json.dumps(added))
    pods = [pod(f"arrival-{i}", f"{draw.randrange(80, 250)}0m", "1Gi", grace=0) for i in range(8)]
    said = simulate(cluster, "--add-node", str(file), "--count", "2", "--pod", "-", stdin=pods)
    assert said["scenario"]["added"] == ["added-1", "added-2"]
    for name in said["scenario"]["added"]:
        labels = added["metadata"]["labels"] | {"kubernetes.io/hostname": name}
        api.create(added | {"metadata": {"name": name, "labels": labels}})
    wait_for_nodes(api)
    placements = Placements(said["cycles"], said["scenario"]["added"])
    for one in pods:
        api.create(one)
        name = one["metadata"]["name"]
        placements.compare(f"default/{name}", settle(api, name)["spec"].get("nodeName"))
    COMPARED[seed] = placements.is_comparable


def wait_for_nodes(api) -> None:
    """Wait until kube-scheduler counts all nodes: it says how many there are of a pod that fits on none of them."""
    count = len(api.list("Node"))

    def knows_all() -> bool:
        api.create(pod("too-large", "1000", grace=0))
        message = message_of(settle(api, "too-large"))
        api.delete("Pod", "too-large", grace=0)
        return message.startswith(f"0/{count} nodes")

    api.wait_until(knows_all, 20, "kube-scheduler to know the added nodes")


def named(one: JSON, name: str) -> JSON:
    other = copy.deepcopy(one)
    other["metadata"]["name"] = name
    return other


def message_of(one: JSON) -> str:
    (condition,) = [it for it in one["status"]["conditions"] if it["type"] == "PodScheduled"]
    text: str = condition["message"]
    return text
