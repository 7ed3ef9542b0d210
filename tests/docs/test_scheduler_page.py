"""docs/scheduler.md agrees with the code: the table of versions, every field, the recipes and the printed outputs.

`python -m tests.docs.test_scheduler_page` writes the table and the outputs.
"""

import ast
import itertools
import os
import re
import shutil
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from extender import cli
from extender.config import Configuration
from extender.config.load import load_config
from extender.config.scheduler.arguments import ARGS_OF
from extender.config.scheduler.load import kube_scheduler_of, load_kube_scheduler
from extender.config.scheduler.schema import (
    KubeSchedulerConfiguration,
    ManagedResourceSection,
    PluginSetSection,
    PluginsSection,
    ProfileSection,
)
from extender.k8s.version import features
from extender.k8s.version.faults import FAULTS
from extender.k8s.version.features import Features
from extender.k8s.version.found import FoundVersion, version_of_pods
from extender.k8s.version.gates import EVALUATED_GATES, UNSUPPORTED_GATES
from extender.k8s.version.versions import DEFAULT_MINOR, NEWEST_MINOR, NEWEST_PATCHES, OLDEST_MINOR
from extender.server.settings import scheduler_line
from tests.builders import typed

ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "scheduler.md"
PAGE = PATH.read_text(encoding="utf-8")
TABLE = re.compile(r"(<!-- written by python -m tests\.docs\.test_scheduler_page -->\n).*?(<!-- end -->\n)", re.DOTALL)
FAULT_TABLE = re.compile(
    r"(<!-- faults, written by python -m tests\.docs\.test_scheduler_page -->\n).*?(<!-- end of faults -->\n)",
    re.DOTALL,
)
OUTPUT = re.compile(r"```console\n\$ extender ((?:config check|simulate) .*)\n((?:(?!```).*\n)+)```\n")
"""A command, and the lines that it prints; a command without any is only checked to be one."""


# --- the table of versions ------------------------------------------------------------------------------------------


def documented() -> dict[str, str]:
    """Return field of Features -> its docstring."""
    tree = ast.parse(Path(features.__file__).read_text(encoding="utf-8"))
    (body,) = [one.body for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "Features"]
    return {
        one.target.id: text.value.value
        for one, text in itertools.pairwise(body)
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def minors_of(metadata) -> str:
    """Return in which minors a switch is on, in words."""
    if "gate" not in metadata:
        patches = ", ".join(f"1.{minor}.{patch}" for minor, patch in sorted(metadata["backports"].items()))
        first = metadata.get("since", metadata.get("until", 0) + 1)
        carried_back = (
            patches if first - 1 in metadata["backports"] else ", ".join(filter(None, (patches, f"1.{first}")))
        )
        if "since" in metadata:
            return f"from {carried_back}"
        began = f"from 1.{metadata['first']} " if metadata["first"] > OLDEST_MINOR else ""
        return f"{began}before {carried_back}" if patches else f"{began}up to 1.{metadata['until']}"
    stages = [one for one in metadata["gate"].stages if one[0] <= NEWEST_MINOR]
    current = [one for one in stages if one[0] <= OLDEST_MINOR][-1:] + [one for one in stages if one[0] > OLDEST_MINOR]
    words = []
    for first, stage, default in current:
        value = "on" if default else "off"
        shown = {"locked": f"locked to {value}", "removed": "removed"}.get(stage, f"{stage}, {value}")
        words.append(shown + (f" from 1.{first}" if first > OLDEST_MINOR else ""))
    return "; ".join(words)


def table() -> str:
    """Return the table of all switches, as Markdown."""
    words = documented()
    lines = ["| feature gate | versions | what changes |", "|---|---|---|"]
    for one in fields(Features):
        gate = one.metadata.get("gate")
        changes = " ".join(words[one.name].split()).replace("|", "\\|")
        lines.append(f"| {f'`{gate.name}`' if gate else ''} | {minors_of(one.metadata)} | {changes} |")
    return "\n".join(lines) + "\n"


def faults() -> str:
    """Return the table of the faults of single patches, as Markdown."""
    lines = ["| patches | fault |", "|---|---|"]
    for one in FAULTS:
        patches = (
            f"1.{minor}.{one.begun.get(minor, 0)} to 1.{minor}.{mended - 1}"
            if one.begun.get(minor, 0) < mended - 1
            else f"1.{minor}.{mended - 1}"
            for minor, mended in one.mended.items()
        )
        lines.append(f"| {', '.join(patches)} | {one.text} |")
    return "\n".join(lines) + "\n"


def test_the_tables_of_versions_and_of_faults_are_those_of_the_code():
    assert table() in PAGE, "run `python -m tests.docs.test_scheduler_page`"
    assert faults() in PAGE, "run `python -m tests.docs.test_scheduler_page`"


def test_the_newest_patches_are_named():
    *others, last = (f"1.{minor}.{patch}" for minor, patch in NEWEST_PATCHES.items())
    assert f"{', '.join(others)} and {last}" in PAGE


def test_every_minor_is_named():
    assert f'`"1.{OLDEST_MINOR}"` to `"1.{NEWEST_MINOR}"`' in PAGE
    for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1):
        load_config(None, {"EXTENDER_SCHEDULER__VERSION": f"1.{minor}"})


