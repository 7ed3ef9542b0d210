"""One decision: candidates, nodes, groups, statuses and scores, and its address."""

import re

import pytest
from playwright.sync_api import expect

from extender.cluster.files.manifests import load_cluster
from tests.builders import cluster, incoming, node, pod
from tests.e2e.ui import requests
from tests.e2e.ui.serving import serving
from tests.report.facts.groups import TAINTED


@pytest.fixture(scope="module", autouse=True)
def asked(served):
    served.ask("filter", requests.nodes())
    served.ask("prioritize", requests.nodes())
    served.ask("preempt", requests.preempt())


def candidate(page, name):
    return page.locator("#candidates tbody > tr:not(.details)").filter(has=page.locator("th", has_text=name))


def opened(page, name):
    return page.locator(f'.node[data-node="{name}"]')


def test_the_list_leads_to_a_decision(tabs):
    page = tabs.open("#/decisions")
    page.locator("#list a").filter(has_text="evicts").click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("evicts batch/etl-3-4vmms from worker-b1 for shop/cart-9")
    expect(heading).to_be_focused()
    assert page.url.endswith("#/decisions/preempt-1")
    page.get_by_role("link", name="All decisions").click()
    expect(page.locator("#list")).to_be_visible()


def test_the_facts_name_the_pod_the_policies_and_the_cache(tabs):
    page = tabs.open("#/decisions/preempt-1")
    facts = page.locator("#view-decision > .facts")
    for text in (
        "shop/cart-9, priority 100,000; requests 3 cpu, 4Gi memory",
        "UTC), preempt, took",
        "disruptionBudgets: Strict",
        "version=1",
    ):
        expect(facts).to_contain_text(text)


# --- candidates -----------------------------------------------------------------------------------------------------


def test_candidates_are_ranked_and_the_criterion_that_decided_is_marked(tabs):
    page = tabs.open("#/decisions/preempt-1")
    expect(page.locator("#candidates tbody th")).to_contain_text(["worker-b1", "spot-b1", "worker-a2"])
    expect(page.locator("#candidates th.decides")).to_have_count(1)
    expect(page.locator("#candidates th.decides")).to_contain_text("Start")
    best = candidate(page, "worker-b1")
    expect(best.locator(".wins")).to_have_text("✓ decided here: 2026-03-02 05:00:00")
    expect(best).to_contain_text("chosen")


def test_a_row_names_the_criterion_by_which_it_is_outranked(tabs):
    page = tabs.open("#/decisions/preempt-1")
    row = candidate(page, "worker-a2")
    expect(row.locator(".loses")).to_contain_text("✗ outranked here: 200")
    expect(row.locator(".loses")).to_have_attribute("data-criterion", "PrioritySum")
    expect(row.locator(".not-compared")).to_have_count(2)
    expect(row.locator("td").last).to_have_text("Sum of priorities")


def test_a_node_that_kube_scheduler_did_not_send_says_so(tabs):
    page = tabs.open("#/decisions/preempt-1")
    expect(candidate(page, "spot-b1")).to_contain_text("not sent")
    expect(candidate(page, "worker-b1")).not_to_contain_text("not sent")


# --- a node ---------------------------------------------------------------------------------------------------------


def test_a_node_is_fetched_only_when_it_is_opened(tabs):
    page = tabs.open("#/decisions/preempt-1")
    expect(candidate(page, "worker-b1")).to_be_visible()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    candidate(page, "worker-b1").get_by_role("button").click()
    expect(opened(page, "worker-b1").locator(".pods tbody tr")).to_have_count(4)
    assert [url.rpartition("/")[2] for url in asked if "/decisions/" in url] == ["preempt-1?node=worker-b1"]


def test_bars_show_the_requests_on_a_node_before_and_after(tabs):
    page = tabs.open("#/decisions/preempt-1?node=worker-b1")
    cpu = opened(page, "worker-b1").locator(".bar-of[data-resource=cpu]").get_by_role("img")
    expect(cpu.first).to_have_attribute(
        "aria-label", "cpu before: kept 200m, reprieved 4500m, victim 3000m, free 300m of 8000m"
    )
    expect(cpu.last).to_have_attribute(
        "aria-label", "cpu after: kept 200m, reprieved 4500m, preemptor 3000m, free 300m of 8000m"
    )
    memory = opened(page, "worker-b1").locator(".bar-of[data-resource=memory]").get_by_role("img")
    expect(memory.first).to_have_attribute(
        "aria-label", "memory before: kept 0.25Gi, reprieved 6Gi, victim 4Gi, free 21.75Gi of 32Gi"
    )


