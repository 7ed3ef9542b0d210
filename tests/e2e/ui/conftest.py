"""The page in headless Chromium, on the real service with the example cluster.

Rule: in every test, the console shows no errors, no request fails and no dialog opens, unless the test expects it.
"""

import os
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Request,
    Response,
    expect,
)

from extender.cluster.files.manifests import example_cluster
from tests.e2e.ui.browser import CHROMIUM, MISSING, chromium
from tests.e2e.ui.serving import Served, serving

REQUIRED = "BROWSER_TESTS"
"""Environment variable that CI sets to `required`, so that these tests are never skipped there."""

STRICT = {"preset": "strict", "protections": {"rules": [{"name": "trainers", "namespaces": ["ml"]}]}}
"""A decision with candidates, nodes rejected by a budget, nodes without victims and insufficient nodes."""

expect.set_options(timeout=10_000)


@pytest.fixture(scope="module")  # while Playwright runs, tests that have an event loop of their own cannot
def browser():
    if not CHROMIUM.exists() and os.environ.get(REQUIRED) != "required":
        pytest.skip(MISSING)
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def served():
    with serving(example_cluster(), preemption=STRICT) as served:
        yield served


@dataclass
class Tabs:
    """Opens pages, and collects their errors."""

    browser: Browser
    served: Served
    contexts: list[BrowserContext] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    """HTTP statuses of errors that the test expects."""

    def new(self, **options) -> Page:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        context = self.browser.new_context(**options)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", self._console)
        page.on("pageerror", self._error)
        page.on("requestfailed", self._failed)
        page.on("response", self._status)
        page.on("dialog", self._dialog)
        return page

    def open(self, address: str = "", **options) -> Page:
        """Open a page; `address`: what follows the path, such as `#/decisions/preempt-1`."""
        page = self.new(**options)
        page.goto(self.served.url + address)
        return page

    def _console(self, message: ConsoleMessage) -> None:
        is_expected = any(f"status of {status} " in message.text for status in self.refused)
        if message.type in ("error", "warning") and not is_expected:
            self.wrong.append(f"console: {message.text}")

    def _error(self, error: Error) -> None:
        self.wrong.append(f"error: {error}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page aborts requests that are no longer needed
            self.wrong.append(f"failed: {request.url} {request.failure}")

    def _status(self, answer: Response) -> None:
        if answer.status >= 400 and answer.status not in self.refused:
            self.wrong.append(f"status {answer.status}: {answer.url}")

    def _dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture
def tabs(browser, served):
    tabs = Tabs(browser, served)
    yield tabs
    for context in tabs.contexts:
        context.close()
    assert tabs.wrong == []
