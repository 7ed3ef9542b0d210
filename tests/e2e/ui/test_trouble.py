"""Decisions without a result, and an unreachable service: the page shows a message where the result would be."""

import contextlib

import pytest
from playwright.sync_api import expect

from extender.cluster.files.manifests import example_cluster
from tests.e2e.ui import requests
from tests.e2e.ui.serving import serving


@pytest.fixture(scope="module", autouse=True)
def asked(served):
    served.ask("preempt", requests.preempt())


def tag(page, id_):
    return page.locator(f'#list a[href="#/decisions/{id_}"] .sentence .tag')


@contextlib.contextmanager
def broken(tabs, page, pattern, handler):
    """Make some requests fail, which the browser logs to its console."""
    page.route(pattern, handler)
    yield
    page.unroute(pattern)
    tabs.wrong.clear()


@pytest.mark.parametrize(
    ("sections", "tag_text"),
    [({"mode": "Observe"}, "observed only"), ({"killSwitch": {"enabled": True}}, "passed through")],
    ids=["observed", "kill switch"],
)
def test_a_decision_that_was_not_answered_says_so(tabs, sections, tag_text):
    with serving(example_cluster(), **sections) as served:
        served.ask("preempt", requests.preempt())
        tabs.served = served
        page = tabs.open("#/decisions")
        expect(tag(page, "preempt-1")).to_have_text(tag_text)
        page.locator("#list a").click()
        expect(page.locator("#view-decision > .facts")).to_contain_text(tag_text)
        page.close()


def test_a_pod_that_may_not_preempt_says_so_and_why(tabs):
    never = requests.pod("never")
    never["spec"]["preemptionPolicy"] = "Never"
    tabs.served.ask("preempt", requests.preempt(never))
    page = tabs.open("#/decisions/preempt-2")
    expect(page.get_by_role("heading", level=1)).to_contain_text("evicts no pod for shop/never")
    expect(page.locator("#others .group")).to_contain_text("Preemption not allowed now")
    page.get_by_role("link", name="All decisions").click()
    expect(tag(page, "preempt-2")).to_have_text("vetoed")


def test_a_decision_names_version_and_profile_or_says_that_the_pod_is_not_ours(tabs):
    scheduler = {"version": "1.33", "profiles": [{"schedulerName": "default-scheduler"}]}
    other = requests.pod("other")
    other["spec"]["schedulerName"] = "other"
    with serving(example_cluster(), scheduler=scheduler) as served:
        served.ask("filter", requests.nodes(requests.pod("ours")))
        served.ask("filter", requests.nodes(other))
        tabs.served = served
        page = tabs.open("#/decisions/filter-1")
        facts = page.locator("#view-decision > .facts")
        expect(facts).to_contain_text("1.33 (configured), profile default-scheduler")
        page.get_by_role("link", name="All decisions").click()
        page.locator('#list a[href="#/decisions/filter-2"]').click()
        expect(facts).to_contain_text("no profile: not ours")
        expect(page.get_by_text("Passed through: not ours: no profile of kube-scheduler")).to_be_visible()
        page.close()


def test_what_was_left_to_kube_scheduler_is_named(tabs):
    plugins = {"filter": {"enabled": [{"name": "Quota"}]}}
    scheduler = {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}
    with serving(example_cluster(), scheduler=scheduler) as served:
        served.ask("filter", requests.nodes(requests.pod("small", cpu="100m")))
        tabs.served = served
        page = tabs.open("#/decisions/filter-1")
        expect(page.locator("#view-decision > .facts")).to_contain_text("Quota: left to kube-scheduler")
        page.close()


def test_a_decision_that_cannot_be_fetched_can_be_tried_again(tabs):
    page = tabs.new()
    with broken(tabs, page, "**/decisions/preempt-1**", lambda route: route.abort("connectionrefused")):
        page.goto(f"{tabs.served.url}#/decisions/preempt-1?node=worker-b1")
        expect(page.get_by_role("alert")).to_have_text("The service cannot be reached.")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".node .bars")).to_be_visible()


def test_a_node_that_cannot_be_fetched_says_so_in_its_place(tabs):
    page = tabs.open("#/decisions/preempt-1")
    opener = page.locator("#candidates").get_by_role("button", name="worker-b1")
    opener.wait_for()
    with broken(tabs, page, "**/*node=*", lambda route: route.abort("connectionrefused")):
        opener.click()
        expect(page.locator(".node .alert")).to_contain_text("The service cannot be reached.")
    opener.click()
    opener.click()
    expect(page.locator(".node .bars")).to_be_visible()


def test_a_response_that_is_not_json_shows_an_error(tabs):
    page = tabs.new()
    with broken(tabs, page, "**/decisions/preempt-1**", lambda route: route.fulfill(body="<h1>proxy</h1>")):
        page.goto(f"{tabs.served.url}#/decisions/preempt-1")
        expect(page.get_by_role("alert")).to_have_text("The service answered 200 with something that is not JSON.")


def test_a_report_that_cannot_be_made_is_asked_for_less_often(tabs):
    page, asked = tabs.open("#/decisions"), []

    def fail(route):
        asked.append(route.request.url)
        route.fulfill(status=503, json={"Error": "no result within 60 s"})

    # Paused: no time passes but that of run_for, however slow the machine is.
    page.clock.install(time="2026-03-01T12:00:00Z")
    page.clock.pause_at("2026-03-01T12:01:00Z")
    with broken(tabs, page, "**/pending", fail):
        page.get_by_role("link", name="Pending").click()
        expect(page.locator("#pending-state")).to_have_text("no result within 60 s")
        page.clock.run_for(9_000)
        assert len(asked) == 1
        with page.expect_response("**/pending"):
            page.clock.run_for(2_000)
        assert len(asked) == 2
    page.close()