def test_the_widths_of_a_bar_are_the_shares_of_the_room(tabs):
    page = tabs.open("#/decisions/preempt-1?node=worker-b1")
    bar = opened(page, "worker-b1").locator(".bar-of[data-resource=cpu] svg").first
    shares = bar.evaluate(
        "svg => Object.fromEntries([...svg.querySelectorAll('.part')].map(rect => [rect.classList[1], "
        "rect.getBoundingClientRect().width / svg.getBoundingClientRect().width]))"
    )
    expected = {"part-kept": 0.2 / 8, "part-reprieved": 4.5 / 8, "part-victim": 3 / 8}
    assert shares == pytest.approx(expected, abs=0.01)


def test_nominated_and_protected_pods_have_their_place(tabs):
    page = tabs.open("#/decisions/preempt-1?node=spot-a1")
    spot = opened(page, "spot-a1")
    label = spot.locator(".bar-of[data-resource=cpu]").get_by_role("img").first
    expect(label).to_have_attribute(
        "aria-label", "cpu before: kept 200m, protected 8000m, nominated 5000m, free 2800m of 16000m"
    )
    expect(spot).to_contain_text("Pods nominated to this node, counted as if they ran here")
    expect(spot).to_contain_text("shop/payments-84c5bb6f9d-new")
    trainer = spot.locator(".pods tr").filter(has_text="ml/trainer-zbhrf-0")
    expect(trainer).to_contain_text("protected by trainers")


def test_pods_show_their_role_their_turn_in_the_reprieve_and_their_budgets(tabs):
    page = tabs.open("#/decisions/preempt-1?node=worker-b1")
    pods = opened(page, "worker-b1").locator(".pods tbody tr")
    expect(pods.filter(has_text="checkout")).to_contain_text("1: reprieved")
    expect(pods.filter(has_text="checkout")).to_contain_text("shop/checkout")
    expect(pods.filter(has_text="checkout")).to_contain_text("its eviction would violate a budget")
    expect(pods.filter(has_text="etl-3")).to_contain_text("3: does not fit")
    expect(pods.filter(has_text="etl-3")).to_contain_text("kube-scheduler selected it as a victim")
    expect(pods.filter(has_text="etl-3").locator(".role-tag")).to_have_text("victim")


def test_no_pod_is_reprieved_on_a_node_that_is_insufficient_after_preemption(tabs):
    page = tabs.open("#/decisions/preempt-1?node=worker-c1")
    insufficient = opened(page, "worker-c1")
    expect(insufficient.locator(".role-tag-evictable")).to_have_count(1)
    expect(insufficient.locator(".role-tag-reprieved")).to_have_count(0)
    after = insufficient.locator(".bar-of[data-resource=cpu]").get_by_role("img").last
    expect(after).to_have_attribute(
        "aria-label", "cpu if emptied: kept 6200m, preemptor 3000m, exceeded by 1200m of 8000m"
    )


def test_budgets_show_the_disruptions_allowed_and_the_victims(tabs):
    page = tabs.open("#/decisions/preempt-1?node=worker-a1")
    row = opened(page, "worker-a1").locator("table.budgets tbody tr")
    expect(row.locator("th, td")).to_have_text(["shop/web", "1", "2", "-1", "✗ violated by 1"])
    expect(page.locator("#budgets")).to_have_text(
        "Disruption budgetsThe victims on worker-b1 count against no disruption budget."
    )


# --- nodes that are not candidates -----------------------------------------------------------------------------------


def test_other_nodes_are_grouped_by_reason(tabs):
    page = tabs.open("#/decisions/preempt-1")
    groups = page.locator("#others .group")
    expect(groups.filter(has_text="disruption budget shop/web")).to_have_count(1)
    expect(groups.filter(has_text="even with all potential victims evicted: ")).to_have_count(0)
    expect(groups.filter(has_text="Does not fit even after evicting all potential victims")).to_contain_text(
        "NodeResourcesFit: Insufficient cpu"
    )
    expect(groups.filter(has_text="No potential victims")).to_contain_text("protected by a policy")


def test_the_names_of_a_group_are_made_when_it_is_opened(tabs):
    page = tabs.open("#/decisions/preempt-1")
    group = page.locator("#others .group").filter(has_text="shop/web")
    expect(group).to_have_count(1)
    expect(group.locator(".names li")).to_have_count(0)
    group.locator("summary").click()
    expect(group.locator(".names li")).to_have_text(["worker-a1"])
    group.get_by_role("button", name="worker-a1").click()
    expect(opened(page, "worker-a1").locator(".pods tbody tr")).to_have_count(4)


