"""The benchmark with a real control plane: its cluster is full, and its report says what was measured."""

import msgspec
import pytest

from benchmarks.cluster.__main__ import main
from benchmarks.cluster.population import NODE_MILLICORES, Size, residents
from benchmarks.cluster.report import Report, report, slowdowns, verdict
from benchmarks.cluster.turns import Figures, Turn, Variant
from extender.k8s.quantity import milli_value, parse

SIZE = Size(nodes=10, pods_per_node=13, seed=7)


def turn(variant, rate):
    cpu = {"kube-scheduler": 0.2} | ({} if variant == Variant.NONE else {"extender": 0.5})
    calls = {} if variant == Variant.NONE else {"filter": (10, 0.02), "prioritize": (0, 0.0), "preempt": (4, 0.1)}
    figures = Figures(pods=100, per_second=rate, cpu=cpu, calls=calls, seconds=[0.1, 0.3], victims=2.0)
    return Turn(variant=variant, load_average=1.5, burst=figures, preemptions=figures)


def test_slowdowns_compare_turns_of_the_same_round():
    turns = [turn(variant, rate) for rate in (1.0, 0.5) for variant in Variant]
    turns += [turn(Variant.NONE, 300.0), *(turn(variant, 100.0) for variant in Variant if variant != Variant.NONE)]
    assert slowdowns(turns, "burst", Variant.ALL) == [1.0, 1.0, 3.0]


def test_the_report_has_a_line_for_each_variant_and_verb():
    rates = {Variant.NONE: 300.0, Variant.PREEMPT: 280.0, Variant.FILTER_AND_PREEMPT: 150.0, Variant.ALL: 75.0}
    calls = {"filter": [0.001, 0.002, 0.003], "prioritize": [], "preempt": [0.004]}
    text = report(Report({"cores": 2}, [turn(*one) for one in rates.items()], calls))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert ["all", "verbs", "75.0", "75.0", "..", "75.0", "4.00", "4.00", "..", "4.00"] in [
        one.split() for one in lines
    ]
    assert ["no", "extender", "2.00"] in [one.split() for one in lines]
    assert ["filter", "60", "2.00", "3", "2.00", "3.00"] in [one.split() for one in lines]
    assert ["prioritize", "0", "0"] in [one.split() for one in lines]
    assert "load average before the turns: 1.5 .. 1.5" in lines


def test_slowdowns_are_held_against_their_limits():
    rates = {Variant.NONE: 300.0, Variant.PREEMPT: 265.0, Variant.ALL: 75.0}
    lines = verdict([turn(*one) for one in rates.items()]).splitlines()
    assert lines == [
        "met with noise (≤ 1.15): slowdown of the burst with preempt only ≤ 1.1 (found 1.13)",
        "NOT MET: slowdown of the burst with all verbs ≤ 1.5 (found 4.00)",
    ]


def test_a_report_without_preemptors_has_no_tables_about_them():
    turns = [msgspec.structs.replace(turn(variant, 300.0), preemptions=None) for variant in Variant]
    text = report(Report({"cores": 2}, turns, {"filter": [], "prioritize": [], "preempt": []}))
    assert "burst" in text
    assert "preemptor" not in text.lower()


def test_the_nodes_are_full_for_a_preemptor_and_two_pods_make_room():
    cpu: dict[str, list[int]] = {}
    for one in residents(SIZE):
        requested = one["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        cpu.setdefault(one["spec"]["nodeName"], []).append(milli_value(parse(requested)))
    assert len(cpu) == SIZE.nodes
    for amounts in cpu.values():
        free = NODE_MILLICORES - sum(amounts)
        assert free + amounts[0] < SIZE.preemptor_millicores <= free + 2 * amounts[0]
        assert free + 2 * amounts[0] - SIZE.preemptor_millicores < SIZE.preemptor_millicores


def test_missing_binaries_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBE_BIN", str(tmp_path))
    with pytest.raises(SystemExit, match=r"has no etcd, .*: `make bench-cluster` without KUBE_BIN builds"):
        main([])
