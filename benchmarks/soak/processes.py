"""The processes of the soak, and how to talk to them.

Rule: every started process ends with this one, even after an error.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from benchmarks.measure import MALLOC
from benchmarks.service import end
from benchmarks.soak.course import Report

STOP_SECONDS = 30.0


class World:
    """The cluster's process: one command at a time, each answered before the next."""

    def __init__(self, *options: str) -> None:
        self._process = _python("benchmarks.soak.world", *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process = self._process.pid
        self._lock = threading.Lock()
        self.url = self._line().strip()

    def do(self, what: str) -> dict[str, Any]:
        """Send a command to the cluster's process and return its reply."""
        with self._lock:
            _write(self._process, what)
            answer: dict[str, Any] = json.loads(self._line())
            return answer

    def _line(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the cluster's process exited")
        return line

    def close(self) -> None:
        _end(self._process)


class Service:
    """The extender's process; its output goes to files beside its configuration."""

    def __init__(self, directory: Path, config: Path) -> None:
        self.counts = directory / "counts.json"
        self.log = directory / "service.log"
        self._files = [self.log.open("wb"), (directory / "service.out").open("wb")]
        log, out = self._files
        command = (str(self.counts), "serve", "--config", str(config))
        self.process = _python("benchmarks.soak.service", *command, stdout=out, stderr=log, env=os.environ | MALLOC)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        _end(self.process)
        for file in self._files:
            file.close()


class Load:
    """The schedulers' process; `take` is called with each of its reports."""

    def __init__(self, take: Callable[[Report], None], *options: str) -> None:
        self._process = _python("benchmarks.soak.load", *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process = self._process.pid
        self._take = take
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._take(Report(**json.loads(line)))

    def renew(self) -> None:
        _write(self._process, "renew")

    def stop(self) -> None:
        """Stop all calls; the last reports are delivered before this returns."""
        _write(self._process, "stop")
        self._process.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)

    def close(self) -> None:
        _end(self._process)


def _python(
    module: str,
    *options: str,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
    env: dict[str, str] | None = None,
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", module, *options]
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, text=True, bufsize=1)


def _write(process: "subprocess.Popen[str]", line: str) -> None:
    if process.stdin is not None:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()


def _end(process: "subprocess.Popen[str]") -> None:
    end(process, STOP_SECONDS)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
