"""docs/versioning.md says what is tested and public; docs/upgrade.md and SECURITY.md know the CHANGELOG's releases."""

import re
import tomllib
from pathlib import Path

import typer.main

import extender
from extender.cli import app
from extender.config import Configuration
from extender.k8s.version.versions import NEWEST_MINOR, OLDEST_MINOR
from extender.server.recording.lines import FORMAT
from tests.e2e.control_plane.lab.binaries import SCHEDULERS
from tests.e2e.deploy.schemas import VERSIONS
from tests.parity.judged import BASE_MINOR
from tests.parity.versions import MINORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "versioning.md").read_text(encoding="utf-8")
UPGRADE = (ROOT / "docs" / "upgrade.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

JUDGED = {*MINORS, BASE_MINOR}
"""Minors whose own code judged the corpus."""


def table():
    """The table of minors, as Markdown."""
    lines = [
        "| kube-scheduler | verdicts of its own code | a real one calls | manifests by its schemas |",
        "|---|---|---|---|",
    ]
    for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1):
        name = f"1.{minor}"
        tested = minor in JUDGED, name in SCHEDULERS, name in VERSIONS
        lines.append(f"| {name} | {' | '.join('yes' if one else '' for one in tested)} |")
    return "\n".join(lines)


def test_the_table_of_minors_is_that_of_the_tests():
    (shown,) = re.findall(r"<!-- minors, [^>]+ -->\n(.*)\n<!-- end -->", PAGE, re.DOTALL)
    assert shown == table()
    title = f"# Agreement with kube-scheduler v1.{min(JUDGED)} to v1.{max(JUDGED)}\n"
    assert (ROOT / "docs" / "parity.md").read_text("utf-8").startswith(title)


def test_minors_without_any_test_are_named():
    tested = {*(f"1.{minor}" for minor in JUDGED), *SCHEDULERS}
    untested = [f"1.{one}" for one in range(OLDEST_MINOR, NEWEST_MINOR + 1) if f"1.{one}" not in tested]
    assert f"**Neither of the first two, as {' and '.join(untested)}**" in PAGE


def test_pythons_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert f"Python {', '.join(pythons[:-1])} and {pythons[-1]}:" in PAGE


def commands(command, path=()):
    """Every command that does something, as it is typed."""
    if not hasattr(command, "commands"):
        return [" ".join(path)]
    return [found for name, below in command.commands.items() for found in commands(below, (*path, name))]


def test_every_command_is_public():
    (row,) = re.findall(r"^\| commands (.*?): options", PAGE, re.MULTILINE)
    assert set(re.findall(r"`([^`]+)`", row)) == {*commands(typer.main.get_command(app)), "kubectl extender-why"}


def test_formats_are_those_of_the_code():
    assert re.findall(r"`(extender/[a-z]\w*(?:/v\d\w*)?)`", PAGE) == [Configuration().api_version, FORMAT]
    assert f"`apiVersion: {Configuration().api_version}`" in PAGE


def test_every_release_has_a_section_of_upgrade_notes():
    releases = re.findall(r"^## \[(\d[^\]]*)\]", CHANGELOG, re.MULTILINE)
    assert releases
    assert re.findall(r"^### (.*)$", UPGRADE.partition("## By release")[2], re.MULTILINE) == releases
    assert extender.__version__ in releases


def test_the_latest_minor_release_is_supported():
    minor = extender.__version__.rpartition(".")[0]
    assert f"| {minor}.x | yes |" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
