"""`python -m tests.e2e.ui.screenshots`: update the screenshots in docs/images, with the example cluster."""

from pathlib import Path
from typing import Literal

from msgspec.structs import replace
from playwright.sync_api import Browser, Page

from extender.cluster.files.manifests import example_cluster, load_cluster
from extender.k8s.kinds import ClusterObjects
from tests.e2e.ui import requests
from tests.e2e.ui.browser import chromium
from tests.e2e.ui.serving import serving

IMAGES = Path(__file__).parents[3] / "docs" / "images"
WIDTH = 1180
TALL = 2000
Scheme = Literal["light", "dark"]
SCREENSHOTS: dict[str, tuple[Scheme, str, str, str]] = {
    "decision.png": ("light", "#/decisions/preempt-1?node=worker-b1", ".top", "[data-resource=memory]"),
    "pod.png": ("light", "#/pods/shop/cart-9?node=worker-a1", ".top", "[data-resource=pods]"),
    "decision-dark.png": ("dark", "#/decisions/preempt-1?node=spot-a1", "#candidates", ".amounts"),
}
"""File -> colour scheme, address, and the selectors of the first and the last element to show."""
MARGIN = 8


def main() -> None:
    """Write every screenshot."""
    with serving(cluster_with_pending_pods(), preemption={"preset": "strict"}) as served, chromium() as browser:
        served.ask("filter", requests.nodes())
        served.ask("prioritize", requests.nodes())
        served.ask("preempt", requests.preempt())
        for name, (scheme, address, first, last) in SCREENSHOTS.items():
            take_screenshot(browser, scheme, served.url + address, first, last, IMAGES / name)
        take_screenshot_of_pending_pods(browser, served.url, IMAGES / "pending.png")
        take_screenshot_of_nodes(browser, served.url, IMAGES / "nodes.png")
        take_screenshot_of_drain(browser, served.url, IMAGES / "drain.png")


def cluster_with_pending_pods() -> ClusterObjects:
    """Return the example cluster with pods that wait for different reasons."""
    gpu = requests.pod("train-7", cpu="4", memory="16Gi")
    gpu["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "2"
    gpu["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    disk = requests.pod("index-0", cpu="500m", memory="1Gi")
    disk["spec"]["nodeSelector"] = {"disk": "nvme"}
    waiting = [*(requests.pod(f"cart-{number}") for number in range(8, 12)), gpu, disk]
    for one in waiting:
        one["status"] = {"phase": "Pending"}
        one["kind"] = "Pod"
    before = example_cluster()
    more = load_cluster({"kind": "List", "items": waiting})
    return replace(before, pods=(*before.pods, *more.pods))


def take_screenshot(browser: Browser, scheme: Scheme, url: str, first: str, last: str, file: Path) -> None:
    """Take a screenshot as wide as the page, from the top of `first` to the bottom of `last`."""
    page = new_page(browser, scheme, url)
    page.locator(".pods tbody tr").first.wait_for()
    save(page, first, last, file)


def take_screenshot_of_pending_pods(browser: Browser, url: str, file: Path) -> None:
    """Take a screenshot of the pending pods, with the first cause open."""
    page = new_page(browser, "light", url + "#/pending")
    page.locator("#pending-list summary").first.click()
    page.locator("#pending-list tbody tr").first.wait_for()
    save(page, ".top", "#pending-list", file)


def take_screenshot_of_nodes(browser: Browser, url: str, file: Path) -> None:
    """Take a screenshot of the nodes, and why a pod does not fit there."""
    page = new_page(browser, "light", url + "#/nodes?pod=shop/cart-9")
    page.locator("#nodes-verdict a").wait_for()
    save(page, ".top", "#nodes-list", file)


def take_screenshot_of_drain(browser: Browser, url: str, file: Path) -> None:
    """Take a screenshot of the result of a drain, up to the second node that changes."""
    page = new_page(browser, "light", url + "#/what-if")
    page.locator("#scenario summary").click()
    page.get_by_label("Drain").fill("worker-b1")
    page.get_by_role("button", name="Simulate").click()
    page.locator(".changed-node").first.wait_for()
    save(page, "#result", ".changed-node:nth-of-type(2)", file)


def new_page(browser: Browser, scheme: Scheme, url: str) -> Page:
    context = browser.new_context(viewport={"width": WIDTH, "height": TALL}, color_scheme=scheme)
    page = context.new_page()
    page.goto(url)
    return page


def save(page: Page, first: str, last: str, file: Path) -> None:
    """Save what is between two elements, in the width of the page, and close the page."""
    page.evaluate("window.scrollTo(0, 0)")
    top = page.locator(first).evaluate("element => element.getBoundingClientRect().top")
    bottom = page.locator(last).first.evaluate("element => element.getBoundingClientRect().bottom") + MARGIN
    page.screenshot(path=file, clip={"x": 0, "y": top, "width": WIDTH, "height": bottom - top})
    page.context.close()


if __name__ == "__main__":
    main()
