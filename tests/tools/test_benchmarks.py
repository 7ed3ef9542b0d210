"""The benchmarks' cluster is what it says, and they run; what they measure is not tested."""

import contextlib
import itertools
import json
import re
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import calibration, compare, generate, growth, performance, profiles, side
from benchmarks.__main__ import cluster, report
from benchmarks.compare import Compared
from benchmarks.generate import Plan
from benchmarks.kube_scheduler import Figure
from benchmarks.machine import git
from benchmarks.measure import Bound, Limit, Row, Work
from benchmarks.performance import SCHEMA
from benchmarks.plot import plot
from benchmarks.printing import cells, title
from benchmarks.requests import new_preempt_bodies
from benchmarks.targets import PARTS, decisions, following, simulation
from benchmarks.works import TooFewNodes
from benchmarks.works.changes import dirty
from benchmarks.works.decisions import preempting
from benchmarks.world import World
from extender.core.snapshot.arrays import BASE_RESOURCES
from tests.builders import stored_cluster

PLAN = Plan(seed=7, nodes=12)


@pytest.fixture(scope="module")
def world():
    return World(PLAN, full=True)


def test_raw_and_typed_objects_describe_the_same_cluster():
    assert stored_cluster(generate.as_list(PLAN, range(PLAN.nodes))).pods == generate.as_objects(PLAN).pods


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


def test_calls_to_two_profiles_are_compared_with_calls_to_one(world, monkeypatch):
    monkeypatch.setattr(profiles, "ROUNDS", 1)
    assert [len(profiles.deciding_by(world, count).settings.scheduler.profiles) for count in (1, 2)] == [1, 2]
    rows = list(profiles.of_calls(world))
    assert len(rows) == 6
    assert {row.against for row in rows} == {"one profile"}


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


def test_a_row_whose_quartiles_are_far_apart_is_noisy():
    assert "1.20" in cells(Row("group", "name", [1.0, 1.0, 1.2, 1.2]).to_dict())
    assert "1.30 noisy" in cells(Row("group", "name", [1.0, 1.0, 1.3, 1.3]).to_dict())


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


LARGER = [
    (f"snapshot after {count} dirty nodes", {"left_out": f"needs {count} nodes, there are {PLAN.nodes}"})
    for count in ("100", "1,000")
]


@pytest.mark.parametrize("name", compare.names())
def test_every_work_runs(world, name):
    found = side.Works(world, side.makers()).taken(name, 1)
    if found.keys() == {"times"}:
        assert found["times"][0] > 0
    else:
        assert (name, found) in LARGER


def test_both_preemptors_fit_nowhere_and_somebody_must_leave(world):
    for mixed in (False, True):
        work = preempting(world, mixed, changed=True)
        work.prepare()
        assert work.run()


def test_dirty_nodes_are_as_many_as_it_says(world):
    work = dirty(world, 5)
    work.prepare()
    before, pods = world.cache.version, world.snapshot.objects.pods.copy()
    work.run()
    changed = [pod for key, pod in world.snapshot.objects.pods.items() if pods[key] is not pod]
    assert len({pod.spec.node_name for pod in changed}) == world.cache.version - before == 5


@pytest.mark.parametrize("part", PARTS)
def test_the_targets_are_rows_with_a_limit_and_a_baseline(world, part, monkeypatch):
    module = sys.modules[PARTS[part].__module__]
    for constant in [name for name in vars(module) if name.startswith(("ROUNDS", "REQUESTS"))]:
        monkeypatch.setattr(module, constant, 2)
    monkeypatch.setattr(following, "SECONDS_OF_PHASE", 0.2)
    monkeypatch.setattr(simulation, "PODS", 3)
    rows = list(PARTS[part](world))
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


@pytest.mark.parametrize("work", growth.NOT_GROWING)
def test_a_few_dirty_nodes_and_an_event_must_cost_the_same_in_a_larger_cluster(work):
    rows = [Row("growth", work, [cost], nodes=count) for count, cost in ((1000, 1), (4000, 3))]
    assert growth.growing(rows * 2).met is False


def test_each_size_is_measured_in_a_process_of_its_own():
    rows = list(growth.in_its_own_process(7, 6))
    assert growth.CHANGED_FEW in [row.name for row in rows]
    assert {row.nodes for row in rows} == {6}


def sized(count, seconds):
    return Row("growth", "filter", [seconds], nodes=count)


