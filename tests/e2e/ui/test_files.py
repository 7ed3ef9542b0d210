"""The files of the page: no parsing of markup, no inline code, no other origins, no circular imports."""

import re
from graphlib import TopologicalSorter
from importlib.resources import files

import pytest

from tests.e2e.ui import browser

UI = files("extender.server") / "ui"
FILES = {file.name: file.read_text(encoding="utf-8") for file in UI.iterdir() if file.is_file()}
SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))
INDEX = FILES["index.html"]

PARSES = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function"
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_of_text(name):
    assert re.findall(PARSES, FILES[name]) == []


def test_nothing_is_inline():
    """The Content-Security-Policy would forbid it."""
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", INDEX) == []


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_comes_from_elsewhere(name):
    assert set(re.findall(r"https?://[\w./]+", FILES[name])) <= {"http://www.w3.org/2000/svg"}


def test_all_scripts_are_loaded_at_once():
    """Without preloading, each script would wait for the one that imports it."""
    assert sorted(re.findall(r'href="ui/([\w-]+\.js)"|src="ui/([\w-]+\.js)"', INDEX)) == sorted(
        ("", name) if name == "app.js" else (name, "") for name in SCRIPTS
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_is_imported_is_there_and_used(name):
    for names, module in re.findall(r"import \{([^}]*)\} from \"\./([\w-]+\.js)\"", FILES[name]):
        for one in map(str.strip, names.split(",")):
            assert re.search(rf"export (async )?(function|const|class) {one}\b", FILES[module]), (module, one)
            assert len(re.findall(rf"\b{one}\b", FILES[name])) > 1, one


def test_no_scripts_import_each_other_in_a_circle():
    imports = {name: re.findall(r'from "\./([\w-]+\.js)"', FILES[name]) for name in SCRIPTS}
    TopologicalSorter(imports).prepare()


def test_the_error_of_a_missing_browser_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setattr(browser, "CHROMIUM", tmp_path / "chromium")
    with pytest.raises(RuntimeError, match="apt-get install chromium"), browser.chromium():
        pass
