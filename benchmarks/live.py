"""Following a live cluster: how fast the picture is there, what an event costs, and what requests notice of it.

The fake API server and the service are processes of their own, and all of it shares this machine's cores.

Rule: an answer other than 200 ends the benchmark, and so does a request that fails.
"""

import contextlib
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec
from kubernetes.client import ApiClient

from benchmarks import generate
from benchmarks.bodies import names_body
from benchmarks.fullpods import full_pod
from benchmarks.generate import Plan
from benchmarks.measure import Bound, Limit, Row, Work
from benchmarks.serve_live import api_at
from benchmarks.service import STOP_SECONDS, Client, Started, started, wait_until_ready
from benchmarks.world import World
from extender.cluster.decode import Decoder
from extender.cluster.protocol import event_of, head_of, pages
from extender.cluster.store import Change, ClusterStore

GROUP = "live"
NAMES = 500
PAIRS = 1000
CALLERS = 4
EVENTS_PER_SECOND = 200
IDLE_SECONDS = 91
"""Go's client keeps an idle connection for 90."""
IDLE_CONNECTIONS = 20
MANY_IDLE = 500
NEW_CONNECTIONS = 100
BOUNDS = (Bound("mean", 6), Bound("p99", 25))
"""Of /filter and /prioritize of 500 names together, one caller, beside the events."""
SECONDS = 10
"""For which there are events."""
RELISTS = 3
CHANGED = (100, 5000)
"""Pods that a list shows to be different; beyond a few hundred the picture is made anew beside the old one."""
AFTERWARDS = 0.5
CALM = 6.0
"""Seconds between two lists: a server that forgets again at once would be asked less and less often."""
TIMES_QUIET = Limit("≤", 5)
LINES = 20_000
SLOW_LINES = 500


def rows(world: World) -> Iterator[Row]:
    yield from events_in_process(world)
    with contextlib.closing(Cluster(world.plan)) as cluster:
        reading = [Work(lambda: read_all(cluster.url), clock=time.perf_counter).seconds() for _ in range(3)]
        start = time.perf_counter()
        with started("benchmarks.serve_live", "--url", cluster.url) as service:
            wait_until_ready(service.admin_port)
            synced = time.perf_counter() - start
            what = f"from the start of the process to ready, {len(world.snapshot.running.row_of):,} pods"
            yield Row(GROUP, f"{what} ({memory(service.process)})", [synced] * 3, "reading the pages only", reading)
            yield from beside_idle_connections(world, service, cluster)
            print(f"at the end: {memory(service.process)}", file=sys.stderr)


def beside_idle_connections(world: World, service: Started, cluster: "Cluster") -> Iterator[Row]:
    port = service.port
    with ThreadPoolExecutor(1) as waiting:
        idle = waiting.submit(after_idling, world, port)
        yield from beside_events(world, port, cluster)
        yield from beside_relists(world, service, cluster)
        yield beside_many_idle(world, port)
        name = f"/filter of {NAMES} names on {IDLE_CONNECTIONS} connections, each idle for {IDLE_SECONDS} s: 0 failed"
        yield Row(GROUP, name, idle.result(), requirement="L7")


def beside_many_idle(world: World, port: int) -> Row:
    """Half of the idle connections have made a call, the others have not said a word."""
    body = names_body(generate.undemanding(world.plan), some_names(world))
    with contextlib.ExitStack() as stack:
        for number in range(MANY_IDLE):
            if number % 2:
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            else:
                one_filter(stack.enter_context(contextlib.closing(Client(port))), body)
        times = []
        for _ in range(NEW_CONNECTIONS):
            with contextlib.closing(Client(port)) as client:
                times.append(one_filter(client, body))
    name = f"/filter of {NAMES} names on a new connection beside {MANY_IDLE} idle ones: 0 failed"
    return Row(GROUP, name, times, requirement="L6")


def after_idling(world: World, port: int) -> list[float]:
    body = names_body(generate.undemanding(world.plan), some_names(world))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(Client(port))) for _ in range(IDLE_CONNECTIONS)]
        for client in clients:
            one_filter(client, body)
        time.sleep(IDLE_SECONDS)
        return [one_filter(client, body) for client in clients]


