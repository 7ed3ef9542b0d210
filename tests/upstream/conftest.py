"""A stand-in of the judge, which needs no Go."""

import json
import shlex
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
