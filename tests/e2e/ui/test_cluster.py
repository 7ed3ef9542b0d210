"""The views of the cluster: pending pods, nodes, one node and one pod on all nodes; and how large a page gets."""

import pytest
from playwright.sync_api import expect

from extender.cluster.files.manifests import load_cluster
from tests.builders import cluster, incoming, node, pod
from tests.e2e.ui.serving import serving

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
NODES = {
    node("free", cpu="8", labels={"zone": "a"}): [pod("running", cpu="1", priority=10)],
    node("tainted", cpu="16", taints=[TAINT], unschedulable=True): [],
    node("full", cpu="4"): [pod("large", cpu="4", priority=5000)],
}
WAITING = [
    *(incoming(f"big-{number}", cpu="64", namespace="shop", labels={"app": "big"}) for number in range(3)),
    incoming("picky", cpu="1", namespace="shop", nodeSelector={"disk": "nvme"}),
]
ELEMENTS = "document.querySelectorAll('*').length"
MAX_ELEMENTS = 2000


@pytest.fixture(scope="module")
def served():
    with serving(load_cluster(cluster(NODES, waiting=WAITING))) as served:
        yield served


def groups(page):
    return page.locator("#pending-list .group")


# --- pending pods -----------------------------------------------------------------------------------------------------


def test_the_first_view_is_the_pending_pods_by_cause(tabs):
    page = tabs.open()
    expect(page.get_by_role("heading", level=1, name="Pending pods")).to_be_visible()
    expect(groups(page)).to_have_count(2)
    expect(page.locator("#pending-why")).to_contain_text("4 pods are pending")
    expect(page.locator("#pending-state")).to_contain_text("Evaluated")
    first = groups(page).first
    expect(first).to_contain_text("3pods")
    expect(first).to_contain_text("shop/big-0, shop/big-1, shop/big-2")
    first.locator("summary").click()
    expect(first.locator("tbody tr")).to_have_count(3)
    first.get_by_role("link", name="shop/big-1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop/big-1")
    page.get_by_role("link", name="Pending pods").click()
    expect(groups(page)).to_have_count(2)


def test_pending_pods_are_searched_by_name_and_cause(tabs):
    page = tabs.open("#/pending")
    expect(groups(page)).to_have_count(2)
    search = page.locator("#view-pending").get_by_label("Search")
    search.fill("PICKY")
    expect(groups(page)).to_have_count(1)
    expect(groups(page)).to_contain_text("shop/picky")
    assert page.url.endswith("#/pending?text=PICKY")
    search.fill("nowhere")
    expect(page.locator("#pending-list")).to_have_text("No pending pod matches.")


def test_without_pending_pods_it_says_what_can_be_done(tabs):
    with serving(load_cluster(cluster({node("n1"): []}))) as served:
        tabs.served = served
        page = tabs.open("#/pending")
        none = page.locator("#pending-none")
        expect(none).to_contain_text("have a node or are done")
        none.get_by_role("link", name="what is free on the nodes").click()
        expect(page.locator("#nodes-message")).to_have_text("1 nodes.")
        page.close()


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_nodes_show_what_is_free_and_their_taints(tabs):
    page = tabs.open("#/nodes")
    rows = page.locator("#nodes-list tbody tr")
    expect(rows.locator("th")).to_have_text(["free", "full", "tainted"])
    expect(rows.nth(0)).to_contain_text("7 of 8")
    expect(rows.nth(2)).to_contain_text("cordoned")
    expect(rows.nth(2)).to_contain_text("dedicated=gpu:NoSchedule")
    page.get_by_label("Order").locator("visible=true").select_option("cpu")
    expect(rows.locator("th")).to_have_text(["tainted", "free", "full"])
    page.locator("#node-filters").get_by_label("Search").fill("zone=a")
    expect(rows.locator("th")).to_have_text(["free"])
    expect(page.locator("#nodes-message")).to_contain_text("1 nodes that match, of 3")


def test_why_not_is_shown_for_a_pod_that_is_picked(tabs):
    page = tabs.open("#/nodes")
    field = page.get_by_label("Why not for pod")
    field.press_sequentially("picky")
    page.get_by_role("group", name="Matching names").get_by_role("button", name="shop/picky").click()
    expect(page.locator("#nodes-verdict")).to_contain_text("shop/picky")
    rows = page.locator("#nodes-list tbody tr")
    expect(rows.nth(0)).to_contain_text("Does not fit; evicting pods would not help")
    expect(rows.nth(2)).to_contain_text("dedicated=gpu:NoSchedule")
    rows.nth(0).get_by_role("link", name="Does not fit").click()
    expect(page.locator("#view-pod [data-node=free] .inner")).to_contain_text("NodeAffinity")


def test_a_pod_that_is_not_there_and_one_without_namespace_are_errors_beside_the_nodes(tabs):
    tabs.refused.add(404)
    page = tabs.open("#/nodes?pod=shop/pickyy")
    expect(page.locator("#nodes-verdict")).to_contain_text("the cluster has no pod shop/pickyy")
    expect(page.locator("#nodes-list tbody tr")).to_have_count(3)
    page = tabs.open("#/nodes?pod=picky")
    expect(page.locator("#nodes-verdict")).to_have_text("A pod is written as namespace/name.")


