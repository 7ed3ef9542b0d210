"""The Go code is in shape, and the judge that `build` makes answers. Skipped without Go; with GO_REQUIRED=1 that fails.

Rule: only the newest minor is built here; what differs between minors shows when their verdicts are compared.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOM = Path(__file__).parent
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "1", "pods": "9"}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"schedulerName": "default-scheduler", "containers": [{"resources": {"requests": {"cpu": "2"}}}]},
}


@pytest.fixture(scope="module", autouse=True)
def go():
    if shutil.which("go"):
        return
    if os.environ.get("GO_REQUIRED") == "1":
        pytest.fail("go is not on the PATH")
    pytest.skip("go is not on the PATH")


@pytest.fixture(scope="module")
def version(go) -> str:
    return run("./build", "version", newest_minor())


@pytest.fixture(scope="module")
def judge(version, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("judge")
    run("./build", "judge", version.removeprefix("1."), folder)
    return folder / f"judge-{version}"


def newest_minor() -> str:
    return (ROOM / "go.mod").read_text().partition("k8s.io/kubernetes v1.")[2].partition(".")[0]


def run(*command, **options) -> str:
    """Return what the command prints; it runs in this folder, and its error is that of the test."""
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}
    done = subprocess.run(command, cwd=ROOM, env=environment, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout.rstrip("\n")


def test_the_code_is_formatted():
    assert run("gofmt", "-l", ".") == ""


def test_go_vet_finds_nothing_without_build_tags():
    run("go", "vet", "./...")


def test_the_tests_in_go_pass():
    run("go", "test", "./judge")


def test_the_judge_knows_its_version(judge, version):
    assert run(judge, "-version") == version


def test_each_line_has_its_own_answer(judge):
    scenario = {"id": "a", "category": "c", "cluster": {"items": [NODE]}, "pod": POD}
    answers = run(judge, input=f"{json.dumps(scenario)}\nnonsense\n{json.dumps(scenario | {'id': 'b'})}\n")
    first, wrong, last = map(json.loads, answers.splitlines())
    assert first["expected"] == last["expected"]
    assert first["expected"]["filter"]["n1"]["reasons"] == ["Insufficient cpu"]
    assert (first["id"], last["id"]) == ("a", "b")
    assert wrong.keys() == {"error"}


def test_what_is_up_to_date_is_not_built_again(judge, version):
    before = judge.stat().st_ino
    run("./build", "judge", version.removeprefix("1."), judge.parent)
    assert judge.stat().st_ino == before
