"""The site in headless Chromium: the terminal session plays, the search finds, and every width and palette works.

Rule: in every test, all that a page loads comes from the site, and the console shows no errors.
"""

import re

import pytest
from playwright.sync_api import expect

PHONE = {"width": 390, "height": 844}


@pytest.fixture
def open_page(browser, address):
    """Open a page of the site; options are those of a browser context."""
    contexts, wrong = [], []

    def opened(path="", **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("request", lambda one: None if one.url.startswith((address, "data:")) else wrong.append(one.url))
        page.on("response", lambda one: wrong.append(f"{one.status} {one.url}") if one.status >= 400 else None)
        page.on("pageerror", lambda one: wrong.append(str(one)))
        page.on("console", lambda one: wrong.append(one.text) if one.type in ("error", "warning") else None)
        page.goto(address + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def test_the_terminal_session_plays(open_page):
    page = open_page()
    expect(page.locator(".ap-player")).to_contain_text("the example cluster that ships with the package: 12 nodes")


def test_the_search_finds_a_word(open_page):
    page = open_page("why/")
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("reprieve")
    page.locator(".md-search-result__link", has_text="Explain decisions").first.click()
    expect(page).to_have_url(re.compile("/explain/"))


@pytest.mark.parametrize("path", ["", "configuration/", "metrics/", "python/", "project/CHANGELOG/"])
def test_a_phone_does_not_scroll_sideways(open_page, path):
    page = open_page(path, viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


@pytest.mark.parametrize(("preferred", "scheme"), [("light", "default"), ("dark", "slate")])
def test_the_palette_is_that_of_the_system(open_page, preferred, scheme):
    page = open_page(color_scheme=preferred)
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", scheme)


def test_a_reader_chooses_a_palette(open_page):
    page = open_page(color_scheme="light")
    page.get_by_title("Use the light palette").click()
    page.get_by_title("Use the dark palette").click()
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")


def test_commands_are_copied_without_prompts_and_outputs(open_page):
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.locator(".highlight", has_text="uvx").hover()
    page.locator(".highlight", has_text="uvx").get_by_title("Copy to clipboard").click()
    expect(page.locator(".md-dialog")).to_contain_text("Copied to clipboard")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == "uvx kube-scheduler-extender why --example shop/payments-84c5bb6f9d-new"
