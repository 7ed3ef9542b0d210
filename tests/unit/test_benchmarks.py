"""The benchmarks' cluster is what it says, and they run; what they measure is nobody's test."""

import json

import pytest

from benchmarks import generate
from benchmarks.__main__ import report, surroundings
from benchmarks.generate import Plan
from benchmarks.measure import Limit, Row
from benchmarks.world import World
from extender.cluster.files import load_cluster
from extender.core.columns import BASE_RESOURCES

PLAN = Plan(seed=7, nodes=12)


@pytest.fixture(scope="module")
def world():
    return World(PLAN, full=True)


def test_raw_and_typed_objects_describe_the_same_cluster():
    assert load_cluster(generate.as_list(PLAN, range(PLAN.nodes))).pods == generate.as_objects(PLAN).pods


def test_a_few_nodes_are_those_of_the_whole_cluster():
    whole = generate.as_list(PLAN, range(PLAN.nodes))["items"]
    assert all(item in whole for item in generate.as_list(PLAN, [3, 5])["items"])


def test_every_node_is_nearly_full_and_none_takes_the_incoming_pod(world):
    share = world.snapshot.used / world.snapshot.allocatable
    assert share[BASE_RESOURCES.index("cpu")].min() >= 0.94
    assert share.max() <= 1.0
    assert len(world.tried) == PLAN.nodes


def test_they_run_and_the_reference_names_the_same_victims(world, tmp_path, capsys):
    rows = report(world, surroundings(world), ["dryrun", "engine", "wire"], tmp_path / "figures.json")
    assert [row.against for row in rows if row.faster] == ["reference, same victims"]
    assert len(json.loads((tmp_path / "figures.json").read_text())["rows"]) == len(rows)
    assert rows[0].name in capsys.readouterr().out


@pytest.mark.parametrize(("times", "faster", "met"), [([2, 2, 9], False, True), ([4, 4, 4], False, False)])
def test_a_limit_is_held_against_the_median_of_the_pairs(times, faster, met):
    row = Row("group", "name", times, "other", [1, 1, 1], Limit("≤", 3), faster)
    assert row.met is met
    assert ("NOT MET" in row.cells()) is not met
