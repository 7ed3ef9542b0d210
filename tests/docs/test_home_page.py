"""docs/index.md: its commands exist, and those with an output print it."""

import re
import shlex
import tomllib

import pytest
import typer.main
from typer.testing import CliRunner

from extender import cli
from tests.docs.example_service import example_service
from tests.docs.shown import ROOT, missing

PAGE = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
STEPS = re.findall(r"^\$ (?:echo '(.*)' \| )?([^#\n]+?)(?: +#.*)?\n((?:(?!\$).*\n)*)", "".join(BLOCKS), re.MULTILINE)
"""(standard input, command, output) of each command."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCRIPTS = PROJECT["scripts"]
STARTS = {
    "extender": SCRIPTS["extender"],
    f"uvx {PROJECT['name']}": SCRIPTS[PROJECT["name"]],
    "kubectl extender-why": SCRIPTS["kubectl-extender_why"],
}
"""How a command begins -> what it starts."""


def arguments_of(command):
    """Return what the command passes to extender."""
    (start,) = [one for one in STARTS if command.startswith(f"{one} ")]
    arguments = shlex.split(command.removeprefix(start))
    return {"extender.cli:main": arguments, "extender.cli:kubectl_why": ["why", *arguments]}[STARTS[start]]


@pytest.fixture(scope="module")
def example():
    with example_service() as url:
        yield url


@pytest.mark.parametrize(
    ("stdin", "command", "printed"), [one for one in STEPS if one[2]], ids=[one[1] for one in STEPS if one[2]]
)
def test_a_command_prints_its_output(stdin, command, printed, example):
    result = CliRunner().invoke(cli.app, arguments_of(command), input=stdin, env={"EXTENDER_ADMIN_URL": example})
    assert result.exit_code == (3 if "--pod" in command else 0), result.output  # 3: it fits after a preemption
    assert missing(printed, result.stdout) is None


INSTALL = f"pip install {PROJECT['name']}"


@pytest.mark.parametrize("command", [one[1] for one in STEPS if not one[2] and one[1] != INSTALL])
def test_a_command_without_an_output_is_one(command):
    name, *arguments = arguments_of(command)
    typer.main.get_group(cli.app).commands[name].make_context(name, arguments)  # UsageError for an unknown option


def test_every_command_is_found():
    assert len(STEPS) == PAGE.count("\n$ ") == 10
    assert len([one for one in STEPS if one[2]]) == 4
    assert INSTALL in [one[1] for one in STEPS]
