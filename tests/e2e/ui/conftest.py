"""The page in headless Chromium, on the real service with the example cluster.

Rule: whatever the test is about, nothing may be written to the console as an error, no request may fail and no dialog
may open, unless the test says that it will.
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
"""Set to `required` by CI, where no test of the page may be left out."""

STRICT = {"preset": "strict", "protections": [{"name": "trainers", "namespaces": ["ml"]}]}
"""Of a decision there are candidates, nodes that a budget rules out, nodes without victims, and nodes without room."""

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
    """Opens pages, and notes what goes wrong in them."""

    browser: Browser
    served: Served
    contexts: list[BrowserContext] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    """Statuses of answers that are as they should be."""

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
        """`address`: what comes after the path, such as `#/decisions/preempt-1`."""
        page = self.new(**options)
        page.goto(self.served.url + address)
        return page

    def _console(self, message: ConsoleMessage) -> None:
        said_already = any(f"status of {status} " in message.text for status in self.refused)
        if message.type in ("error", "warning") and not said_already:
            self.wrong.append(f"console: {message.text}")

    def _error(self, error: Error) -> None:
        self.wrong.append(f"error: {error}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # what is asked no more is given up
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
