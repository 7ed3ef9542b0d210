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

from benchmarks import generate
from benchmarks.bodies import names_body, victims_body
from benchmarks.generate import Plan
from benchmarks.measure import Row, Work, in_turns
from benchmarks.world import World

GROUP = "http"
REQUESTS = 200
REQUESTS_LARGE = 100
START_SECONDS = 120
STOP_SECONDS = 15


def rows(world: World) -> Iterator[Row]:
    names, some = world.node_names, world.candidates[:100]
    nowhere, everywhere = generate.incoming(world.plan), generate.undemanding(world.plan)
    of_names = f"/filter of {len(names):,} names"
    with running(world.plan) as port, contextlib.closing(Client(port)) as client:
        client.get("/readyz")
        yield compared(client, f"{of_names}, the pod fits nowhere", "/filter", names_body(nowhere, names))
        yield compared(client, f"{of_names}, it fits everywhere", "/filter", names_body(everywhere, names))
        for offered, requests in ((some, REQUESTS), (world.candidates, REQUESTS_LARGE)):
            name, body = f"/preempt of {len(offered):,} candidates, UIDs", victims_body(nowhere, offered)
            yield compared(client, name, "/preempt", body, requests)


def compared(client: "Client", name: str, path: str, body: bytes, requests: int = REQUESTS) -> Row:
    call = Work(lambda: client.post(path, body), clock=time.perf_counter)
    empty = Work(lambda: client.get("/livez"), clock=time.perf_counter)
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
def running(plan: Plan) -> Iterator[int]:
    """The port of a service that holds the cluster; it takes connections at once and answers when it is ready."""
    with started("benchmarks.serve", "--seed", str(plan.seed), "--nodes", str(plan.nodes)) as (port, _):
        yield port


@contextlib.contextmanager
def started(module: str, *options: str) -> Iterator[tuple[int, int]]:
    """Port and process ID of a service that is run as `python -m module --fd … options`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        command = [sys.executable, "-m", module, "--fd", str(listening.fileno()), *options]
        process = subprocess.Popen(command, pass_fds=[listening.fileno()], env=os.environ.copy())
    try:
        yield port, process.pid
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
