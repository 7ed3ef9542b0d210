"""extender cluster dump --url: the cluster cache of a running service becomes a file that the other commands read."""

import http.server
import json
import sys
import threading
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from extender import cli
from extender.cluster.files.manifests import example_cluster, load_cluster
from tests.builders import cluster, incoming, node
from tests.cli.commands.test_explain import new_service
from tests.cluster.apiserver.credentials.kubeconfigs import forget_everything
from tests.server.conftest import listening
from tests.server.sockets import LIMIT


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with listening(new_service()) as address:
        yield address


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(one) for one in arguments], env={"EXTENDER_CONFIG": None})


def fails(monkeypatch, capsys, *arguments):
    """Run as the console entry point does; standard error of a run that ends with code 2."""
    monkeypatch.setattr(sys, "argv", ["extender", "cluster", "dump", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_the_cluster_of_a_service_becomes_a_file_that_loads_again(service, tmp_path, name):
    out = tmp_path / name
    result = run("cluster", "dump", "--url", service, "--out", out)
    assert (result.exit_code, result.stdout) == (0, f"{out}: {out.stat().st_size} bytes\n"), result.output
    assert load_cluster(out) == new_service().snapshot().frozen()
    assert (out.read_bytes()[:2] == b"\x1f\x8b") is name.endswith(".gz")
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_what_was_dumped_can_be_simulated_on(service, tmp_path):
    out, arriving = tmp_path / "cluster.json.gz", tmp_path / "pod.json"
    arriving.write_text(json.dumps({"kind": "Pod", "apiVersion": "v1", **incoming(cpu="4", priority=100)}))
    assert run("cluster", "dump", "--url", service, "--out", out).exit_code == 0
    result = run("simulate", "--cluster", out, "--pod", arriving, "-o", "json")
    assert [one["pod"] for one in json.loads(result.stdout)["evicted"]] == ["shop/small"]


@pytest.mark.parametrize("option", [("--cluster", "x.yaml"), ("--kubeconfig", "x"), ("--context", "x")])
def test_a_service_is_not_combined_with_another_cluster(service, tmp_path, option):
    result = run("cluster", "dump", "--url", service, "--out", tmp_path / "x", *option)
    assert result.exit_code == 2
    assert "--url cannot be combined with" in result.stderr


def test_where_nothing_listens_it_says_what_to_look_at(monkeypatch, capsys, tmp_path):
    said = fails(monkeypatch, capsys, "--url", "http://127.0.0.1:1", "--out", tmp_path / "x")
    assert said.startswith("extender: cannot connect to http://127.0.0.1:1: is the service running, and is this admin")


class Answering(http.server.ThreadingHTTPServer):
    answer: tuple[int, int, bytes]


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # the base's name
        assert isinstance(self.server, Answering)
        status, length, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    ("status", "length", "body", "message"),
    [
        pytest.param(200, 100, b'{"kind":"List"', "the response ended too early; its log says why", id="half a file"),
        pytest.param(404, 2, b"no", "is it admin.port rather than the scheduler's port", id="another service"),
        pytest.param(503, 20, b'{"Error":"not ready"', "is it admin.port", id="an answer that is cut off"),
        pytest.param(503, 21, b'{"Error":"not ready"}', "does not dump its cluster (503): not ready", id="not ready"),
    ],
)
def test_no_file_is_left_of_a_dump_that_fails(monkeypatch, capsys, tmp_path, status, length, body, message):
    with Answering(("127.0.0.1", 0), Answer) as server:
        server.answer = status, length, body
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        said = fails(monkeypatch, capsys, "--url", url, "--out", tmp_path / "cluster.json.gz")
        server.shutdown()
        thread.join(LIMIT)
    assert said.startswith(f"extender: {url}")
    assert message in said
    assert not list(tmp_path.iterdir())


# --- which cluster ----------------------------------------------------------------------------------------------------


def test_the_example_is_dumped_if_it_is_asked_for(tmp_path):
    out = tmp_path / "cluster.json"
    assert run("cluster", "dump", "--example", "--out", out).stdout.startswith(f"{out}: 12 nodes, 45 pods")
    assert [one.key for one in load_cluster(out).pods] == [one.key for one in example_cluster().pods]


def test_the_configured_cluster_is_dumped(tmp_path):
    file, config, out = tmp_path / "own.json", tmp_path / "extender.yaml", tmp_path / "cluster.json"
    file.write_text(json.dumps(cluster({node("n1"): []})))
    config.write_text(f"cluster: {{path: {file}}}")
    assert run("cluster", "dump", "--config", config, "--out", out).stdout.startswith(f"{out}: 1 nodes, 0 pods")
    dumped = run("cluster", "dump", "--config", config, "--example", "--out", out)
    assert dumped.stdout.startswith(f"{out}: 12 nodes, 45 pods"), "--example comes before the configuration"


@pytest.mark.parametrize(
    "command", [("why", "a/b"), ("simulate", "--pending"), ("cluster", "dump", "--out", "x.json")], ids=" ".join
)
def test_each_command_reads_the_kubeconfig_and_without_one_offers_the_others(monkeypatch, capsys, tmp_path, command):
    forget_everything(monkeypatch, tmp_path)
    monkeypatch.setattr(sys, "argv", ["extender", *command])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "extender: kubeconfig ~/.kube/config: no such file, and this is not a pod with a service account\n"
        "extender: --cluster PATH reads a file or a directory, --example the cluster that ships with the package\n"
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--example", "--cluster", "x"], "--example: cannot be combined with --cluster"),
        (["--example", "--kubeconfig", "x"], "--example: cannot be combined with --kubeconfig"),
        (["--cluster", "x", "--context", "y"], "--cluster: cannot be combined with --context"),
    ],
)
@pytest.mark.parametrize("command", [("why", "a/b"), ("simulate", "--pending"), ("cluster", "dump", "--out", "x")])
def test_two_clusters_are_refused(command, given, problem):
    result = run(*command, *given)
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())
