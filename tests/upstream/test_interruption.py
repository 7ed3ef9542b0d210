"""Ctrl-C and SIGTERM end a run with the closing line, and leave nothing running."""

import os
import shlex
import signal
import subprocess
import sys
from functools import partial
from time import monotonic, sleep

import pytest

PROGRAM = f"""#!{sys.executable} -IS
import os, pathlib, sys, time

if "-version" in sys.argv:
    print("1.36.5")
    sys.exit()
if os.fork():
    os.wait()
pathlib.Path(__file__).with_name(f"runs-{{os.getpid()}}").touch()
time.sleep(600)
"""
"""A judge, or what answers selectors, that does neither; as the judge, it has a child process."""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "hangs"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


def wait_until(condition):
    deadline = monotonic() + 60
    while not condition():
        assert monotonic() < deadline
        sleep(0.02)


def running():
    """(process, its group) of all processes that have not ended; an orphan may stay on, as a zombie."""
    told = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return [(int(pid), int(group)) for pid, group, state in map(str.split, told.splitlines()) if state[0] != "Z"]


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("fuzz --judge {} --minor 36 --scenarios 8 --batch 2", "0 scenarios, 0 differ, 0 exempt\n"),
        ("fuzz --judge {} --minor 36 --scenarios 8 --batch 2 --workers 1", "0 scenarios, 0 differ, 0 exempt\n"),
        ("cel_fuzz --cel {} --minor 36 --expressions 2000", "0 expressions, 0 differ, 0 not followed, 0 crashes\n"),
    ],
)
@pytest.mark.parametrize(
    ("number", "to_all"),
    [(signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False)],
    ids=["from a terminal", "to the command alone", "as a service is ended"],
)
def test_a_run_that_is_interrupted_says_what_it_counted_and_ends_its_programs(command, end, number, to_all, program):
    module, *words = shlex.split(command.format(program))
    run = subprocess.Popen(
        [sys.executable, "-m", f"tests.upstream.{module}", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell ignores SIGINT in what it starts in the background, and so would everything below it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    wanted = 1 if "--workers" in words else 2
    wait_until(lambda: len(list(program.parent.glob("runs-*"))) >= wanted or run.poll() is not None)
    (os.killpg if to_all else os.kill)(run.pid, number)
    said, complaint = run.communicate(timeout=60)
    assert run.returncode == 130
    assert said.endswith(end)
    assert complaint == ""
    programs = {int(path.name.removeprefix("runs-")) for path in program.parent.glob("runs-*")}
    wait_until(lambda: not any(pid in programs or group == run.pid for pid, group in running()))
