"""Row 12: simulations whose clients have left cost nothing, and at most two wait."""

import contextlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from extender.server.admin import fork_worker, routes
from tests.abuse.service import MIB, patch_service, service, until
from tests.server.conftest import pod
from tests.server.processes import LIMIT
from tests.server.sockets import post

pytestmark = [
    pytest.mark.skipif(not fork_worker.IS_FORK_SUPPORTED, reason="the system cannot fork a process with threads"),
    pytest.mark.skipif(sys.platform != "linux", reason="memory and children of a process need /proc"),
]

SMALL = json.dumps({"pod": pod("small")}).encode()
LARGE = json.dumps({"pod": pod("large") | {"status": {"message": "x" * (8 * MIB - 2000)}}}).encode()

SLOW_SIMULATIONS = """
    import time
    from extender.server.admin import routes

    simulate = routes.simulate_request

    def slow(*args, **options):
        time.sleep(3)
        return simulate(*args, **options)

    routes.simulate_request = slow
"""


LITTLE_MEMORY = """
    from extender.server.admin import snapshot_copy

    snapshot_copy.MAX_MEMORY_BYTES = 64 << 20
"""


def children(process):
    with open(f"/proc/{process.process.pid}/task/{process.process.pid}/children") as file:
        return file.read().split()


def request(body, *headers, length=None):
    sent = post(body, "Content-Type: application/json", *headers, path="/simulate", length=length)
    return sent.replace(b"Host: extender", b"Host: localhost", 1)


def ask(connection, body):
    connection.sendall(request(body))


def status_of(connection):
    return int(connection.recv(65536).split()[1])


def test_H5_simulations_of_clients_that_left_are_not_run_and_the_next_one_does_not_wait():
    with service() as process:
        assert simulated(process)[0] == 200
        idle = process.peak
        for _ in range(30):
            with process.connect("admin") as leaving, contextlib.suppress(ConnectionError):
                ask(leaving, LARGE)
        began = time.monotonic()
        until(lambda: simulated(process)[0] == 200)  # those that have not been noticed yet may answer 503
        assert time.monotonic() - began < 5
        until(lambda: not children(process))
        assert process.peak - idle < 100


def test_H5_at_most_two_simulations_wait_and_the_others_are_refused(monkeypatch, tmp_path):
    patch_service(monkeypatch, tmp_path, SLOW_SIMULATIONS)
    with service() as process, contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as threads:
        running, *waiting = (stack.enter_context(process.connect("admin")) for _ in range(3))
        ask(running, SMALL)
        until(lambda: len(children(process)) == 1)
        first = children(process)
        for one in waiting:
            ask(one, SMALL)
        until(lambda: refused(process))
        status, body, retry_after = simulated(process)
        assert (status, retry_after) == (503, "5")
        assert "3 simulations are running or waiting already" in body
        assert process.get("/readyz")[0] == 200
        # The client of the running one leaves, which ends its child; then the first of the waiting ones does.
        running.close()
        until(lambda: children(process) not in ([], first))
        waiting[0].close()
        answer = threads.submit(status_of, waiting[1])
        assert answer.result(LIMIT) == 200
        until(lambda: not children(process))


def test_H5_bodies_that_arrive_slowly_keep_no_simulation_from_running():
    with service() as process, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(process.connect("admin")) for _ in range(routes.MAX_SIMULATIONS + 1)]
        for slow in connections:
            slow.sendall(request(b"", "Expect: 100-continue", length=len(SMALL)))
            assert b" 100 " in slow.recv(65536)  # the service waits for the body
        assert simulated(process)[0] == 200
        connections[0].sendall(SMALL)
        assert status_of(connections[0]) == 200


def test_H5_a_simulation_that_takes_too_much_memory_ends_and_not_the_service(monkeypatch, tmp_path):
    patch_service(monkeypatch, tmp_path, LITTLE_MEMORY)
    many = b",".join([b"{}"] * 900_000)  # become objects of more than 100 MiB
    body = b'{"pod":{"metadata":{"name":"p"},"spec":{"containers":[' + many + b"]}}}"
    with service() as process:
        status, error, _ = simulated(process, body)
        assert (status, json.loads(error)["Error"]) == (503, "the answer needs more than 64 MiB of memory")
        assert simulated(process)[0] == 200


def test_H5_a_scenario_that_multiplies_its_body_ends_and_not_the_service(monkeypatch, tmp_path):
    """The labels of an Indexed Job are those of its template and an index of their own, pod by pod."""
    patch_service(monkeypatch, tmp_path, LITTLE_MEMORY)
    labels, pod_spec = {f"key-{number}": "x" for number in range(10_000)}, pod("p")["spec"] | {"restartPolicy": "Never"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec}
    spec = {"parallelism": 1000, "completions": 1000, "completionMode": "Indexed", "template": template}
    job = {"kind": "Job", "metadata": {"name": "job"}, "spec": spec}
    with service() as process:
        status, error, _ = simulated(process, json.dumps({"workloads": [job]}).encode())
        assert (status, json.loads(error)["Error"]) == (503, "the answer needs more than 64 MiB of memory")
        assert simulated(process)[0] == 200


def simulated(process, body=SMALL):
    """Status, body and Retry-After of a simulation."""
    with contextlib.closing(process.connection("admin")) as connection:
        connection.request("POST", "/simulate", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode(), response.getheader("retry-after")


def refused(process):
    """Return whether a simulation is refused; sent with a body that never arrives, so that none is run."""
    with process.connect("admin") as connection:
        connection.sendall(request(b"", "Expect: 100-continue", length=10))
        return b" 503 " in connection.recv(65536)
