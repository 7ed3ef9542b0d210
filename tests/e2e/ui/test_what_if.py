"""The form of what-if simulations: it shows the response of POST /simulate, and errors in the pasted text."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.e2e.ui import requests


def fill(page, text):
    page.get_by_label("Pod, as JSON").fill(text if isinstance(text, str) else json.dumps(text))


def simulate(page):
    page.get_by_role("button", name="Simulate").click()


def test_the_result_is_that_of_simulate(tabs):
    own = requests.pod("new")
    response = tabs.served.simulate({"pods": [own], "preset": "upstream"})
    page = tabs.open("#/what-if")
    fill(page, own)
    page.get_by_label("Policies").select_option("upstream")
    simulate(page)
    result = page.locator("#result")
    expect(result.get_by_role("heading", name="Result")).to_be_focused()
    cycles = result.locator(".cycles li")
    expect(cycles).to_have_count(len(response["cycles"]))
    for item, cycle in zip(cycles.all(), response["cycles"], strict=True):
        expect(item).to_contain_text(cycle["pod"])
        expect(item).to_contain_text(cycle["message"])
        expect(item).to_contain_text(cycle["node"] or cycle["nominatedNode"])
    rows = result.locator(".evicted tbody tr")
    expect(rows.locator("th")).to_have_text([one["pod"] for one in response["evicted"]])
    expect(result.locator(".changed-node .node-name")).to_have_text(
        [one["name"] for one in response["summary"]["nodes"]]
    )
    expect(result).to_contain_text("1 scheduled · 0 pending · 1 evicted · no PDB violations")


def test_a_node_that_changes_is_shown_before_and_after(tabs):
    page = tabs.open("#/what-if")
    fill(page, requests.pod("small", cpu="500m", memory="1Gi"))
    simulate(page)
    cpu = page.locator(".changed-node").first.locator("[data-resource=cpu]").get_by_role("img")
    name = page.locator(".changed-node").first.get_attribute("data-node")
    answer = tabs.served.simulate({"pods": [requests.pod("small", cpu="500m", memory="1Gi")]})
    (node,) = answer["summary"]["nodes"]
    assert name == node["name"]
    for bar, when in ((cpu.first, "before"), (cpu.last, "after")):
        response = f"cpu {when}: {node[when]['cpu'] / 1000:g} of {node['allocatable']['cpu'] / 1000:g}"
        expect(bar).to_have_attribute("aria-label", response)


def test_two_policies_are_compared(tabs):
    """On worker-b2 the victim's budget allows no disruption, which the preset strict forbids to violate."""
    picky = requests.pod("picky")
    picky["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "worker-b2"}
    response = tabs.served.simulate({"pods": [picky], "compare": ["upstream", "strict"]})
    assert response["differences"]
    page = tabs.open("#/what-if")
    fill(page, picky)
    page.get_by_label("Policies").select_option("upstream")
    page.get_by_label("Compare with").select_option("strict")
    simulate(page)
    expect(page.locator("#differences tbody th")).to_have_text([one["pod"] for one in response["differences"]])
    expect(page.locator(".compared > section")).to_have_count(2)
    expect(page.get_by_role("heading", name="With upstream")).to_be_visible()
    expect(page.locator("section[data-policy=upstream]")).to_contain_text("1 PDB violation")
    expect(page.locator("section[data-policy=strict]")).to_contain_text("no PDB violations")


def test_pending_pods_can_be_simulated_without_pasting_any(tabs):
    response = tabs.served.simulate({"pending": True})
    page = tabs.open("#/what-if")
    page.get_by_label("include the pending pods of the cluster").check()
    simulate(page)
    expect(page.locator(".cycles li")).to_have_count(len(response["cycles"]))
    expect(page.locator(".cycles li").first).to_contain_text(response["cycles"][0]["pod"])


def test_a_list_as_kubectl_prints_it_is_taken(tabs):
    page = tabs.open("#/what-if")
    fill(page, {"kind": "List", "items": [requests.pod("one", cpu="100m"), requests.pod("two", cpu="100m")]})
    simulate(page)
    expect(page.locator(".cycles li")).to_have_count(2)


def test_the_pod_of_a_decision_is_filled_in(tabs):
    tabs.served.ask("preempt", requests.preempt())
    page = tabs.open("#/decisions/preempt-1")
    page.get_by_role("link", name="Simulate this pod").click()
    field = page.get_by_label("Pod, as JSON")
    expect(field).to_have_value(re.compile('"name": "cart-9"'))
    simulate(page)
    expect(page.locator(".cycles li").first).to_contain_text("evicts batch/etl-3-4vmms; nominated to worker-b1")


@pytest.mark.parametrize(
    ("pasted", "error"),
    [
        ("", "Paste a pod as JSON, or include the pending pods."),
        ("apiVersion: v1\nkind: Pod\n", "This looks like YAML, which is not supported here"),
        ("{oops", "This is not JSON"),
        ("3", "A pod is an object with metadata and spec."),
        ("[]", "The list contains no pods."),
    ],
    ids=["nothing", "YAML", "broken JSON", "a number", "an empty array"],
)
def test_a_text_that_is_not_a_pod_shows_an_error_at_the_form(tabs, pasted, error):
    page = tabs.open("#/what-if")
    fill(page, pasted)
    simulate(page)
    expect(page.locator("#form-error")).to_contain_text(error)
    expect(page.get_by_label("Pod, as JSON")).to_be_focused()
    expect(page.get_by_label("Pod, as JSON")).to_have_attribute("aria-invalid", "true")


def test_the_error_of_the_service_is_shown(tabs):
    tabs.refused.add(400)
    page = tabs.open("#/what-if")
    fill(page, {"kind": "Deployment", "metadata": {"name": "d"}})
    simulate(page)
    expect(page.locator("#result")).to_contain_text("'Deployment' is not a Pod")
    expect(page.get_by_role("button", name="Simulate")).to_be_enabled()


def test_typed_text_survives_a_visit_to_another_view(tabs):
    page = tabs.open("#/what-if")
    fill(page, requests.pod("kept"))
    page.get_by_role("link", name="Decisions").click()
    expect(page.locator("#list")).to_be_attached()
    page.go_back()
    expect(page.get_by_label("Pod, as JSON")).to_have_value(json.dumps(requests.pod("kept")))
