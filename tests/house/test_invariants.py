"""The invariants of HOUSE.md that are no import contract. What does not follow one yet stands in exceptions.toml."""

import pytest

from tests.house import calls, classes, exceptions, words
from tests.house.rows import EXCEPTIONS, read
from tests.house.tree import Tree

HINT = "python -m tests.house --update takes out what is not needed; what is new needs another way"


@pytest.mark.parametrize("section", exceptions.SECTIONS)
def test_an_invariant_has_no_new_exceptions(tree, section):
    """I1 (entry functions), I7 (at most 12 fields)."""
    allowed, found = read(EXCEPTIONS)[section], exceptions.found(tree, section)
    assert not found - allowed.keys(), f"{exceptions.HEADINGS[section]} {HINT}"
    assert not allowed.keys() - found, f"not needed any more: {HINT}"


def test_every_exception_has_a_reason():
    sections = read(EXCEPTIONS)
    assert sections.keys() == exceptions.SECTIONS.keys() == exceptions.HEADINGS.keys()
    assert [name for section in sections.values() for name, why in section.items() if len(why.split()) < 3] == []


def test_I4_one_module_has_the_limits_and_work_budgets_and_makes_their_texts(tree):
    """A module that answers without a limit's text would need words of its own."""
    assert calls.work_budgets(tree).items == [calls.LIMITS]
    assert [place.partition(":")[0] for place in words.limit_texts(tree).items] == [calls.LIMITS]


def test_I2_only_report_wording_has_words_for_an_outcome(tree):
    """One table has all outcomes of a node; no other module of ours and no script of the page has one."""
    (nodes,) = words.node_outcome_tables(tree).items
    assert words.codes(tree, words.NODE_CODES) == set(nodes.partition(" ")[2].split(", "))
    elsewhere = [place for place in words.code_tables(tree).items if not place.startswith("report/wording.py:")]
    assert not elsewhere, "say it in report/wording, which the page loads as wording.json"


def test_I9_only_the_journal_makes_what_is_stored_of_a_call(tree):
    """A test that knows other names than the tree would find nothing."""
    assert set(calls.JOURNAL_ENTRIES) <= {node.name for _, _, node in tree.classes()}
    made = calls.journal_entries(tree)
    assert {name: modules for name, modules in made.items() if modules != {calls.JOURNAL}} == {}


def test_names_that_are_looked_for_exist(tree):
    """Calls of a function or class that was renamed would not be found."""
    functions = {node.name for module in tree.modules for _, node in module.functions()}
    defined = functions | {node.name for _, _, node in tree.classes()}
    assert {*calls.ENTRY_FUNCTIONS, calls.BUDGET, calls.SPENT, "Scenario"} <= defined
    assert {"preempt", "why"} <= functions


SOURCE = """
class Wide:
    {fields}

    def __init__(self):
        self.assigned = self.read
"""


@pytest.mark.parametrize(("annotated", "expected"), [(11, []), (12, ["module.Wide: 13"])])
def test_fields_are_annotated_or_assigned_in_init(tmp_path, annotated, expected):
    (tmp_path / "extender").mkdir()
    source = SOURCE.format(fields="\n    ".join(f"field_{number}: int = 0" for number in range(annotated)))
    (tmp_path / "extender" / "module.py").write_text(source, encoding="utf-8")
    assert classes.wide_classes(Tree(tmp_path)).items == expected
