"""The benchmarks' cluster is what it says, and they run; what they measure is nobody's test."""

import json
import re
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import calibration, compare, generate, growth, performance, side
from benchmarks.__main__ import SCHEMA, cluster, report
from benchmarks.compare import Compared
from benchmarks.generate import Plan
from benchmarks.kube_scheduler import Figure
from benchmarks.machine import git
from benchmarks.measure import Bound, Limit, Row
from benchmarks.plot import plot
from benchmarks.printing import cells, title
from benchmarks.targets import calls, changes, decisions, nodes, start, sync
from benchmarks.works.changes import dirty
from benchmarks.works.decisions import preempting
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
    rows = report(world, cluster(world), ["dryrun", "engine", "wire"], tmp_path / "figures.json")
    assert [row.against for row in rows if row.faster] == ["reference, same victims"]
    measured = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert measured["schema"] == SCHEMA
    assert [row["name"] for row in measured["rows"]] == [row.name for row in rows]
    assert rows[0].name in capsys.readouterr().out


# --- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("times", "faster", "met"), [([2, 2, 9], False, True), ([4, 4, 4], False, False)])
def test_a_limit_is_held_against_the_median_of_the_pairs(times, faster, met):
    row = Row("group", "name", times, "other", [1, 1, 1], Limit("≤", 3), faster)
    assert row.met is met
    assert ("NOT MET" in cells(row.to_dict())) is not met


@pytest.mark.parametrize(
    ("bound", "met"),
    [
        (Bound("median", 3), True),
        (Bound("median", 2.9), False),
        (Bound("mean", 4), True),
        (Bound("mean", 3.9), False),
        (Bound("max", 9), True),
        (Bound("max", 8), False),
    ],
    ids=lambda value: f"{value.of} at most {value.at_most}" if isinstance(value, Bound) else "",
)
def test_a_bound_is_held_against_milliseconds(bound, met):
    assert Row("group", "name", [0.001, 0.002, 0.003, 0.005, 0.009], bounds=[bound]).met is met


def test_the_99th_percentile_is_what_one_in_a_hundred_exceeds():
    row = Row("group", "name", [0.001] * 99 + [1.0], bounds=[Bound("p99", 1)])
    assert row.met is True
    assert row.to_dict()["p99"] == 1


def test_memory_is_in_megabytes_with_its_own_bound():
    row = Row("group", "name", [400_000_001], unit="MB", bounds=[Bound("max", 400)])
    assert row.met is False
    assert row.limits == "max ≤ 400 MB"
    assert cells(row.to_dict())[2] == "400 MB"


def test_a_ratio_that_is_given_is_held_against_the_limit():
    assert Row("group", "name", [1.0], limit=Limit("≤", 1.15), given=1.2).met is False


def test_a_note_and_the_size_stand_beside_the_name_but_are_not_part_of_it():
    row = Row("group", "filter", [1.0], note="3 MB", nodes=5000).to_dict()
    assert (row["name"], title(row)) == ("filter", "filter, 5,000 nodes (3 MB)")


# --- works and targets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", compare.names())
def test_every_work_runs(world, name):
    works = side.Works(world, side.makers())
    (seconds,) = works.taken(name, 1)["times"]
    assert seconds > 0


def test_both_preemptors_fit_nowhere_and_somebody_must_leave(world):
    for mixed in (False, True):
        work = preempting(world, mixed, changed=True)
        work.prepare()
        assert work.run()


def test_dirty_nodes_are_as_many_as_it_says(world):
    work = dirty(world, 5)
    work.prepare()
    before, pods = world.store.version, world.snapshot.objects.pods.copy()
    work.run()
    changed = [pod for key, pod in world.snapshot.objects.pods.items() if pods[key] is not pod]
    assert len({pod.spec.node_name for pod in changed}) == world.store.version - before == 5


@pytest.mark.parametrize("part", [decisions, changes, calls, nodes, sync, start], ids=lambda part: part.__name__)
def test_the_targets_are_rows_with_a_limit_and_a_baseline(world, part, monkeypatch):
    for constant in [name for name in vars(part) if name.startswith(("ROUNDS", "REQUESTS"))]:
        monkeypatch.setattr(part, constant, 2)
    rows = list(part.rows(world))
    assert any(row.met is not None for row in rows)
    assert all(row.against for row in rows if row.bounds and row.unit == "ms")


def test_the_go_figures_are_scaled_by_the_loop_beside_them(world):
    figure = Figure("work", milliseconds=9000, calibration=2)
    assert decisions.scaled(World(Plan(7, 5000)), figure, [0.001]) == [4.5]


def test_the_calibration_loop_does_the_same_work_every_time():
    assert calibration.loop(3, 2, 50)() == calibration.loop(3, 2, 50)() > 0


