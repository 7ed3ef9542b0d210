"""The wheel, built once, and the environment that it is installed into: nothing else of this checkout is there."""

import fcntl
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.release.changelog import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory, worker_id) -> Path:
    """The wheel of this checkout."""

    def build(directory: Path) -> None:
        command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(directory), str(ROOT)]
        subprocess.run(command, check=True, capture_output=True)

    (built,) = _once("wheel", build, tmp_path_factory, worker_id).glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory, worker_id) -> Path:
    """The folder of commands of an environment with the wheel and the locked versions of what it needs.

    Without a registry of packages there is none; CI has one.
    """

    def install(directory: Path) -> None:
        venv.create(directory, with_pip=True)
        pip = [str(directory / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        locked = [*pip, "install", "--require-hashes", "--requirement", str(ROOT / "requirements.lock")]
        done = subprocess.run(locked, capture_output=True, text=True)
        if done.returncode != 0:
            reason = f"requirements.lock cannot be installed: {done.stderr.strip().rpartition(chr(10))[2]}"
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
        subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
        subprocess.run([*pip, "check"], check=True, capture_output=True)

    return _once("installed", install, tmp_path_factory, worker_id) / "bin"


def _once(name: str, make: Callable[[Path], None], tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return a folder that `make` fills, by whichever worker of pytest-xdist comes first."""
    if worker_id == "master":
        directory = tmp_path_factory.mktemp(name)
        make(directory)
        return directory
    shared = tmp_path_factory.getbasetemp().parent
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        directory, done = shared / name, shared / f"{name}.done"
        if not done.exists():
            make(directory)
            done.touch()
    return directory
