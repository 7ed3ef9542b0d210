"""extender replay: what it prints, where, with which exit code; and the test that docs/recordings.md gives users."""

import contextlib
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from extender import cli
from extender.cli.sources.replay_settings import settings_override
from extender.config.scheduler.load import kube_scheduler_of
from extender.k8s.version.gates import NO_EMULATION, Emulation
from extender.server.recording.lines import SETTINGS
from extender.server.scheduler import verbs
from extender.server.settings import Settings
from tests.server.conftest import CLUSTER, filled_cache, filter_body, pod, preempt_body
from tests.server.recording.rig import Rig

PAGE = (Path(__file__).parents[3] / "docs" / "recordings.md").read_text(encoding="utf-8")
HOSTILE = pod("\x1b[31mred\n\u202e", cpu="2", priority=100)


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path / "recording")
    rig.recorder.start()
    rig.ask("filter", filter_body())
    rig.ask("prioritize", filter_body())
    rig.ask("preempt", preempt_body())
    rig.recorder.stop()
    return rig


def tampered(rig, before, after):
    """The recording says something else than what was answered."""
    for segment in rig.segments():
        path = segment / "calls.jsonl"
        path.write_bytes(path.read_bytes().replace(before.encode(), after.encode()))


def replay(*arguments):
    return CliRunner().invoke(cli.app, ["replay", *map(str, arguments)])


def failed(monkeypatch, capsys, *arguments):
    """As the console entry point runs it -> (exit code, what it says)."""
    monkeypatch.setattr(sys, "argv", ["extender", "replay", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, capsys.readouterr().err


# --- against the engine -----------------------------------------------------------------------------------------------


def test_all_the_same_is_exit_code_0(rig):
    result = replay(rig.directory)
    assert (result.exit_code, result.stdout) == (0, "3 calls: 3 unchanged, 0 changed\n")
    assert result.stderr == ""


def test_differences_are_printed_and_exit_code_1(rig):
    tampered(rig, '"Host":"worker-1","Score":', '"Host":"worker-1","Score":1')
    result = replay(rig.directory)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"prioritize-1  shop/incoming  \S+Z", lines[0])
    assert lines[1] == "  node worker-1"
    assert re.fullmatch(r"    - score 1\d+", lines[2])
    assert lines[3] == lines[2].replace("- score 1", "+ score ")
    assert lines[4:] == ["3 calls: 2 unchanged, 1 changed"]


@pytest.mark.parametrize(
    ("options", "count"),
    [(("--verb", "filter"), 1), (("--pod", "shop/incoming"), 2), (("--id", "preempt-1"), 1)],
)
def test_some_of_the_calls_can_be_chosen(rig, options, count):
    assert replay(rig.directory, *options).stdout.startswith(f"{count} call")


def test_a_preset_shows_what_it_would_change(tmp_path):
    daemon = pod("small", on="worker-1", priority=10)
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]
    items = [one for one in CLUSTER["items"] if one["metadata"]["name"] != "small"]
    rig = Rig(tmp_path, filled_cache({"kind": "List", "items": [*items, daemon]}))
    rig.recorder.start()
    rig.ask("preempt", preempt_body(**{"worker-1": ["uid-small"]}))
    rig.recorder.stop()
    assert replay(tmp_path).exit_code == 0
    result = replay(tmp_path, "--preset", "careful")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:4] == [
        "  node worker-1",
        "    - evicts shop/small",
        "    + not in the answer",
    ]


def test_a_preset_decides_what_was_only_observed(tmp_path):
    rig = Rig(tmp_path, mode="Observe")
    rig.recorder.start()
    rig.ask("filter", filter_body())
    rig.recorder.stop()
    assert replay(tmp_path).exit_code == 0
    result = replay(tmp_path, "--preset", "upstream")
    assert result.exit_code == 1
    assert "rejected: Insufficient cpu" in result.stdout


def test_a_configuration_shows_what_it_would_change(rig, tmp_path):
    (tmp_path / "extender.yaml").write_text("preemption: {keepCandidates: All}")
    result = replay(rig.directory, "--config", tmp_path / "extender.yaml")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:4] == [
        "  node worker-2",
        "    - not in the answer",
        "    + evicts shop/large",
    ]


