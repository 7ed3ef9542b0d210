"""What is counted is found: each row on a few lines that have it, and on some that look alike."""

import pytest

from tests.house import calls, mechanisms, sizes, words
from tests.house.call_path import Entry, called_from, functions, returns
from tests.house.tree import Tree

LRU = """
def get(kept, key):
    found = kept.pop(key, None)
    if len(kept) > 9:
        del kept[next(iter(kept))]
    kept[key] = found
"""
QUEUE = """
def remember(kept, key):
    kept[key] = None
    if len(kept) > 9:
        del kept[next(iter(kept))]
"""
MOVED = """
class Recent:
    def get(self, key):
        self.entries.move_to_end(key)
"""
HELPERS = """
def public(a):
    return _once(a) + _twice(a) + _twice(a)

def _once(a):
    return a

def _twice(a):
    return a
"""
OUTCOMES = 'NodeOutcome = Literal["fits", "failed", "chosen"]\n'
TABLE = OUTCOMES + 'TEXTS = {"fits": "fits", "failed": "does not fit", "chosen": "chosen"}\n'
NO_TABLE = OUTCOMES + 'ORDER = {"fits": 1, "failed": 2, "chosen": 3}\n'
SCENARIO = """
class Scenario:
    cordon: list[str]
    drain: list[str]
    gang: bool
    until_full: bool

def simulate(*, cordon, drain, gang, until_full): ...
def other(drain, gang): ...
"""
BUDGET = """
def search():
    try:
        return WorkBudget(9)
    except (KeyError, WorkLimitReached):
        return None
"""
MORE = 'SHORT = f"{a} and {len(b) - 3} more"\nLIMIT = f"{a} and more than {b}"\n'


@pytest.mark.parametrize(
    ("source", "count", "expected"),
    [
        (LRU, mechanisms.lrus, 1),
        (QUEUE, mechanisms.lrus, 0),
        (MOVED, mechanisms.lrus, 1),
        (HELPERS, sizes.helpers, 1),
        (TABLE, words.node_outcome_tables, 1),
        (NO_TABLE, words.node_outcome_tables, 0),
        (MORE, words.shortened_lists, 1),
        (SCENARIO, mechanisms.scenario_spellings, 2),
        (BUDGET, calls.work_budgets, 1),
        ("run = engine.score(context)\nname = score\n", calls.entry_calls, 1),
        ('text = "# no comment"\n# --- a heading ---\n\nx = 1  # a reason\n', sizes.comments, 33.33),
    ],
)
def test_a_row_counts_what_it_says(tmp_path, source, count, expected):
    (tmp_path / "extender").mkdir()
    (tmp_path / "extender" / "module.py").write_text(source, encoding="utf-8")
    found = count(Tree(tmp_path))
    assert found.number == expected, found.items


def test_a_table_of_the_page_counts(tmp_path):
    (tmp_path / "extender").mkdir()
    (tmp_path / "extender" / "schema.py").write_text(OUTCOMES, encoding="utf-8")
    script = 'const LABELS = {\n  fits: ["Fits", ""],\n  failed: ["Failed", ""],\n  chosen: ["Chosen", ""],\n};\n'
    (tmp_path / "extender" / "words.js").write_text(script, encoding="utf-8")
    assert words.node_outcome_tables(Tree(tmp_path)).items == ["words.js:1 LABELS: fits, failed, chosen"]


PATH = [
    Entry(0, "server", "answer"),
    Entry(1, "core.engine", "preempt"),
    Entry(2, "core.filter", "run"),
    Entry(2, "core.engine", "choose"),
    Entry(1, "server", "encode"),
    Entry(1, "core.filter", "text"),
]


def test_a_return_is_a_hop_to_a_module_that_was_left():
    assert (functions(PATH).number, returns(PATH).number) == (6, 3)


def test_a_part_of_a_call_ends_where_its_first_function_returns():
    found = called_from(PATH, lambda module: module == "core.engine", lambda module: module.startswith("core"))
    assert [entry.function for entry in found] == ["preempt", "run", "choose"]
