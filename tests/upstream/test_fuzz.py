"""The fuzzing loop against a stand-in of the judge (stand_in.py): what is counted, printed and kept."""

import json
from functools import lru_cache

import msgspec
import pytest

from tests.builders import cluster, incoming, node, pod
from tests.parity.agreement import CORPUS, lines_of
from tests.parity.cycles import post_filter_reasons
from tests.upstream.differential import Differential, Found
from tests.upstream.finding import Finding, Outcome, examine, kind_of
from tests.upstream.fuzz import Count, cases_of, main
from tests.upstream.generate import CATEGORIES
from tests.upstream.judge import Judge, ProgramFailed

SPECIAL = 3
"""Number of the scenario in which something happens: what the seed says."""


def unmatched(category, seed, number):
    """A pod that fits no node; the stand-in does what the id says, and finds fault with a node named "odd"."""
    names = [f"n{place}" for place in range(5)]
    if number == SPECIAL and seed == "odd":
        names[2] = seed
    nodes = {node(name): [pod(f"p-{name}")] for name in names}
    scenario = {
        "id": f"{category}-{seed if number == SPECIAL else 'plain'}-{number}",
        "category": category,
        "cluster": cluster(nodes, namespaces=[{"kind": "Namespace", "metadata": {"name": "default"}}]),
        "pod": incoming(nodeSelector={"disk": "none"}, preemptionPolicy="PreemptLowerPriority"),
    }
    return scenario | ({"config": {"kind": "nothing"}} if seed == "refused" and number == SPECIAL else {})


def with_slices(category, seed, number):
    scenario = unmatched(category, seed, number)
    spec = {
        "driver": "a.example.com",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
    }
    metadata = {"name": "s", "uid": "uid-s"}
    item = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
    return scenario | {"cluster": scenario["cluster"] | {"items": [*scenario["cluster"]["items"], item]}}


@lru_cache(maxsize=1)
def corpus(category):
    return lines_of(CORPUS / f"{category}.jsonl.gz")


def from_corpus(category, seed, number):
    return msgspec.json.decode(corpus(category)[number])


def first_of_corpus(key):
    """The first scenario of which the verdict has something to say there."""
    every = (from_corpus("pdb", "", number) for number in range(len(corpus("pdb"))))
    return next(one for one in every if one["expected"].get(key))


def fuzz(stand_in, seed, *arguments, generate=unmatched, categories=("resources",)):
    words = ["--judge", str(stand_in), "--minor", "36", "--seed", seed, "--workers", "1", "--category", *categories]
    return main([*words, *arguments], generate)


def differential(stand_in, seed, seconds=60.0):
    return Differential(Judge(stand_in, 1, seconds), 36, seed, unmatched)


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_scenarios_of_the_corpus_agree_in_batches_of_two_workers(stand_in, capsys):
    words = ("--scenarios", "11", "--batch", "4", "--workers", "2")
    assert fuzz(stand_in, "any", *words, generate=from_corpus, categories=["pdb"]) == 0
    said, progress = capsys.readouterr()
    assert said.splitlines()[0] == "kube-scheduler 1.36.5, 11 scenarios of seed any"
    assert said.splitlines()[-1].startswith("11 scenarios, 0 differ, ")
    assert "100 %: 11 of 11, " in progress


def test_a_planted_difference_is_shrunk_printed_and_kept(stand_in, capsys, tmp_path):
    kept = tmp_path / "kept.jsonl"
    assert fuzz(stand_in, "odd", "--scenarios", "6", "--batch", "2", "--keep", str(kept)) == 1
    said = capsys.readouterr().out
    assert "\nresources-odd-3: filter[odd]: expected " in said
    assert "--seed odd --category resources --number 3\n" in said
    assert said.endswith("\n6 scenarios, 1 differ, 0 exempt\n")
    assert "1 differ, category resources\n" in said
    assert "1 differ, kind filter reasons of NodeAffinity\n" in said
    printed = said[said.index('{"id"') :]
    small, _ = json.JSONDecoder().raw_decode(printed)
    assert [item["metadata"]["name"] for item in small["cluster"]["items"]] == ["odd"]
    assert small["pod"]["spec"].keys() == {"containers", "nodeSelector"}
    assert examine(small, 36).kinds[0] == "filter reasons of NodeAffinity"
    (line,) = kept.read_text(encoding="utf-8").splitlines()
    assert len(json.loads(line)["cluster"]["items"]) == 11


def test_one_scenario_is_repeated_by_its_number(stand_in, capsys):
    assert fuzz(stand_in, "odd", "--number", str(SPECIAL - 1)) == 0
    assert capsys.readouterr().out.endswith("\n1 scenarios, 0 differ, 0 exempt\n")