# --- one event ------------------------------------------------------------------------------------------------------


def events_in_process(world: World) -> Iterator[Row]:
    """Decoding and applying events of pods, half of which matter to decisions, against the client's own models."""
    store, decoder, changing = ClusterStore(), Decoder("Pod"), Changing(world.plan)
    store.replace(world.objects)
    take(store, decoder, changing.all())
    own, others = [], []
    for _ in range(5):
        lines = changing.events(LINES)
        own.append(seconds_for(partial(take, store, decoder, lines)) / LINES)
        others.append(seconds_for(partial(deserialize, lines[:SLOW_LINES])) / SLOW_LINES)
    name = f"one event decoded and applied ({1 / statistics.median(own):,.0f} a second)"
    yield Row(GROUP, name, own, "the client's models, only decoded", others, faster=True)


class Changing:
    """Some of the cluster's pods as the API server has them, and the watch lines of their changes."""

    def __init__(self, plan: Plan) -> None:
        rows = range(min(plan.nodes, 300))
        pods = [pod for row in rows for pod in generate.pods_on(plan, row)]
        self._pods = [full_pod(pod, number) for number, pod in enumerate(pods)]
        self._chance = random.Random(plan.seed)
        self._version = 10**9

    def all(self) -> list[bytes]:
        """A line for each."""
        return [self._line(pod) for pod in self._pods]

    def events(self, count: int) -> list[bytes]:
        """Half of them change a time in the status and nothing else, the others a label."""
        return [self._event(number % 2 == 0) for number in range(count)]

    def _event(self, matters: bool) -> bytes:
        pod = self._chance.choice(self._pods)
        if matters:
            labels = pod["metadata"].setdefault("labels", {})
            labels["revision"] = str(self._chance.randrange(10**6))
        else:
            pod["status"]["conditions"][2]["lastTransitionTime"] = f"2025-06-01T08:{self._chance.randrange(60):02}:00Z"
        return self._line(pod)

    def _line(self, pod: generate.JSON) -> bytes:
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        return msgspec.json.encode({"type": "MODIFIED", "object": pod})


def take(store: ClusterStore, decoder: Decoder, lines: Sequence[bytes]) -> None:
    """What the reflector and the source do with the lines of a watch, as many at a time as a read may bring."""
    for start in range(0, len(lines), 10):
        for line in lines[start : start + 10]:
            raw = event_of(line).object
            head_of(raw)
            store.apply(Change("Pod", decoder.decode(raw)))
        store.settle(50)


_CLIENT = ApiClient()


def deserialize(lines: Sequence[bytes]) -> None:
    for line in lines:
        _CLIENT.deserialize(json.dumps(json.loads(line)["object"]), "V1Pod", "application/json")


