"""The Go code is in shape, and the judge that `build` makes answers. Skipped without Go; with GO_REQUIRED=1 that fails.

Rule: only the newest minor is built here; what differs between minors shows when their verdicts are compared.
"""

import json
import os
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

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


pytestmark = pytest.mark.usefixtures("go")


@pytest.fixture(scope="module")
def version() -> str:
    return run("./build", "version", newest_minor())


@pytest.fixture(scope="module")
def judge(build, version) -> Path:
    return build("judge", version.removeprefix("1."))


def newest_minor() -> str:
    return (ROOM / "go.mod").read_text().partition("k8s.io/kubernetes v1.")[2].partition(".")[0]


def run(*command, **options) -> str:
    """Return what the command prints; it runs in this folder, and its error is that of the test."""
    environment = {**os.environ, "GO111MODULE": "on", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    environment["GOFLAGS"] = "-buildvcs=false"
    done = subprocess.run(command, cwd=ROOM, env=environment, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout.rstrip("\n")


def test_the_code_is_formatted():
    assert run("gofmt", "-l", ".") == ""


def test_go_vet_finds_nothing_without_build_tags():
    run("go", "vet", "./...")


def test_the_tests_in_go_pass():
    run("go", "test", "./...")


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


def test_an_input_that_cannot_be_read_is_an_error(judge):
    folder = os.open(ROOM, os.O_RDONLY)
    try:
        asked = subprocess.run([judge], stdin=folder, capture_output=True, text=True)
    finally:
        os.close(folder)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "is a directory" in asked.stderr


def test_what_is_up_to_date_is_not_built_again(build, judge, version):
    before = judge.stat().st_ino
    build("judge", version.removeprefix("1."))
    assert judge.stat().st_ino == before


# --- lock files, with a proxy that serves no modules ---


class ModuleProxy(ThreadingHTTPServer):
    """A Go module proxy. It has the versions in `served`, and answers any other with `status`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), ModuleProxyHandler)
        self.served: set[str] = set()
        self.status = 404


class ModuleProxyHandler(BaseHTTPRequestHandler):
    server: ModuleProxy

    def do_GET(self):
        name = self.path.rpartition("/")[2]
        version = name.removesuffix(".info").removesuffix(".mod")
        served = version in self.server.served and version != name
        self.send_response(200 if served else self.server.status)
        self.end_headers()
        if served and name.endswith(".info"):
            self.wfile.write(json.dumps({"Version": version}).encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def proxy():
    with ModuleProxy() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def room(proxy, tmp_path, monkeypatch) -> Path:
    """A copy of what `build lock` reads and writes, for which Go downloads from the proxy."""
    room = tmp_path / "tests" / "upstream"
    shutil.copytree(ROOM / "modules", room / "modules")
    for name in ("build", "go.mod", "go.sum"):
        shutil.copy(ROOM / name, room / name)
    monkeypatch.setenv("GOPROXY", f"http://127.0.0.1:{proxy.server_port}")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GONOSUMDB", "*")
    return room


def lock_error(room: Path, version: str) -> str:
    """Return why `build lock` fails, after which no file may have changed."""
    files = {path: path.read_bytes() for path in room.rglob("*") if path.is_file()}
    done = subprocess.run([room / "build", "lock", version], capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    assert {path: path.read_bytes() for path in room.rglob("*") if path.is_file()} == files
    return done.stderr


def test_an_error_of_the_proxy_is_not_an_absent_version(room, proxy):
    proxy.served, proxy.status = {f"v1.{newest_minor()}.0"}, 503
    error = lock_error(room, newest_minor())
    assert error.startswith("error: whether a module is served is not known: ")
    assert "503 Service Unavailable" in error


def test_no_lock_goes_back_to_an_older_patch_by_itself(room, proxy):
    proxy.served = {f"v1.{newest_minor()}.0"}
    assert lock_error(room, newest_minor()) == (
        f"error: 1.{newest_minor()}.0, the newest that is served, is older than the lock; "
        f"say {newest_minor()}.0 to go back\n"
    )


@pytest.mark.parametrize(("patch", "error"), [("", "is served"), (".0", "404 Not Found")])
def test_a_minor_that_is_not_served_changes_nothing(room, patch, error):
    assert error in lock_error(room, f"{int(newest_minor()) + 1}{patch}")


# --- the surroundings of `build` ---


def test_build_finds_its_room_through_a_link_and_under_any_cdpath(tmp_path, monkeypatch, version):
    link = tmp_path / "build"
    link.symlink_to(ROOM / "build")
    monkeypatch.setenv("CDPATH", "/")
    assert run(link, "version", newest_minor()) == version


@pytest.mark.parametrize(
    ("prints", "error"),
    [
        ("", "is not Go: `go env GOVERSION` printed nothing"),
        ("go1.25.3", "Go 1.26 or newer is needed, not go1.25.3"),
        ("devel go1.27-0a1b2c3d", "no release of Kubernetes 1.35 is served"),
    ],
)
def test_build_says_which_go_it_needs(tmp_path, monkeypatch, prints, error):
    """A go command that knows its version and nothing else; 1.35 has no lock file, so Go is asked for a release."""
    stub = tmp_path / "go"
    stub.write_text(f'#!/bin/sh\ntest "$1" != env || echo "{prints}"\n', encoding="utf-8")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done = subprocess.run([ROOM / "build", "version", "35"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert error in done.stderr
