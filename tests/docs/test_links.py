"""Links between the Markdown files of the checkout lead to files and headings that exist."""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("*.md", "docs/*.md", "deploy/**/*.md", "benchmarks/**/*.md", "tests/**/*.md")
FILES = sorted(path.relative_to(ROOT).as_posix() for place in PLACES for path in ROOT.glob(place))


def prose(path: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return re.sub(r"^ *(```+).*?^ *\1$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors that code hosts derive from the headings of a page; equal ones are numbered."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return frozenset(found)


@pytest.mark.parametrize("file", FILES)
def test_every_link_leads_somewhere(file):
    page = ROOT / file
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / unquote(path)).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), link


def test_pages_have_links():
    assert {"README.md", "CONTRIBUTING.md", "docs/runbook.md"} <= set(FILES)
    assert "how-soon-a-vetoed-pod-is-retried" in anchors(ROOT / "docs" / "install.md")
