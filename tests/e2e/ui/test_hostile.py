"""Malicious names are shown as text, with invisible characters escaped."""

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from extender.cluster.files.manifests import load_cluster
from tests.builders import budget, cluster, incoming, node, pod
from tests.e2e.ui.browser import wait_until
from tests.e2e.ui.serving import serving

IMAGE = "<img src=x onerror=alert(1)>"
SCRIPT = "\"'><script>alert(2)</script>"
BACKWARDS = "a\u202eexe.txt"
BROKEN = "line\nbreak\u2028and\u200bnothing\x07"
LONG = "x" * 240
NAMES = {
    "markup": (IMAGE, IMAGE),
    "quotes and a script": (SCRIPT, SCRIPT),
    "a bidi override": (BACKWARDS, "a\\u202eexe.txt"),
    "line breaks, a zero width and a bell": (BROKEN, "line\\u000abreak\\u2028and\\u200bnothing\\u0007"),
    "a very long name": (LONG, LONG),
}
"""Name -> how it is shown."""


@pytest.fixture(scope="module")
def served():
    """Every name is that of a node, of a pod that is evicted there, of a budget and of a pod to be scheduled.

    The pods to be scheduled have a namespace and UIDs of their own: for a running pod, /preempt finds no candidate.
    """
    nodes = {node(name): [pod(name, cpu="3", priority=10, labels={"app": "same"})] for name, _ in NAMES.values()}
    objects = load_cluster(cluster(nodes, budgets=[budget(IMAGE, 9, app="same")]))
    with serving(objects) as served:
        for name, _ in NAMES.values():
            waiting = incoming(name, cpu="4", namespace="waiting", metadata={"uid": f"uid-waiting-{name}"})
            offer = {one: {"Pods": [{"UID": f"uid-{one}"}], "NumPDBViolations": 0} for one, _ in NAMES.values()}
            served.ask("preempt", {"Pod": waiting, "NodeNameToMetaVictims": offer})
            served.ask("filter", {"Pod": waiting, "NodeNames": [one for one, _ in NAMES.values()]})
            served.ask("prioritize", {"Pod": waiting, "NodeNames": [one for one, _ in NAMES.values()]})
        yield served


@pytest.fixture(scope="module")
def waiting():
    """A cluster in which every name is that of a pending pod, of a node, of a taint and of a label."""
    nodes = {
        node(name, labels={name: name}, taints=[{"key": name, "value": name, "effect": "NoSchedule"}]): [
            pod(name, cpu="3", priority=10, labels={"app": "same"})
        ]
        for name, _ in NAMES.values()
    }
    pending = [
        incoming(name, cpu="4", namespace="waiting", metadata={"uid": f"uid-waiting-{name}"})
        for name, _ in NAMES.values()
    ]
    with serving(load_cluster(cluster(nodes, waiting=pending))) as served:
        yield served


def nothing_ran(page):
    assert page.evaluate("document.querySelectorAll('main img, main script, main iframe').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_names_are_text_in_the_list(tabs):
    page = tabs.open("#/decisions")
    expect(page.locator("#list > li")).to_have_count(3 * len(NAMES))
    for _, shown in NAMES.values():
        expect(page.locator("#list")).to_contain_text(f"for waiting/{shown}")
    nothing_ran(page)


@pytest.mark.parametrize("place", range(len(NAMES)), ids=list(NAMES))
def test_a_name_is_text_in_a_decision_and_on_every_node(tabs, place):
    page = tabs.open(f"#/decisions/preempt-{place + 1}")
    _, shown = list(NAMES.values())[place]
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"for waiting/{shown}")
    expect(page).to_have_title(f"preempt-{place + 1}: waiting/{shown} · kube-scheduler extender")
    openers = page.locator("#candidates .opener")
    expect(openers).to_have_count(len(NAMES))
    for opener in openers.all():
        opener.click()
    expect(page.locator(".node .bars")).to_have_count(len(NAMES))
    expect(page.locator("#candidates")).to_contain_text(f"default/{shown}")
    expect(page.locator("#candidates .pods").first).to_contain_text(f"default/{IMAGE}")
    nothing_ran(page)


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_names_are_text_in_statuses_and_scores(tabs, verb):
    page = tabs.open(f"#/decisions/{verb}-1")
    expect(page.locator("#view-decision table, #view-decision summary").first).to_be_visible()
    for summary in page.locator("#view-decision summary").all():
        summary.click()
    for _, shown in NAMES.values():
        expect(page.locator("#view-decision")).to_contain_text(shown)
    nothing_ran(page)


def test_names_are_text_in_the_result_and_in_the_error_of_a_simulation(tabs):
    page = tabs.open("#/what-if?decision=preempt-1")
    page.get_by_role("button", name="Simulate").click()
    expect(page.locator("#result")).to_contain_text(f"default/{IMAGE}")
    nothing_ran(page)
    tabs.refused.add(400)
    page.get_by_label("Pods or workloads, as YAML or JSON").fill(
        '{"kind": "Pod", "metadata": {"name": "<img src=x onerror=alert(3)>"}}'
    )
    page.get_by_role("button", name="Simulate").click()
    expect(page.locator("#result .alert")).to_contain_text("<img src=x onerror=alert(3)>")
    nothing_ran(page)


