"""E13, of a sample of the guard's mutants."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tools import mutants

ROOT = Path(__file__).parents[2]


def run(directory, *command):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_E13_the_tests_of_the_guard_notice_every_small_mistake_of_a_sample(tmp_path):
    """In a copy: mutmut writes beside what it changes."""
    for name in ("extender", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    run(tmp_path, str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", "2", "*27")
    printed = run(tmp_path, sys.executable, mutants.__file__)
    (found,) = re.findall(r"^mutation score of the guard: (\d+) of (\d+) killed", printed, re.MULTILINE)
    killed, tried = map(int, found)
    assert killed > 0.9 * tried > 0
