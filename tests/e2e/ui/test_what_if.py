"""The form of what-if simulations: it shows the response of POST /simulate, and errors in the pasted text."""

import json
import re

import pytest
from playwright.sync_api import expect

from extender.utilities.text import format_together
from tests.e2e.ui import requests


def fill(page, text):
    page.get_by_label("Pods or workloads, as YAML or JSON").fill(text if isinstance(text, str) else json.dumps(text))


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
        expect(item).to_contain_text(cycle["node"] or cycle["nominatedNode"] or "stays pending")
    rows = result.locator(".evicted tbody tr")
    expect(rows.locator("th")).to_have_text([one["pod"] for one in response["evicted"]])
    expect(result.locator(".changed-node .node-name")).to_have_text(
        [one["name"] for one in response["summary"]["nodes"]]
    )
    expect(result).to_contain_text("1 scheduled · 1 pending · 1 preempted · no PDB violations")


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
        used, room = format_together("cpu", (node[when]["cpu"], node["allocatable"]["cpu"]))
        expect(bar).to_have_attribute("aria-label", f"cpu {when}: {used} of {room}")


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
    expect(page.locator(".cycles > .together")).to_contain_text("2 pods: scheduled")
    expect(page.locator(".cycles > .together")).to_contain_text("shop/one, shop/two")


def test_the_pod_of_a_decision_is_filled_in(tabs):
    tabs.served.ask("preempt", requests.preempt())
    page = tabs.open("#/decisions/preempt-1")
    page.get_by_role("link", name="Simulate this pod").click()
    field = page.get_by_label("Pods or workloads, as YAML or JSON")
    expect(field).to_have_value(re.compile('"name": "cart-9"'))
    simulate(page)
    expect(page.locator(".cycles li").first).to_contain_text("evicts batch/etl-3-4vmms; nominated to worker-b1")


def test_nothing_is_simulated_before_the_pod_of_a_decision_has_arrived(tabs):
    tabs.served.ask("preempt", requests.preempt())
    page = tabs.open("#/decisions/preempt-1")
    button, disabled = page.get_by_role("button", name="Simulate"), []

    def hold(route):
        disabled.append(button.is_disabled())
        route.continue_()

    page.route("**/decisions/*/pod", hold)
    page.get_by_role("link", name="Simulate this pod").click()
    expect(button).to_be_enabled()
    assert disabled == [True]
    expect(page.get_by_label("Pods or workloads, as YAML or JSON")).to_have_value(re.compile('"name": "cart-9"'))


@pytest.mark.parametrize(
    ("pasted", "error"),
    [
        ("apiVersion: v1\nkind: Pod\n", "pod 1 of the request: Pod is invalid: metadata.name: Required value"),
        ("metadata: {name: a\nspec: {}", "the body: not YAML: "),
        ("{oops", "the body: not YAML: "),
        ("3", "the body: document 1: expected object, got int"),
        ("[]", "nothing to schedule"),
        ("cpu: 3", "the body: document 2 has no kind"),
    ],
    ids=["a pod without a name", "broken YAML", "broken JSON", "a number", "an empty array", "no object"],
)
def test_a_text_that_is_not_a_pod_shows_what_the_service_says(tabs, pasted, error):
    tabs.refused.add(400)
    page = tabs.open("#/what-if")
    fill(page, pasted)
    simulate(page)
    expect(page.locator("#result .alert")).to_contain_text(error)


def test_nothing_to_simulate_is_an_error_at_the_form(tabs):
    page = tabs.open("#/what-if")
    simulate(page)
    expect(page.locator("#form-error")).to_contain_text("Paste a pod or a workload, choose an example")
    expect(page.get_by_label("Pods or workloads, as YAML or JSON")).to_be_focused()
    expect(page.get_by_label("Pods or workloads, as YAML or JSON")).to_have_attribute("aria-invalid", "true")


YAML = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: many, namespace: shop}
spec:
  replicas: 40
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec:
      containers: [{name: main, image: "example.com/app:1", resources: {requests: {cpu: "2"}}}]