def test_names_are_text_in_the_result_of_a_drain(tabs):
    """The names are sent by the test: the form would take the words of a name for several."""
    drained = [name for name, _ in NAMES.values()]
    page = tabs.open("#/what-if")
    page.route("**/simulate", lambda route: route.continue_(post_data=json.dumps({"drain": drained})))
    page.locator("#scenario summary").click()
    page.get_by_label("Drain").fill(LONG)
    page.get_by_role("button", name="Simulate").click()
    for _, shown in NAMES.values():
        expect(page.get_by_role("region", name="Nodes drained or removed")).to_contain_text(shown)
        expect(page.get_by_role("region", name="Pods that do not come back")).to_contain_text(f"default/{shown}")
        expect(page.locator(".changed")).to_contain_text(shown)
    nothing_ran(page)


@pytest.mark.parametrize(
    "address",
    [f"#/decisions/{IMAGE}", "#/decisions/preempt-1?node=%3Cimg%20src%3Dx%20onerror%3Dalert(4)%3E%E2%80%AE"],
    ids=["a decision's name", "a node's name"],
)
def test_names_in_the_address_are_text(tabs, address):
    tabs.refused.add(404)
    page = tabs.open(address)
    expect(page.locator("#view-decision")).to_contain_text("<img src=x onerror=alert(")
    nothing_ran(page)


def test_the_content_security_policy_blocks_injected_scripts(tabs):
    """The second line of defence, if a name ever got into the page as markup."""
    page = tabs.open("#/decisions")
    expect(page.locator("#list")).to_be_visible()
    page.evaluate(f"document.body.insertAdjacentHTML('beforeend', {IMAGE!r})")
    wait_until(page, "document.querySelector('body > img').complete")
    assert any("Content Security Policy" in one for one in tabs.wrong)
    assert not any("dialog" in one for one in tabs.wrong)
    tabs.wrong.clear()


# --- pending pods and nodes -------------------------------------------------------------------------------------------


def test_names_are_text_in_the_list_of_pending_pods(tabs, waiting):
    tabs.served = waiting
    page = tabs.open("#/pending")
    summaries = page.locator("#pending-list summary")
    expect(summaries.first).to_be_visible()
    for summary in summaries.all():
        summary.click()
    for _, shown in NAMES.values():
        expect(page.locator("#pending-list")).to_contain_text(f"waiting/{shown}")
    nothing_ran(page)


IN_PATHS = [pair for pair in NAMES.values() if "\n" not in pair[0]]
"""No path of HTTP has a name with a line break."""


@pytest.mark.parametrize(("raw", "shown"), IN_PATHS)
def test_names_are_text_where_a_pod_is_explained(tabs, waiting, raw, shown):
    tabs.served = waiting
    page = tabs.open(f"#/pods/waiting/{quote(raw, safe='')}?node={quote(raw, safe='')}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"waiting/{shown}")
    expect(page.locator("#view-pod .node, #view-pod .pods").first).to_be_visible()
    expect(page.locator("#view-pod")).to_contain_text(f"{shown}={shown}:NoSchedule")
    nothing_ran(page)


def test_names_are_text_in_the_list_of_nodes_and_for_a_chosen_pod(tabs, waiting):
    tabs.served = waiting
    page = tabs.open("#/nodes")
    page.get_by_label("Why not for pod").fill(f"waiting/{IMAGE}")
    page.keyboard.press("Enter")
    for _, shown in NAMES.values():
        expect(page.locator("#nodes-list")).to_contain_text(f"{shown}={shown}:NoSchedule")
    expect(page.locator("#nodes-verdict")).to_contain_text(f"waiting/{IMAGE}")
    nothing_ran(page)


@pytest.mark.parametrize(("raw", "shown"), IN_PATHS)
def test_names_are_text_on_the_page_of_a_node(tabs, waiting, raw, shown):
    tabs.served = waiting
    page = tabs.open(f"#/nodes/{quote(raw, safe='')}")
    expect(page.get_by_role("heading", level=1)).to_have_text(shown)
    expect(page.locator("#view-node")).to_contain_text(f"{shown}={shown}")
    expect(page.locator("#view-node")).to_contain_text(f"default/{shown}")
    nothing_ran(page)


@pytest.mark.parametrize("address", ["#/pods/a/<img src=x onerror=alert(5)>", "#/nodes/<img src=x onerror=alert(6)>"])
def test_a_name_that_is_not_there_is_text(tabs, address):
    tabs.refused.add(404)
    page = tabs.open(address)
    expect(page.get_by_role("alert")).to_contain_text("<img src=x onerror=alert(")
    nothing_ran(page)
