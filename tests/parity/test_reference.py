"""The reference in tests/parity/reference must say what kube-scheduler's own code said, on every scenario in scope."""

import ast
import copy
from functools import lru_cache
from pathlib import Path

import pytest

import tests.parity.reference
from tests.parity.agreement import CATEGORIES, COMPARED, compare, load, load_verdicts
from tests.parity.exemptions import exempt_nodes, undetermined
from tests.parity.reference import Cluster, dry_run, evaluate, prepare
from tests.profiles import by_profile


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_reference_agrees_with_upstream(category, capsys):
    """On every tenth scenario before a commit, on all of them in CI."""
    scenarios = load(category, by_profile(10, 1, 1))
    found = {one["id"]: compare(one, evaluate(one["cluster"], one["pod"])) for one in scenarios}
    wrong = {name: lines for name, lines in found.items() if lines}
    with capsys.disabled():
        print(f"\n{category}: {len(scenarios) - len(wrong)} of {len(scenarios)} agree", end=" ")  # noqa: T201
    assert scenarios
    assert not wrong, "\n".join(f"{name}: {line}" for name, lines in wrong.items() for line in lines[:3])


def test_evaluating_leaves_the_objects_and_the_state_as_they_were():
    for one in [one for category in ("pdb", "nominated", "spread", "volumes") for one in load(category, 15)]:
        before = copy.deepcopy((one["cluster"], one["pod"]))
        cycle = prepare(Cluster.of(one["cluster"]), one["pod"])
        assert dry_run(cycle) == dry_run(cycle)
        assert (one["cluster"], one["pod"]) == before


def test_the_reference_shares_no_code_with_the_project():
    allowed = {"tests", "re", "math", "collections", "dataclasses", "datetime", "fractions", "functools", "typing"}
    for file in Path(tests.parity.reference.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Import(names=names):
                    modules = [alias.name for alias in names]
                case ast.ImportFrom(module=str(module)):
                    modules = [module]
                case _:
                    continue
            assert {module.split(".")[0] for module in modules} <= allowed, f"{file.name}: {modules}"
            assert all(
                not module.startswith("tests") or module.startswith("tests.parity.reference") for module in modules
            )


SHOWN_BY = {"preEnqueue": "wide/features", "cycleError": "wide/volumes2", "scoreError": "wide/quirks"}
"""Key -> a category that has it; the others are in affinity."""


@pytest.fixture(scope="module")
def binding():
    """Category -> its scenarios whose verdicts bind on every node; the last category is kept."""

    @lru_cache(maxsize=1)
    def of(category):
        every = [one for one in load(category) if not one["expected"].get("unsettled")]
        return [one for one in every if not exempt_nodes(one) and undetermined(one) is None]

    return of


class TestComparison:
    """The yardstick itself: it must see every difference, and forgive no more than it says."""

    @pytest.mark.parametrize("key", COMPARED)
    def test_a_changed_or_missing_answer_is_seen(self, key, binding):
        seen = 0
        for one in binding(SHOWN_BY.get(key, "affinity")):
            if key == "dryRunError":  # no scenario here has one
                one = one | {"expected": one["expected"] | {key: "a plugin failed"}}
            if not one["expected"].get(key):
                continue
            missing = {name: value for name, value in one["expected"].items() if name != key}
            assert compare(one, missing)
            assert compare(one, missing | {key: altered(key, one["expected"][key])})
            assert not compare(one, one["expected"])
            seen += 1
        assert seen

    def test_victims_of_an_exempt_node_may_differ_but_not_that_it_is_a_candidate(self):
        seen = 0
        for one in load("priorities"):
            expected = one["expected"]
            for node in exempt_nodes(one) & expected["candidates"].keys():
                others = {name: found for name, found in expected["candidates"].items() if name != node}
                victims = expected["candidates"][node]["victims"]
                fewer = {"victims": victims[1:], "numPDBViolations": 0}
                invented = {"victims": [*victims, "unknown"], "numPDBViolations": 0}
                assert compare(one, expected | {"candidates": others}, ["candidates"])
                assert compare(one, expected | {"candidates": others | {node: invented}}, ["candidates"])
                assert bool(victims[1:]) is not bool(
                    compare(one, expected | {"candidates": others | {node: fewer}}, ["candidates"])
                )
                seen += 1
        assert seen

    def test_few_nodes_are_exempt(self):
        scenarios = [one for category in CATEGORIES for one in load_verdicts(category)]
        tried = sum(len(one["expected"]["candidates"]) + len(one["expected"]["nonCandidates"]) for one in scenarios)
        exempt = sum(len(exempt_nodes(one) & one["expected"]["candidates"].keys()) for one in scenarios)
        assert exempt < 0.07 * tried


def altered(key, value):
    match value:
        case bool() | int():
            return value + 1
        case str():
            return value + "x"
        case list():
            return value[1:]
        case dict() if key in ("prefilter", "preEnqueue"):
            return value | {"plugin": "x"}
        case dict():
            return dict(list(value.items())[1:])
