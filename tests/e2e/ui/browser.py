"""Headless Chromium, as Debian has it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MISSING = f"the tests of the page need {CHROMIUM}: apt-get install chromium"


def wait_until(page: Page, expression: str) -> None:
    """Wait until the expression is true in the page; its CSP blocks the `eval` of Playwright's wait_for_function."""
    look = f"const look = () => ({expression}) ? resolve() : setTimeout(look, 10);"
    page.evaluate(f"() => new Promise((resolve) => {{ {look} look(); }})")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start one browser; RuntimeError with the package to install if Chromium is missing."""
    if not CHROMIUM.exists():
        raise RuntimeError(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