---
kind: Node
apiVersion: v1
metadata: {name: extra}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
"""


def test_yaml_as_for_kubectl_is_simulated_and_equal_outcomes_are_one_line(tabs):
    page = tabs.open("#/what-if")
    fill(page, YAML)
    simulate(page)
    result = page.locator("#result")
    expect(result).to_contain_text("Nodes added")
    expect(result.locator(".scenario")).to_contain_text("extra")
    groups = result.locator(".cycles > .together")
    expect(groups).to_have_count(2)
    pending = groups.filter(has_text="stays pending")
    expect(pending.locator(".message")).to_have_count(1)
    pending.locator("summary").click()
    count = int(pending.locator("summary").inner_text().split()[0])
    expect(pending.locator(".cycles > li")).to_have_count(count)


def test_every_example_can_be_simulated(tabs):
    page = tabs.open("#/what-if")
    examples = page.get_by_role("group", name="Examples").get_by_role("button")
    for place in range(examples.count()):
        examples.nth(place).click()
        simulate(page)
        expect(page.get_by_role("heading", name="Result")).to_be_focused()
        expect(page.locator("#result .alert")).to_have_count(0)


def test_a_node_is_picked_from_those_that_match(tabs):
    page = opened(tabs)
    field = page.get_by_label("Drain")
    field.press_sequentially("worker-b")
    matches = page.get_by_role("group", name="Matching names").get_by_role("button")
    expect(matches).to_have_text(["worker-b1", "worker-b2"])
    matches.first.click()
    expect(field).to_have_value("worker-b1 ")
    expect(field).to_be_focused()
    field.press_sequentially("spot-a")
    expect(matches).to_have_text(["spot-a1"])
    page.keyboard.press("Escape")
    expect(matches).to_have_count(0)


def test_a_simulation_shows_its_progress_and_can_be_cancelled(tabs):
    page = tabs.open("#/what-if")
    page.route("**/simulate", lambda route: None)  # never answered
    fill(page, requests.pod("new"))
    simulate(page)
    expect(page.locator("#progress")).to_contain_text("simulating … 0 s of at most 60 s")
    expect(page.locator("#progress")).to_contain_text("1 s of at most 60 s")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#result")).to_have_text("Cancelled: nothing was changed.")
    expect(page.get_by_role("button", name="Simulate")).to_be_enabled()
    expect(page.locator("#progress")).to_be_hidden()


WAITING = "2 simulations are under way, one after another; "


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"inFlight": 1, "tried": 40, "pods": 1000}, r"40 of 1,000 pods tried, \d s of at most 60 s"),
        ({"inFlight": 1, "tried": 7, "pods": 0}, r"7 pods tried, \d s of at most 60 s"),
        ({"inFlight": 2, "tried": 40, "pods": 100}, WAITING + r"of the first 40 of 100 pods tried, \d s"),
        ({"inFlight": 2, "tried": 0, "pods": 0}, WAITING + r"\d s"),
    ],
)
def test_a_simulation_shows_how_many_pods_were_tried(tabs, answer, words):
    page = tabs.open("#/what-if")
    page.route("**/simulate", lambda route: route.fulfill(json=answer) if route.request.method == "GET" else None)
    fill(page, requests.pod("new"))
    simulate(page)
    expect(page.locator("#progress")).to_have_text(re.compile(f"^simulating … {words}$"))
    page.get_by_role("button", name="Cancel").click()


def test_900_replicas_are_a_page_of_a_few_screens(tabs):
    page = tabs.open("#/what-if")
    fill(page, YAML.replace("replicas: 40", "replicas: 900"))
    simulate(page)
    expect(page.get_by_role("heading", name="Result")).to_be_focused(timeout=60_000)
    assert page.evaluate("document.querySelectorAll('*').length") <= 2000
    assert page.evaluate("document.documentElement.scrollHeight") <= 4000


def test_the_error_of_the_service_is_shown(tabs):
    tabs.refused.add(400)
    page = tabs.open("#/what-if")
    fill(page, {"kind": "DaemonSet", "metadata": {"name": "d"}})
    simulate(page)
    expect(page.locator("#result")).to_contain_text("DaemonSet d is invalid: spec.selector: Required value")
    expect(page.get_by_role("button", name="Simulate")).to_be_enabled()


def test_typed_text_survives_a_visit_to_another_view(tabs):
    page = tabs.open("#/what-if")
    fill(page, requests.pod("kept"))
    page.get_by_role("link", name="Decisions").click()
    expect(page.locator("#list")).to_be_attached()
    page.go_back()
    expect(page.get_by_label("Pods or workloads, as YAML or JSON")).to_have_value(json.dumps(requests.pod("kept")))


# --- scenarios --------------------------------------------------------------------------------------------------------


NODE = {
    "metadata": {"name": "worker-d"},
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
}


def opened(tabs):
    page = tabs.open("#/what-if")
    page.locator("#scenario summary").click()
    return page


def section(page, title):
    """Rows of the table of the result with that title."""
    return page.get_by_role("region", name=title).locator("tbody tr")


def test_a_drain_shows_what_stays_blocked_what_comes_back_and_the_nodes_before_and_after(tabs):
    answer = tabs.served.simulate({"drain": ["worker-b1"]})
    (drained,) = answer["scenario"]["drained"]
    page = opened(tabs)
    page.get_by_label("Drain").fill("worker-b1")
    simulate(page)
    counts = [len(drained[key]) for key in ("evicted", "ignored", "blocked", "lost")]
    expect(section(page, "Nodes drained or removed")).to_have_text([f"worker-b1draining{''.join(map(str, counts))}"])
    blocked = section(page, "Evictions that stay blocked")
    expect(blocked).to_have_count(len(drained["blocked"]))
    expect(blocked.first).to_contain_text(drained["blocked"][0]["pod"])
    expect(blocked.first).to_contain_text("shop/checkout")
    replaced = section(page, "Replacements")
    expect(replaced.locator("th")).to_have_text([one["pod"] for one in answer["replacements"]])
    changed = page.locator(".changed-node[data-node=worker-b1]")
    expect(changed.locator(".tag")).to_have_text("draining")
    for when in ("before", "after"):
        (node,) = [one for one in answer["summary"]["nodes"] if one["name"] == "worker-b1"]
        used, room = format_together("cpu", (node[when]["cpu"], node["allocatable"]["cpu"]))
        expect(changed.get_by_role("img", name=f"cpu {when}: {used} of {room}")).to_be_visible()


def test_nodes_that_are_added_and_removed_have_one_bar(tabs):
    page = opened(tabs)
    page.get_by_label("Remove").fill("worker-a1, worker-a2")
    page.get_by_label("Nodes to add").fill(json.dumps(NODE))
    page.get_by_label("Number of each").fill("2")
    simulate(page)
    expect(page.locator(".scenario")).to_contain_text("worker-d-1, worker-d-2")
    expect(page.get_by_text("note: added nodes have no pods of DaemonSets")).to_be_visible()
    for node, when in (("worker-d-1", "after"), ("worker-a1", "before")):
        images = page.locator(f".changed-node[data-node={node}]").get_by_role("img")
        expect(images.first).to_be_visible()
        labels = images.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
        assert [label for label in labels if f" {when}: " not in label] == []
    expect(page.locator(".changed-node[data-node=worker-a1]")).to_contain_text("not in the cluster")


def test_until_full_shows_how_many_fit_and_what_stops_the_next_one(tabs):
    own = requests.pod("small", cpu="500m", memory="1Gi")
    found = tabs.served.simulate({"pods": [own], "untilFull": True})["scenario"]["untilFull"]
    page = opened(tabs)
    fill(page, own)
    page.get_by_label("as many of this pod as fit").check()
    simulate(page)
    facts = page.locator(".scenario")
    expect(facts).to_contain_text(f"{found['fits']} more of shop/small fit; the next one: {found['next']['message']}")
    expect(section(page, "Where they fit")).to_have_text([f"{one['node']}{one['pods']}" for one in found["nodes"]])


@pytest.mark.parametrize(
    ("replicas", "text"),
    [(9, "none of 9 pods is scheduled"), (0, "nothing to schedule for Deployment default/new: 0 pods of it exist")],
    ids=["not at all", "nothing to schedule"],
)
def test_a_workload_is_scheduled_as_a_whole_or_not_at_all(tabs, replicas, text):
    template = {"metadata": {"labels": {"app": "new"}}, "spec": {**requests.pod()["spec"], "priority": 0}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "new"}}, "template": template}
    page = opened(tabs)
    fill(page, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "new"}, "spec": spec})
    page.get_by_label("all pods or none").check()
    simulate(page)
    expect(page.locator(".scenario")).to_contain_text(text)
    expect(section(page, "Workloads")).to_have_text(["Deployment default/new0000"])


def test_evicted_pods_need_not_come_back(tabs):
    page = opened(tabs)
    page.get_by_label("Drain").fill("worker-b1")
    page.get_by_label("evicted pods come back").uncheck()
    simulate(page)
    expect(section(page, "Nodes drained or removed")).to_have_count(1)
    expect(page.get_by_role("region", name="Replacements")).to_have_count(0)


@pytest.mark.parametrize(
    ("label", "typed", "error"),
    [
        ("Number of each", "", "The number of nodes is a whole number, at least 1."),
    ],
)
def test_a_field_of_the_scenario_that_is_wrong_is_opened_and_focused(tabs, label, typed, error):
    page = opened(tabs)
    page.get_by_label("Nodes to add, as YAML or JSON").fill(json.dumps(NODE))
    page.get_by_label(label).fill(typed)
    page.locator("#scenario summary").click()
    simulate(page)
    expect(page.locator("#form-error")).to_contain_text(error)
    expect(page.get_by_label(label)).to_be_focused()
    expect(page.get_by_label(label)).to_have_attribute("aria-invalid", "true")


def test_a_node_that_does_not_exist_is_named(tabs):
    tabs.refused.add(400)
    page = opened(tabs)
    page.get_by_label("Drain").fill("worker-z9")
    simulate(page)
    expect(page.locator("#result")).to_contain_text("drain: no node 'worker-z9' in the cluster")
