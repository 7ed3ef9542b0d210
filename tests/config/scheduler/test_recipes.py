"""The profiles of deploy/scheduler/profiles load, are those of docs/scheduler.md, and decide as their names say."""

from pathlib import Path

import pytest
import yaml

from extender import evaluate
from extender.config.scheduler.load import kube_scheduler_of

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "deploy" / "scheduler" / "profiles").glob("*.yaml"))


def path_of(name):
    return ROOT / "deploy" / "scheduler" / "profiles" / f"{name}.yaml"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_has_the_default_profile_and_the_one_of_its_name(path):
    scheduler = kube_scheduler_of(path)
    default, other = scheduler.profiles
    assert (default.scheduler_name, other.scheduler_name) == ("default-scheduler", path.stem)
    assert default.score_weights == kube_scheduler_of({}).profiles[0].score_weights
    assert scheduler.profiles[1].not_evaluated_plugins == ()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_documentation_shows_the_profile(path):
    page = (ROOT / "docs" / "scheduler.md").read_text(encoding="utf-8").partition("## Recipes")[2]
    shown = [yaml.safe_load(block.partition("```")[0]) for block in page.split("```yaml\n")[1:]]
    profiles = [profile for document in shown if isinstance(document, list) for profile in document]
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["profiles"][1] in profiles


def node(name, zone="a", gpus=0):
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "20"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def pod(name, scheduler, on=None, **requests):
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"} | requests}}],
    }
    metadata = {"name": name, "namespace": "n", "uid": name, "labels": {"app": "a"}}
    return {"kind": "Pod", "metadata": metadata, "spec": spec | ({"nodeName": on} if on else {})}


def totals(profile, items, asked):
    cluster = {"apiVersion": "v1", "kind": "List", "items": items}
    scores = evaluate(cluster, asked, scheduler_config=path_of(profile)).to_dict()["scores"]
    return {name: score["total"] for name, score in scores.items()}


def best(profile, items, asked):
    found = totals(profile, items, asked)
    return max(found, key=lambda name: found[name])


def test_bin_packing_takes_the_fullest_node_and_the_default_profile_the_emptiest():
    items = [node("empty"), node("half"), pod("a", "x", "half", cpu="4"), node("full"), pod("b", "x", "full", cpu="6")]
    assert best("bin-packing", items, pod("p", "bin-packing")) == "full"
    assert best("bin-packing", items, pod("p", "default-scheduler")) == "empty"


def test_gpu_packing_takes_the_node_whose_gpus_are_in_use_however_full_the_others_are():
    gpu = {"nvidia.com/gpu": "1"}
    items = [node("idle", gpus=8), pod("a", "x", "idle", cpu="6"), node("used", gpus=8), pod("b", "x", "used", **gpu)]
    assert best("gpu-packing", items, pod("p", "gpu-packing", **gpu)) == "used"
    assert best("gpu-packing", items, pod("p", "gpu-packing")) == "idle"  # without a GPU, cpu and memory decide


@pytest.mark.parametrize("profile", ["bin-packing", "gpu-packing"])
def test_packing_leaves_a_pod_its_own_spread_constraints(profile):
    items = [node("a1"), pod("a", "x", "a1"), node("b1", zone="b")]
    asked = pod("p", profile)
    assert best(profile, items, asked) == "a1"
    selector = {"matchLabels": {"app": "a"}}
    constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector}
    asked["spec"]["topologySpreadConstraints"] = [constraint | {"whenUnsatisfiable": "ScheduleAnyway"}]
    assert best(profile, items, asked) == "b1"


def test_spread_refuses_the_crowded_zone_and_the_node_without_one():
    service = {"kind": "Service", "metadata": {"name": "s", "namespace": "n"}, "spec": {"selector": {"app": "a"}}}
    bare = node("bare")
    del bare["metadata"]["labels"]["topology.kubernetes.io/zone"]
    items = [service, bare, node("a1"), pod("a", "x", "a1"), node("a2"), node("b1", zone="b")]
    assert set(totals("spread", items, pod("p", "spread"))) == {"b1"}
    assert set(totals("spread", items, pod("p", "default-scheduler"))) == {"bare", "a1", "a2", "b1"}
    items.append(pod("b", "x", "b1"))
    assert best("spread", items, pod("p", "spread")) == "a2"
