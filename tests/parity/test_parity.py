"""The engine against kube-scheduler's own verdicts and cycles: every category must agree in full.

One evaluation of a category serves all tests of it. Exempt is only what `exemptions` names.
"""

from collections import Counter
from dataclasses import replace

import pytest

from extender.core.profile import KubeScheduler
from extender.core.simulator.schedule_one import schedule_one
from tests.parity.agreement import CATEGORIES, CORPUS, JSON, WIDE_CATEGORIES, load
from tests.parity.exemptions import exempt_nodes
from tests.parity.parity import BEGIN, END, HEADER, PAGE, Evaluated, agreement, evaluated


@pytest.fixture(
    scope="module", params=(*CATEGORIES, *WIDE_CATEGORIES)
)  # of the module, so that tests of one category follow each other
def category(request):
    return request.param


def test_every_scenario_of_the_category_agrees_in_everything_and_the_documentation_says_so(category):
    found = agreement(category)
    assert found.scenarios >= {"quirks": 29, "wide/quirks": 13}.get(category, 150)
    assert {name: lines[:3] for name, lines in found.wrong.items()} == {}
    assert found.row(category) in PAGE.read_text(encoding="utf-8"), "run `make parity`"


def test_every_file_of_the_corpus_is_a_category_and_a_row_of_the_table():
    files = {str(path.relative_to(CORPUS)).removesuffix(".jsonl.gz") for path in CORPUS.glob("wide/*.jsonl.gz")}
    assert files == set(WIDE_CATEGORIES)
    assert set(CATEGORIES) <= {path.name.removesuffix(".jsonl.gz") for path in CORPUS.glob("*.jsonl.gz")}
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert table.startswith(HEADER)
    assert [row.split(" | ")[0] for row in table.removeprefix(HEADER).splitlines()] == [
        f"| {one}" for one in (*CATEGORIES, *WIDE_CATEGORIES)
    ]


# --- one scheduling cycle -------------------------------------------------------------------------------------------


def cycle_of(one: Evaluated, draw=None):
    profile = replace(one.profile, scheduler_name=one.pod.spec.scheduler_name)
    return schedule_one(one.snapshot, one.pod, KubeScheduler((profile,)), draw=draw)


def chance(number, asked):
    """Always draws that number, and notes of how many."""

    def draw(below):
        asked.add(below)
        return number

    return draw


def ties_of(expected: JSON, nominated: str | None) -> list[str]:
    """Nodes that a pod may be bound to: the nominated one if it takes the pod, else those with the highest total."""
    if expected["filter"].get(nominated, {}).get("code") == "Success":
        return [str(nominated)]
    best = max(score["total"] for score in expected["scores"].values())
    return sorted(node for node, score in expected["scores"].items() if score["total"] == best)


def filter_message(scenario: JSON) -> str:
    """What FitError says before it comes to preemption: written down anew, from upstream's verdicts."""
    expected = scenario["expected"]
    names = [item["metadata"]["name"] for item in scenario["cluster"]["items"] if item["kind"] == "Node"]
    if "prefilter" in expected:
        said = ", ".join(expected["prefilter"]["reasons"])
    else:
        counts = Counter(reason for name in names for reason in expected["filter"][name]["reasons"])
        said = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{len(names)} nodes are available: {said}."


def differences(one: Evaluated) -> list[object]:
    """Between a scheduling cycle of ours and kube-scheduler's: the node, the nomination and the messages."""
    scenario, cycle = one.scenario, cycle_of(one)
    expected = scenario["expected"]
    post_filter = expected.get("postFilter")
    if post_filter is None:
        ties = ties_of(expected, scenario["pod"].get("status", {}).get("nominatedNodeName"))
        right = ("Scheduled", ties[0], "", None)
        return [] if (cycle.outcome, cycle.node, cycle.message, cycle.post_filter) == right else [right, cycle]
    assert cycle.post_filter is not None
    found: list[object] = []
    if [cycle.post_filter.code, list(cycle.post_filter.reasons)] != [post_filter["code"], post_filter["reasons"]]:
        found += [post_filter, cycle.post_filter]
    message = " ".join(filter(None, (filter_message(scenario), ", ".join(post_filter["reasons"]))))
    if cycle.message != message:
        found += [message, cycle.message]
    if post_filter["nominatedNode"]:
        victims = [pod.metadata.uid for pod in cycle.victims]
        candidate = expected["candidates"].get(cycle.node)
        if cycle.outcome != "Nominated" or (cycle.node != expected["selected"] and not exempt_nodes(scenario)):
            found += [expected["selected"], cycle]
        elif cycle.node not in exempt_nodes(scenario) and victims != candidate["victims"]:
            found += [candidate, victims]
    elif cycle.outcome != "Unschedulable" or cycle.victims:
        found += ["Unschedulable", cycle]
    return found


def test_every_scenario_of_the_category_gets_kube_scheduler_s_node_nomination_and_message(category):
    assert not {one.scenario["id"]: found for one in evaluated(category) if (found := differences(one))}


def test_every_node_that_kube_scheduler_may_pick_is_drawn_and_no_other(category):
    several = 0
    for one in evaluated(category):
        scenario, expected = one.scenario, one.scenario["expected"]
        if expected.get("postFilter") is None:
            nominated = scenario["pod"].get("status", {}).get("nominatedNodeName")
            ties = ties_of(expected, nominated)
        elif expected["postFilter"]["nominatedNode"] and not exempt_nodes(scenario):
            ties = expected["selectedTies"]
        else:
            continue
        if len(ties) > 1:
            several += 1
            asked: set[int] = set()
            drawn = [cycle_of(one, chance(place, asked)).node for place in range(len(ties))]
            assert (drawn, asked) == (ties, {len(ties)})
    assert several or category in ("quirks", "eligibility")


def test_the_messages_compared_are_of_every_kind():
    post_filters = [one["expected"].get("postFilter") for category in CATEGORIES for one in load(category)]
    kinds = Counter(found["code"] if found else "fits" for found in post_filters)
    assert min(kinds[kind] for kind in ("fits", "Success", "Unschedulable", "Error")) > 30