def test_the_first_difference_may_end_the_run_and_be_reported_only(stand_in, capsys):
    assert fuzz(stand_in, "odd", "--scenarios", "600", "--batch", "2", "--first", "--report-only") == 0
    assert capsys.readouterr().out.endswith("\n4 scenarios, 1 differ, 0 exempt\n")


def test_report_only_forgives_no_scenario_that_is_not_judged(stand_in, capsys):
    assert fuzz(stand_in, "unreadable", "--scenarios", "4", "--report-only") == 1
    assert capsys.readouterr().out.endswith("\n4 scenarios, 0 differ, 0 exempt, 1 not judged\n")


@pytest.mark.parametrize(
    ("not_evaluated", "of", "failed"), [(3, 10, False), (4, 10, True), (4, 400, False), (5, 400, True)]
)
def test_a_run_fails_where_too_much_is_not_evaluated(not_evaluated, of, failed):
    count = Count()
    for place in range(of):
        outcome = Outcome.NOT_EVALUATED if place < not_evaluated else Outcome.AGREES
        count.add(Found(("pdb", place), "a", Finding(outcome), None))
    assert (count.failed, count.incomplete) == (failed, failed)


def test_a_judge_that_dies_ends_the_run_with_the_batch_and_what_was_counted(stand_in, capsys):
    assert fuzz(stand_in, "dies", "--scenarios", "6", "--batch", "2") == 2
    said, error = capsys.readouterr()
    assert said.endswith("\n2 scenarios, 0 differ, 0 exempt\n")
    assert (
        "ended with code 1: the batch of 2 scenarios from resources-plain-2 to resources-dies-3: fatal error" in error
    )


def test_a_judge_of_another_minor_is_not_asked(stand_in, capsys):
    assert main(["--judge", str(stand_in), "--minor", "37", "--seed", "any"], unmatched) == 2
    assert "is of 1.36.5, not of 1.37" in capsys.readouterr().err


def test_the_scenarios_are_spread_over_the_categories():
    assert list(cases_of(["a", "b", "c"], 5)) == [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1)]
    assert {category for category, _ in cases_of([*CATEGORIES], 1000)} == {*CATEGORIES}


# --- one batch --------------------------------------------------------------------------------------------------------


def found(stand_in, seed):
    return [one.finding for one in differential(stand_in, seed).batch([("pdb", number) for number in range(5)])]


def test_a_panic_is_counted_and_nothing_of_it_is_kept(stand_in):
    of_batch = differential(stand_in, "panics").batch([("pdb", SPECIAL)])
    assert [(one.finding, one.scenario) for one in of_batch] == [(Finding(Outcome.PANICKED), None)]
    count = Count()
    count.add(of_batch[0])
    assert str(count) == "1 scenarios, 0 differ, 0 exempt, 1 at which kube-scheduler panics"
    assert not count.failed


def test_a_configuration_that_both_refuse_is_counted_apart(stand_in):
    count = Count()
    for one in differential(stand_in, "refused").batch([("pdb", SPECIAL), ("pdb", 0)]):
        count.add(one)
    assert str(count) == "2 scenarios, 0 differ, 0 exempt, 1 refused by both"


def test_a_panic_is_not_followed_by_the_shrinker(stand_in):
    odd = unmatched("pdb", "odd", SPECIAL)
    kinds = differential(stand_in, "any").kinds([odd, odd | {"id": "panics"}])
    assert [bool(one) for one in kinds] == [True, False]


def test_a_scenario_that_the_judge_does_not_survive_has_no_kind(stand_in):
    odd = unmatched("pdb", "odd", SPECIAL)
    kinds = differential(stand_in, "any").kinds([odd, odd | {"id": "dies"}])
    assert [bool(one) for one in kinds] == [True, False]


def with_capacities(category, seed, number):
    scenario = unmatched(category, seed, number)
    one = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "storageClassName": "fast"}
    items = [one | {"metadata": {"name": name, "namespace": "default", "uid": name}} for name in ("a", "b")]
    return scenario | {"cluster": scenario["cluster"] | {"items": [*scenario["cluster"]["items"], *items]}}


@pytest.mark.parametrize(
    ("generate", "minor", "rule"),
    [(with_slices, 35, "unsettled"), (with_slices, 36, None), (with_capacities, 36, "unsettled")],
)
def test_what_upstream_says_only_at_times_is_unsettled_where_it_draws(stand_in, generate, minor, rule):
    batch = Differential(Judge(stand_in, 1, 60.0), minor, "wavers", generate).batch([("dra", SPECIAL)])
    assert [one.finding.rule for one in batch] == [rule]
    assert [one.finding.outcome for one in batch] == [Outcome.EXEMPT if rule else Outcome.DIFFERS]