def seconds_for(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


# --- beside events and lists ------------------------------------------------------------------------------------------


def beside_events(world: World, port: int, cluster: "Cluster") -> Iterator[Row]:
    what, beside = f"/filter and /prioritize of {NAMES} names", f"{EVENTS_PER_SECOND} events/s"
    everywhere, nowhere = generate.undemanding(world.plan), generate.incoming(world.plan)
    for which, pod in (("it fits everywhere", everywhere), ("the pod fits nowhere", nowhere)):
        body = names_body(pod, some_names(world))
        with contextlib.closing(Client(port)) as client:
            measure = partial(both, client, body)
            quiet = [measure() for _ in range(PAIRS)]
            cluster.begin(f"events {EVENTS_PER_SECOND} {SECONDS}")
            busy = list(until(cluster.is_done, measure))
        row = Row(GROUP, f"{what} together, {which}, {beside}", busy, "the same, no events", quiet, of_p99=True)
        yield replace(row, requirement="L1", bounds=BOUNDS)
    cluster.begin(f"events {EVENTS_PER_SECOND} {SECONDS}")
    body = names_body(everywhere, some_names(world))
    with ThreadPoolExecutor(CALLERS) as callers:
        times = callers.map(lambda _: from_one_caller(port, body, cluster.is_done), range(CALLERS))
    name = f"{what} together, {CALLERS} callers at once, {beside}: 0 failed"
    yield Row(GROUP, name, list(chain(*times)), requirement="L1")


def from_one_caller(port: int, body: bytes, is_done: Callable[[], bool]) -> list[float]:
    with contextlib.closing(Client(port)) as client:
        return list(until(is_done, lambda: both(client, body)))


def beside_relists(world: World, service: Started, cluster: "Cluster") -> Iterator[Row]:
    body = names_body(generate.undemanding(world.plan), some_names(world))
    with contextlib.closing(Client(service.port)) as client, contextlib.closing(Client(service.admin_port)) as admin:
        quiet = [one_filter(client, body) for _ in range(PAIRS)]
        for changed in CHANGED:
            times: list[float] = []
            for _ in range(RELISTS):
                before = version_of_pods(admin)
                cluster.begin(f"expire {min(changed, world.plan.nodes)}")
                times += until(Relisted(service.admin_port, before).is_set, partial(one_filter, client, body))
                time.sleep(CALM)
            what = f"/filter of {NAMES} names while everything is listed anew, {changed:,} pods changed"
            yield Row(GROUP, what, times, "the same, no lists", quiet, TIMES_QUIET, of_p99=True)


class Relisted(threading.Event):
    """Set when pods have been listed anew, what the list said has been applied, and a little later.

    Where the history is forgotten, only a list can bring another version than `before`.
    """

    def __init__(self, admin_port: int, before: int | None) -> None:
        super().__init__()
        threading.Thread(target=self._watch, args=(admin_port, before), daemon=True).start()

    def _watch(self, admin_port: int, before: int | None) -> None:
        with contextlib.closing(Client(admin_port)) as admin:
            while version_of_pods(admin) in (None, before):
                time.sleep(0.1)
        time.sleep(AFTERWARDS)
        self.set()


def until(is_done: Callable[[], bool], measure: Callable[[], float]) -> Iterator[float]:
    """Measure until it is done."""
    while not is_done():
        yield measure()


def both(client: Client, body: bytes) -> float:
    start = time.perf_counter()
    client.post("/filter", body)
    client.post("/prioritize", body)
    return time.perf_counter() - start


def one_filter(client: Client, body: bytes) -> float:
    start = time.perf_counter()
    client.post("/filter", body)
    return time.perf_counter() - start


def some_names(world: World) -> list[str]:
    return random.Random(1).sample(world.node_names, min(NAMES, len(world.node_names)))


# --- the processes --------------------------------------------------------------------------------------------------


class Cluster:
    """The fake API server's process."""

    def __init__(self, plan: Plan) -> None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.fake_cluster",
            "--seed",
            str(plan.seed),
            "--nodes",
            str(plan.nodes),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.url = self._answer()
        self._done = threading.Event()

    def _answer(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the fake API server has ended")
        return line.strip()

    def begin(self, command: str) -> None:
        """See `fake_cluster`; `is_done` says when it has been carried out."""
        self._done.clear()
        if self._process.stdin:
            self._process.stdin.write(f"{command}\n")
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self._answer()
        self._done.set()

    def is_done(self) -> bool:
        return self._done.is_set()

    def close(self) -> None:
        self._process.communicate(timeout=STOP_SECONDS)


def read_all(url: str) -> None:
    """List the pods and look at nothing but where the next page begins."""
    api = api_at(url)
    for _ in pages(lambda params: api.get("/api/v1/pods", params), "Pod", 500):
        pass


def memory(process: int) -> str:
    """Resident now and at most, where the system says so."""
    status = Path(f"/proc/{process}/status")
    text = status.read_text() if status.exists() else ""
    found = {name: int(size) // 1024 for name, size in re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", text)}
    return f"RSS {found['VmRSS']} MiB, at most {found['VmHWM']} MiB" if found else "RSS not known here"


def version_of_pods(admin: Client) -> int | None:
    """The resourceVersion up to which pods are followed; None while they are not."""
    found = re.search(r"^\[\+\] Pod: watching, version (\d+)", admin.get("/readyz?verbose").decode(), re.MULTILINE)
    return int(found.group(1)) if found else None