SAMPLE: dict[str, Any] = {
    "schema": SCHEMA,
    "about": {"processor": "one", "revision": "abc"},
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
    assert "- targets: too slow: 3.00 ms; median ≤ 2 ms" in text
    assert "| 1,000 | 2.00 ms |" in text


def test_where_a_ratio_was_promised_the_page_says_the_ratio():
    row = Row("policies", "all", [0.003], "none", [0.001], Limit("≤", 2))
    assert performance.not_met([row.to_dict()]) == ["policies: all: 3.00 ms, 3.00 of none; ≤ 2"]


def test_groups_that_were_measured_one_after_another_make_one_page():
    parts = [
        SAMPLE | {"rows": [row for row in SAMPLE["rows"] if row["group"] == group]} for group in ("growth", "targets")
    ]
    whole = performance.merge([*parts, SAMPLE])
    assert sorted(map(str, whole["rows"])) == sorted(map(str, SAMPLE["rows"]))
    assert whole["about"] == SAMPLE["about"]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"rows": SAMPLE["rows"][2:]}, "no figures for targets"),
        ({"rows": []}, "no figures for growth and targets"),
    ],
)
def test_figures_without_what_the_page_is_about_are_refused(others, message):
    with pytest.raises(ValueError, match=message):
        performance.merge([SAMPLE | others])


def test_figures_of_different_revisions_are_refused():
    with pytest.raises(ValueError, match="different revisions"):
        performance.merge([SAMPLE, SAMPLE | {"about": {"revision": "def"}}])


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "No such file"), ("{", "Expecting"), ("[]", f"schema {SCHEMA}"), ('{"schema": 0}', f"schema {SCHEMA}")],
    ids=["not there", "no JSON", "a list", "another schema"],
)
def test_a_file_that_holds_no_figures_is_refused_by_name(tmp_path, text, message):
    file = tmp_path / "figures.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=f"figures.json: .*{message}"):
        performance.read(file)


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
        ([1, 1.02, 1, 1.02], [1.07, 1.08, 1.07, 1.08], "slower"),
        ([1.3, 1.3, 1.4, 1.3], [1, 1.1, 1, 1.1], "faster"),
        ([1, 1.01, 1, 1.01], [1.03, 1.04, 1.03, 1.04], ""),
        ([1, 2, 1, 2], [1.3, 2.6, 1.3, 2.6], ""),
    ],
    ids=["beyond the noise", "the other way round", "by less than 5 %", "within the spread"],
)
def test_slower_is_what_is_more_than_5_percent_slower_and_beyond_the_spread(old, new, verdict):
    assert Compared("work", old, new).verdict == verdict


def test_what_an_old_revision_does_not_have_is_said(world):
    assert "KeyError" in side.Works(world, {}).taken("filter, resources", 1)["missing"]
    assert "not in REV: KeyError" in compare.table([Compared("filter", instead=compare.MISSING, why="KeyError")])


def raising(error):
    def run(*_):
        raise error

    return run


@pytest.mark.parametrize(
    ("maker", "answer"),
    [
        (raising(TypeError("one argument too many")), {"missing": "TypeError: one argument too many"}),
        (raising(ValueError("of two\nlines")), {"failed": "ValueError: of two lines"}),
        (raising(TooFewNodes("needs 13 nodes")), {"left_out": "needs 13 nodes"}),
        (lambda _: Work(raising(TypeError("inside"))), {"failed": "TypeError: inside"}),
        (lambda _: Work(print, prepare=raising(KeyError("inside"))), {"failed": "KeyError: 'inside'"}),
        (lambda _: Work(raising(TooFewNodes("inside"))), {"failed": "TooFewNodes: inside"}),
    ],
    ids=["lacking", "making it fails", "too few nodes", "running it fails", "preparing it fails", "no more nodes"],
)
def test_only_making_a_work_can_lack_something_and_the_others_go_on(world, maker, answer):
    works = side.Works(world, {"one": maker, "other": lambda _: Work(lambda: None)})
    assert works.taken("one", 1) == answer
    assert len(works.taken("other", 2)["times"]) == 2
    assert works.taken("one", 1) == answer


class Answering(compare.Side):
    """A side without a process."""

    def __init__(self, whose, works):
        self.whose, self.works = whose, side.Works(World(PLAN), works)

    def taken(self, name, runs):
        return compare.times_of(self.works.taken(name, runs), self.whose)


def run_compare(monkeypatch, *arguments, old=None, new=None):
    """The exit code; nothing is started."""

    @contextlib.contextmanager
    def both(*_):
        assert new is not None, "a cluster is made"
        yield Answering(compare.OLD, old), Answering(compare.NEW, new)

    monkeypatch.setattr(compare, "both", both)
    monkeypatch.setattr(compare, "git", lambda *words: "" if "none^{commit}" in words else "0123456789abcdef")
    if new is not None:
        monkeypatch.setattr(compare, "names", lambda: list(new))
    monkeypatch.setattr(sys, "argv", ["compare", *arguments])
    with pytest.raises(SystemExit) as raised:
        compare.main()
    return raised.value.code


def taking(*seconds):
    """A work that takes that long, in turn."""
    times = itertools.accumulate(itertools.chain.from_iterable((0, one) for one in itertools.cycle(seconds)))
    return lambda _: Work(lambda: None, clock=lambda: next(times))


