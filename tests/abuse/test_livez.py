"""H3: /livez answers within 1 s whatever is decided, read or reloaded, and fails if decisions stand still for good."""

import contextlib
import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.abuse.service import MIB, patch_service, service, until
from tests.server.conftest import node, pod
from tests.server.processes import LIMIT, get

CALL = {"Pod": {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": []}}}
FILTER = CALL | {"NodeNames": ["worker-a1"]}

SLOW_DECISIONS = """
    import time
    from extender.core import engine

    decide = engine.filter

    def filter(snapshot, incoming, *args, **options):
        ends = time.monotonic() + 3
        while incoming.metadata.name == "p" and time.monotonic() < ends:
            pass
        return decide(snapshot, incoming, *args, **options)

    engine.filter = filter
"""

HUNG_DECISIONS = """
    from extender.core import engine
    from extender.server import run
    from extender.server.admin import decision_thread

    decision_thread.MAX_SILENT_SECONDS = 2.0
    run.EXIT_LIMIT_SECONDS = 3.0

    decide = engine.filter

    def filter(snapshot, incoming, *args, **options):
        while incoming.metadata.name == "p":
            pass
        return decide(snapshot, incoming, *args, **options)

    engine.filter = filter
"""


@contextlib.contextmanager
def probing(process, path="/livez"):
    """Probe the path all the time meanwhile; yields [(status, seconds)]."""
    found, over = [], threading.Event()

    def probe():
        while not over.is_set():
            began = time.monotonic()
            status, _ = process.get(path)
            found.append((status, time.monotonic() - began))
            time.sleep(0.05)

    with ThreadPoolExecutor(1) as threads:
        probing = threads.submit(probe)
        try:
            yield found
        finally:
            over.set()
            probing.result(LIMIT)


def assert_alive(probes):
    """Nearly all were answered within 1 s: on a loaded machine the process may not run for so long itself."""
    assert len(probes) >= 10, probes
    assert {status for status, _ in probes} == {200}
    late = [seconds for _, seconds in probes if seconds > 1]
    assert len(late) <= len(probes) / 10, (late, len(probes))


def test_H3_livez_answers_while_decisions_take_long_and_readyz_and_metrics_after_them(monkeypatch, tmp_path):
    patch_service(monkeypatch, tmp_path, SLOW_DECISIONS)
    with service(SERVER__HTTP_TIMEOUT="1m") as process, ThreadPoolExecutor(40) as threads:
        calls = [threads.submit(process.call, "/filter", FILTER) for _ in range(2)]
        with probing(process) as probes:
            until(lambda: len(probes) > 5)
            waiting = [threads.submit(process.get, path) for path in ("/readyz", "/metrics") for _ in range(15)]
            assert [call.result(LIMIT)[0] for call in calls] == [200, 200]
        assert_alive(probes)
        assert {one.result(LIMIT)[0] for one in waiting} == {200}


BEGIN = json.dumps(CALL).encode()[:-1]
PARTS = {
    "filter of node names": (BEGIN + b',"NodeNames":[', b'"a"', b"]}"),
    "filter of containers": (b'{"NodeNames":["worker-a1"],"Pod":{"spec":{"containers":[', b"{}", b"]}}}"),
    "preempt of victims": (BEGIN + b',"NodeNameToMetaVictims":{"n":{"Pods":[', b'{"UID":"a"}', b"]}}}"),
}
"""Verb, and what the body is full of -> its beginning, what is repeated, and its end."""


def test_H3_livez_answers_while_large_bodies_are_decoded():
    with service(SERVER__HTTP_TIMEOUT="1m") as process, probing(process) as probes:
        for name, (begin, part, end) in PARTS.items():
            body = begin + b",".join([part] * (48 * MIB // (len(part) + 1))) + end
            with contextlib.suppress(ConnectionError):  # refused before all of it was read
                process.call(f"/{name.partition(' ')[0]}", body)
        until(lambda: len(probes) > 20)
        assert_alive(probes)


def test_H3_livez_answers_while_a_large_cluster_file_is_reloaded(tmp_path):
    file = tmp_path / "cluster.json"

    def write(pods):
        items = [node(f"node-{n}", cpu="64") for n in range(500)]
        items += [pod(f"pod-{n}", on=f"node-{n % 500}", cpu="10m") for n in range(pods)]
        (tmp_path / "next").write_text(json.dumps({"kind": "List", "items": items}))
        (tmp_path / "next").rename(file)

    write(100)
    with service("--cluster", str(file)) as process, probing(process) as probes:
        write(10_000)
        until(lambda: any("cluster file reloaded" in line for line in process.lines))
        assert_alive(probes)


def test_H3_livez_fails_once_decisions_hang_not_after_SIGSTOP_and_H8_sigterm_ends_the_process(monkeypatch, tmp_path):
    patch_service(monkeypatch, tmp_path, HUNG_DECISIONS)
    with service(SERVER__DRAIN_TIME="0s") as process, ThreadPoolExecutor(1) as threads:
        process.say(signal.SIGSTOP)
        time.sleep(3)  # longer than what counts as hung here
        process.say(signal.SIGCONT)
        assert {process.get("/livez")[0] for _ in range(20)} == {200}
        threads.submit(process.call, "/filter", FILTER)
        until(lambda: process.get("/livez")[0] == 503)
        assert b"the thread that decides has been stuck" in process.get("/livez")[1]
        until(lambda: any("/livez fails" in line for line in process.lines))
        (line,) = (line for line in process.lines if "/livez fails" in line)
        assert "verbs.py" in line  # the function of the service that does not return
        began = time.monotonic()
        process.say(signal.SIGTERM)
        until(lambda: is_draining(process))  # at once, and not only when the decision ends
        assert process.ends() == 1
        assert time.monotonic() - began < 20
        (line,) = (line for line in process.lines if "shutdown not complete in time" in line)
        assert "MainThread at " in line
        assert "verbs.py" in line


def is_draining(process):
    """Return whether /readyz says so; it waits for the thread that decides until the signal is seen."""
    with contextlib.closing(process.connection("admin", timeout=0.5)) as connection:
        try:
            return get(connection, "/readyz").status == 503
        except TimeoutError:
            return False
