"""Private words stay out of the code and the docs (CONTRIBUTING.md, "Words")."""

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (
    "extender",
    "docs",
    "deploy",
    "benchmarks",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "SCOPE.md",
    "GOVERNANCE.md",
)
TEXT = {".py", ".md", ".js", ".html", ".css", ".yaml", ".yml", ".json", ".tpl", ".txt", ".toml", ".sh", ".go"}

DENIED = {
    "picture": "cluster cache, cache, snapshot",
    "anew": "again",
    "lately": "recently",
    "for want of": "without",
    "comes about": "happens",
    "is no ": "is not a, has no, no … exists",
    "nobody": "no pod, no client, no process",
    "somebody": "the pod, the client, the process",
    "whom": "which pod, which client",
}
"""Phrase -> what to write instead."""

OPENINGS = ("Of ", "The same")
"""How no docstring begins: it would describe its own grammar instead of the name."""


@functools.cache
def texts(*endings):
    """Path -> text of every file with such an ending."""
    return {path: path.read_text(encoding="utf-8") for path in files(*endings)}


def matches(pattern, *endings):
    """Where the pattern matches a line, and the line."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path, text in texts(*endings).items()
        if pattern.search(text)  # most files have none: their lines are not looked at one by one
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def files(*endings):
    paths = [
        path for place in PLACES for path in ([ROOT / place] if place.endswith(".md") else (ROOT / place).rglob("*"))
    ]
    found = [path for path in paths if path.is_file() and path.suffix in endings and "__pycache__" not in path.parts]
    assert found
    return found


@pytest.mark.parametrize("phrase", DENIED)
def test_private_words_are_not_used(phrase):
    pattern = re.compile(rf"\b{re.escape(phrase)}" + ("" if phrase.endswith(" ") else r"s?\b"), re.IGNORECASE)
    found = matches(pattern, *sorted(TEXT))
    assert not found, f"say {DENIED[phrase]}:\n" + "\n".join(found)


def test_docstrings_begin_with_what_the_thing_is():
    pattern = re.compile(rf'"""(?:{"|".join(OPENINGS)})')
    found = matches(pattern, ".py")
    assert not found, "\n".join(found)


def test_a_public_class_name_stands_for_one_thing():
    modules = defaultdict(list)
    for path in (ROOT / "extender").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}


def test_no_folder_has_more_modules_than_a_reader_keeps_in_mind():
    exempt = {ROOT / "extender" / "core" / "framework" / "plugins", ROOT / "extender" / "cli"}
    folders = {path.parent for path in (ROOT / "extender").rglob("*.py")} - exempt
    counts = {folder.relative_to(ROOT): len(set(folder.glob("*.py")) - {folder / "__init__.py"}) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count > 13} == {}
