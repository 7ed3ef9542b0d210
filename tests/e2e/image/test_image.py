"""The image, as far as it can be had without a container engine: linted, and its steps run in a clean environment.

Section 5 of the requirements: non-root, read-only root, no capabilities.
"""

import ast
import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from collections import deque
from pathlib import Path

import pytest

from extender import __version__
from extender.config import Configuration
from tests.e2e.image.dockerfile import ROOT, Build, context, ignored, stages
from tests.profiles import in_long

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
BUILDER, FINAL = stages(ROOT / "Dockerfile")
LOCKED = dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# --- what is written ------------------------------------------------------------------------------------------------


def tool(name: str) -> str:
    """The path of a command among the development dependencies."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found, f"{name} is a development dependency"
    return found


def test_hadolint_finds_nothing():
    command = [tool("hadolint"), "--failure-threshold", "style", "Dockerfile"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_both_stages_are_on_the_one_base_image_which_can_be_pinned_by_digest():
    assert [BUILDER.base, FINAL.base] == ["${BASE}"] * 2
    (default,) = re.findall(r"^ARG BASE=(.*)$", TEXT, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim", default)


def test_it_runs_as_nobody_in_particular_and_ends_at_sigterm():
    assert FINAL.only("USER").rest == "65532:65532"
    assert FINAL.only("STOPSIGNAL").rest == "SIGTERM"


def test_it_exposes_the_ports_of_the_configuration():
    config = Configuration()
    assert FINAL.only("EXPOSE").words == [str(config.server.port), str(config.admin.port)]


def test_its_labels_are_the_projects_and_name_no_address():
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in FINAL.pairs("LABEL").items()}
    assert labels == {
        "title": PROJECT["name"],
        "description": PROJECT["description"],
        "version": __version__,
        "licenses": PROJECT["license"],
    }


def test_the_final_stage_runs_nothing_and_takes_the_environment_only():
    assert FINAL.all("RUN") == []
    assert [one.rest for one in FINAL.all("COPY")] == ["--from=builder /venv /venv"]


def test_everything_is_installed_with_hashes_and_as_wheels():
    installs = re.findall(r"pip install .*?(?= && |$)", " && ".join(one.rest for one in BUILDER.all("RUN")))
    assert len(installs) == 2
    assert {"--require-hashes", "--only-binary", "--no-compile"} <= set(installs[0].split())
    assert {"--no-build-isolation", "--no-deps", "--no-compile"} <= set(installs[1].split())


def test_what_is_copied_is_in_the_build_context_and_no_more():
    patterns = context()
    sources = [source for one in BUILDER.all("COPY") for source in one.words[:-1]]
    assert not [source for source in sources if ignored(Path(source), patterns)]
    for kept_out in (".git/config", "tests/conftest.py", "extender/__pycache__/x.pyc", ".venv/bin/python", "key.pem"):
        assert ignored(Path(kept_out), patterns), kept_out


# --- what it does ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The root of the image, below which nothing may be written any more."""
    build = Build(tmp_path_factory.mktemp("image"))
    build.run(BUILDER)
    subprocess.run(["chmod", "-R", "a-w", str(build.root / "venv")], check=True)
    yield build
    subprocess.run(["chmod", "-R", "u+w", str(build.root)], check=True)


