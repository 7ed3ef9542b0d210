"""The built site, read from its files.

Rule: every address in it is looked up; none is asked for.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

ROOT = Path(__file__).parents[3]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
HOMEPAGE, SOURCE = URLS["Homepage"], URLS["Source"]

LOADED = {"icon", "manifest", "modulepreload", "preload", "prefetch", "stylesheet"}
"""What a link element fetches, by its rel."""
TEXT = ("code", "p", "pre", "td", "th")


def build(checkout: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a checkout as `make docs` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(target)],
        cwd=checkout, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@dataclass
class Page(HTMLParser):
    """What a page links to, loads and says."""

    url: str
    """Its address in the site, such as `/why/`."""
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    """Texts of paragraphs and cells, outside of code."""
    inline_code: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)
    """Tags of TEXT that are open."""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.ids |= {given[key] for key in ("id", "name") if key in given}
        if tag == "link":
            (self.loaded if LOADED & set(given["rel"].split()) else self.links).append(given["href"])
        elif "href" in given:
            self.links.append(given["href"])
        self.loaded += [given[key] for key in ("src", "data", "poster") if key in given]
        self.loaded += [one.split()[0] for one in given.get("srcset", "").split(",") if one.strip()]
        if tag in TEXT:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in TEXT:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["code"] and "pre" not in self._open:
            self.inline_code.append(data)
        elif self._open and not {"code", "pre"} & set(self._open):
            self.prose.append(data)

    __hash__ = object.__hash__


@dataclass(frozen=True)
class Site:
    """A folder with a built site."""

    folder: Path

    @cached_property
    def pages(self) -> dict[str, Page]:
        """Address -> page."""
        found = {}
        for path in self.folder.rglob("*.html"):
            url = "/" + path.relative_to(self.folder).as_posix().removesuffix("index.html")
            found[url] = page = Page(url)
            page.feed(path.read_text(encoding="utf-8"))
            page.close()
        return found

    def broken(self, page: Page) -> Iterator[str]:
        """Yield the addresses on the page that lead nowhere within the site."""
        for link in (*page.links, *page.loaded):
            address = urljoin(HOMEPAGE + page.url, link)
            if not address.startswith(f"{HOMEPAGE}/"):
                continue
            found = urlsplit(address.removeprefix(HOMEPAGE))
            path, anchor = unquote(found.path), unquote(found.fragment)
            file = self.folder / path.lstrip("/")
            there = (file / "index.html" if path.endswith("/") else file).is_file()
            if not there or (anchor and path in self.pages and anchor not in self.pages[path].ids):
                yield link
