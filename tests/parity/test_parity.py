"""The engine against kube-scheduler's own verdicts and cycles: every category must agree in full.

One evaluation of a category serves all tests of it. Exempt is only what `exemptions` names.
"""

from collections import Counter
from dataclasses import replace

import pytest

from extender.core.profile import KubeScheduler
from extender.core.simulator.schedule_one import schedule_one
from tests.parity.agreement import CATEGORIES, CORPUS, EVERY_CATEGORY, JSON, load
from tests.parity.exemptions import exempt_nodes, undetermined
from tests.parity.parity import BEGIN, END, HEADER, PAGE, Evaluated, agreement, evaluated


@pytest.fixture(scope="module", params=EVERY_CATEGORY)  # of the module, so that tests of one category follow each other
def category(request):
    return request.param


def test_every_scenario_of_the_category_agrees_in_everything_and_the_documentation_says_so(category):
    found = agreement(category)
    assert found.scenarios >= {"quirks": 29, "wide/quirks": 13, "wide/framework": 66}.get(category, 150)
    assert {name: lines[:3] for name, lines in found.wrong.items()} == {}
    assert found.row(category) in PAGE.read_text(encoding="utf-8"), "run `make parity`"


def test_every_file_of_the_corpus_is_a_category_and_a_row_of_the_table():
    files = {str(path.relative_to(CORPUS)).removesuffix(".jsonl.gz") for path in CORPUS.glob("[wo]*/*.jsonl.gz")}
    assert files == set(EVERY_CATEGORY) - set(CATEGORIES)
    assert set(CATEGORIES) <= {path.name.removesuffix(".jsonl.gz") for path in CORPUS.glob("*.jsonl.gz")}
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert table.startswith(HEADER)
    assert [row.split(" | ")[0] for row in table.removeprefix(HEADER).splitlines()] == [
        f"| {one}" for one in EVERY_CATEGORY
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
    """Nodes that a pod may be bound to: the nominated one if it takes the pod, else those with the highest total.

    Nothing is scored without score plugins, nor for a single node, whose score plugins may then fail.
    """
    if expected["filter"].get(nominated, {}).get("code") == "Success":
        return [str(nominated)]
    if not expected["scores"]:
        return sorted(node for node, status in expected["filter"].items() if status["code"] == "Success")
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


def is_told(one: Evaluated) -> bool:
    """Whether upstream's verdicts tell how its cycle ends, and nothing that is not evaluated has a say in it.

    They do not say what PostFilter does where DefaultPreemptionArgs let the dry run try a random part of the nodes.
    """
    expected = one.scenario["expected"]
    ends = expected["feasible"] or not expected.keys().isdisjoint({"preEnqueue", "cycleError", "postFilter"})
    ends = ends or not one.profile.post_filter_plugins
    return bool(ends) and not one.not_evaluated and undetermined(one.scenario) is None


def error_of(expected: JSON, nominated: str | None) -> str | None:
    """The error of a plugin that ends the cycle, if one does."""
    if expected["filter"].get(nominated, {}).get("code") == "Success":
        return None
    return expected.get("cycleError") or (expected.get("scoreError") if expected["feasible"] > 1 else None)


def differences(one: Evaluated) -> list[object]:
    """Between a scheduling cycle of ours and kube-scheduler's: the node, the nomination and the messages."""
    scenario, cycle = one.scenario, cycle_of(one)
    expected, nominated = scenario["expected"], scenario["pod"].get("status", {}).get("nominatedNodeName")
    post_filter = expected.get("postFilter")
    if "preEnqueue" in expected:
        right = ("Skipped", f"not tried: {expected['preEnqueue']['reasons'][0]}")
        return [] if (cycle.outcome, cycle.message) == right else [right, cycle]
    if error := error_of(expected, nominated):
        return [] if (cycle.outcome, cycle.message) == ("Unschedulable", error) else [error, cycle]
    if post_filter is None and not expected["feasible"]:  # without PostFilter plugins
        unschedulable = ("Unschedulable", filter_message(scenario))
        return [] if (cycle.outcome, cycle.message) == unschedulable else [unschedulable, cycle]
    if post_filter is None:
        ties = ties_of(expected, nominated)
        scheduled = ("Scheduled", ties[0], "", None)
        got = (cycle.outcome, cycle.node, cycle.message, cycle.post_filter)
        return [] if got == scheduled else [scheduled, cycle]
    assert cycle.post_filter is not None
    found: list[object] = []
    reasons = list(cycle.post_filter.reasons)
    if [cycle.post_filter.code, sorted(reasons)] != [post_filter["code"], post_filter["reasons"]]:  # the judge sorts
        found += [post_filter, cycle.post_filter]
    message = " ".join(filter(None, (filter_message(scenario), ", ".join(reasons))))
    # Where the nominated node is filtered first, its plugin is named as one that left the other nodes out.
    if cycle.message != message and not ("prefilterNodes" in expected and nominated):
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
    told = [one for one in evaluated(category) if is_told(one)]
    assert not {one.scenario["id"]: found for one in told if (found := differences(one))}


def test_every_node_that_kube_scheduler_may_pick_is_drawn_and_no_other(category):
    several = 0
    for one in filter(is_told, evaluated(category)):
        scenario, expected = one.scenario, one.scenario["expected"]
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
    post_filters = [one["expected"].get("postFilter") for category in CATEGORIES for one in load(category)]
    kinds = Counter(found["code"] if found else "fits" for found in post_filters)
    assert min(kinds[kind] for kind in ("fits", "Success", "Unschedulable", "Error")) > 30
