"""The table of HOUSE.md: its rows, and the budget of lines of each package.

A row has a pin in pins.toml, the number that was reached last, or none where it is information.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.house import calls, classes, mechanisms, sizes, words
from tests.house.call_path import Entry, engine, entries_of, functions, loaded, modules, reports, returns, start, traces
from tests.house.count import Count
from tests.house.tree import Tree

FOLDER = Path(__file__).parent
PINS, BUDGETS, EXCEPTIONS = FOLDER / "pins.toml", FOLDER / "budgets.toml", FOLDER / "exceptions.toml"
TRACED = ("verbs", "why")
LOADED = {
    "extender": "why",
    "extender.cli": "why",
    "extender.core.engine": "verbs",
    "extender.server.app": "verbs",
}
"""Import that is measured -> the trace that has it."""


@dataclass(frozen=True)
class Row:
    """A number of the table."""

    title: str
    count: Callable[[Tree], Count]
    goal: str = ""
    """What HOUSE.md asks for; "": nothing."""
    is_pinned: bool = True
    more_is_better: bool = False
    is_traced: bool = False
    """Whether it needs a process of its own, which other rows need not wait for."""

    def is_worse(self, number: float, pin: float) -> bool:
        return number < pin if self.more_is_better else number > pin


Part = Callable[[Tree, list[Entry]], list[Entry]]


def _path(title: str, goal: str, call: str, part: Part, count: Callable[[list[Entry]], Count]) -> Row:
    """Return the row that counts a part of a traced call."""
    return Row(title, lambda tree: count(part(tree, entries_of(tree, call))), goal, is_traced=True)


def _whole(_: Tree, entries: list[Entry]) -> list[Entry]:
    return entries


def _loads(name: str, what: str) -> Row:
    title = f"modules of ours that `import {name}` loads"
    return Row(title, lambda tree: loaded(traces(tree, what), name), is_traced=True)


ROWS: dict[str, Row] = {
    "lines": Row("lines of extender/, blank ones and docstrings too", sizes.lines, "≤ 46000", is_pinned=False),
    "files": Row("files of extender/", sizes.files, is_pinned=False),
    "preempt-functions": _path("one /preempt: functions", "≤ 170", "preempt", _whole, functions),
    "preempt-returns": _path("one /preempt: returns", "≤ 57", "preempt", _whole, returns),
    "engine-functions": _path("of these in the engine: functions", "≤ 50", "preempt", engine, functions),
    "engine-returns": _path("of these in the engine: returns", "≤ 12", "preempt", engine, returns),
    "filter-functions": _path("one /filter: functions", "", "filter", _whole, functions),
    "filter-returns": _path("one /filter: returns", "", "filter", _whole, returns),
    "prioritize-functions": _path("one /prioritize: functions", "", "prioritize", _whole, functions),
    "prioritize-returns": _path("one /prioritize: returns", "", "prioritize", _whole, returns),
    "why-rooms": _path("one why: modules of report, whatif and engine", "≤ 12", "why", reports, modules),
    "why-returns": _path("one why: returns there", "≤ 20", "why", reports, returns),
    "evaluations": Row("places that put filter, score, dry run and policies together", calls.entry_calls, "1"),
    "result-structs": Row("result structs of report, whatif and audit", classes.result_structs, "≤ 24"),
    "result-classes": Row("the same with dataclasses", classes.result_classes),
    "outcome-tables": Row("tables of our words for the outcome of a node", words.node_outcome_tables, "1"),
    "code-tables": Row("tables of our words for any outcome, state or role", words.code_tables),
    "and-n-more": Row("spellings of “a, b and N more”", words.shortened_lists, "1"),
    "n-more": Row("spellings of “N more”, the page's too", words.shortened_in_any_words),
    "lrus": Row("caches that drop what was used longest ago", mechanisms.lrus, "1"),
    "lru-cache": Row("functions with functools.lru_cache or cache", mechanisms.memoized),
    "scenarios": Row("spellings of a scenario", mechanisms.scenario_spellings, "1"),
    "helpers": Row("private functions used once with ≤ 4 lines", sizes.helpers, "≤ 60"),
    "comments": Row("comments, % of lines that are not blank", sizes.comments, "≥ 3", more_is_better=True),
    # What follows is held by a list of exceptions.toml.
    "wide-classes": Row("classes with more than 12 fields (I7)", classes.wide_classes, is_pinned=False),
    "work-budgets": Row("modules with a work budget of their own (I4)", calls.work_budgets, "1", is_pinned=False),
    "limit-texts": Row("modules below server with text of a limit (I4)", words.limit_texts, "1", is_pinned=False),
    # Information.
    "file-size": Row("lines of the median file", sizes.file_size, is_pinned=False),
    "function-size": Row("lines of the median function's body", sizes.function_size, is_pinned=False),
    "layers": Row("import layers of extender/", sizes.layers, is_pinned=False),
    **{f"loads-{name.rpartition('.')[2]}": _loads(name, what) for name, what in LOADED.items()},
}
"""Key -> row."""


def measure(tree: Tree) -> dict[str, Count]:
    """Count every row; what needs a process of its own runs beside the rest."""
    for what in TRACED:
        start(tree, what)
    counts = {key: row.count(tree) for key, row in sorted(ROWS.items(), key=lambda item: item[1].is_traced)}
    return {key: counts[key] for key in ROWS}


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
