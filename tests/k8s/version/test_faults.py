"""Faults of single patches that no verdict shows."""

import json

import pytest
from typer.testing import CliRunner

from extender import cli
from extender.k8s.version.faults import FAULTS, known_faults
from extender.k8s.version.versions import NEWEST_PATCHES, Version
from tests.builders import cluster, incoming, node


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.text[:40])
def test_a_fault_is_said_up_to_the_patch_that_mends_it(fault):
    for minor, patch in fault.fixed.items():
        assert 0 < patch <= NEWEST_PATCHES[minor]
        (said,) = [one for one in known_faults(Version(minor, patch - 1)) if fault.text in one]
        assert said == f"kube-scheduler 1.{minor}.{patch - 1} has a bug, fixed in 1.{minor}.{patch}: {fault.text}"
        without = [patch, fault.begun.get(minor, 0) - 1]
        assert not any(fault.text in one for each in without for one in known_faults(Version(minor, each)))


@pytest.mark.parametrize("minor", [*NEWEST_PATCHES, max(NEWEST_PATCHES) + 1])
def test_a_minor_alone_and_its_newest_patch_have_no_known_fault(minor):
    assert known_faults(Version(minor)) == known_faults(Version(minor, NEWEST_PATCHES.get(minor, 0))) == []


@pytest.mark.parametrize(
    "command",
    [("config", "check"), ("why", "incoming", "--cluster", "{}"), ("simulate", "--pending", "--cluster", "{}")],
    ids="-".join,
)
def test_the_commands_say_the_faults_of_the_patch_that_is_set(tmp_path, command):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster({node("n1"): []}, waiting=[incoming()])))
    asked = [one.format(path) for one in command]
    said = {
        version: " ".join(CliRunner().invoke(cli.app, [*asked, "--scheduler-version", version]).stdout.split())
        for version in ("1.30.1", "1.30.14", "1.30")
    }
    assert "kube-scheduler 1.30.1 has a bug, fixed in 1.30.2: kube-scheduler crashes" in said["1.30.1"]
    assert "has a bug, fixed in 1.30.5" in said["1.30.1"]
    assert "kube-scheduler 1.30.14" in said["1.30.14"]
    assert "has a bug" not in said["1.30.14"] + said["1.30"]
