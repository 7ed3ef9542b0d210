"""The built site: its links, what it loads, its pages and its search, and what fails its build."""

import json
import re
import shutil
from urllib.parse import urljoin, urlsplit

import pytest

import extender
from tests.e2e.website.built import HOMEPAGE, ROOT, SOURCE, Page, Site, build

INCLUDED = {"README.md": "/project/", "CONTRIBUTING.md": "/project/CONTRIBUTING/", "SECURITY.md": "/project/SECURITY/"}
"""File of the top level -> its page."""


def test_the_addresses_are_those_of_the_package():
    configured = re.findall(
        r"^(?:site|repo)_url: (.*)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert configured == [HOMEPAGE, SOURCE]


def test_every_link_and_anchor_leads_somewhere(site):
    assert {url: broken for url, page in site.pages.items() if (broken := sorted(set(site.broken(page))))} == {}


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "a.txt").touch()
    (tmp_path / "index.html").write_text('<p id=b><a href="a.txt"><a href="#b"><a href="#c"><img src="d.png">')
    site = Site(tmp_path)
    assert list(site.broken(site.pages["/"])) == ["#c", "d.png"]


def test_links_out_of_docs_lead_to_source(site):
    links = {link for page in site.pages.values() for link in page.links}
    found = {match.group(1, 2) for link in links if (match := re.match(rf"{SOURCE}/(blob|tree)/main/([^#]*)", link))}
    assert {("blob", "deploy/monitoring/prometheusrule.yaml"), ("tree", "deploy/monitoring")} <= found
    for kind, path in found:
        assert (ROOT / path).is_dir() if kind == "tree" else (ROOT / path).is_file(), path


@pytest.mark.parametrize(("file", "url"), INCLUDED.items())
def test_a_page_of_the_top_level_is_part_of_the_site(site, file, url):
    assert f"{SOURCE}/blob/main/{file}" not in {link for page in site.pages.values() for link in page.links}
    linking = [page for page in site.pages.values() if url in {urljoin(page.url, link) for link in page.links}]
    assert len(linking) > 1


def foreign(page: Page) -> set[str]:
    """Return what the page loads from another host; data: has none."""
    own = urlsplit(HOMEPAGE).netloc
    return {one for one in page.loaded if urlsplit(urljoin(HOMEPAGE, one)).netloc not in ("", own)}


def test_no_page_loads_from_another_host(site):
    assert {url: found for url, page in site.pages.items() if (found := foreign(page))} == {}
    sheets = [path.read_text(encoding="utf-8") for path in site.folder.rglob("*.css")]
    assert sheets
    assert re.findall(r"@import[^;]*//|url\(\s*[\"']?(?:https?:)?//[^)]*\)", "".join(sheets)) == []


def test_what_comes_from_another_host_is_noticed():
    page = Page("/")
    page.feed(
        "<link rel=stylesheet href=//a.example/b.css><link rel=canonical href=https://b.example/><img src=/c.png>"
    )
    page.feed("<script src=https://c.example/d.js></script><img src=e.png srcset='f.png, https://d.example/g.png 2x'>")
    assert foreign(page) == {"//a.example/b.css", "https://c.example/d.js", "https://d.example/g.png"}


def test_every_page_of_docs_is_in_the_navigation(site):
    listed = {urlsplit(link).path.rstrip("/").rpartition("/")[2] for link in site.pages["/404.html"].links}
    names = [path.stem for path in (ROOT / "docs").glob("*.md") if path.stem != "index"]
    assert len(names) > 20
    assert sorted(set(names) - listed) == []


def test_search_finds_words_of_the_docs(site):
    documents = json.loads((site.folder / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert {"explain/", "why/", "policies/"} <= {
        one["location"].partition("#")[0] for one in documents if "reprieve" in one["text"]
    }


MARKDOWN = re.compile(r"```|^\s*\|.*\||\]\(|^#+ |^\s*(?:[-*]|\d+\.) \S|\*\*", re.MULTILINE)
"""What is left where Markdown means something else in the site than on a code host: a list or a table without a blank
line above."""


def left_of_markdown(page: Page) -> list[str]:
    blocks = [text for text in page.inline_code if text.count("\n") > 1]
    return [text for text in page.prose if MARKDOWN.search(text)] + blocks


def test_nothing_of_markdown_is_left_in_the_text(site):
    assert {url: texts for url, page in site.pages.items() if (texts := left_of_markdown(page))} == {}


def test_what_is_left_of_markdown_is_noticed():
    page = Page("/")
    page.feed("<p>a\n- b</p><p>a <code>yaml\nb: c\n</code></p><p>1 - 2</p><p><code>- a</code></p><pre>- b</pre>")
    assert left_of_markdown(page) == ["a\n- b", "yaml\nb: c\n"]


@pytest.mark.parametrize("file", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]), ids=lambda one: one.name)
def test_what_belongs_to_an_item_of_a_list_is_indented_by_four_columns(file):
    """Less is enough on a code host; in the site the list would end."""
    outside = re.sub(r"^((?: {4})*)```.*?^\1```$", "", file.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^ {1,3}(?:```|[-*] |\d+\. ).*", outside, re.MULTILINE) == []


def test_every_public_name_has_a_reference(site):
    assert {f"extender.{name}" for name in extender.__all__} <= site.pages["/python/"].ids


# --- what fails the build -------------------------------------------------------------------------------------------

MISTAKES = {
    "a file that does not exist": ("[x](../deploy/absent.yaml)", "../deploy/absent.yaml"),
    "a folder that does not exist": ("[x](../absent)", "../absent"),
    "a page that does not exist": ("[x](absent.md)", "absent.md"),
    "a page of the top level that does not exist": ("[x](../ABSENT.md)", "../ABSENT.md"),
    "a heading that does not exist": ("[x](why.md#absent)", "#absent"),
    "a heading of the top level that does not exist": ("[x](../README.md#missing)", "#missing"),
    "an absolute link": ("[x](/why/)", "/why/"),
    "an image that does not exist": ("![x](images/absent.png)", "images/absent.png"),
}
"""What is wrong -> Markdown, and what the warning names."""


@pytest.fixture(scope="module")
def warnings(tmp_path_factory):
    """The warnings of a build with all mistakes, which fails."""
    checkout = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "docs", checkout / "docs")
    for path in ROOT.glob("*.md"):
        shutil.copy(path, checkout)
    for path in ROOT.iterdir():
        if not (checkout / path.name).exists():
            (checkout / path.name).symlink_to(path)
    with (checkout / "docs" / "sizing.md").open("a", encoding="utf-8") as page:
        page.write("\n\n" + "\n".join(markdown for markdown, _ in MISTAKES.values()))
    with (checkout / "CONTRIBUTING.md").open("a", encoding="utf-8") as page:
        page.write("\n[x](extender/absent.py)\n")
    (checkout / "docs" / "unlisted.md").write_text("# Unlisted\n")
    done = build(checkout, checkout / "site")
    assert done.returncode == 1
    return [line for line in done.stderr.splitlines() if line.startswith("WARNING")]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_the_build(warnings, mistake):
    _, named = MISTAKES[mistake]
    assert [line for line in warnings if "'sizing.md'" in line and f"{named}'" in line]


def test_mistakes_outside_of_docs_and_an_unlisted_page_fail_the_build(warnings):
    assert [line for line in warnings if "'project/CONTRIBUTING.md'" in line and "extender/absent.py" in line]
    assert len(warnings) == len(MISTAKES) + 2
