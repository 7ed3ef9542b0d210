"""The package as its users get it: the wheel in an empty environment, far away from a checkout."""

import re
import shlex
import signal
import subprocess
import sys

import httpx
import pytest

from extender import __version__
from tests.docs.shown import CALLS, COMMANDS, PYTHON, README, missing, request_of, write_files_of_python
from tests.e2e.control_plane.lab.process import free_port
from tests.e2e.release.changelog import ROOT


def run(installed, *command, cwd, stdin=None, **env):
    """Run a command of the package where nothing else is on the PATH and the checkout is not in sight."""
    program, *arguments = command
    return subprocess.run(
        [str(installed / program), *arguments],
        cwd=cwd, input=stdin, capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": str(installed), "HOME": str(cwd), "COLUMNS": "200", **env},
    )  # fmt: skip


def test_every_command_has_the_version_of_the_one_module_that_says_it(installed, tmp_path):
    module = (ROOT / "extender" / "version.py").read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.*)"$', module, re.MULTILINE) == [__version__]
    for command in ("extender", "kube-scheduler-extender"):
        done = run(installed, command, "--version", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, f"extender {__version__}\n")
    script = "import importlib.metadata, extender; print(importlib.metadata.version('kube-scheduler-extender'))"
    assert run(installed, "python", "-c", script, cwd=tmp_path).stdout == f"{__version__}\n"
    done = run(installed, "kubectl-extender_why", "cart-0", "-n", "shop", "--example", cwd=tmp_path)
    assert done.stdout.startswith("shop/cart-0 is on worker-c1, ")


# --- the README, without a checkout ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(installed, tmp_path_factory):
    """`extender serve` on free ports: (address for kube-scheduler, admin address)."""
    home = tmp_path_factory.mktemp("home")
    port, admin = free_port(), free_port()
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(installed / "extender"), "serve", "--port", str(port)],
            cwd=home, stderr=log, env={"PATH": str(installed), "HOME": str(home), "EXTENDER_ADMIN__PORT": str(admin)},
        )  # fmt: skip
    try:
        transport = httpx.HTTPTransport(retries=8)  # refused connections, with a backoff: 64 s in all
        with httpx.Client(transport=transport, trust_env=False) as client:
            client.get(f"http://127.0.0.1:{admin}/livez")
        assert process.poll() is None, (home / "log").read_text("utf-8")
        yield {8888: f"http://127.0.0.1:{port}", 8889: f"http://127.0.0.1:{admin}"}
    finally:
        process.send_signal(signal.SIGINT)  # no wait for server.drainTime
        process.wait(30)


def first_words(text):
    """The first words of the README's commands up to its section on files."""
    lines = re.findall(r"^\$ (.*)$", text[: text.index("## Use your own cluster")], re.MULTILINE)
    return {shlex.split(re.sub(r"^echo '.*?' \| ", "", line), comments=True)[0] for line in lines}


def test_the_readmes_first_commands_need_no_checkout():
    assert first_words(README) == {"pipx", "extender", "curl", "make"}
    makes = [line for line in README.splitlines() if line.startswith("$ make ")]
    assert [line.split()[2] for line in makes[:2]] == ["run", "test"]
    assert "from a checkout" in README[: README.index(makes[0])].split("```")[-2]


@pytest.mark.parametrize(("stdin", "command", "printed"), COMMANDS, ids=[command for _, command, _ in COMMANDS])
def test_a_question_of_the_readme_is_answered_as_printed(stdin, command, printed, installed, service, tmp_path):
    url = ["--url", service[8889]] if command.startswith("explain") else []
    done = run(installed, "extender", *shlex.split(command), *url, cwd=tmp_path, stdin=stdin)
    assert done.returncode == (3 if command.startswith("why") else 0), done.stderr
    assert missing(printed, done.stdout) is None


@pytest.mark.parametrize(("command", "printed"), CALLS, ids=[str(place) for place in range(len(CALLS))])
def test_a_request_of_the_readme_is_answered_as_printed(command, printed, service):
    request = request_of(command)
    answer = httpx.request(
        request.method, service[request.port] + request.path, content=request.body, headers=request.headers,
        trust_env=False,
    )  # fmt: skip
    assert answer.status_code == 200
    assert answer.text.rstrip("\n") == printed.rstrip("\n")


def test_the_page_is_served(service):
    page = httpx.get(f"{service[8889]}/ui", trust_env=False, follow_redirects=True)
    assert page.headers["content-type"].startswith("text/html")
    script = re.search(r'src="([^"]+\.js)"', page.text)
    assert script
    assert httpx.get(str(page.url.join(script[1])), trust_env=False).status_code == 200


# --- completion -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_there_is_a_completion_script_for_each_shell(shell, installed, tmp_path):
    done = run(installed, "extender", cwd=tmp_path, _EXTENDER_COMPLETE=f"source_{shell}")
    assert done.returncode == 0
    assert "_EXTENDER_COMPLETE" in done.stdout


@pytest.mark.parametrize(("typed", "completed"), [("wh", "why"), ("why --out", "--output"), ("why -o ya", "yaml")])
def test_bash_completes_commands_options_and_values(typed, completed, installed, tmp_path):
    source = run(installed, "extender", cwd=tmp_path, _EXTENDER_COMPLETE="source_bash").stdout
    script = f"{source}\nCOMP_WORDS=(extender {typed}); COMP_CWORD={len(typed.split())}\n"
    script += '_extender_completion extender; echo "${COMPREPLY[@]}"'
    env = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [completed]


# --- types ----------------------------------------------------------------------------------------------------------

TYPED = """
from collections.abc import Mapping
from typing import Any, assert_type

import extender

cluster = extender.load_cluster("cluster.yaml")
assert_type(cluster, extender.ClusterObjects)
pod: Mapping[str, Any] = {"metadata": {"name": "new"}, "spec": {}}
assert_type(extender.evaluate(cluster, pod), extender.Evaluation)
assert_type(extender.simulate(cluster, [pod], until_full=True), extender.Simulation)
assert_type(extender.why(cluster, "shop/cart-9"), extender.Diagnosis)
assert_type(extender.load_scheduler(version="1.33"), extender.KubeScheduler)
assert_type(extender.__version__, str)
"""


USERS = {
    "right.py": (TYPED, []),
    "wrong.py": ('import extender\nextender.load_cluster("a", unknown=1)\n', ["call-arg"]),
    "wrong_type.py": ("import extender\nextender.evaluate(1, {})\n", ["arg-type"]),
}
"""File -> its code, and the mistakes in it."""


def test_mypy_of_a_user_sees_the_types_of_the_public_api(installed, tmp_path):
    for name, (code, _) in USERS.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed / "python"), *USERS]
    done = subprocess.run(
        [*command, "--config-file", "", "--cache-dir", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.findall(r"^(.+?):\d+: error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert sorted(found) == [(name, mistake) for name, (_, mistakes) in USERS.items() for mistake in mistakes], (
        done.stdout
    )
    assert done.returncode == 1


def test_the_readmes_python_runs(installed, tmp_path):
    write_files_of_python(tmp_path)
    done = run(installed, "python", "-c", PYTHON, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
