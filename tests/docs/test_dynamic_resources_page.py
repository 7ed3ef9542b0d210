"""docs/dynamic-resources.md: the outputs that it shows are what the commands print.

`python -m tests.docs.test_dynamic_resources_page` writes the outputs.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from extender import cli
from extender.admission.admit import admit
from extender.cli.output import node_report
from extender.cli.output.decision_report import Invocation
from extender.cluster.files.manifests import load_cluster, read_manifests
from extender.core import engine
from extender.core.profile import UPSTREAM, KubeScheduler
from extender.core.record import RecordedPod, record_filter
from extender.core.snapshot.snapshot import Snapshot
from extender.server.observability.decision_log import KeptDecision
from extender.whatif.arrivals import Arrivals

PAGE = Path(__file__).parents[2] / "docs" / "dynamic-resources.md"
COMMAND = re.compile(r"```console\n\$ extender (.*)\n((?:.*\n)*?)```\n")
SECTION = re.compile(r"```text\n((?:.*\n)*?)```\n")
FILES = ("gpus.yaml", "train.yaml")
WRITTEN = 1_772_442_000
"""When the files were written, which an answer says: 2026-03-02T09:00:00Z."""


def manifests(page: str) -> dict[str, str]:
    """Return the files that the examples read."""
    return dict(zip(FILES, re.findall(r"```yaml\n((?:.*\n)*?)```", page), strict=True))


def with_files(folder: Path) -> str:
    page = PAGE.read_text(encoding="utf-8")
    for name, manifest in manifests(page).items():
        (folder / name).write_text(manifest)
        os.utime(folder / name, (WRITTEN, WRITTEN))
    os.chdir(folder)
    return page


def simulated(command: str) -> str:
    result = CliRunner().invoke(cli.app, command.split(), env={})
    assert result.exit_code == 0, result.output
    return "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())


def explained() -> Iterator[str]:
    """The part about claims of `extender explain ml/train-1 --node worker-1`, without and with --all."""
    snapshot = Snapshot.build(load_cluster("gpus.yaml"))
    arriving = read_manifests({"train.yaml": Path("train.yaml").read_bytes()})
    arrivals = Arrivals(snapshot, "local", admit, KubeScheduler().minor)
    arrivals.add_objects(one for one in arriving if one.kind != "Pod")
    pod = arrivals.add_pods([one for one in arriving if one.kind == "Pod"])[0]
    record = record_filter(engine.filter(snapshot, pod, ["worker-1"], UPSTREAM))
    kept = KeptDecision("filter-1", 0, 1.0, RecordedPod.of(pod), UPSTREAM, "answered", "", record)
    decision = kept.decision(node="worker-1")
    for show_all in (False, True):
        console = Console(width=200, no_color=True, force_terminal=False)
        with console.capture() as capture:
            console.print(*node_report.render(decision, decision.nodes[0], Invocation(), show_all=show_all), sep="\n")
        lines = [line.rstrip() for line in capture.get().splitlines()]
        yield "".join(f"{line}\n" for line in lines[lines.index("resource claims on worker-1") :] if line)


def renewed(page: str) -> str:
    """The page with the outputs as they are now; the folder is one that holds its manifests."""
    page = COMMAND.sub(lambda block: f"```console\n$ extender {block[1]}\n{simulated(block[1])}```\n", page)
    sections = explained()
    return SECTION.sub(lambda _: f"```text\n{next(sections)}```\n", page)


def test_the_outputs_on_the_page_are_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = with_files(tmp_path)
    assert (len(COMMAND.findall(page)), len(SECTION.findall(page))) == (1, 2)
    assert renewed(page) == page, "run `python -m tests.docs.test_dynamic_resources_page`"


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as work:
        PAGE.write_text(renewed(with_files(Path(work))), encoding="utf-8")
