"""docs/simulate.md: the outputs that it shows are what the commands print, and every key and option is on it.

`python -m tests.docs.test_simulate_page` writes the outputs.
"""

import os
import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from extender import cli
from extender.core.scheduling_cycle import result as cycles
from extender.report import simulation_schema as simulated
from extender.whatif import body as what_if
from extender.whatif import comparison

PAGE = Path(__file__).parents[2] / "docs" / "simulate.md"
BLOCK = re.compile(r"```console\n\$ extender (.*)\n((?:.*\n)*?)```\n")

FILES = ("pod.yaml", "pinned.yaml", "small.yaml", "api.yaml", "node.yaml")


def manifests(page: str) -> dict[str, str]:
    """Return the files that the examples read."""
    return dict(zip(FILES, re.findall(r"```yaml\n((?:.*\n)*?)```", page), strict=True))


def printed(command: str) -> str:
    result = CliRunner().invoke(cli.app, command.split(), env={})
    assert result.exit_code == ("--compare-versions" in command), result.output
    return result.stdout


def renewed(page: str) -> str:
    """The page with the outputs as they are now; the folder is one that holds its manifests."""
    return BLOCK.sub(lambda block: f"```console\n$ extender {block[1]}\n{printed(block[1])}```\n", page)


def with_pod(folder: Path) -> str:
    page = PAGE.read_text(encoding="utf-8")
    for name, manifest in manifests(page).items():
        (folder / name).write_text(manifest)
    os.chdir(folder)
    return page


def test_the_outputs_on_the_page_are_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = with_pod(tmp_path)
    assert len(BLOCK.findall(page)) == 8
    assert renewed(page) == page, "run `python -m tests.docs.test_simulate_page`"


SHAPES = (
    simulated.Simulation,
    simulated.ClusterSize,
    simulated.CycleReport,
    cycles.ReservedClaim,
    cycles.ReservedDevice,
    cycles.CycleScore,
    cycles.CyclePostFilter,
    simulated.EvictedPod,
    simulated.PendingPod,
    simulated.SimulationSummary,
    simulated.NodeUsage,
    simulated.Replacement,
    simulated.ScenarioReport,
    simulated.DrainedNode,
    simulated.BlockedEviction,
    simulated.RemovedNode,
    simulated.WorkloadPods,
    simulated.AdmissionReport,
    simulated.UntilFull,
    simulated.CopiesOnNode,
    simulated.Gang,
    comparison.VersionComparison,
    comparison.VersionSummary,
    comparison.VersionDifference,
    comparison.VersionOutcome,
    simulated.Comparison,
    simulated.PolicyDifference,
    simulated.PodOutcome,
    what_if.SimulateBody,
    what_if.AddNodes,
)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_key_is_on_the_page(shape):
    page = PAGE.read_text(encoding="utf-8")
    keys = {field.encode_name for field in msgspec.structs.fields(shape)}
    assert {key for key in keys if not re.search(rf"`{key}(\[\])?`", page)} == set()


def test_every_option_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    help_text = CliRunner().invoke(cli.app, ["simulate", "--help"], env={"COLUMNS": "200"}).stdout
    options = set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z-]+)", help_text, re.MULTILINE)) - {"--help", "--output"}
    assert "--compare" in options
    assert {option for option in options if option not in page} == set()
    assert "-o json" in page


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as work:
        PAGE.write_text(renewed(with_pod(Path(work))), encoding="utf-8")