def test_json_tells_of_every_call(rig):
    tampered(rig, '"Score":', '"Score":1')
    result = replay(rig.directory, "-o", "json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (found["same"], found["different"]) == (2, 1)
    assert [call["id"] for call in found["calls"]] == ["filter-1", "prioritize-1", "preempt-1"]
    assert found["calls"][0]["differences"] == []
    assert found["calls"][1]["differences"][0]["what"] == "node worker-1"
    assert found["calls"][1]["status"] == {"recorded": 200, "now": 200}


def test_junit_has_a_case_per_call(rig, tmp_path):
    tampered(rig, '"Score":', '"Score":1')
    assert replay(rig.directory, "--junit", tmp_path / "replay.xml").exit_code == 1
    suites = ElementTree.parse(tmp_path / "replay.xml").getroot()
    (suite,) = suites
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    names = [(case.get("classname"), case.get("name", "").split()[0]) for case in suite]
    assert names[0] == ("extender.replay.filter", "filter-1")
    failures = [case.find("failure") for case in suite]
    assert [failure is None for failure in failures] == [True, False, True]
    assert failures[1] is not None
    assert "node worker-1: score 1" in (failures[1].text or "")


def test_hostile_names_are_printed_as_escapes(tmp_path):
    rig = Rig(tmp_path / "recording")
    rig.recorder.start()
    rig.ask("filter", filter_body(incoming=HOSTILE))
    rig.recorder.stop()
    tampered(rig, "Insufficient cpu", "\\u001b[2J<&]]>")
    result = replay(rig.directory, "--junit", tmp_path / "replay.xml")
    assert "shop/\\x1b[31mred\\n\\u202e" in result.stdout
    assert "rejected: \\x1b[2J<&]]>" in result.stdout
    assert "\x1b" not in result.stdout
    assert ElementTree.parse(tmp_path / "replay.xml").getroot().get("failures") == "1"


def test_what_is_wrong_with_a_recording_that_can_be_read_is_said_beside(rig):
    (segment,) = rig.segments()
    path = segment / SETTINGS
    path.write_text(re.sub(r'"version":"[^"]*"', '"version":"0.0.1"', path.read_text()))
    calls = segment / "calls.jsonl"
    calls.write_bytes(calls.read_bytes()[:-5])
    result = replay(rig.directory)
    assert (result.exit_code, result.stdout) == (0, "2 calls: 2 unchanged, 0 changed\n")
    assert "recorded by version 0.0.1; this is" in result.stderr
    assert "line 3 is incomplete" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--id", "filter-9"), "no call matches --id"),
        (("--pod", "a/b", "--verb", "filter"), "no call matches --verb and --pod"),
        (("--config", "nothing.yaml"), "nothing.yaml"),
        (("--junit", "/nowhere/replay.xml"), "/nowhere/replay.xml"),
    ],
)
def test_what_cannot_be_read_is_exit_code_2(rig, monkeypatch, capsys, options, said):
    code, err = failed(monkeypatch, capsys, rig.directory, *options)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_a_directory_without_a_recording_is_exit_code_2(tmp_path, monkeypatch, capsys):
    code, err = failed(monkeypatch, capsys, tmp_path)
    assert (code, err) == (2, f"extender: {tmp_path}: not a recording: no directory with a settings.json in it\n")


def test_a_service_answers_by_its_own_policies(rig):
    result = replay(rig.directory, "--url", "http://localhost:1", "--preset", "strict")
    assert result.exit_code == 2
    assert "omit --preset" in result.stderr


PACKING: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}}}],
}


def test_calls_are_decided_by_another_configuration_of_kube_scheduler(rig, tmp_path):
    path = tmp_path / "scheduler-config.yaml"
    path.write_text(json.dumps(PACKING))
    result = replay(rig.directory, "--scheduler-config", path)
    assert result.exit_code == 1
    assert "preempt-1" in result.stdout
    again = replay(rig.directory, "--scheduler-config", path, "--scheduler-version", "1.36")
    assert again.stdout == result.stdout


def test_calls_are_decided_as_another_version_of_kube_scheduler(rig, tmp_path, monkeypatch, capsys):
    assert replay(rig.directory, "--scheduler-version", "1.36").exit_code == 0
    assert replay(rig.directory, "--scheduler-version", "1.29", "--verb", "preempt").exit_code == 0
    code, err = failed(monkeypatch, capsys, rig.directory, "--scheduler-version", "1.12")
    assert code == 2
    assert '"1.12" is not supported: 1.29 to 1.38' in err


