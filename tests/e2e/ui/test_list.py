"""The list of decisions: what it shows, that it refreshes itself, and that it does not move while it is in use."""

import pytest
from playwright.sync_api import expect

from extender.cluster.files.manifests import example_cluster
from tests.e2e.ui import requests
from tests.e2e.ui.browser import wait_until
from tests.e2e.ui.conftest import STRICT
from tests.e2e.ui.serving import serving

SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture
def served():
    """A service of its own for every test, because the list shows every decision of the service."""
    with serving(example_cluster(), preemption=STRICT) as served:
        yield served


def rows(page):
    return page.locator("#list > li")


def with_clock(tabs, address="#/decisions"):
    """A page whose timers run when the test says so."""
    page = tabs.new()
    page.clock.install()
    page.goto(tabs.served.url + address)
    return page


def test_decisions_are_listed_the_latest_first(tabs):
    tabs.served.ask("filter", requests.nodes())
    tabs.served.ask("preempt", requests.preempt())
    page = tabs.open("#/decisions")
    expect(rows(page)).to_have_count(2)
    expect(rows(page).first).to_contain_text("evicts batch/etl-3-4vmms from worker-b1 for shop/cart-9")
    expect(rows(page).last).to_contain_text("filter")
    expect(page.locator("#list-message")).to_contain_text("2 decisions")


def test_a_fresh_installation_is_told_what_to_do(tabs):
    page = tabs.open("#/decisions")
    expect(page.locator("#list-message")).to_have_text("No decisions yet.")
    first = page.locator("#list-first")
    expect(first).to_contain_text("Register this service in kube-scheduler’s configuration")
    tabs.served.ask("filter", requests.nodes())
    expect(rows(page)).to_have_count(1)
    expect(first).to_be_hidden()


def test_a_new_decision_appears_by_itself(tabs):
    tabs.served.ask("filter", requests.nodes())
    page = with_clock(tabs)
    expect(rows(page)).to_have_count(1)
    tabs.served.ask("preempt", requests.preempt())
    page.clock.run_for(2_000)
    expect(rows(page)).to_have_count(2)
    expect(rows(page).first).to_contain_text("evicts")
    expect(page.locator("#announcer")).to_have_text("1 new decision")


def test_new_decisions_wait_while_a_row_has_the_focus(tabs):
    tabs.served.ask("filter", requests.nodes())
    page = with_clock(tabs)
    own = rows(page).first.locator("a")
    own.focus()
    for _ in range(3):
        tabs.served.ask("preempt", requests.preempt())
    page.clock.run_for(2_000)
    new = page.get_by_role("button", name="Show 3 new decisions")
    expect(new).to_be_visible()
    expect(rows(page)).to_have_count(1)
    expect(own).to_be_focused()
    new.click()
    expect(rows(page)).to_have_count(4)
    expect(rows(page).first.locator("a")).to_be_focused()
    expect(new).to_be_hidden()


def test_a_hidden_tab_sends_no_requests(tabs):
    page = with_clock(tabs)
    expect(page.locator("#list-message")).to_contain_text("No decisions yet")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    hide = "(is) => { Object.defineProperty(document, 'hidden', { get: () => is, configurable: true });"
    page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", True)
    page.clock.run_for(2_000)
    asked.clear()
    page.clock.run_for(30_000)
    assert asked == []
    tabs.served.ask("filter", requests.nodes())
    page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", False)
    expect(rows(page)).to_have_count(1)


def test_live_updates_do_not_shift_the_layout(tabs):
    for _ in range(3):
        tabs.served.ask("filter", requests.nodes())
    page = tabs.new()
    page.add_init_script(SHIFTS)
    page.clock.install()
    page.goto(tabs.served.url + "#/decisions")
    expect(rows(page)).to_have_count(3)
    for count in range(4, 9):
        tabs.served.ask("preempt", requests.preempt())
        page.clock.run_for(2_000)
        expect(rows(page)).to_have_count(count)
    rows(page).last.locator("a").focus()
    tabs.served.ask("preempt", requests.preempt())
    page.clock.run_for(2_000)
    expect(page.locator("#list-new")).to_be_visible()
    assert page.evaluate("window.shifted") < 0.1


