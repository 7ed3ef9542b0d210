"""Whole calls over HTTP: the real service in a process of its own, one client that keeps its connection.

Rule: what is asked is what kube-scheduler would ask; an answer other than 200 ends the benchmark.
"""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks import generate
from benchmarks.bodies import names_body, victims_body
from benchmarks.generate import Plan
from benchmarks.measure import Bound, Row, Work, in_turns
from benchmarks.world import World

GROUP = "http"
REQUESTS = 200
REQUESTS_LARGE = 100
START_SECONDS = 120
STOP_SECONDS = 15


def rows(world: World) -> Iterator[Row]:
    names = world.node_names
    nowhere, everywhere = generate.incoming(world.plan), generate.undemanding(world.plan)
    of_names = f"/filter of {len(names):,} names"
    with (
        running(world.plan) as (port, admin_port),
        contextlib.closing(Client(port)) as client,
        contextlib.closing(Client(admin_port)) as admin,
    ):
        both = Both(client, admin)
        yield both.compared(f"{of_names}, the pod fits nowhere", "/filter", names_body(nowhere, names))
        yield both.compared(f"{of_names}, it fits everywhere", "/filter", names_body(everywhere, names))
        for offered, requests, bounds in (
            (world.candidates[:100], REQUESTS, ()),
            (world.candidates[:500], REQUESTS, (Bound("p99", 50),)),
            (world.candidates, REQUESTS_LARGE, (Bound("p99", 100),)),
        ):
            name, body = f"/preempt of {len(offered):,} candidates, UIDs", victims_body(nowhere, offered)
            row = both.compared(name, "/preempt", body, requests)
            yield replace(row, requirement="L2", bounds=bounds) if bounds else row


@dataclass(frozen=True, slots=True)
class Both:
    """The scheduler's port, and the admin port for the empty round trip."""

    client: "Client"
    admin: "Client"

    def compared(self, name: str, path: str, body: bytes, requests: int = REQUESTS) -> Row:
        call = Work(lambda: self.client.post(path, body), clock=time.perf_counter)
        empty = Work(lambda: self.admin.get("/livez"), clock=time.perf_counter)
        own, others = in_turns([call, empty], requests, warm_up=20)
        return Row(GROUP, name, own, "/livez", others)


class Client:
    """One connection, kept open; anything but 200 is an error."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str) -> bytes:
        return self._call("GET", path, None)

    def status(self, path: str) -> int:
        """Of a GET, whatever it is."""
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
def running(plan: Plan) -> Iterator[tuple[int, int]]:
    """The scheduler's port and the admin port of a service that holds the cluster, once it is ready."""
    options = ("--seed", str(plan.seed), "--nodes", str(plan.nodes))
    with started("benchmarks.serve", *options) as service:
        wait_until_ready(service.admin_port)
        yield service.port, service.admin_port


@dataclass(frozen=True, slots=True)
class Started:
    """A service in a process of its own."""

    port: int
    admin_port: int
    process: int
    """Its ID."""


def wait_until_ready(admin_port: int) -> None:
    """Until /readyz says so; TimeoutError after START_SECONDS."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), contextlib.closing(Client(admin_port)) as admin:
            if admin.status("/readyz") == 200:
                return
        time.sleep(0.05)
    raise TimeoutError(f"not ready within {START_SECONDS} s")


def free_port() -> int:
    """Nobody listens there; the admin listener will."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextlib.contextmanager
def started(module: str, *options: str) -> Iterator[Started]:
    """A service that is run as `python -m module --fd … --admin-port … options`; it takes connections at once."""
    admin_port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        ports = ("--fd", str(listening.fileno()), "--admin-port", str(admin_port))
        command = [sys.executable, "-m", module, *ports, *options]
        # Audit lines are written, as they would be, and not among the figures.
        passed = [listening.fileno()]
        process = subprocess.Popen(command, pass_fds=passed, env=os.environ.copy(), stdout=subprocess.DEVNULL)
    try:
        yield Started(port, admin_port, process.pid)
    finally:
        end(process)


def end(process: "subprocess.Popen[Any]", within: float = STOP_SECONDS) -> None:
    """Ask the process to end, if it has not, and make it after so many seconds."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
