"""The scenarios with a configuration of kube-scheduler, read from its very file: Python API and --scheduler-config."""

import json

import pytest
import yaml
from typer.testing import CliRunner

import extender
from extender import cli
from tests.parity.agreement import compare, load
from tests.parity.exemptions import excused_by
from tests.parity.judged import BASE_MINOR
from tests.profiles import by_profile

CATEGORY = "wide/config"
VERSION = f"1.{BASE_MINOR}"
STEP = 15
"""One of so many scenarios is simulated by the command line and written as YAML, which takes longer to read."""


@pytest.fixture(scope="module")
def scenarios():
    return load(CATEGORY)


def wrong_verdicts(scenarios, path, write):
    """Return scenario -> what the engine says otherwise than kube-scheduler; exempt ones are left out."""
    wrong = {}
    for one in scenarios:
        path.write_text(write(one["config"]))
        found = extender.evaluate(one["cluster"], one["pod"], version=VERSION, scheduler_config=path).to_dict()
        differences = compare(one, found, excuse=False)
        if differences and not excused_by(one, differences):
            wrong[one["id"]] = differences
    return wrong


def test_verdicts_by_a_file_are_kube_scheduler_s(scenarios, tmp_path):
    """Before a commit of every third: test_parity compares the same configurations without a file."""
    some = scenarios[:: by_profile(3, 1, 1)]
    assert wrong_verdicts(some, tmp_path / "config.json", json.dumps) == {}


def test_verdicts_by_a_yaml_file_are_kube_scheduler_s(scenarios, tmp_path):
    assert wrong_verdicts(scenarios[::STEP], tmp_path / "config.yaml", yaml.safe_dump) == {}


def test_a_simulation_by_a_file_schedules_where_kube_scheduler_finds_room(scenarios, tmp_path):
    scheduled = 0
    for one in scenarios[::STEP]:
        files = {name: tmp_path / f"{name}.json" for name in ("cluster", "pod", "config")}
        for name, path in files.items():
            path.write_text(json.dumps(one[name]))
        options = ["--cluster", files["cluster"], "--pod", files["pod"], "--scheduler-config", files["config"]]
        options += ["--scheduler-version", VERSION, "-o", "json"]
        result = CliRunner().invoke(cli.app, ["simulate", *map(str, options)], env={})
        assert result.exit_code == 0, (one["id"], result.exception)
        (cycle, *_) = json.loads(result.stdout)["cycles"]
        expected = one["expected"]
        if expected["feasible"]:
            scheduled += 1
            assert cycle["outcome"] == "Scheduled", one["id"]
            if cycle["feasible"] > 1 and expected["scores"]:
                totals = {node: scores["total"] for node, scores in expected["scores"].items()}
                assert totals[cycle["node"]] == max(totals.values()), one["id"]
        else:
            assert cycle["outcome"] in ("Nominated", "Unschedulable", "Skipped"), one["id"]
    assert scheduled