@pytest.mark.parametrize(
    ("version", "is_kept"),
    [
        (None, True),
        ("auto", True),
        ("1.36.2", True),
        ("1.36", True),
        ("v1.36.3", True),
        ("1.37", False),
    ],
)
def test_another_patch_keeps_the_recorded_gates_and_what_is_emulated(version, is_kept):
    gates, emulation = {"StorageCapacityScoring": True}, Emulation(35)
    recorded = kube_scheduler_of({}, version="1.36.2", feature_gates=gates, emulation=emulation)
    under = settings_override(scheduler_version=version)
    found = under(Settings(recorded)).scheduler
    assert (found.changed_gates, found.emulation) == ((gates, emulation) if is_kept else ({}, NO_EMULATION))
    assert found.release == ("1.36.2" if version in (None, "auto") else version.removeprefix("v"))


def test_another_version_of_recorded_profiles_needs_their_file(tmp_path, monkeypatch, capsys):
    rig = Rig(tmp_path / "recording", scheduler={"profiles": PACKING["profiles"]})
    rig.recorder.start()
    rig.ask("filter", filter_body())
    rig.recorder.stop()
    assert replay(rig.directory).exit_code == 0
    code, err = failed(monkeypatch, capsys, rig.directory, "--scheduler-version", "1.33")
    assert (code, "name their --scheduler-config" in err) == (2, True)
    path = tmp_path / "scheduler-config.yaml"
    path.write_text(json.dumps(PACKING))
    assert replay(rig.directory, "--scheduler-version", "1.33", "--scheduler-config", path).exit_code == 0


# --- against a running service ----------------------------------------------------------------------------------------


class Asked(BaseHTTPRequestHandler):
    """A service in a thread: what the verbs of a rig answer, with spaces, over a real socket."""

    rig: Rig
    waits = threading.Event()
    is_slow = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/json"
        if self.is_slow:
            self.waits.wait(20)
        answer = verbs.answer(verbs.VERBS[self.path.strip("/")], self.rig.server_context, body)
        spaced = json.dumps(json.loads(answer.body), indent=1).encode()
        with contextlib.suppress(ConnectionError):  # the client did not wait
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(spaced)))
            self.end_headers()
            self.wfile.write(spaced)

    def log_message(self, *_):
        pass


@pytest.fixture
def service(rig):
    class Handler(Asked):
        waits = threading.Event()

    Handler.rig = rig
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # server_close() waits for the handlers: none prints into the output of another test
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Handler, f"http://127.0.0.1:{server.server_port}"
    Handler.waits.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_running_service_is_asked_and_the_same_json_is_enough(rig, service):
    result = replay(rig.directory, "--url", service[1] + "/")
    assert (result.exit_code, result.stdout) == (0, "3 calls: 3 unchanged, 0 changed\n")


def test_a_running_service_has_a_picture_of_its_own(rig, service):
    rig.cache.mutable_snapshot().remove("Pod", ("shop", "small"))
    rig.cache.mutable_snapshot().refresh_layout()
    result = replay(rig.directory, "--url", service[1])
    assert result.exit_code == 1
    assert "evicts" in result.stdout


def test_a_service_that_does_not_answer_in_time_is_exit_code_2(rig, service, monkeypatch, capsys):
    service[0].is_slow = True
    code, err = failed(monkeypatch, capsys, rig.directory, "--url", service[1], "--timeout", "0.05")
    assert (code, err) == (2, f"extender: {service[1]}/filter: filter-1 failed: no response within 0.05s\n")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("here", "must be a URL such as http://"),
        ("http://a\0b", "Invalid"),
    ],
)
def test_a_service_that_is_not_there_is_exit_code_2(rig, monkeypatch, capsys, url, said):
    code, err = failed(monkeypatch, capsys, rig.directory, "--url", url)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


# --- the documentation ------------------------------------------------------------------------------------------------


def test_the_documented_test_passes_for_a_recording_and_fails_for_another(rig, monkeypatch):
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(rig.directory.parent)
    module: dict[str, object] = {}
    exec(source, module)
    test = module["test_recorded_calls_are_answered_the_same"]
    assert callable(test)
    test()
    tampered(rig, '"Score":', '"Score":1')
    with pytest.raises(AssertionError, match="prioritize-1 shop/incoming: node worker-1: score 1"):
        test()


def test_every_option_is_documented():
    options = re.findall(r"--[a-z]+", replay("--help").stdout)
    documented = set(re.findall(r"--[a-z]+", PAGE)) | {"--help", "--color", "--no", "--output", "--timeout"}
    assert set(options) - documented == set()


def test_every_type_of_line_and_file_is_documented(rig):
    (segment,) = rig.segments()
    assert all(path.name in PAGE for path in segment.iterdir())
    assert all(f"| `{name}` |" in PAGE for name in ("call", "put", "delete", "unreadable"))
