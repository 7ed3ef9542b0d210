"""The service under attack: a process of its own, what it uses, and the calls of everybody else."""

import contextlib
import json
import os
import statistics
import textwrap
import time
from collections.abc import Iterator

import pytest

from benchmarks import process as usage
from tests.server.processes import LIMIT, Process

MIB = 1 << 20


class MeasuredService(Process):
    """A process of the service, its memory and CPU time."""

    @property
    def rss(self) -> float:
        """Resident memory now, in MiB."""
        return _known(usage.resident(self.process.pid)) / MIB

    @property
    def peak(self) -> float:
        """Peak of the resident memory, in MiB."""
        return _known(usage.peak(self.process.pid)) / MIB

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all threads so far."""
        return _known(usage.worked(self.process.pid))

    def call(self, path: str, body: object) -> tuple[int, bytes]:
        """Send one call on a connection of its own; `body`: bytes, or what is encoded as JSON."""
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.closing(self.connection()) as connection:
            connection.request("POST", path, encoded, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()

    def get(self, path: str) -> tuple[int, bytes]:
        """Read a path of the admin listener."""
        with contextlib.closing(self.connection("admin")) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()

    def cpu_per_call(self, path: str, body: object, calls: int = 5, rounds: int = 3) -> float:
        """Return the CPU seconds of one call: the median of some rounds of calls, each call with the same body.

        The counter has a resolution of 10 ms: `calls` times the expected time must be far above it.
        """
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        spent = []
        for _ in range(rounds):
            before = self.cpu_seconds
            for _ in range(calls):
                self.call(path, encoded)
            spent.append((self.cpu_seconds - before) / calls)
        return statistics.median(spent)

    def seconds_of(self, path: str) -> float:
        """Return the seconds that one GET of the admin listener takes."""
        began = time.monotonic()
        status, _ = self.get(path)
        assert status == 200, status
        return time.monotonic() - began


@contextlib.contextmanager
def service(*arguments: str, **settings: str) -> Iterator[MeasuredService]:
    """Run the service on the example cluster, or on what the arguments and settings name."""
    with contextlib.closing(MeasuredService(*arguments, **settings)) as process:
        yield process


def until(is_true) -> None:
    """Wait until a condition holds; fails after LIMIT seconds."""
    ends = time.monotonic() + LIMIT
    while not is_true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def _known(figure: float | None) -> float:
    if figure is None:
        pytest.skip("memory and CPU time of a process need /proc")
    return figure


def patch_service(monkeypatch, folder, code: str) -> None:
    """Have the next processes run `code` before the service, as Python does with sitecustomize.py.

    For what no input may cause, but what the process must survive: a decision that takes for ever, a hung thread.
    """
    (folder / "sitecustomize.py").write_text(textwrap.dedent(code))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(folder), os.getcwd())))
