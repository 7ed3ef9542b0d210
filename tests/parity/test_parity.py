"""The engine against kube-scheduler's own verdicts and cycles: every category must agree in full.

One evaluation of a category serves all tests of it. Exempt is only what `exemptions` names. `make test` takes every
second scenario, of the wide categories and our own every sixth; `make test-all` takes all.
"""

from collections import Counter

import pytest

from tests.parity.agreement import CATEGORIES, CATEGORIES_OF_1_37, CORPUS, EVERY_CATEGORY, load_verdicts
from tests.parity.cycles import cycle_differences, cycle_of, error_of, is_told, ties_of
from tests.parity.diagnoses import diagnosis_differences
from tests.parity.exemptions import exempt_nodes, undetermined
from tests.parity.parity import BEGIN, END, HEADER, PAGE, agreement, evaluated
from tests.profiles import by_profile


@pytest.fixture(scope="module", params=EVERY_CATEGORY)  # of the module, so that tests of one category follow each other
def category(request):
    return request.param


def nth(category):
    """Evaluate each nth scenario of the category."""
    return by_profile(6 if "/" in category else 2, 1, 1)


def test_every_scenario_of_the_category_agrees_in_everything_and_the_documentation_says_so(category):
    found = agreement(category, nth(category))
    assert found.scenarios >= {"quirks": 29, "wide/quirks": 12, "wide/framework": 66}.get(category, 150) // nth(
        category
    )
    assert {name: lines[:3] for name, lines in found.wrong.items()} == {}
    assert found.not_evaluated == 0
    if nth(category) == 1:
        assert found.row(category) in PAGE.read_text(encoding="utf-8"), "run `make parity`"


def test_every_file_of_the_corpus_is_a_category_and_a_row_of_the_table():
    files = {str(path.relative_to(CORPUS)).removesuffix(".jsonl.gz") for path in CORPUS.glob("[wo]*/*.jsonl.gz")}
    assert files == set(EVERY_CATEGORY) - set(CATEGORIES)
    files_of_1_37 = {str(path.relative_to(CORPUS)).removesuffix(".jsonl.gz") for path in CORPUS.glob("v1*/*.jsonl.gz")}
    assert files_of_1_37 == set(CATEGORIES_OF_1_37)
    assert set(CATEGORIES) <= {path.name.removesuffix(".jsonl.gz") for path in CORPUS.glob("*.jsonl.gz")}
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert table.startswith(HEADER)
    assert [row.split(" | ")[0] for row in table.removeprefix(HEADER).splitlines()] == [
        f"| {one}" for one in EVERY_CATEGORY
    ]


# --- one scheduling cycle -------------------------------------------------------------------------------------------


def chance(number, asked):
    """Always draws that number, and notes of how many."""

    def draw(below):
        asked.add(below)
        return number

    return draw


def test_every_scenario_of_the_category_gets_kube_scheduler_s_node_nomination_and_message(category):
    told = [one for one in evaluated(category, nth(category)) if is_told(one)]
    assert not {
        one.scenario["id"]: found for one in told if (found := cycle_differences(one)) and not one.excused(found)
    }


def test_what_is_said_of_a_pod_is_what_kube_scheduler_says_in_every_scenario_of_the_category(category):
    said = evaluated(category, nth(category))[:: by_profile(4, 1, 1)]
    assert not {
        one.scenario["id"]: wrong[:3]
        for one in said
        if (wrong := diagnosis_differences(one)) and not one.excused(wrong)
    }


def test_every_node_that_kube_scheduler_may_pick_is_drawn_and_no_other(category):
    several = 0
    for one in filter(is_told, evaluated(category, nth(category))):
        scenario, expected = one.scenario, one.scenario["expected"]
        if undetermined(scenario):
            continue
        nominated = scenario["pod"].get("status", {}).get("nominatedNodeName")
        if "preEnqueue" in expected or error_of(expected, nominated):
            continue
        if expected["feasible"]:
            ties = ties_of(expected, nominated)
        elif expected.get("postFilter", {}).get("nominatedNode") and not exempt_nodes(scenario):
            ties = expected["selectedTies"]
        else:
            continue
        if len(ties) > 1:
            several += 1
            asked: set[int] = set()
            drawn = [cycle_of(one, chance(place, asked)).node for place in range(len(ties))]
            assert (drawn, asked) == (ties, {len(ties)})
    assert several or "/" in category or category in ("quirks", "eligibility")


def test_the_messages_compared_are_of_every_kind():
    post_filters = [one["expected"].get("postFilter") for category in CATEGORIES for one in load_verdicts(category)]
    kinds = Counter(found["code"] if found else "fits" for found in post_filters)
    assert min(kinds[kind] for kind in ("fits", "Success", "Unschedulable", "Error")) > 30
