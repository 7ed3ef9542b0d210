"""`python -m tests.e2e.ui.pictures`: take the pictures of docs/images anew, with the example cluster."""

from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser

from extender.cluster.files.manifests import example_cluster
from tests.e2e.ui import questions
from tests.e2e.ui.browser import chromium
from tests.e2e.ui.serving import serving

IMAGES = Path(__file__).parents[3] / "docs" / "images"
WIDTH = 1180
TALL = 2000
Scheme = Literal["light", "dark"]
PICTURES: dict[str, tuple[Scheme, str, str, str]] = {
    "decision.png": ("light", "#/decisions/preempt-1?node=worker-b1", ".top", "[data-resource=memory]"),
    "decision-dark.png": ("dark", "#/decisions/preempt-1?node=spot-a1", "#candidates", ".amounts"),
}
"""File -> colours, what is looked at, and the first and the last that is to be seen of it."""
MARGIN = 8


def main() -> None:
    """Write all of them."""
    with serving(example_cluster(), preemption={"preset": "strict"}) as served, chromium() as browser:
        served.ask("filter", questions.nodes())
        served.ask("prioritize", questions.nodes())
        served.ask("preempt", questions.preempt())
        for name, (scheme, address, first, last) in PICTURES.items():
            take(browser, scheme, served.url + address, first, last, IMAGES / name)


def take(browser: Browser, scheme: Scheme, url: str, first: str, last: str, file: Path) -> None:
    """As wide as the page, from the top of `first` to the bottom of `last`."""
    context = browser.new_context(viewport={"width": WIDTH, "height": TALL}, color_scheme=scheme)
    page = context.new_page()
    page.goto(url)
    page.locator(".node .pods").wait_for()
    page.evaluate("window.scrollTo(0, 0)")
    top = page.locator(first).evaluate("element => element.getBoundingClientRect().top")
    bottom = page.locator(last).first.evaluate("element => element.getBoundingClientRect().bottom") + MARGIN
    page.screenshot(path=file, clip={"x": 0, "y": top, "width": WIDTH, "height": bottom - top})
    context.close()


if __name__ == "__main__":
    main()