def test_a_node_is_found_by_name(tabs):
    tabs.refused.add(404)
    page = tabs.open("#/decisions/preempt-1")
    field = page.get_by_label("Why, or why not, node")
    field.fill("worker-b2")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(opened(page, "worker-b2")).to_contain_text("a policy forbids the victims")
    field.fill("worker")
    field.press("Enter")
    expect(page.locator("#find-message")).to_contain_text("6 nodes match: worker-b1")
    field.fill("gpu-a1")
    field.press("Enter")
    expect(page.locator("#find-message")).to_contain_text(
        "did not consider node 'gpu-a1': kube-scheduler did not send it"
    )
    page.get_by_role("link", name="Decisions about this pod and node").click()
    expect(page.locator("#list li")).to_have_count(2)


def test_a_node_that_does_not_exist_says_so(tabs):
    tabs.refused.add(404)
    page = tabs.open("#/decisions/preempt-1")
    field = page.get_by_label("Why, or why not, node")
    field.fill("worker-b11")
    field.press("Enter")
    expect(page.locator("#find-message")).to_contain_text(
        "the cluster has no node 'worker-b11' (did you mean worker-b1?)"
    )


def test_the_message_about_a_node_goes_when_the_address_names_another(tabs):
    tabs.refused.add(404)
    page = tabs.open("#/decisions/preempt-1?node=none")
    expect(page.locator("#find-message")).to_contain_text("the cluster has no node 'none'")
    page.evaluate("location.hash = '#/decisions/preempt-1?node=worker-b1'")
    expect(opened(page, "worker-b1").locator(".bars")).to_be_visible()
    expect(page.locator("#find-message")).to_be_empty()


# --- addresses ------------------------------------------------------------------------------------------------------


def test_open_nodes_are_in_the_address_and_survive_a_reload(tabs):
    page = tabs.open("#/decisions/preempt-1")
    candidate(page, "worker-b1").get_by_role("button").click()
    candidate(page, "spot-b1").get_by_role("button").click()
    expect(page).to_have_url(re.compile(r"#/decisions/preempt-1\?node=worker-b1&node=spot-b1$"))
    page.reload()
    expect(opened(page, "worker-b1").locator(".bars")).to_be_visible()
    expect(opened(page, "spot-b1").locator(".bars")).to_be_visible()


def test_the_back_button_closes_what_was_opened_last(tabs):
    page = tabs.open("#/decisions/preempt-1")
    candidate(page, "worker-b1").get_by_role("button").click()
    candidate(page, "spot-b1").get_by_role("button").click()
    expect(opened(page, "spot-b1")).to_be_visible()
    page.go_back()
    expect(opened(page, "spot-b1")).to_have_count(0)
    expect(opened(page, "worker-b1")).to_be_visible()
    page.go_forward()
    expect(opened(page, "spot-b1")).to_be_visible()


def test_a_decision_that_is_not_kept_shows_an_error(tabs):
    tabs.refused.add(404)
    page = tabs.open("#/decisions/preempt-999")
    expect(page.get_by_role("alert")).to_contain_text("This decision is not kept")
    expect(page.get_by_role("link", name="All decisions")).to_be_visible()


def test_a_malformed_address_shows_an_error(tabs):
    tabs.refused.add(404)
    page = tabs.open("#/decisions/%E0%A4%A?node=%")
    expect(page.get_by_role("alert")).to_contain_text("This decision is not kept")


# --- /filter and /prioritize ------------------------------------------------------------------------------------------


def test_a_filter_decision_groups_the_nodes_by_status(tabs):
    page = tabs.open("#/decisions/filter-1")
    groups = page.locator("#statuses .group")
    expect(groups.locator("summary")).to_contain_text(
        [
            "Fits",
            "NodeResourcesFit: Insufficient cpu",
            "NodeUnschedulable: node(s) were unschedulable",
            "TaintToleration: node(s) had untolerated taint(s)",
        ]
    )
    groups.nth(1).locator("summary").click()
    expect(groups.nth(1)).to_contain_text("worker-b1")
    expect(groups.nth(1)).to_contain_text("5 filters pass")
    expect(groups.nth(1)).to_contain_text("not run: VolumeRestrictions")


def test_too_little_of_a_resource_is_shown_with_its_amounts(tabs):
    page = tabs.open("#/decisions/filter-1")
    group = page.locator("#statuses .group").filter(has_text="NodeResourcesFit")
    expect(group).to_contain_text("Insufficient cpu (500m cpu requested, at most 300m free on a node)")
    group.locator("summary").click()
    expect(group.locator(".names li")).to_contain_text(
        ["worker-b1: requests 500m cpu, 300m of 8000m free; most free in"]
    )


