"""The README's requests answer as printed, and its Python runs."""

import json
import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from typer.testing import CliRunner

import extender
from extender import cli
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files.manifests import example_cluster
from extender.config import Configuration
from extender.server.app import create_app
from tests.docs.example_service import example_service
from tests.server.conftest import admin_client, scheduler_client

pytestmark = pytest.mark.anyio

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
CALLS = re.findall(r"^\$ (curl .*localhost.*)\n((?:.+\n)+?)```", README, re.MULTILINE)


def test_there_are_six_requests():
    assert len(CALLS) == 6


@pytest.mark.parametrize(("command", "printed"), CALLS, ids=[str(place) for place in range(len(CALLS))])
async def test_a_request_answers_as_printed(command, printed):
    words = shlex.split(command)
    url = urlsplit("//" + next(word for word in words if word.startswith("localhost")))
    body = words[words.index("--json") + 1] if "--json" in words else None
    cache = ClusterCache()
    cache.replace(example_cluster())
    config = Configuration()
    app = create_app(cache, config)
    clients = {config.server.port: scheduler_client(app), config.admin.port: admin_client(app.server_context)}
    async with clients[url.port or 80] as client:
        headers = {"Content-Type": "application/json"} if body else {}
        answer = await client.request(
            "POST" if body else "GET", f"{url.path}?{url.query}", content=body, headers=headers
        )
    assert answer.status_code == 200
    assert answer.text.rstrip("\n") == printed.rstrip("\n")


COMMANDS = re.findall(
    r"^\$ (?:echo '(.*)' \| )?extender ((?:why --example|explain|simulate) .*)\n((?!\$).+\n(?:.+\n)*?)```",
    README,
    re.MULTILINE,
)


def test_there_are_four_questions_and_the_first_is_why():
    assert [command.split()[0] for _, command, _ in COMMANDS] == ["why", "explain", "explain", "simulate"]


@pytest.mark.parametrize(("stdin", "command", "printed"), COMMANDS, ids=[command for _, command, _ in COMMANDS])
def test_a_question_is_answered_as_printed(stdin, command, printed, example):
    """All lines that are shown are printed, in this order; `…` stands for others, and rules of tables are left out."""
    url = ["--url", example] if command.startswith("explain") else []
    result = CliRunner().invoke(cli.app, [*shlex.split(command), *url], input=stdin)
    assert result.exit_code == (3 if command.startswith("why") else 0)  # 3: it fits after a preemption
    lines = iter(result.stdout.splitlines())
    for line in printed.splitlines():
        assert line == "…" or line in lines, f"not printed: {line}"


@pytest.fixture(scope="module")
def example():
    """The address that `extender serve` would have for people."""
    with example_service() as url:
        yield url


def test_the_python_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = Path(extender.__file__).parent / "cluster" / "files" / "example.yaml"
    cluster = yaml.load(example.read_text(encoding="utf-8"), yaml.SafeLoader)
    (tmp_path / "cluster.json").write_text(json.dumps(cluster, default=str), encoding="utf-8")
    profiles = Path(__file__).parents[2] / "deploy" / "scheduler" / "two-profiles.yaml"
    (tmp_path / "scheduler-config.yaml").write_bytes(profiles.read_bytes())
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(code, {})
