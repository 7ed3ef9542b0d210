"""What the command line loads before it answers: typer, which loads pydantic itself, and little else."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.test_explain import fill, new_service
from tests.server.conftest import listening

LOADED = """
import json, sys
from extender.cli import main
sys.argv[0] = "extender"
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
    "cluster dump --help",
    "replay --help",
    "serve --help",
    "config check --help",
)


@pytest.mark.parametrize("command", ["--version", "--help", *HELP])
def test_help_loads_neither_the_engine_nor_the_server(command):
    assert loaded_by(*command.split()) == (0, set())


@pytest.mark.parametrize("question", [[], ["urgent"], ["urgent", "--node", "worker-2"], ["urgent", "-o", "json"]])
def test_a_question_to_a_service_loads_neither_the_engine_nor_the_server(service, question):
    assert loaded_by("explain", "--url", service, *question) == (0, set())


def loaded_by(*arguments: str) -> tuple[int, set[str]]:
    """Run the command in a process of its own; its exit code, and what it loaded of SLOW and OWN."""
    ran = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    code, *modules = json.loads(ran.stderr.splitlines()[-1])
    return code, (SLOW | OWN) & set(modules)