def test_a_group_and_its_nodes_say_what_exactly_rejects_them(tabs):
    page = tabs.open("#/decisions/filter-1")
    group = page.locator("#statuses .group").filter(has_text="TaintToleration")
    expect(group).to_contain_text("node(s) had untolerated taint(s) (")
    expect(group.locator("summary")).to_contain_text(":NoSchedule")
    group.locator("summary").click()
    expect(group.locator(".names li").first).to_contain_text(re.compile(r"^\S+: \S+:NoSchedule$"))


@pytest.mark.parametrize(("taints", "said"), TAINTED)
def test_the_facts_of_a_group_are_those_of_the_sentence(tabs, taints, said):
    nodes = [node(f"n{place}", taints=some) for place, some in enumerate(taints)]
    with serving(load_cluster(cluster(dict.fromkeys(nodes, ())))) as tabs.served:
        tabs.served.ask("filter", {"Pod": incoming(), "NodeNames": [f"n{place}" for place in range(len(nodes))]})
        page = tabs.open("#/decisions/filter-1")
        expect(page.get_by_role("heading", level=1)).to_contain_text(said)
        expect(page.locator("#statuses .group-why")).to_contain_text(said)


def test_heading_and_detail_of_a_node_never_disagree_on_evictions(tabs):
    """A status Unschedulable says that they may help; whether they do is said once, by the outcome."""
    tabs.served.ask("filter", requests.nodes(requests.pod("large", cpu="7")))
    page = tabs.open("#/decisions/filter-2")
    groups = page.locator("#statuses .group")
    expect(groups.filter(has_text="evicting pods would not help").filter(has_text="Insufficient cpu")).to_have_count(1)
    for summary in groups.locator("summary").all():
        summary.click()
    expect(page.locator("#view-decision")).not_to_contain_text("may help")


def test_a_prioritize_decision_shows_the_scores_of_every_plugin(tabs):
    page = tabs.open("#/decisions/prioritize-1")
    decision = tabs.served.get("/decisions/prioritize-1")
    best = next(one for one in decision["nodes"] if one["name"] == "worker-a1")
    cells = page.locator("#scores tbody tr").first.locator("th, td")
    expect(cells).to_have_text(
        ["worker-a1", str(best["score"]), str(best["total"]), *map(str, best["plugins"].values())]
    )
    expect(page.locator("#scores thead")).to_contain_text("of at most 700")
    expect(page.locator("#scores tbody tr").last).to_contain_text(decision["nodes"][-1]["why"])


# --- many -------------------------------------------------------------------------------------------------------------

MANY = 620


@pytest.fixture(scope="module")
def crowd():
    """Nodes with one small pod each, of which 520 can be evicted."""
    nodes = {
        node(f"n{number:03}"): [pod(f"p{number:03}", cpu="3", priority=10 if number < 520 else 5000)]
        for number in range(MANY)
    }
    with serving(load_cluster(cluster(nodes)), preemption={"candidates": "AllNodes"}) as served:
        offer = {"n000": {"Pods": [{"UID": "uid-p000"}], "NumPDBViolations": 0}}
        served.ask("preempt", {"Pod": incoming(cpu="2"), "NodeNameToMetaVictims": offer})
        yield served


def test_many_candidates_are_shown_some_at_a_time(tabs, crowd):
    tabs.served = crowd
    page = tabs.open("#/decisions/preempt-1")
    found = page.locator("#candidates tbody > tr")
    expect(found).to_have_count(25)
    expect(page.get_by_role("heading", name="Candidates (520)")).to_be_visible()
    expect(page.locator("#candidates")).to_contain_text(
        "520 candidates tie for the best; "
        "the chosen one won because its victims are the ones that kube-scheduler selected."
    )
    pages = page.locator("#candidates .more")
    expect(pages).to_contain_text("1–25 of 520 candidates")
    candidate(page, "n003").get_by_role("button").click()
    expect(opened(page, "n003").locator(".bars")).to_be_visible()
    pages.get_by_role("button", name="Next").click()
    expect(pages).to_contain_text("26–50 of 520 candidates")
    expect(found).to_have_count(25)
    expect(found.first.get_by_role("button")).to_be_focused()
    pages.get_by_role("button", name="Previous").click()
    expect(opened(page, "n003").locator(".bars")).to_be_visible()


def test_a_link_to_a_node_far_down_shows_it(tabs, crowd):
    tabs.served = crowd
    page = tabs.open("#/decisions/preempt-1?node=n519")
    expect(opened(page, "n519").locator(".bars")).to_be_in_viewport()
    page = tabs.open("#/decisions/preempt-1?node=n600")
    expect(opened(page, "n600")).to_contain_text("no pod that may be evicted for this one")