def normal(name: str) -> str:
    """As registries compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def document(built) -> str:
    """The SBOM of the image, as `make sbom` writes it."""
    pyproject = built.root.parent / "pyproject.toml"
    static = re.sub(r"(?m)^dynamic = .*", f'version = "{__version__}"', (ROOT / "pyproject.toml").read_text("utf-8"))
    pyproject.write_text(static, encoding="utf-8")
    options = ["--pyproject", str(pyproject), "--output-reproducible"]
    command = [tool("cyclonedx-py"), "environment", str(built.root / "venv"), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def sbom(built):
    return json.loads(document(built))


def test_it_holds_locked_versions_and_the_sbom_lists_them_all(built, sbom):
    (site,) = (built.root / "venv" / "lib").glob("python*/site-packages")
    held = {normal(dist.name): dist.version for dist in importlib.metadata.distributions(path=[str(site)])}
    assert held.pop(PROJECT["name"]) == __version__ == sbom["metadata"]["component"]["version"]
    assert held == {name: LOCKED[name] for name in held}
    assert held == {normal(one["name"]): one["version"] for one in sbom["components"]}
    assert len(held) == len(sbom["components"]) > 20


def test_it_holds_only_what_the_service_needs(sbom):
    needs = {one["ref"]: one.get("dependsOn", []) for one in sbom["dependencies"]}
    needed, ahead = set(), [sbom["metadata"]["component"]["bom-ref"]]
    while ahead:
        ref = ahead.pop()
        if ref not in needed:
            needed.add(ref)
            ahead += needs[ref]
    assert needed == needs.keys()


def test_every_package_of_the_sbom_has_a_purl_and_a_license(sbom):
    for one in sbom["components"]:
        assert one["purl"] == f"pkg:pypi/{normal(one['name'])}@{one['version']}"
        assert one["licenses"], one["name"]


@in_long
def test_the_sbom_of_the_same_environment_is_the_same(built, sbom):
    assert json.loads(document(built)) == sbom


def test_the_sbom_has_no_time_and_no_serial_number(sbom):
    assert not {"serialNumber", "timestamp"} & {*sbom, *sbom["metadata"]}


def test_make_sbom_removes_the_build_tools_that_the_image_removes():
    (removed,) = re.findall(r"pip uninstall --yes (.*?) && /venv/bin/pip check", BUILDER.all("RUN")[1].rest)
    (listed,) = re.findall(r"^BUILD_TOOLS := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert listed.split() == removed.split()


def test_nothing_in_it_tells_when_or_where_it_was_compiled(built):
    files = [path for path in (built.root / "venv").rglob("*") if path.is_file() and not path.is_symlink()]
    epoch = int(BUILDER.pairs("ARG")["SOURCE_DATE_EPOCH"])
    assert {path.stat().st_mtime for path in files} == {epoch}
    compiled = [path for path in files if path.suffix == ".pyc"]
    assert len(compiled) > 1_000
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\x01\x00\x00\x00"}  # by content, and not looked at again


@pytest.fixture(scope="module")
def serving(built):
    """The process of the final stage: no capability, no file that could grow, no writable folder of its own."""
    ports = {
        "EXTENDER_SERVER__PORT": "0",
        "EXTENDER_ADMIN__PORT": str(free_port()),
        "EXTENDER_SERVER__DRAIN_TIME": "0s",
    }
    env = {name: value.replace("$PATH", "/usr/bin:/bin") for name, value in FINAL.pairs("ENV").items()}
    env["PATH"] = env["PATH"].replace("/venv/", f"{built.root}/venv/")
    command = [*FINAL.only("ENTRYPOINT").words, *FINAL.only("CMD").words]
    process = subprocess.Popen(
        [*confined(), *command],
        env=env | ports,
        cwd=built.root / "venv",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said: deque[bytes] = deque(maxlen=100)
    reader = threading.Thread(target=said.extend, args=(process.stdout,))
    reader.start()
    try:
        yield process, env | ports, said
    finally:
        process.kill()
        reader.join()
        process.communicate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def confined() -> list[str]:
    """What stands before the command: files may not grow, and a root of this machine is one without its rights."""
    limited = ["prlimit", "--fsize=0:0"]
    return limited if os.getuid() else [*limited, "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def livez(env) -> bytes | None:
    with contextlib.suppress(OSError):
        url = f"http://127.0.0.1:{env['EXTENDER_ADMIN__PORT']}/livez"
        return urllib.request.urlopen(url, timeout=20).read()
    return None


def test_it_serves_read_only_without_capabilities_and_passes_its_own_health_check_until_sigterm(serving):
    process, env, said = serving
    ends = time.monotonic() + 60
    while livez(env) is None:
        assert process.poll() is None, b"".join(said).decode()
        assert time.monotonic() < ends, b"".join(said).decode()
        time.sleep(0.05)
    assert livez(env) == b"ok"
    assert health_check(env).returncode == 0
    assert health_check(env | {"EXTENDER_ADMIN__TLS__CERTIFICATE": "tls.crt"}).returncode == 1  # it speaks no TLS
    process.send_signal(getattr(signal, FINAL.only("STOPSIGNAL").rest))
    assert process.wait(timeout=20) == 0, b"".join(said).decode()
    assert health_check(env).returncode == 1
    assert b"Traceback" not in b"".join(said)


def health_check(env):
    _, _, command = FINAL.only("HEALTHCHECK").rest.partition("CMD ")
    words = ast.literal_eval(command)
    return subprocess.run(words, env=env, capture_output=True, timeout=60)


@in_long
def test_two_builds_give_the_same_files_byte_for_byte(built, tmp_path_factory):
    """In the same folder, as in an image: the path of the environment stands in its scripts."""
    first = contents(built.root)
    kept = built.root.with_name("first")
    subprocess.run(["chmod", "-R", "u+w", str(built.root)], check=True)
    built.root.rename(kept)
    again = Build(built.root)
    again.run(BUILDER)
    assert contents(again.root) == first


def contents(root: Path) -> dict[str, str]:
    """Path -> what is there: a digest, or where a link points to."""
    paths = [path for path in (root / "venv").rglob("*") if not path.is_dir() or path.is_symlink()]
    return {
        str(path.relative_to(root)): os.readlink(path) if path.is_symlink() else digest(path) for path in sorted(paths)
    }


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