def test_gates_in_the_text_exist():
    of_groups = PAGE.partition("**Groups of pods**")[2].partition("\n- ")[0]
    assert set(re.findall(r"\bG\w+(?:Workload|Scheduling)\b", of_groups)) <= UNSUPPORTED_GATES.keys()
    assert {"PodLevelResources", "StorageCapacityScoring"} <= EVALUATED_GATES.keys()


# --- fields ---------------------------------------------------------------------------------------------------------


def keys(section) -> set[str]:
    return {field.alias or name for name, field in section.model_fields.items()}


def is_on_the_page(key: str) -> bool:
    return re.search(rf"`(?:[\w\[\].]*\.)?{key}`", PAGE) is not None


def test_every_field_of_the_file_is_on_the_page():
    sections = (KubeSchedulerConfiguration, ProfileSection, ManagedResourceSection)
    read = set.union(*(keys(one) for one in sections)) - {"apiVersion", "kind", "name", "plugins"}
    assert {key for key in read if not is_on_the_page(key)} == set()


def test_every_extension_point_is_on_the_page():
    assert {key for key in keys(PluginsSection) if not is_on_the_page(key)} == set()
    assert keys(PluginSetSection) == {"enabled", "disabled"}


@pytest.mark.parametrize("plugin", ARGS_OF)
def test_every_argument_is_on_the_page(plugin):
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {plugin} |")]
    assert {key for key in keys(ARGS_OF[plugin]) - {"apiVersion", "kind"} if f"`{key}`" not in row} == set()


def test_settings_on_the_page_are_settings():
    told = Configuration().model_dump(by_alias=True)
    named = set(re.findall(r"`((?:scheduler|preemption|server|bind)\.\w+)`", PAGE))
    chart = yaml.safe_load((ROOT / "deploy/helm/kube-scheduler-extender/values.yaml").read_text(encoding="utf-8"))
    unknown = {
        path
        for path in named
        if path.split(".")[1] not in told[path.split(".")[0]]
        and path.split(".")[1] not in chart.get(path.split(".")[0], {})
    }
    assert unknown == set()
    for path in re.findall(r"`(schedulerConfig\.\w+)`", PAGE):
        assert path.split(".")[1] in chart["schedulerConfig"]


# --- blocks ---------------------------------------------------------------------------------------------------------


BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RECIPES = [block for block in BLOCKS if "schedulerName" in block and "kind: Pod" not in block]