def test_the_observer_of_shifts_sees_one(tabs):
    """Proves that the test above can fail."""
    page = tabs.new()
    page.add_init_script(SHIFTS)
    page.goto(tabs.served.url + "#/decisions")
    expect(page.locator("#list-message")).to_contain_text("No decisions yet")
    page.evaluate("const p = document.createElement('p'); p.style.height = '400px'; document.body.prepend(p);")
    wait_until(page, "window.shifted > 0.1")


def test_the_list_is_filtered_by_verb_pod_node_and_text(tabs):
    tabs.served.ask("filter", requests.nodes())
    tabs.served.ask("filter", requests.nodes(requests.pod("other", cpu="1")))
    tabs.served.ask("preempt", requests.preempt())
    page = tabs.open("#/decisions")
    expect(rows(page)).to_have_count(3)
    page.get_by_label("Verb").select_option("preempt")
    expect(rows(page)).to_have_count(1)
    page.get_by_label("Verb").select_option("")
    page.get_by_label("Pod or victim").fill("shop/other")
    expect(rows(page)).to_have_count(1)
    page.get_by_label("Pod or victim").fill("batch/etl-3-4vmms")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("evicts")
    page.get_by_label("Pod or victim").fill("")
    page.get_by_label("Node").fill("gpu-a1")
    expect(rows(page)).to_have_count(2)
    page.locator("#filters").get_by_label("Search").fill("SHOP/OTHER")
    expect(rows(page)).to_have_count(1)
    page.locator("#filters").get_by_label("Search").fill("nowhere")
    expect(page.locator("#list-message")).to_have_text("None of 3 kept decisions matches.")


def test_a_filter_is_in_the_address_and_survives_a_reload(tabs):
    tabs.served.ask("filter", requests.nodes())
    tabs.served.ask("preempt", requests.preempt())
    page = tabs.open("#/decisions")
    page.get_by_label("Verb").select_option("filter")
    expect(rows(page)).to_have_count(1)
    assert page.url.endswith("#/decisions?verb=filter&sort=time")
    page.reload()
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_label("Verb")).to_have_value("filter")


def test_going_back_finds_the_list_as_it_was_left(tabs):
    for number in range(60):
        tabs.served.ask("filter", requests.nodes(requests.pod(f"pod-{number}", cpu="1")))
    page = tabs.open("#/decisions", viewport={"width": 1000, "height": 400})
    row = rows(page).nth(45).locator("a")
    row.scroll_into_view_if_needed()
    wait_until(page, "window.scrollY > 100")
    before = page.evaluate("window.scrollY")
    row.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("fits on")
    page.go_back()
    expect(row).to_be_focused()
    assert page.evaluate("window.scrollY") == before


def test_arrow_keys_move_through_the_rows(tabs):
    tabs.served.ask("filter", requests.nodes())
    tabs.served.ask("preempt", requests.preempt())
    page = tabs.open("#/decisions")
    rows(page).first.locator("a").focus()
    page.keyboard.press("ArrowDown")
    expect(rows(page).last.locator("a")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(rows(page).first.locator("a")).to_be_focused()


def test_an_unreachable_service_shows_an_error_and_keeps_the_list(tabs):
    tabs.served.ask("filter", requests.nodes())
    page = with_clock(tabs)
    expect(rows(page)).to_have_count(1)
    page.route("**/decisions**", lambda route: route.abort("connectionrefused"))
    page.clock.run_for(2_000)
    expect(page.locator("#list-message")).to_have_text("The service cannot be reached. The list may be stale.")
    expect(rows(page)).to_have_count(1)
    page.unroute("**/decisions**")
    page.clock.run_for(2_000)
    expect(page.locator("#list-message")).to_contain_text("1 decision kept")
    tabs.wrong.clear()  # the refused connection, which the browser notes on its console


def test_the_top_says_that_the_service_is_ready_and_more_on_demand(tabs):
    page = tabs.open("#/decisions")
    top = page.locator("#status")
    expect(top.locator("summary")).to_have_text(
        "✓ ready: the example cluster that ships with the package: 12 nodes, 44 running pods, 4 budgets"
    )
    top.locator("summary").click()
    expect(top).to_contain_text("version=1")
    expect(top).to_contain_text("disruptionBudgets: Strict")
    page.keyboard.press("Escape")
    expect(top.locator("#status-more")).to_be_hidden()
