"""A vendor's extender in kube-scheduler's file: what each command says of pods that it is asked about.

`other_extender/` retells public reports: the scheduler ConfigMap of a vGPU chart, and an extender for local volumes.
"""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender import cli

FOLDER = Path(__file__).with_name("other_extender")


@pytest.fixture
def run(monkeypatch):
    monkeypatch.chdir(FOLDER)

    def run(command):
        return CliRunner().invoke(cli.app, shlex.split(command)[1:], env={})

    return run


@pytest.mark.parametrize(
    ("command", "exit_code", "extender"),
    [
        (
            "extender why --cluster cluster.yaml --pod pod.yaml --scheduler-config scheduler-config.yaml",
            4,
            "extenders[0] at https://127.0.0.1:443, filter",
        ),
        (
            "extender simulate --cluster cluster.yaml --pod pod.yaml --scheduler-config scheduler-config.yaml",
            0,
            "extenders[0] at https://127.0.0.1:443, filter",
        ),
        (
            "extender why --cluster cluster.yaml --pod pod2.yaml --scheduler-config scheduler-config-2.yaml",
            4,
            "extenders[0] at http://127.0.0.1:9251, filter",
        ),
    ],
)
def test_the_extender_that_is_asked_is_named(run, command, exit_code, extender):
    result = run(command)
    assert result.exit_code == exit_code, result.output
    shown = " ".join(result.stdout.split())
    assert extender in shown
    assert "a pod that requests none of them is not sent to it" in shown
    found = json.loads(run(f"{command} -o json").stdout)
    report = found if "verdict" in found else found["cycles"][0]
    assert (report.get("verdict", "Unknown"), report["notEvaluated"]) == ("Unknown", [extender])


def test_config_check_does_not_take_a_vendors_entry_for_ours(run):
    result = run("extender config check --scheduler-config scheduler-config.yaml")
    assert result.exit_code == 0, result.output
    assert "error: " not in result.stdout
    assert "note: extenders[0] at https://127.0.0.1:443 is not evaluated" in result.stdout
    assert "extenders: no entry calls this extender: none has server.port 8888" in result.stdout
    named = run("extender config check --scheduler-config scheduler-config.yaml --extender 0")
    assert (named.exit_code, "port 443, but server.port is 8888" in named.stdout) == (1, True)


def test_config_check_compares_our_entry_beside_a_vendors(run):
    result = run("extender config check --scheduler-config scheduler-config-2.yaml")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "0 errors, 0 warnings")
    assert "note: extenders[0] at http://127.0.0.1:9251 is not evaluated" in result.stdout
