"""Files that kube-scheduler itself writes (`kube-scheduler --write-config-to`), without a file and with these flags.

written/1.37.yaml is that of v1.37.2 with a kubeconfig and no other flag that counts; beside it with
`--emulated-version=1.35` and with `--feature-gates=InPlacePodVerticalScalingSchedulerPreemption=true`. The others are
those of v1.36.5, v1.33.13 and v1.30.14.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extender import cli
from extender.config.scheduler.load import kube_scheduler_of
from extender.config.scheduler.plugins import default_plugins
from extender.errors import ConfigError
from extender.k8s.version.gates import NO_EMULATION, Emulation

FOLDER = Path(__file__).with_name("written")
FLAGS: dict[str, dict[str, Any]] = {
    "1.30": {"version": "1.30"},
    "1.33": {"version": "1.33"},
    "1.36": {"version": "1.36"},
    "1.37": {"version": "1.37"},
    "1.37-emulating-1.35": {"version": "1.37", "emulation": Emulation(35)},
    "1.37-deferred": {
        "version": "1.37",
        "feature_gates": {"InPlacePodVerticalScalingSchedulerPreemption": True},
    },
}


@pytest.mark.parametrize("name", FLAGS)
def test_what_kube_scheduler_writes_is_what_it_does_without_a_file(name):
    written, unconfigured = (
        kube_scheduler_of(FOLDER / f"{name}.yaml", **FLAGS[name]),
        kube_scheduler_of({}, **FLAGS[name]),
    )
    assert written == unconfigured


@pytest.mark.parametrize("name", FLAGS)
def test_its_plugins_are_those_of_the_default_profile(name):
    (profile,) = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))["profiles"]
    written = [(one["name"], one["weight"]) for one in profile["plugins"]["multiPoint"]["enabled"]]
    ours = default_plugins(kube_scheduler_of({}, **FLAGS[name]).features)
    assert [plugin for plugin, _ in written] == [plugin for plugin, _ in ours]
    assert {(plugin, weight) for plugin, weight in written if weight > 1} == {one for one in ours if one[1] > 1}


def test_config_check_accepts_what_1_37_writes_and_says_that_1_36_does_not_know_its_key():
    path = str(FOLDER / "1.37.yaml")
    check = ["config", "check", "--scheduler-config", path, "--scheduler-version"]
    accepted = CliRunner().invoke(cli.app, [*check, "1.37.2"], env={})
    assert f"{path}: read" in accepted.stdout, accepted.output
    with pytest.raises(ConfigError, match=r"plugins\.podGroupPostFilter: unknown key in 1\.36"):
        kube_scheduler_of(Path(path), version="1.36")


def test_a_file_of_an_emulating_kube_scheduler_is_not_its_default():
    assert FLAGS["1.37-emulating-1.35"]["emulation"] != NO_EMULATION
    found = kube_scheduler_of(FOLDER / "1.37-emulating-1.35.yaml", version="1.37")
    assert "NodeDeclaredFeatures" in found.profiles[0].filter_plugins
