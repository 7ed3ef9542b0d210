"""One process of the control plane: start, readiness, signals and logs.

Rule: a process never outlives the test run; the kernel kills it when the run dies.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import httpx

T = TypeVar("T")

_START_LIMIT_SECONDS = 90.0

_reserved: list[socket.socket] = []


def free_port() -> int:
    """Return a loopback port that no other process of these tests gets, below the range of outgoing connections."""
    while True:
        port = random.SystemRandom().randrange(20000, 30000)
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0control-plane-port-{port}")  # a name in the kernel, until this process ends
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            name.close()
            continue
        _reserved.append(name)
        return port


_probes = httpx.Client(verify=False, trust_env=False, timeout=2.0, limits=httpx.Limits(max_keepalive_connections=0))


def answers(url: str) -> bool:
    """Return whether a GET is answered with 200, whatever the certificate."""
    try:
        return _probes.get(url).status_code == 200
    except httpx.HTTPError:
        return False


def wait_until(condition: Callable[[], T | None], timeout: float = 30.0, what: str = "the condition") -> T:
    """Call `condition` until its result is true and return that; AssertionError after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout:g}s for {what}; last: {result!r}")
        time.sleep(0.02)


class Process:
    """A program with a log file, which can be stopped, killed, paused and started again with the same arguments."""

    def __init__(
        self, name: str, argv: Sequence[object], directory: Path, is_ready: Callable[[], bool] | None = None
    ) -> None:
        self.name = name
        self.argv = [str(one) for one in argv]
        self.log_file = directory / f"{name}.log"
        self._directory = directory
        self.environment: dict[str, str] = {}
        """Added to that of the tests."""
        self._is_ready = is_ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process else None

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def start(self, *, wait: bool = True) -> None:
        """Start the program; with `wait` until it is ready."""
        assert not self.is_running, f"{self.name} is running"
        setpriv = shutil.which("setpriv")
        guard = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*guard, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env=os.environ | self.environment,
                start_new_session=True,
            )
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout: float = _START_LIMIT_SECONDS) -> None:
        """Wait until the program is ready; AssertionError with the end of its log if it ends or does not get ready."""
        if self._is_ready is None:
            return
        end = time.monotonic() + timeout
        while not self._is_ready():
            state = "ended while starting" if not self.is_running else f"is not ready after {timeout:g}s"
            if not self.is_running or time.monotonic() > end:
                raise AssertionError(f"{self.name} {state} (exit code {self.exit_code}):\n{self.log[-3000:]}")
            time.sleep(0.05)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def pause(self) -> None:
        """Stop the process with SIGSTOP until `resume`; returns once all of its threads have stopped.

        The signal alone is not enough: a thread that runs meanwhile may still answer a request.
        """
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """End the process as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, timeout: float = 10.0, number: signal.Signals = signal.SIGTERM) -> None:
        """End the process with a signal, and with SIGKILL after `timeout` seconds."""
        if not self.is_running:
            return
        self.resume()
        self.send(number)
        try:
            assert self._process is not None
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
