"""Ask the judge, a program around kube-scheduler's own packages, what upstream says of scenarios.

Rule: a judge that dies, hangs or answers something else than it was asked is an error that names the batch.
"""

import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any, Final

import msgspec

JSON = dict[str, Any]

ASKED: Final = ("id", "category", "cluster", "pod", "config")
"""Keys of a scenario that the judge reads."""
REFUSAL: Final = re.compile(r"config: |initializing profiles: ")
"""How the judge's error begins where kube-scheduler refuses the configuration."""
SECONDS_PER_BATCH: Final = 300
"""The judge gives a single scenario up after one minute."""


class ProgramFailed(Exception):
    """A program around kube-scheduler's code could not be asked: nothing is known about the batch."""


@dataclass(frozen=True, slots=True)
class Judge:
    """kube-scheduler's code of one patch release. Every batch is a process of its own: nothing is carried over."""

    binary: Path
    workers: int = 2
    """Scenarios that are judged at a time."""
    seconds: float = SECONDS_PER_BATCH
    """Time limit of a batch."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates that differ from the minor's defaults."""

    @property
    def version(self) -> str:
        """Patch release of kube-scheduler, such as "1.37.2"."""
        return run_program(self.binary, ["-version"], b"", self.seconds, "-version").decode().strip()

    def verdicts(self, scenarios: Sequence[JSON]) -> list[JSON]:
        """One {"id", "category", "expected"} a scenario, in their order; "error" instead where none can be judged.

        The error is kube-scheduler's own where it refuses the scenario's configuration. Raises ProgramFailed.
        """
        if not scenarios:
            return []
        lines = [msgspec.json.encode({key: one[key] for key in ASKED if key in one}) for one in scenarios]
        batch = f"the batch of {len(scenarios)} scenarios from {scenarios[0]['id']} to {scenarios[-1]['id']}"
        gates = ",".join(f"{name}={str(value).lower()}" for name, value in self.gates.items())
        arguments = ["-workers", str(self.workers), f"-feature-gates={gates}"]
        answer = run_program(self.binary, arguments, b"\n".join(lines) + b"\n", self.seconds, batch)
        verdicts: list[JSON] = [msgspec.json.decode(line) for line in answer.splitlines()]
        if [one["id"] for one in verdicts] != [one["id"] for one in scenarios]:
            raise ProgramFailed(f"{self.binary} gave {len(verdicts)} verdicts, not one for each scenario of {batch}")
        return verdicts


def run_program(binary: Path, arguments: Sequence[str], given: bytes, seconds: float, asked: str) -> bytes:
    """Run the program and return its output; `asked` says in an error what it was given. Raises ProgramFailed."""
    command = [str(binary), *arguments]
    try:
        # A session of its own, because the judge judges in child processes, which have to end with it.
        process = Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True)
    except OSError as error:
        raise ProgramFailed(f"{binary} cannot be run: {error}") from None
    with process:
        try:
            told, complaint = process.communicate(given, seconds)
        except TimeoutExpired:
            raise ProgramFailed(f"{binary} did not end within {seconds:g} s: {asked}") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        first = complaint.decode(errors="replace").strip().partition("\n")[0]
        raise ProgramFailed(f"{binary} ended with code {process.returncode}: {asked}: {first}")
    return told


def check_minor(binary: Path, minor: int) -> str:
    """Return the patch release that the program is of. Raises ProgramFailed if it is of another minor."""
    version = run_program(binary, ["-version"], b"", SECONDS_PER_BATCH, "-version").decode().strip()
    if not version.startswith(f"1.{minor}."):
        raise ProgramFailed(f"{binary} is of {version}, not of 1.{minor}")
    return version
