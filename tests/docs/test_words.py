"""Private words stay out of the code and the docs (CONTRIBUTING.md, "Words")."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = (
    "extender",
    "docs",
    "deploy",
    "benchmarks",
    "tests",
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

GENERATED = ROOT / "tests" / "upstream" / "generate"

OPENINGS = ("Of ", "The same")
"""How no docstring begins: it would describe its own grammar instead of the name."""


def test_private_words_are_not_used():
    patterns = {
        phrase: re.compile(
            rf"\b{re.escape(phrase)}" + (r"(?!longer\b)" if phrase.endswith(" ") else r"s?\b"), re.IGNORECASE
        )
        for phrase in DENIED
    }
    found = []
    for path in files(TEXT):
        text = path.read_text(encoding="utf-8")
        lower = text.lower()
        used = [phrase for phrase in DENIED if phrase in lower and patterns[phrase].search(text)]
        found += [f"{at}: say {DENIED[phrase]}" for phrase in used for at in lines_of(path, text, patterns[phrase])]
    assert not found, "\n".join(found)


def test_docstrings_begin_with_what_the_thing_is():
    pattern = re.compile(rf'"""(?:{"|".join(OPENINGS)})')
    found = [at for path in files({".py"}) for at in lines_of(path, path.read_text(encoding="utf-8"), pattern)]
    assert not found, "\n".join(found)


def lines_of(path, text, pattern):
    """Where the pattern matches a line, and the line."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def files(endings):
    paths = [
        path for place in PLACES for path in ((ROOT / place).rglob("*") if (ROOT / place).is_dir() else [ROOT / place])
    ]
    found = [path for path in paths if path.suffix in endings and path.is_file() and "__pycache__" not in path.parts]
    assert len(found) > 1000
    # This file names the words. Words of generated scenarios stay: stored verdicts and digests follow from them.
    return [path for path in found if path != Path(__file__) and GENERATED not in path.parents]


def test_a_public_class_name_stands_for_one_thing():
    modules = defaultdict(list)
    for path in (ROOT / "extender").rglob("*.py"):
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            modules[name].append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}


def test_no_folder_has_more_modules_than_a_reader_keeps_in_mind():
    exempt = {ROOT / "extender" / "core" / "framework" / "plugins", ROOT / "extender" / "cli"}
    folders = {path.parent for path in (ROOT / "extender").rglob("*.py")} - exempt
    counts = {folder.relative_to(ROOT): len(set(folder.glob("*.py")) - {folder / "__init__.py"}) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count > 13} == {}
