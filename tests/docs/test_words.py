"""Private words stay out of the code and the docs (CONTRIBUTING.md, "Words")."""

import ast
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
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in files(*TEXT)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"say {DENIED[phrase]}:\n" + "\n".join(found)


def test_docstrings_begin_with_what_the_thing_is():
    pattern = re.compile(rf'"""(?:{"|".join(OPENINGS)})')
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in files(".py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
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
