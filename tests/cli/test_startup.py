"""What the command line loads before it answers: typer, which loads pydantic itself, and little else."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.commands.test_explain import fill, new_service
from tests.server.conftest import listening

LOADED = """
import json, sys
from extender.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["extender", *arguments]
    try:
        main()
    except SystemExit as ended:
        print(json.dumps([ended.code, *sys.modules]), file=sys.stderr)
"""

SLOW = {"fastapi", "starlette", "uvicorn", "kubernetes", "urllib3", "prometheus_client", "numpy", "yaml"}
"""Packages that take a tenth of a second or more together, and that no question needs."""

OWN = {"extender.config", "extender.core.engine", "extender.core.snapshot.snapshot", "extender.k8s.objects"}
"""Modules of ours that load them, or the types of all Kubernetes objects."""


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    server_context = new_service()
    fill(server_context)
    with listening(server_context) as address:
        yield address


HELP = (
    "explain --help",
    "simulate --help",
    "why --help",
    "cluster dump --help",
    "replay --help",
    "serve --help",
    "config check --help",
)


QUESTIONS = ("", "urgent", "urgent --node worker-2", "urgent -o json")


def test_help_loads_neither_the_engine_nor_the_server():
    commands = ("--version", "--help", *HELP)
    assert loaded_by(*(command.split() for command in commands)) == [(0, set())] * len(commands)


def test_a_question_to_a_service_loads_neither_the_engine_nor_the_server(service):
    asked = [["explain", "--url", service, *question.split()] for question in QUESTIONS]
    assert loaded_by(*asked) == [(0, set())] * len(QUESTIONS)


def loaded_by(*commands: list[str]) -> list[tuple[int, set[str]]]:
    """Run the commands one after another in one new process; after each: its exit code, and what of SLOW and OWN was
    loaded by then."""
    ran = subprocess.run([sys.executable, "-c", LOADED, json.dumps(commands)], capture_output=True, text=True)
    ends = [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("[")]
    assert len(ends) == len(commands), ran.stderr
    return [(code, (SLOW | OWN) & set(modules)) for code, *modules in ends]