def test_a_difference_from_everything_that_upstream_says_at_times_is_none_of_chance(stand_in):
    def odd(category, seed, number):
        return with_slices(category, "odd", number) | {"id": "wavers"}

    (one,) = Differential(Judge(stand_in, 1, 60.0), 35, "any", odd).batch([("dra", SPECIAL)])
    assert one.finding.outcome is Outcome.DIFFERS


def test_a_verdict_of_a_patch_is_compared_with_the_engine_as_that_patch():
    named = (msgspec.json.decode(line) for line in lines_of(CORPUS / "patches.jsonl.gz"))
    scenario = next(one for one in named if one["id"] == "P40-counter-tainted")
    judged = scenario | {"expected": scenario["verdicts"]["1.36.2"]}
    assert examine(judged, 36, 2).outcome is Outcome.AGREES
    assert examine(judged, 36).outcome is Outcome.DIFFERS


def test_a_judge_that_hangs_is_stopped(stand_in):
    with pytest.raises(ProgramFailed, match=r"did not end within 0\.3 s: the batch of 5 scenarios from pdb-plain-0"):
        differential(stand_in, "hangs", 0.3).batch([("pdb", number) for number in range(5)])


def test_a_judge_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ProgramFailed, match=r"judge-1\.99 cannot be run: "):
        Judge(tmp_path / "judge-1.99").version  # noqa: B018 - a property


def test_a_refused_configuration_must_be_refused_and_other_errors_are_no_verdict(stand_in):
    outcomes = [Outcome.AGREES] * 5
    outcomes[SPECIAL] = Outcome.REFUSED
    assert [one.outcome for one in found(stand_in, "refused")] == outcomes
    outcomes[SPECIAL] = Outcome.NOT_JUDGED
    unreadable = found(stand_in, "unreadable")
    assert [one.outcome for one in unreadable] == outcomes
    assert unreadable[SPECIAL].lines == ("item 0: no kind",)


# --- one scenario -----------------------------------------------------------------------------------------------------


def test_a_configuration_that_only_kube_scheduler_refuses_differs():
    scenario = unmatched("pdb", "any", 0) | {"error": 'config: Plugin "Foo" does not exist'}
    assert examine(scenario, 36).kinds == (
        'refusal: the configuration is accepted, but kube-scheduler says: config: Plugin "Foo" does not exist',
    )


def test_an_exception_of_the_engine_differs():
    scenario = from_corpus("pdb", "", 0)
    broken = scenario | {"pod": scenario["pod"] | {"spec": {"containers": 7}}}
    finding = examine(broken, 36)
    assert finding.outcome is Outcome.DIFFERS
    assert finding.lines[0].startswith("exception: ")


def expecting(scenario, **verdict):
    return scenario | {"expected": scenario["expected"] | verdict}


@pytest.mark.parametrize(
    ("unsettled", "excused"),
    [(["feasible"], True), (["filter"], True), (["scores"], False), (["clock", "selected"], False)],
)
def test_what_is_unsettled_excuses_itself_and_what_follows_and_nothing_else(unsettled, excused):
    wrong = expecting(first_of_corpus("scores"), feasible=99)
    assert examine(wrong, 36).outcome is Outcome.DIFFERS
    finding = examine(expecting(wrong, unsettled=unsettled), 36)
    assert finding.outcome is (Outcome.EXEMPT if excused else Outcome.DIFFERS)
    assert finding.rule == ("unsettled" if excused else None)
    assert bool(finding.kinds) is not excused


@pytest.mark.parametrize(("unsettled", "excused"), [(["postFilter"], True), (["candidates"], True), (["clock"], False)])
def test_a_cycle_that_ends_otherwise_is_excused_where_what_it_follows_from_is_unsettled(unsettled, excused):
    scenario = first_of_corpus("postFilter")
    post_filter = scenario["expected"]["postFilter"] | {"reasons": ["made up"]}
    wrong = expecting(scenario, postFilter=post_filter, unsettled=unsettled)
    assert examine(wrong, 36).outcome is (Outcome.EXEMPT if excused else Outcome.DIFFERS)


