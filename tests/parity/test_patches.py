"""The engine as single patch releases of a minor, each against its own verdicts: corpus/patches.jsonl.gz.

A line is a minimal scenario, as in the other files, with `why` it is there and `verdicts`: patch release -> what that
release says.
"""

import json

import msgspec
import pytest
from typer.testing import CliRunner

from extender import Snapshot, cli
from extender.config.scheduler.load import kube_scheduler_of
from extender.core.evaluation import Evaluation
from extender.k8s.version.versions import parse_version
from tests.builders import stored_cluster, typed
from tests.parity.agreement import CORPUS, JSON, lines_of
from tests.parity.cycles import cycle_differences, is_told
from tests.parity.diagnoses import diagnosis_differences
from tests.parity.parity import NOW, Evaluated
from tests.parity.versions import as_served, normal_of

SCENARIOS = {one["id"]: one for one in map(msgspec.json.decode, lines_of(CORPUS / "patches.jsonl.gz"))}


def differences(scenario: JSON, patch: str) -> list[object]:
    """What the engine as this patch says otherwise than its own code does: verdict, cycle and diagnosis."""
    scheduler = kube_scheduler_of({}, version=patch, feature_gates=scenario.get("gates", {}))
    normal = normal_of(parse_version(patch).minor)
    snapshot = Snapshot.build(stored_cluster(scenario["cluster"]), scheduler.features)
    one = Evaluated.of(scenario | {"expected": scenario["verdicts"][patch]}, scheduler, normal, snapshot)
    found = [*one.differences, *(cycle_differences(one) if is_told(one) else ())]
    found += diagnosis_differences(one, normal)
    return [] if one.excused(found) else found


NOT_EVALUATED = {"P50-contains-cidr": "DynamicResources"}
"""Scenario -> plugin that is not evaluated in its minors, which the engine has to say."""


@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - NOT_EVALUATED))
def test_every_patch_s_own_verdict_is_given(name):
    scenario = SCENARIOS[name]
    wrong = {patch: found for patch in scenario["verdicts"] if (found := differences(scenario, patch))}
    assert wrong == {}, scenario["why"]


@pytest.mark.parametrize(("name", "plugin"), NOT_EVALUATED.items())
def test_a_plugin_that_is_not_evaluated_in_a_minor_is_named_for_all_its_patches(name, plugin):
    scenario = SCENARIOS[name]
    for patch in scenario["verdicts"]:
        scheduler = kube_scheduler_of({}, version=patch, feature_gates=scenario["gates"])
        snapshot = Snapshot.build(stored_cluster(as_served(scenario, scheduler.minor)["cluster"]), scheduler.features)
        found = Evaluation(snapshot, typed(scenario["pod"]), scheduler.profiles[0], NOW).to_dict()
        assert found["notEvaluated"] == {plugin: ["n1"]}


@pytest.mark.parametrize(
    ("name", "before", "after", "change"),
    [
        ("P40-counter-tainted", "1.36.2", "1.36.3", "outcome"),
        ("P01-victim-order-decides", "1.31.2", "1.31.3", "nominatedNode"),
        ("P10-hostname-not-name", "1.29.10", "1.29.11", "outcome"),
        ("P20-taint-text", "1.34.1", "1.34", "message"),
    ],
)
def test_simulate_compares_two_patches(name, before, after, change, tmp_path):
    world, arriving = tmp_path / "cluster.json", tmp_path / "pod.json"
    world.write_text(json.dumps(SCENARIOS[name]["cluster"]))
    arriving.write_text(json.dumps(SCENARIOS[name]["pod"]))
    where = ("simulate", "--cluster", str(world), "--pod", str(arriving), "-o", "json")
    compared = CliRunner().invoke(cli.app, [*where, "--compare-versions", before, after])
    found = json.loads(compared.stdout)
    assert found["compared"] == [before, after]
    assert [one["release"] for one in found["results"]] == [before, after]
    (difference,) = found["differences"]
    assert change in difference["changes"]
    assert compared.exit_code == difference["decidedOtherwise"]
