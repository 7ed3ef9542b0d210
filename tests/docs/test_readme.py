"""The README's requests answer as printed, and its Python runs."""

import shlex

import pytest
from typer.testing import CliRunner

from extender import cli
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files.manifests import example_cluster
from extender.config import Configuration
from extender.report.schema import SourceReport
from extender.server.app import create_app
from tests.docs.example_service import example_service
from tests.docs.shown import CALLS, COMMANDS, PYTHON, missing, request_of, write_files_of_python
from tests.server.conftest import admin_client, scheduler_client

pytestmark = pytest.mark.anyio


def test_there_are_six_requests():
    assert len(CALLS) == 6


@pytest.mark.parametrize(("command", "printed"), CALLS, ids=[str(place) for place in range(len(CALLS))])
async def test_a_request_answers_as_printed(command, printed):
    request = request_of(command)
    cache = ClusterCache()
    cache.replace(example_cluster())
    config = Configuration()
    app = create_app(cache, config, where=lambda: SourceReport(kind="example"))
    clients = {config.server.port: scheduler_client(app), config.admin.port: admin_client(app.server_context)}
    async with clients[request.port] as client:
        answer = await client.request(request.method, request.path, content=request.body, headers=request.headers)
    assert answer.status_code == 200
    assert answer.text.rstrip("\n") == printed.rstrip("\n")


def test_there_are_four_questions_and_the_first_is_why():
    assert [command.split()[0] for _, command, _ in COMMANDS] == ["why", "explain", "explain", "simulate"]


@pytest.mark.parametrize(("stdin", "command", "printed"), COMMANDS, ids=[command for _, command, _ in COMMANDS])
def test_a_question_is_answered_as_printed(stdin, command, printed, example):
    url = ["--url", example] if command.startswith("explain") else []
    result = CliRunner().invoke(cli.app, [*shlex.split(command), *url], input=stdin)
    assert result.exit_code == (3 if command.startswith("why") else 0)  # 3: it fits after a preemption
    assert missing(printed, result.stdout) is None


@pytest.fixture(scope="module")
def example():
    """The address that `extender serve` would have for people."""
    with example_service() as url:
        yield url


def test_the_python_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files_of_python(tmp_path)
    exec(PYTHON, {})
