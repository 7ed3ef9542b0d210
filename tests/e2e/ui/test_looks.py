"""Presentation and keyboard access: colours, widths, headings, labels, keys."""

import itertools
import re

import pytest
from playwright.sync_api import expect

from tests.e2e.ui import requests

VIEWS = {
    "pending": "#/pending",
    "pod": "#/pods/shop/payments-84c5bb6f9d-new?node=worker-a1",
    "nodes": "#/nodes?pod=shop/payments-84c5bb6f9d-new",
    "node": "#/nodes/worker-a1",
    "list": "#/decisions",
    "preempt": "#/decisions/preempt-1?node=worker-b1&node=worker-a1",
    "protected": "#/decisions/preempt-1?node=spot-a1",
    "filter": "#/decisions/filter-1?node=worker-b1",
    "prioritize": "#/decisions/prioritize-1",
    "simulation": "#/what-if?decision=preempt-1",
    "not found": "#/decisions/preempt-999",
}
SETTLED = {
    "pending": "#pending-list .group",
    "pod": "[data-node=worker-a1] .bars",
    "nodes": "#nodes-verdict a",
    "node": "#view-node table",
    "list": "#list > li",
    "preempt": ".node[data-node=worker-a1] .bars",
    "protected": ".node[data-node=spot-a1] .bars",
    "filter": "#statuses .names li",
    "prioritize": "#scores tbody tr",
    "simulation": "#pod-note a",
    "not found": ".alert",
}
"""View -> what is there once it is drawn."""

COLOURS = """
() => {
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const { backgroundColor } = getComputedStyle(one);
      if (backgroundColor !== "rgba(0, 0, 0, 0)") return backgroundColor;
    }
    return getComputedStyle(document.documentElement).backgroundColor;
  };
  const found = new Map();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.closest("svg, .visually-hidden, .skip, noscript")) continue;
    const pair = [getComputedStyle(element).color, ground(element)];
    found.set(pair.join(), [...pair, `${element.className} ${element.textContent.trim().slice(0, 30)}`]);
  }
  return [...found.values()];
}
"""
"""Every visible pair of text and background colour, with an example."""


@pytest.fixture(scope="module", autouse=True)
def asked(served):
    served.ask("filter", requests.nodes())
    served.ask("prioritize", requests.nodes())
    served.ask("preempt", requests.preempt())


def opened(tabs, view, **options):
    if view == "not found":
        tabs.refused.add(404)
    page = tabs.open(VIEWS[view], **options)
    expect(page.locator(SETTLED[view]).first).to_be_visible()
    return page


def luminance(colour):
    def linear(part):
        share = int(part) / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """By WCAG 2: 1 to 21."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


# --- colours ----------------------------------------------------------------------------------------------------------


def test_contrast_is_computed_as_wcag_does():
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.01)


def test_dark_is_another_ground(tabs):
    grounds = {
        scheme: opened(tabs, "list", color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert luminance(grounds["light"]) > 0.8
    assert luminance(grounds["dark"]) < 0.05


@pytest.mark.parametrize("view", list(VIEWS))
def test_all_text_stands_out_from_its_ground(tabs, view):
    page = opened(tabs, view)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        pairs = page.evaluate(COLOURS)
        assert len(pairs) >= 3
        assert [pair for pair in pairs if contrast(*pair[:2]) < 4.5] == []


def test_roles_differ_in_more_than_colour(tabs):
    """Those that may stand side by side have patterns of their own."""
    page = opened(tabs, "protected")
    fill = "element => getComputedStyle(element).fill"
    fills = {part: page.locator(f".bar .part-{part}").first.evaluate(fill) for part in ("protected", "nominated")}
    assert fills == {"protected": 'url("#pattern-protected")', "nominated": 'url("#pattern-nominated")'}
    patterns = page.locator("pattern").evaluate_all("all => all.map(one => one.innerHTML.replace(/fill-\\\\w+/g, ''))")
    assert len(set(patterns)) == len(patterns) == 5


# --- widths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", list(VIEWS))
def test_the_page_does_not_scroll_sideways(tabs, view):
    page = opened(tabs, view)
    for width in (1600, 1280, 800, 390, 360):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_simulation_result_does_not_scroll_sideways_on_a_narrow_screen(tabs):
    page = opened(tabs, "simulation", viewport={"width": 360, "height": 740})
    page.get_by_label("Compare with").select_option("upstream")
    page.get_by_role("button", name="Simulate").click()
    expect(page.locator(".compared")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_result_of_a_drain_is_legible_and_as_wide_as_the_screen(tabs):
    page = opened(tabs, "simulation")
    page.locator("#scenario summary").click()
    page.get_by_label("Drain").fill("worker-b1 worker-c2")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("region", name="Replacements")).to_be_visible()
    for scheme, width in itertools.product(("light", "dark"), (1600, 360)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert [pair for pair in page.evaluate(COLOURS) if contrast(*pair[:2]) < 4.5] == []


# --- structure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", list(VIEWS))
def test_headings_are_in_order_and_every_control_has_a_name(tabs, view):
    page = opened(tabs, view)
    levels = page.locator("h1:visible, h2:visible, h3:visible, h4:visible").evaluate_all(
        "all => all.map(one => Number(one.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(following <= level + 1 for level, following in itertools.pairwise(levels))
    nameless = page.locator("input:visible, select:visible, textarea:visible, button:visible, a:visible").evaluate_all(
        "all => all.filter(one => !(one.labels?.length || one.textContent.trim())).map(one => one.outerHTML)"
    )
    assert nameless == []


def test_every_bar_has_a_text(tabs):
    page = opened(tabs, "preempt")
    bars = page.locator("svg.bar")
    expect(bars).to_have_count(12)
    labels = bars.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert all(re.fullmatch(r"\w+ (before|after|if chosen): .+ of .+", label) for label in labels)


# --- keys -------------------------------------------------------------------------------------------------------------


def tab_to(page, wanted):
    """Press Tab until the wanted element has the focus; whatever has it on the way shows that."""
    for _ in range(40):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError("not reached with Tab")


def test_the_keyboard_leads_from_the_list_to_the_pods_of_a_node(tabs):
    page = opened(tabs, "list")
    tab_to(page, page.locator("#list a").first)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("evicts")
    opener = page.locator("#candidates").get_by_role("button", name="worker-b1")
    tab_to(page, opener)
    page.keyboard.press("Enter")
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".node .pods tbody tr")).to_have_count(4)
    tab_to(page, page.get_by_role("region", name="Pods on worker-b1"))
    tab_to(page, page.locator("#others summary").first)
    page.keyboard.press("Enter")
    expect(page.locator("#others .names").first).to_be_visible()


def test_a_node_is_drained_with_the_keyboard(tabs):
    page = opened(tabs, "simulation")
    page.get_by_label("Pods or workloads, as YAML or JSON").fill("")
    tab_to(page, page.locator("#scenario summary"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Drain"))
    page.keyboard.type("worker-b1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Result")).to_be_focused()
    tab_to(page, page.get_by_role("region", name="Nodes drained or removed"))
    tab_to(page, page.get_by_role("region", name="Replacements"))


def test_the_first_key_skips_to_the_content(tabs):
    page = opened(tabs, "list")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("#list")).to_be_visible()
