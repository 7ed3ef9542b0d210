"""Measure the decision page in headless Chromium: first contentful paint, and when the candidates are drawn.

The decision is a real one: kube-scheduler sends 500 candidates, the policies try all nodes. In turns with it runs the
same page with a decision of the example cluster. Times are the browser's own, from the start of the navigation.

Rule: every measurement starts with an empty browser cache.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from playwright.sync_api import Browser

from benchmarks import generate
from benchmarks.bodies import compact, victims_body
from benchmarks.measure import Limit, Row
from benchmarks.service import Client, started, wait_until_ready
from benchmarks.world import World
from tests.e2e.ui import requests
from tests.e2e.ui.browser import CHROMIUM, chromium

GROUP = "page"
SENT_CANDIDATES = 500
PAGE_LOADS = 7
SECOND = 1.0
WAIT_MS = 120_000

NOTE_WHEN_THERE = """
window.there = null;
new MutationObserver((_, observer) => {
  if (!document.querySelector("#candidates tbody tr")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.there = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
"""Script that records the moment after the frame in which the candidates' table was drawn."""

THERE = """() => new Promise((resolve) => {
  const look = () => (window.there === null ? setTimeout(look, 5) : resolve(window.there));
  look();
})"""

PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


@dataclass(frozen=True, slots=True)
class Look:
    """Times of one page load, in seconds since the navigation began."""

    painted: float
    candidates: float


def rows(world: World) -> Iterator[Row]:
    if not CHROMIUM.exists():
        print(f"{GROUP}: left out: {CHROMIUM} not found")
        return
    large = victims_body(generate.incoming(world.plan), world.candidates[:SENT_CANDIDATES])
    with (
        decided(world, world.plan.nodes, large) as (own_url, about),
        decided(world, 0, compact(requests.preempt())) as (other_url, _),
        chromium() as browser,
    ):
        pairs = [(look(browser, own_url), look(browser, other_url)) for _ in range(1 + PAGE_LOADS)][1:]
    for what, times in (
        ("first contentful paint", [(own.painted, other.painted) for own, other in pairs]),
        ("candidates drawn", [(own.candidates, other.candidates) for own, other in pairs]),
    ):
        own, others = [one for one, _ in times], [other for _, other in times]
        yield Row(GROUP, f"{what}, {about}", own, "the example's decision", others)
        yield Row(GROUP, f"{what}, {about}", own, "one second", [SECOND] * len(own), Limit("≤", 1))


@contextlib.contextmanager
def decided(world: World, nodes: int, body: bytes) -> Iterator[tuple[str, str]]:
    """Let a separate service make a decision; yield the URL of its page and the decision's size."""
    options = ("--seed", str(world.plan.seed), "--nodes", str(nodes))
    with started("benchmarks.serve_page", *options) as service, contextlib.closing(Client(service.port)) as client:
        wait_until_ready(service.admin_port)
        client.post("/preempt", body)
        with contextlib.closing(Client(service.admin_port)) as people:
            decision = json.loads(people.get("/decisions/preempt-1?pods=none"))
        about = f"{len(decision['nodes']):,} nodes, {decision['ranking']['candidates']:,} candidates"
        yield f"http://127.0.0.1:{service.admin_port}/ui#/decisions/preempt-1", about


def look(browser: Browser, url: str) -> Look:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.add_init_script(NOTE_WHEN_THERE)
        page.goto(url)
        page.locator("#candidates tbody tr").first.wait_for(timeout=WAIT_MS)
        there = page.evaluate(THERE)
        return Look(page.evaluate(PAINTED) / 1000, there / 1000)
    finally:
        context.close()
