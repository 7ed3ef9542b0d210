"""Resource claims on the page: which devices a pod may get on a node and why not, and which it gets in a simulation."""

import json

import pytest
from playwright.sync_api import expect

from extender.cluster.files.manifests import load_cluster
from tests.builders import cluster, incoming, node, pod
from tests.device_builders import claim, device, device_class, request, resource_slice, using_claims
from tests.e2e.ui.serving import serving

BIG = 'device.attributes["gpu.example.com"].model == "big"'


@pytest.fixture(scope="module")
def served():
    models = [device(f"gpu-{at}", attributes={"model": "big" if at < 1 else "small"}) for at in range(3)]
    theirs = claim("theirs", request("gpu"), allocated=[("n1", "gpu-0")], node="n1", reserved_for=["train-0"])
    own = [claim("mine", request("gpu", name="main")), device_class("gpu", BIG)]
    slices = [resource_slice(name, name, models) for name in ("n1", "n2")]
    objects = cluster({node("n1"): [pod("train-0")], node("n2"): []}, others=[*own, theirs, *slices])
    with serving(load_cluster(objects)) as served:
        body = {"Pod": incoming("train-1", **using_claims("mine")), "NodeNames": ["n1", "n2"]}
        served.ask("filter", body)
        yield served


def test_a_node_of_a_filter_decision_tells_what_its_devices_lack(tabs):
    page = tabs.open("#/decisions/filter-1?node=n1")
    section = page.locator(".claims-of-node")
    expect(page.locator("#view-decision > .facts")).to_contain_text("c0 (default/mine): not allocated")
    expect(section.locator("dt")).to_have_text("c0 (default/mine)")
    expect(section.locator("dd > p")).to_have_text("cannot be allocated: request main has too few devices")
    summary = section.locator("details.request summary")
    expect(summary).to_have_text(
        f"main: 1 of 3 devices matches, 0 free: 2 selector #0 of class gpu ({BIG}) is false, 1 in use by default/theirs"
    )
    summary.click()
    expect(section.locator("tbody tr")).to_have_text(
        [
            "gpu.example.com/n1/gpu-0in use by default/theirsreserved for default/train-0",
            f"gpu.example.com/n1/gpu-1selector #0 of class gpu ({BIG}) is false",
            f"gpu.example.com/n1/gpu-2selector #0 of class gpu ({BIG}) is false",
        ]
    )


def test_a_node_where_the_pod_fits_tells_which_devices_it_would_get(tabs):
    page = tabs.open("#/decisions/filter-1?node=n2")
    expect(page.locator(".claims-of-node")).to_contain_text("can be allocated: gpu.example.com/n2/gpu-0")


def test_a_simulation_tells_which_devices_a_pod_gets(tabs):
    page = tabs.open("#/what-if")
    pods = [incoming("a", **using_claims("mine")), incoming("b", **using_claims("new"))]
    text = {"kind": "List", "items": [*pods, claim("new", request("gpu"))]}
    page.get_by_label("Pods or workloads, as YAML or JSON").fill(json.dumps(text))
    page.get_by_role("button", name="Simulate").click()
    cycles = page.locator(".cycles > li")
    expect(cycles.nth(0)).to_contain_text("claim default/mine gets gpu.example.com/n2/gpu-0")
    expect(cycles.nth(1)).to_contain_text("default/b: stays pending")