def test_the_page_of_a_node_leads_to_its_pods_and_to_a_drain(tabs):
    page = tabs.open("#/nodes/free")
    view = page.locator("#view-node")
    expect(view).to_contain_text("zone=a")
    expect(view.get_by_role("link", name="default/running")).to_be_visible()
    view.get_by_role("link", name="What would a drain do?").click()
    expect(page.get_by_label("Drain")).to_have_value("free")


# --- one pod ----------------------------------------------------------------------------------------------------------


def test_heading_and_details_of_a_pod_say_the_same_about_evictions(tabs):
    """For a pod of 64 cpu a status may say Unschedulable, but no eviction makes room."""
    page = tabs.open("#/pods/shop/big-0")
    expect(page.locator("#view-pod .verdict")).to_contain_text("no eviction would make room")
    for summary in page.locator("#view-pod .group > summary").all():
        expect(summary).to_contain_text("evicting pods would not help")
        summary.click()
    expect(page.locator("#view-pod")).not_to_contain_text("may help")


def test_every_answer_says_of_which_cluster_it_is_and_which_version_judged(tabs):
    cluster, judge = (
        "the example cluster that ships with the package",
        "kube-scheduler 1.37 (assumed: its version is not known)",
    )
    page = tabs.open("#/pending")
    expect(page.locator("#status-line")).to_contain_text(f"ready: {cluster}: ")
    expect(page.locator("#view-pending .source")).to_contain_text(f"{cluster}; judged by {judge}")
    page = tabs.open("#/pods/shop/big-0")
    expect(page.locator("#view-pod .facts")).to_contain_text(cluster)
    expect(page.locator("#view-pod .facts")).to_contain_text(judge)
    page = tabs.open("#/what-if")
    page.get_by_role("button", name="Does this pod fit?").click()
    page.get_by_role("button", name="Simulate").click()
    expect(page.locator("#result .source")).to_have_text(f"{cluster}; judged by {judge}")


# --- times ------------------------------------------------------------------------------------------------------------


def test_times_are_relative_and_exact_on_hover(tabs):
    page = tabs.new()
    page.clock.install(time="2026-01-01T00:02:30Z")
    page.goto(tabs.served.url + "#/nodes/free")
    started = page.locator("#view-node time")
    expect(started).to_have_text("2 min ago")
    assert started.get_attribute("title").startswith("2026-01-01 00:00:00 UTC")
    page.clock.run_for(3_600_000)
    expect(started).to_have_text("62 min ago")


# --- large ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    """2,000 nodes, 20,000 pods, 500 pending pods of 50 templates."""
    nodes = {
        node(f"node-{n:04}", cpu="16", memory="64Gi"): [
            pod(f"app-{n:04}-{k}", cpu="1500m", priority=k * 10) for k in range(10)
        ]
        for n in range(2000)
    }
    pending = [
        incoming(f"wait-{k:03}", cpu=str(2 + k % 50), memory="1Gi", labels={"app": f"a{k % 50}"}) for k in range(500)
    ]
    with serving(load_cluster(cluster(nodes, waiting=pending)), preemption={"candidates": "AllNodes"}) as served:
        offer = {f"node-{n:04}": {"Pods": [{"UID": f"uid-app-{n:04}-0"}], "NumPDBViolations": 0} for n in range(2000)}
        served.ask("preempt", {"Pod": incoming(cpu="2"), "NodeNameToMetaVictims": offer})
        served.ask("filter", {"Pod": incoming(cpu="9"), "NodeNames": list(offer)})
        served.ask("prioritize", {"Pod": incoming(cpu="500m"), "NodeNames": list(offer)})
        yield served


@pytest.mark.parametrize(
    ("address", "settled", "opens"),
    [
        ("#/pending", "#pending-list .group", "#pending-list summary"),
        ("#/nodes", "#nodes-list tbody tr", None),
        ("#/nodes?pod=default/wait-049", "#nodes-list tbody tr", None),
        ("#/nodes/node-0001", "#view-node table", None),
        ("#/pods/default/wait-049", "#view-pod .group", "#view-pod .group > summary"),
        ("#/pods/default/wait-049?node=node-1999", "#view-pod .pods", None),
        ("#/decisions", "#list > li", None),
        ("#/decisions/preempt-1?node=node-1999", ".node .pods", None),
        ("#/decisions/filter-1", "#statuses .group", "#statuses summary"),
        ("#/decisions/prioritize-1", "#scores tbody tr", None),
    ],
)
def test_no_view_of_a_large_cluster_has_more_than_2000_elements(tabs, large, address, settled, opens):
    tabs.served = large
    page = tabs.open(address)
    expect(page.locator(settled).first).to_be_visible(timeout=60_000)
    if opens:
        page.locator(opens).first.click()
    assert page.evaluate(ELEMENTS) <= MAX_ELEMENTS
    for button in page.locator("button:enabled", has_text="Next").locator("visible=true").all():
        button.click()
    assert page.evaluate(ELEMENTS) <= MAX_ELEMENTS
