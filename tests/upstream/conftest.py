"""A stand-in of the judge, which needs no Go; and programs that Go builds, for tests that are skipped without it."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parity.agreement import load_verdicts


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory):
    """The program; it has the verdicts of the first scenarios of a category of the corpus."""
    folder = tmp_path_factory.mktemp("judge")
    stored = {one["id"]: one["expected"] for one in load_verdicts("pdb")[:20]}
    (folder / "verdicts.json").write_text(json.dumps(stored), encoding="utf-8")
    words = (sys.executable, "-I", str(Path(__file__).with_name("stand_in.py")), str(folder / "verdicts.json"))
    program = folder / "judge-1.36"
    # Not `exec`: as the judge, it has a child process that answers.
    program.write_text(f'#!/bin/sh\n{shlex.join(words)} "$@"\nexit $?\n', encoding="utf-8")
    program.chmod(0o755)
    return program


@pytest.fixture(scope="session")
def go():
    """The go command is there, or the test is skipped; with GO_REQUIRED=1 it fails."""
    if shutil.which("go"):
        return
    if os.environ.get("GO_REQUIRED") == "1":
        pytest.fail("go is not on the PATH")
    pytest.skip("go is not on the PATH")


@pytest.fixture(scope="session")
def build(go, tmp_path_factory):
    """build("judge", "37"): the program, by tests/upstream/build."""
    folder = tmp_path_factory.mktemp("built")

    def build(what: str, version: str) -> Path:
        command = [Path(__file__).with_name("build"), what, version, folder]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
        return folder / f"{what}-1.{version}"

    return build
