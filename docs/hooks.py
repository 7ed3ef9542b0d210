"""MkDocs hooks: the site has pages from outside of docs/, and links out of it lead to Source.

`project/PATH` in the navigation is the file PATH of the checkout. Links are relative to the file, as in a checkout.

Rule: a link to a file that does not exist stays as it is, so that MkDocs reports it.
"""

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PROJECT = "project/"
"""Prefix of pages that are files of the checkout outside of docs/."""


class CheckoutLinks(Extension):
    """Rewrites the links of the page that is rendered."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.page = ""
        """`src_uri` of the page that is rendered."""
        self.files: Files = Files([])

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        # Before MkDocs resolves and validates links ("relpath", priority 0).
        md.treeprocessors.register(_Rewriter(self), "checkout_links", 1)

    def rewritten(self, link: str) -> str:
        """Return where the link leads in the site; unchanged if it leads to no file."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
            return link
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path_of(self.page)), unquote(parts.path)))
        fragment = f"#{parts.fragment}" if parts.fragment else ""
        target = uri_of(path)
        file = self.files.get_file_from_path(target)
        if file is not None and file.inclusion is not InclusionLevel.EXCLUDED:
            return posixpath.relpath(target, posixpath.dirname(self.page) or ".") + fragment
        if path.startswith("..") or not (ROOT / path).exists():
            return link
        return f"{self.source}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}{fragment}"


class _Rewriter(Treeprocessor):
    def __init__(self, links: CheckoutLinks) -> None:
        super().__init__()
        self.links = links

    def run(self, root: Element) -> None:
        for element in root.iter():
            key = {"a": "href", "img": "src"}.get(element.tag)
            if key is not None and key in element.attrib:
                element.set(key, self.links.rewritten(element.attrib[key]))


def path_of(uri: str) -> str:
    """Return the path in the checkout of a page or other file of the site."""
    return uri.removeprefix(PROJECT) if uri.startswith(PROJECT) else f"docs/{uri}"


def uri_of(path: str) -> str:
    """Return the place in the site of a file of the checkout."""
    return path.removeprefix("docs/") if path.startswith("docs/") else PROJECT + path


def on_config(config: MkDocsConfig) -> None:
    config.markdown_extensions.append(CheckoutLinks(config.repo_url or ""))


def on_files(files: Files, config: MkDocsConfig) -> None:
    for uri in _uris(config.nav):
        if uri.startswith(PROJECT):
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path_of(uri))))


def on_pre_page(page: Page, config: MkDocsConfig, files: Files) -> None:
    (links,) = (one for one in config.markdown_extensions if isinstance(one, CheckoutLinks))
    links.page, links.files = page.file.src_uri, files


def _uris(nav: Any) -> Iterator[str]:
    """Yield the pages of the navigation."""
    if isinstance(nav, str):
        yield nav
    else:
        for one in nav.values() if isinstance(nav, dict) else nav or ():
            yield from _uris(one)