def test_the_setting_block_is_a_configuration():
    (block,) = [one for one in BLOCKS if one.startswith("scheduler:")]
    settings = yaml.safe_load(block)
    settings["scheduler"]["config"] = str(ROOT / "deploy" / "scheduler" / "two-profiles.yaml")
    configuration = Configuration.model_validate(settings)
    assert configuration.scheduler.version == "auto"
    default, unset = load_kube_scheduler(configuration), configuration.model_copy(deep=True)
    unset.scheduler.feature_gates.clear()
    assert default.changed_gates == configuration.scheduler.feature_gates != load_kube_scheduler(unset).changed_gates
    for minor in range(33, NEWEST_MINOR + 1):
        assert not load_kube_scheduler(configuration, FoundVersion(minor, "found")).features.storage_capacity_scoring


def test_the_feature_gate_of_the_reference_is_accepted():
    reference = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"--feature-gates: .* such as (\{.*\})\.", reference)
    assert Features.of(DEFAULT_MINOR, yaml.safe_load(example)) != Features()


@pytest.mark.parametrize("recipe", RECIPES, ids=[yaml.safe_load(one)[0]["schedulerName"] for one in RECIPES])
@pytest.mark.parametrize("version", ["1.29", "1.36", "1.38"])
def test_a_recipe_is_one_profile_beside_the_default_one(recipe, version):
    """In kube-scheduler's file, and inline in the extender's own."""
    profiles = [{"schedulerName": "default-scheduler"}, *yaml.safe_load(recipe)]
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles,
    }  # fmt: skip
    default, own = kube_scheduler_of(document, version=version).profiles
    assert own != default
    Configuration.model_validate({"scheduler": {"profiles": profiles}})


def test_there_are_three_recipes():
    recipes = re.findall(r"^\*\*([^*]+)\*\*", PAGE.partition("## Recipes")[2], re.MULTILINE)
    assert recipes == ["Bin packing", "Bin packing by GPUs", "Spread"]
    assert len(RECIPES) == 3


# --- commands, outputs and links ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", re.findall(r"^\$ (extender .*)$", PAGE, re.MULTILINE))
def test_a_command_is_understood(command):
    words = command.split()[1:]
    group: Any = typer.main.get_group(cli.app)
    while hasattr(group, "commands"):
        group = group.commands[words.pop(0)]
    group.make_context("extender", words)


def printed(command: str) -> str:
    result = CliRunner().invoke(cli.app, command.split(), env={})
    assert result.exit_code == 0, result.output
    return result.stdout


def renewed(page: str) -> str:
    """The page with the table and the outputs as they are now; the folder holds its files."""
    page = TABLE.sub(lambda found: found[1] + table() + found[2], page)
    page = FAULT_TABLE.sub(lambda found: found[1] + "\n" + faults() + found[2], page)
    return OUTPUT.sub(lambda block: f"```console\n$ extender {block[1]}\n{printed(block[1])}```\n", page)


def with_files(folder: Path) -> None:
    """Write what the page's commands read: the shipped file, and the pods of the page."""
    shutil.copy(ROOT / "deploy" / "scheduler" / "two-profiles.yaml", folder / "config.yaml")
    (pods,) = [one for one in BLOCKS if "kind: Pod" in one]
    (folder / "pods.yaml").write_text(pods, encoding="utf-8")
    os.chdir(folder)


def test_the_outputs_on_the_page_are_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_files(tmp_path)
    assert len(OUTPUT.findall(PAGE)) == 2
    assert renewed(PAGE) == PAGE, "run `python -m tests.docs.test_scheduler_page`"


def test_the_line_of_readyz_is_the_one_that_is_said():
    labels = {"component": "kube-scheduler"}
    pod = {
        "metadata": {"name": "kube-scheduler-control-1", "namespace": "kube-system", "labels": labels},
        "spec": {"containers": [{"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.36.2"}]},
    }  # fmt: skip
    found = version_of_pods([typed(pod)])
    file = Configuration.model_validate({"scheduler": {"config": str(ROOT / "deploy/scheduler/two-profiles.yaml")}})
    assert f"\n[+] {scheduler_line(load_kube_scheduler(file, found))}\n" in PAGE


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        with_files(Path(work))
        PATH.write_text(renewed(PAGE), encoding="utf-8")
