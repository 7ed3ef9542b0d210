"""D7: calls that arrived while the process was stopped. A real process, a real API server's answers, and SIGSTOP.

The kernel accepts connections and stores requests meanwhile; what kube-scheduler no longer waits for is not decided.
"""

import contextlib
import json
import os
import signal
import sys

import pytest

from tests.cluster.apiserver.credentials.kubeconfigs import kubeconfig
from tests.fakes.api_server import FakeAPI
from tests.server.conftest import CLUSTER, URGENT, preempt_body
from tests.server.processes import running
from tests.server.sockets import post
from tests.server.test_shutdown import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs TCP_INFO of Linux")

BIND = json.dumps({"PodName": "urgent", "PodNamespace": "shop", "PodUID": "uid-urgent", "Node": "worker-1"}).encode()
BODIES = {"/preempt": preempt_body(**{"worker-1": ["uid-small"]}), "/bind": BIND}
LATE_SECONDS = 1.0
"""More than 80 % of `server.httpTimeout` here."""


@pytest.fixture
def api():
    with FakeAPI() as fake:
        for one in (*CLUSTER["items"], URGENT):
            fake.put(one["kind"], one)
        yield fake


@contextlib.contextmanager
def following(api, tmp_path, **settings):
    """The process, once it follows the cluster."""
    access = kubeconfig(tmp_path / "kubeconfig", {"token": "t"}, {"server": api.url})
    binding = {"BIND__ENABLED": "true", "BIND__TIMEOUT": "500ms"}
    cluster = {"CLUSTER__SOURCE": "kubernetes", "CLUSTER__KUBECONFIG": access, **binding}
    with running(**cluster, **settings) as process:
        until(lambda: process.readyz() == 200)
        yield process


@contextlib.contextmanager
def stopped(process):
    """The process does not run meanwhile; on entry it has stopped."""
    process.say(signal.SIGSTOP)
    os.waitid(os.P_PID, process.process.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        yield
    finally:
        process.say(signal.SIGCONT)


def samples(process):
    """Metric with its labels -> value."""
    with contextlib.closing(process.connection("admin")) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def failures(process):
    """Reason -> number of failures, of those that happened."""
    found = ((name.split('"'), value) for name, value in samples(process).items() if "_failures_total" in name)
    return {reason: value for (_, reason, _), value in found if value}


def answered(process, path):
    return samples(process)[f'extender_answers_total{{result="failed",verb="{path[1:]}"}}']


def assert_nothing_came_of_it(process, api, path, reason):
    until(lambda: samples(process)["extender_requests_in_flight"] == 0 and sum(failures(process).values()))
    assert failures(process) == {reason: 1}
    assert answered(process, path) == 1
    assert samples(process)["extender_assumed_pods"] == 0
    assert len([line for line in process.lines if f"{path[1:]} failed" in line]) == 1
    assert not [request for request in api.requests if request.method == "POST"]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("waits_in", ["backlog", "connection"])
def test_D7_a_call_whose_caller_has_closed_the_connection_is_not_decided(path, waits_in, api, tmp_path):
    with following(api, tmp_path, SERVER__HTTP_TIMEOUT="1m") as process, contextlib.ExitStack() as stack:
        open_before = stack.enter_context(process.connect()) if waits_in == "connection" else None
        with stopped(process), open_before or process.connect() as caller:
            caller.sendall(post(BODIES[path], path=path))
        assert_nothing_came_of_it(process, api, path, "CallerGone")


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("waits_in", ["backlog", "connection"])
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "still open"])
def test_D7_a_call_that_waited_longer_than_the_scheduler_does_is_not_decided(path, waits_in, is_closed, api, tmp_path):
    with following(api, tmp_path, SERVER__HTTP_TIMEOUT="1s") as process, contextlib.ExitStack() as stack:
        open_before = stack.enter_context(process.connect()) if waits_in == "connection" else None
        with stopped(process):
            caller = stack.enter_context(open_before or process.connect())
            caller.sendall(post(BODIES[path], path=path))
            caller.settimeout(LATE_SECONDS)
            with pytest.raises(TimeoutError):
                caller.recv(1)
            if is_closed:
                caller.close()
        assert_nothing_came_of_it(process, api, path, "DeadlineMissed")
        if not is_closed:
            assert b"deadline exceeded" in caller.recv(65536)


def test_D7_of_a_large_call_it_is_the_connection_that_tells(api, tmp_path):
    """More than the kernel buffers: the rest arrives once the process reads, so that the request looks new."""
    padding = json.loads(BODIES["/preempt"]) | {"Padding": "x" * (8 << 20)}
    with following(api, tmp_path, SERVER__HTTP_TIMEOUT="1m") as process, process.connect() as caller:
        with stopped(process):
            caller.setblocking(False)
            sent = caller.send(post(json.dumps(padding).encode(), path="/preempt"))
            assert 0 < sent < 8 << 20
            caller.close()
        assert_nothing_came_of_it(process, api, "/preempt", "CallerGone")


def test_D7_a_call_that_waited_for_a_moment_is_decided(api, tmp_path):
    with following(api, tmp_path, SERVER__HTTP_TIMEOUT="1m") as process, process.connect() as caller:
        with stopped(process):
            caller.sendall(post(BODIES["/preempt"], path="/preempt"))
        assert b"HTTP/1.1 200 OK" in caller.recv(65536)
        assert samples(process)["extender_assumed_pods"] == 2
        assert failures(process) == {}
