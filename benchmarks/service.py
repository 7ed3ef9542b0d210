"""Measure whole calls over HTTP: the real service in its own process, and one client with a kept-alive connection.

Rule: requests are those that kube-scheduler would send; a status other than 200 ends the benchmark.
"""

import contextlib
import http.client
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks import cores
from benchmarks.generate import Plan
from benchmarks.measure import Bound, Row, Work, in_turns
from benchmarks.requests import new_preempt_bodies, preempt_body
from benchmarks.world import World

GROUP = "http"
REQUESTS = 200
REQUESTS_LARGE = 100
WARM_UP = 20
START_SECONDS = 600
STOP_SECONDS = 15


def rows(world: World) -> Iterator[Row]:
    with (
        running(world.plan) as service,
        contextlib.closing(Client(service.port)) as client,
        contextlib.closing(Client(service.admin_port)) as admin,
    ):
        empty = Work(lambda: admin.get("/livez"), clock=time.perf_counter)
        for count, requests, at_most in ((100, REQUESTS, None), (500, REQUESTS, 50), (0, REQUESTS_LARGE, 100)):
            name = f"/preempt of {min(count or world.plan.nodes, len(world.candidates)):,} candidates, UIDs"
            new = new_preempt_bodies(world, count, requests + WARM_UP)
            for bodies, which in (([preempt_body(world, count)], ""), (new, ", never sent before")):
                call = Work(partial(post_next, client, itertools.cycle(bodies)), clock=time.perf_counter)
                own, others = in_turns([call, empty], requests, WARM_UP)
                row = Row(GROUP, f"{name}{which}", own, "/livez", others)
                yield row if at_most is None else replace(row, requirement="L2", bounds=(Bound("p99", at_most),))


def post_next(client: "Client", bodies: Iterator[bytes]) -> None:
    client.post("/preempt", next(bodies))


class Client:
    """HTTP client with one kept-alive connection; any status but 200 is an error."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str) -> bytes:
        return self._call("GET", path, None)

    def status(self, path: str) -> int:
        """Return the status of a GET and discard its body."""
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        response.read()
        return response.status

    def post(self, path: str, body: bytes) -> bytes:
        return self._call("POST", path, body)

    def _call(self, method: str, path: str, body: bytes | None) -> bytes:
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status} {answer[:200]!r}")
        return answer


@contextlib.contextmanager
def running(plan: Plan) -> Iterator["Started"]:
    """Start a service with the generated cluster and wait until it is ready."""
    least, most = plan.pods
    options = ("--seed", str(plan.seed), "--nodes", str(plan.nodes), "--pods", str(least), str(most))
    with started("benchmarks.serve", *options) as service:
        wait_until_ready(service.admin_port)
        yield service


@dataclass(frozen=True, slots=True)
class Started:
    """A service running in its own process."""

    port: int
    admin_port: int
    process: int
    """Process ID."""


def wait_until_ready(admin_port: int, every: float = 0.05) -> None:
    """Poll /readyz every `every` seconds until it returns 200; raise TimeoutError after START_SECONDS."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), contextlib.closing(Client(admin_port)) as admin:
            if admin.status("/readyz") == 200:
                return
        time.sleep(every)
    raise TimeoutError(f"not ready within {START_SECONDS} s")


def free_port() -> int:
    """Return a free port for the admin listener."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextlib.contextmanager
def started(module: str, *options: str) -> Iterator[Started]:
    """Run `python -m module --fd … --admin-port … options`; its socket accepts connections at once."""
    admin_port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        ports = ("--fd", str(listening.fileno()), "--admin-port", str(admin_port))
        command = [sys.executable, "-m", module, *ports, *options]
        # Audit lines are still written, as in production, but kept out of the printed figures.
        passed = [listening.fileno()]
        with cores.on(cores.OTHERS):
            process = subprocess.Popen(command, pass_fds=passed, env=os.environ.copy(), stdout=subprocess.DEVNULL)
    try:
        yield Started(port, admin_port, process.pid)
    finally:
        end(process)


def end(process: "subprocess.Popen[Any]", within: float = STOP_SECONDS) -> None:
    """Send SIGTERM to a running process, and SIGKILL after `within` seconds."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
