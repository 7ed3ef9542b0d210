"""A drain that `extender simulate` foretells is what evictions through the API and a real kube-scheduler come to."""

import copy
from typing import Any

import pytest

from tests.e2e.control_plane.lab.pods_of_all_kinds import settle
from tests.e2e.control_plane.lab.small_clusters import (
    SEEDS,
    Placements,
    clear_cluster,
    create_cluster,
    simulate,
    wait_for_counts,
)

JSON = dict[str, Any]


COMPARED: dict[int, bool] = {}
"""Seed -> whether everything in that cluster was compared."""


@pytest.fixture(scope="module")
def cluster(plane):
    plane.kubelet.deletion_seconds = 0.05
    plane.start_scheduler({}, verbosity=1)
    return plane


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drain_happens_as_foretold(cluster, seed):
    api = cluster.api
    node = create_cluster(api, seed)[0]
    said = simulate(cluster, "--drain", node)
    (foretold,) = said["scenario"]["drained"]
    evicted, blocked, replaced = drain(api, node)
    assert foretold["ignored"] == [f"default/agent-{node}"]
    assert foretold["lost"] == ["default/bare"]
    placements = Placements(said["cycles"])
    for one, (of, bound) in zip(said["replacements"], replaced, strict=False):
        assert one["of"] == of
        placements.compare(one["pod"], bound)
    COMPARED[seed] = placements.is_comparable
    if placements.is_comparable:
        assert (foretold["evicted"], [one["pod"] for one in foretold["blocked"]]) == (evicted, blocked)
        assert len(said["replacements"]) == len(replaced)
    clear_cluster(api)


def test_most_clusters_were_compared_to_the_end():
    assert sum(COMPARED.values()) >= len(COMPARED) // 2


def drain(api, node: str) -> tuple[list[str], list[str], list[tuple[str, str | None]]]:
    """Drain as `kubectl drain --force --ignore-daemonsets` does, round by round, with a controller that recreates pods.

    Return the evicted pods, those that budgets protect for good, and each replaced pod with the node of its successor.
    """
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    api.patch("Node", node, {"spec": {"unschedulable": True, "taints": [taint]}})
    left = [one for one in api.list("Pod", "default", fieldSelector=f"spec.nodeName={node}") if not of_daemon_set(one)]
    evicted, replaced = [], []
    while moved := [one for one in left if api.evict(one["metadata"]["name"])]:
        left = [one for one in left if one not in moved]
        evicted += [key_of(one) for one in moved]
        wait_until_gone(api, {one["metadata"]["uid"] for one in moved})
        for one in moved:
            if one["metadata"].get("ownerReferences"):
                name = api.create(successor(one))["metadata"]["name"]
                replaced.append((key_of(one), settle(api, name)["spec"].get("nodeName")))
        wait_for_counts(api)
    return evicted, [key_of(one) for one in left], replaced


def wait_until_gone(api, uids: set[str]) -> None:
    api.wait_until(lambda: uids.isdisjoint(one["metadata"]["uid"] for one in api.list("Pod")), 20, "evicted pods to go")


def successor(old: JSON) -> JSON:
    """Return what the controller creates for an evicted pod: the same name for a StatefulSet's."""
    about, spec = old["metadata"], copy.deepcopy(old["spec"])
    del spec["nodeName"]
    kept = {key: about[key] for key in ("namespace", "labels", "ownerReferences")}
    is_stateful = about["ownerReferences"][0]["kind"] == "StatefulSet"
    name = about["name"] if is_stateful else f"{about['name']}-again"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**kept, "name": name}, "spec": spec}


def of_daemon_set(one: JSON) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in one["metadata"].get("ownerReferences", ()))


def key_of(one: JSON) -> str:
    return f"{one['metadata']['namespace']}/{one['metadata']['name']}"