def test_a_post_filter_that_is_made_up_is_exempt_by_overflow_and_no_agreement():
    scenario = first_of_corpus("postFilter")
    node = next(item for item in scenario["cluster"]["items"] if item["kind"] == "Node")
    node["status"]["allocatable"] |= {"example.com/huge": "9e17"}
    assert examine(scenario, 36) == Finding(Outcome.AGREES)
    made_up = {"code": "Success", "reasons": ["made up"], "nominatedNode": "nowhere"}
    finding = examine(expecting(scenario, postFilter=made_up), 36)
    assert (finding.outcome, finding.rule) == (Outcome.EXEMPT, "overflow")
    assert finding.lines[0].startswith("cycle")


def test_a_verdict_that_does_not_say_how_the_cycle_ends_is_counted_as_such():
    scenario = first_of_corpus("postFilter")
    del scenario["expected"]["postFilter"]
    finding = examine(scenario, 36)
    assert finding == Finding(Outcome.AGREES, without_cycle=True)
    count = Count()
    count.add(Found(("pdb", 0), "a", finding, None))
    assert str(count) == "1 scenarios, 0 differ, 0 exempt, 1 without a cycle to compare"


def test_victims_that_are_not_compared_count_as_exempt():
    scenario = first_of_corpus("candidates")
    name, candidate = next(iter(scenario["expected"]["candidates"].items()))
    other = scenario["expected"]["candidates"] | {name: candidate | {"numPDBViolations": 99}}
    wrong = scenario["expected"] | {"candidates": other}
    assert examine(scenario | {"expected": wrong}, 36).kinds[0] == "candidates numPDBViolations"
    tied = scenario | {"expected": scenario["expected"] | {"unstableSort": [name]}}
    assert examine(tied, 36).outcome is Outcome.AGREES
    exempt = scenario | {"expected": wrong | {"unstableSort": [name]}}
    finding = examine(exempt, 36)
    assert (finding.outcome, finding.rule) == (Outcome.EXEMPT, "unstableSort")
    # The victims must be those in the order in which the budgets are listed.
    assert examine(scenario | {"expected": exempt["expected"] | {"budgetOrder": [name]}}, 36).outcome is Outcome.DIFFERS


def test_the_sentence_of_1_37_is_not_that_of_our_own_cycle_where_its_node_is_not_exempt():
    reasons = ["preemption: found a potential placement for pod on node a, preempting 2 victims"]
    expected = {"postFilter": {"reasons": reasons}, "selected": "a", "unstableSort": ["b"]}
    assert post_filter_reasons({"expected": expected}, "a", 3) == reasons
    (rewritten,) = post_filter_reasons({"expected": expected}, "b", 3)
    assert rewritten.endswith("on node b, preempting 3 victims")
    (rewritten,) = post_filter_reasons({"expected": expected | {"unstableSort": ["a"]}}, "a", 3)
    assert rewritten.endswith("on node a, preempting 3 victims")


def test_kinds_name_keys_and_plugins_but_no_nodes():
    def status(code, plugin, *reasons):
        return json.dumps({"code": code, "plugin": plugin, "reasons": reasons})

    def scores(**plugins):
        return json.dumps({"plugins": plugins, "total": sum(plugins.values())})

    ports = status("Unschedulable", "NodePorts", "taken")
    lines = {
        f"filter[n1]: expected {ports}, got {status('Success', '')}": "filter Unschedulable NodePorts -> Success",
        f"nonCandidates[n1]: expected null, got {ports}": "nonCandidates none -> Unschedulable NodePorts",
        f"scores[n1]: expected {scores(A=1, B=2)}, got {scores(A=1, B=3)}": "scores B",
        'candidates[n1]: expected {"victims": []}, got {"victims": ["u"]}': "candidates victims",
        'selected: expected "n1", got null': "selected str -> none",
        "cycle: expected x, got y": "cycle",
    }
    assert {line: kind_of(line) for line in lines} == lines


def test_a_diagnosis_has_scores_where_a_plugin_scores_nothing():
    success = {"code": "Success", "plugin": "", "reasons": []}
    score = {"enabled": [{"name": "DynamicResources"}], "disabled": [{"name": "*"}]}
    scenario = {
        "id": "nothing-to-score",
        "cluster": cluster({node("a"): [], node("b"): []}),
        "pod": incoming(),
        "config": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler", "plugins": {"score": score}}],
        },
        "expected": {
            "filter": {"a": success, "b": success},
            "feasible": 2,
            "scores": {name: {"plugins": {"DynamicResources": 0}, "total": 0} for name in "ab"},
            "eligible": [True, ""],
            "candidates": {},
            "nonCandidates": {},
            "selected": None,
            "selectedTies": [],
        },
    }
    assert examine(scenario, 36) == Finding(Outcome.AGREES)