# --- growth, page and plot --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("costs", "power", "met"), [((1, 2, 4), 1, True), ((1, 4, 16), 2, False)])
def test_growth_is_the_power_of_the_number_of_nodes(costs, power, met):
    rows = [Row("growth", "work", [cost], nodes=count) for count, cost in zip((1000, 2000, 4000), costs, strict=True)]
    found = growth.growing(rows)
    assert found.given == pytest.approx(power)
    assert found.met is met


def test_a_few_dirty_nodes_must_cost_the_same_in_a_larger_cluster():
    rows = [Row("growth", growth.CHANGED_FEW, [cost], nodes=count) for count, cost in ((1000, 1), (4000, 3))]
    assert growth.growing(rows * 2).met is False


def test_each_size_is_measured_in_a_process_of_its_own():
    rows = list(growth.in_its_own_process(7, 6))
    assert growth.CHANGED_FEW in [row.name for row in rows]
    assert {row.nodes for row in rows} == {6}


def sized(count, seconds):
    return Row("growth", "filter", [seconds], nodes=count)


SAMPLE: dict[str, Any] = {
    "schema": SCHEMA,
    "about": {"processor": "one"},
    "rows": [
        row.to_dict()
        for row in (
            Row("targets", "met", [0.001], "least", [0.001], bounds=[Bound("median", 2)]),
            Row("targets", "too slow", [0.003], bounds=[Bound("median", 2)]),
            sized(500, 0.001),
            sized(1000, 0.002),
            sized(2000, 0.004),
            growth.growing([sized(500, 0.001), sized(1000, 0.002), sized(2000, 0.004)]),
            Row("http", "call", [0.1]),
        )
    ],
}


def skeleton(text):
    """What does not depend on figures: no lines of tables and lists."""
    return [line for line in text.splitlines() if not re.match(r"\||- [^*]", line)]


def test_the_page_says_what_is_met_and_what_is_not():
    text = performance.page(SAMPLE)
    assert "| met | 1.00 ms |" in text
    assert "- targets: too slow: 3.00 ms, median ≤ 2 ms" in text
    assert "| 1,000 | 2.00 ms |" in text


def test_the_page_of_the_docs_was_written_by_the_present_writer():
    written = performance.PAGE.read_text(encoding="utf-8")
    assert skeleton(written) == skeleton(performance.page(SAMPLE))
    for headings in (performance.TARGET_HEADINGS, performance.OTHER_HEADINGS):
        assert f"| {' | '.join(headings)} |" in written


def test_the_plot_has_every_point_and_a_line_as_steep_as_linear_growth():
    drawn = ElementTree.fromstring(performance.chart(SAMPLE["rows"]))
    assert len(drawn.findall(".//{*}circle")) == 3
    (slope,) = (path for path in drawn.findall(".//{*}path") if path.get("class") == "slope")
    x1, y1, x2, y2 = map(float, re.findall(r"[\d.]+", slope.get("d", "")))
    (ax, ay), (bx, by), _ = (
        (float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in drawn.findall(".//{*}circle")
    )
    assert (y1 - y2) / (x2 - x1) == pytest.approx((ay - by) / (bx - ax), rel=0.02)


def test_what_has_no_logarithm_is_not_plotted():
    with pytest.raises(ValueError, match="0 or less"):
        plot({"line": [(1, 0)]}, "x", "y")


# --- comparing revisions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ([1, 1.1, 1, 1.1], [1.3, 1.3, 1.4, 1.3], "slower"),
        ([1.3, 1.3, 1.4, 1.3], [1, 1.1, 1, 1.1], "faster"),
        ([1, 1.1, 1, 1.1], [1.05, 1.1, 1.05, 1.1], ""),
        ([1, 2, 1, 2], [1.3, 2.6, 1.3, 2.6], ""),
    ],
    ids=["beyond the noise", "the other way round", "by less than a tenth", "within the spread"],
)
def test_slower_is_what_is_more_than_a_tenth_slower_and_beyond_the_spread(old, new, verdict):
    assert Compared("work", old, new).verdict == verdict


def test_what_an_old_revision_does_not_have_is_said(world):
    assert "KeyError" in side.Works(world, {}).taken("filter, resources", 1)["missing"]
    assert "not in REV: KeyError" in compare.table([Compared("filter", missing="KeyError")])


@pytest.mark.skipif(not git("rev-parse", "HEAD"), reason="needs the repository")
def test_two_revisions_are_compared_and_leave_nothing_behind(monkeypatch, capsys):
    monkeypatch.setattr(compare, "TURNS", 3)
    monkeypatch.setattr(sys, "argv", ["compare", "HEAD", "--nodes", "6", "--only", "filter, resources"])
    with pytest.raises(SystemExit):
        compare.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines if "ms" in line] == [
        "filter, resources",
        "filter, resources, after a pod changed",
    ]
