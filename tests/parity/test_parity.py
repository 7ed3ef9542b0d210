"""The engine against kube-scheduler's own verdicts: every category must agree in full.

Exempt is only what `agreement.exempt_nodes` names.
"""

import pytest

from tests.parity.agreement import CATEGORIES, CORPUS
from tests.parity.parity import PAGE, agreement, with_table


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_scenario_of_the_category_agrees_in_everything(category):
    found = agreement(category)
    assert found.scenarios >= (29 if category == "quirks" else 150)
    assert {name: lines[:3] for name, lines in found.wrong.items()} == {}


def test_every_file_of_the_corpus_is_a_category():
    assert {path.name.removesuffix(".jsonl.gz") for path in CORPUS.glob("*.jsonl.gz")} == set(CATEGORIES)


def test_the_table_in_the_documentation_is_what_is_found():
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), "run `make parity`"