FAILING, LACKING, SMALL = (
    lambda _: Work(raising(ZeroDivisionError("oh"))),
    raising(KeyError("gone")),
    raising(TooFewNodes("needs 13 nodes")),
)


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        (taking(1), taking(1), 0, "nothing is slower"),
        (taking(1), taking(2), 1, "slower: one"),
        (taking(1), FAILING, 2, "could not compare: one: this folder: ZeroDivisionError: oh"),
        (taking(1), LACKING, 2, "could not compare: one: this folder: KeyError: 'gone'"),
        (LACKING, FAILING, 2, "could not compare: one: this folder: ZeroDivisionError: oh"),
        (FAILING, taking(1), 2, "could not compare: one: the old revision: ZeroDivisionError: oh"),
        (LACKING, taking(1), 0, "not in REV: KeyError: 'gone'"),
        (SMALL, SMALL, 0, "left out: needs 13 nodes"),
    ],
    ids=["alike", "slower", "fails here", "lacks here", "fails and is new", "fails there", "is new", "too few nodes"],
)
def test_the_exit_code_says_what_came_of_it_and_the_others_are_compared(monkeypatch, capsys, old, new, code, message):
    works = {"one": old, "other": taking(1)}, {"one": new, "other": taking(1)}
    assert run_compare(monkeypatch, "HEAD", old=works[0], new=works[1]) == code
    out, error = capsys.readouterr()
    assert message in out + error
    assert re.search(r"^other +1,000 ms", out, re.MULTILINE)


def test_what_failed_counts_for_more_than_what_is_slower(monkeypatch, capsys):
    old, new = {"one": taking(1), "other": taking(1)}, {"one": FAILING, "other": taking(2)}
    assert run_compare(monkeypatch, "HEAD", old=old, new=new) == 2
    assert "slower: other" in capsys.readouterr().out


def test_where_no_work_is_in_both_nothing_was_compared(monkeypatch, capsys):
    assert run_compare(monkeypatch, "HEAD", old={"one": LACKING}, new={"one": taking(1)}) == 2
    assert "nothing is slower" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["HEAD", "--only", "unknown"], "--only: no work has 'unknown' in its name; there are\n  filter, resources\n"),
        (["none"], "unknown revision 'none'"),
        (["HEAD", "--nodes", "0"], "--nodes: must be 1 or more"),
        (["HEAD", "--nodes", "few"], "--nodes: invalid positive value: 'few'"),
    ],
    ids=["no work", "no revision", "no nodes", "no number"],
)
def test_a_wrong_command_line_is_refused_before_any_cluster_is_made(monkeypatch, capsys, arguments, message):
    assert run_compare(monkeypatch, *arguments) == 2
    assert message in capsys.readouterr().err


def test_works_that_this_folder_cannot_import_are_no_slower_ones(monkeypatch, capsys):
    monkeypatch.setattr(compare, "MODULES", ("nowhere",))
    assert run_compare(monkeypatch, "HEAD") == 2
    assert "this folder cannot import its works: ModuleNotFoundError" in capsys.readouterr().err


def test_a_side_that_ends_is_said_and_no_slower_one(tmp_path):
    with contextlib.closing(compare.Side(compare.OLD, tmp_path, seed=7, nodes=6)) as ended:  # no benchmarks are there
        with pytest.raises(
            compare.NotCompared, match="the process of the old revision exited while generating the cluster"
        ):
            ended.wait_until_ready()
        ended.process.wait(60)
        with pytest.raises(compare.NotCompared, match="exited while running 'filter'"):
            ended.taken("filter", 1)


@pytest.mark.skipif(not git("rev-parse", "HEAD"), reason="needs the repository")
def test_a_revision_without_an_extender_is_said(tmp_path):
    with pytest.raises(compare.NotCompared, match="extender"):
        compare.laid_out(tmp_path / "old", git("hash-object", "-t", "tree", "/dev/null"))


def test_new_offers_were_never_sent_before(world):
    bodies = [*new_preempt_bodies(world, 5, 20), *new_preempt_bodies(world, 5, 20, first=21)]
    sent = [json.dumps(offer) for body in bodies for offer in json.loads(body)["NodeNameToMetaVictims"].values()]
    assert len(sent) == len(set(sent)) == 5 * 40


@pytest.mark.skipif(not git("rev-parse", "HEAD"), reason="needs the repository")
def test_two_revisions_are_compared_and_leave_nothing_behind(monkeypatch, capsys):
    monkeypatch.setattr(compare, "TURNS", 3)
    monkeypatch.setattr(sys, "argv", ["compare", "HEAD", "--nodes", "6", "--only", "filter, resources"])
    with pytest.raises(SystemExit) as raised:
        compare.main()
    assert raised.value.code in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines if "ms" in line] == [
        "filter, resources",
        "filter, resources, after a pod changed",
    ]
