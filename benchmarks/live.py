"""Measure requests to a service that follows a live cluster: beside idle connections, events and relists.

The fake API server and the service run in their own processes and share this machine's cores.

Rule: a status other than 200 ends the benchmark, and so does a request that fails.
"""

import contextlib
import json
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, cycle

from benchmarks import generate, process
from benchmarks.api_cluster import ApiCluster
from benchmarks.arrivals import PENDING
from benchmarks.bodies import names_body
from benchmarks.measure import Bound, Limit, Row
from benchmarks.requests import filter_bodies
from benchmarks.service import Client, Started, started, wait_until_ready
from benchmarks.world import World

GROUP = "live"
NAMES = 500
PAIRS = 1000
CALLERS = 4
EVENTS_PER_SECOND = 200
IDLE_SECONDS = 91
"""Idle time before the next request; Go's HTTP client keeps an idle connection for 90 s."""
IDLE_CONNECTIONS = 20
MANY_IDLE = 500
NEW_CONNECTIONS = 100
SECONDS_BESIDE_PAGE = 60
"""Duration of the events beside the page: several reports of the pending pods."""
SECONDS_BETWEEN_LISTS = 1.0
SECONDS = 10
"""Duration of the events."""
RELISTS = 3
CHANGED = (100, 5000)
"""Numbers of pods that differ in a relist; beyond a few hundred the snapshot is rebuilt in the background."""
SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_AFTER_RELIST = 0.5
"""Pause after a relist, in which the previous snapshot is dismantled."""
SECONDS_BETWEEN_RELISTS = 6.0
"""Pause between two relists: the reflector backs off from a server that expires again at once."""
TIMES_QUIET = Limit("≤", 5)


def rows(world: World) -> Iterator[Row]:
    with (
        contextlib.closing(ApiCluster(world.plan)) as cluster,
        started("benchmarks.serve_live", "--url", cluster.url) as service,
    ):
        wait_until_ready(service.admin_port)
        yield from beside_idle_connections(world, service, cluster)
        yield from beside_the_page(world, service, cluster)
        print(f"at the end: {process.memory(service.process)}", file=sys.stderr)


# --- beside the page --------------------------------------------------------------------------------------------------


def beside_the_page(world: World, service: Started, cluster: ApiCluster) -> Iterator[Row]:
    """Ask for the pending pods more often than the page does, while kube-scheduler calls and events arrive."""
    bodies = filter_bodies(world, True, NAMES)

    def calls() -> list[float]:
        cluster.begin(f"events {EVENTS_PER_SECOND} {SECONDS_BESIDE_PAGE}")
        return from_one_caller(service.port, bodies, cluster.is_done)

    cluster.carry_out("wait")
    quiet = calls()
    with contextlib.closing(Client(service.admin_port)) as page, ThreadPoolExecutor(1) as pages:
        while json.loads(page.get("/pending"))["report"] is None:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        callers = pages.submit(calls)
        lists = list(until(callers.done, lambda: one_list(page)))
        beside = callers.result()
    what = f"/filter and /prioritize of {NAMES} names together, {EVENTS_PER_SECOND} events/s"
    name = f"{what}, while the page shows {PENDING} pending pods"
    bounds = (Bound("mean", 6), Bound("p99", 25))
    yield Row(GROUP, name, beside, "the same, no page", quiet, of_p99=True, requirement="L1", bounds=bounds)
    yield Row(GROUP, f"GET /pending of {PENDING} pods meanwhile", lists, bounds=(Bound("p99", 100),))


def one_list(page: Client) -> float:
    start = time.perf_counter()
    page.get("/pending")
    took = time.perf_counter() - start
    time.sleep(SECONDS_BETWEEN_LISTS)
    return took


def beside_idle_connections(world: World, service: Started, cluster: ApiCluster) -> Iterator[Row]:
    port = service.port
    with ThreadPoolExecutor(1) as waiting:
        idle = waiting.submit(after_idling, world, port)
        yield beside_events(world, port, cluster)
        yield from beside_relists(world, service, cluster)
        yield beside_many_idle(world, port)
        name = f"/filter of {NAMES} names on {IDLE_CONNECTIONS} connections, each idle for {IDLE_SECONDS} s: 0 failed"
        yield Row(GROUP, name, idle.result(), requirement="L7")


def beside_many_idle(world: World, port: int) -> Row:
    """Half of the idle connections have made a call, the others have sent nothing."""
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


# --- beside events and lists ------------------------------------------------------------------------------------------


def beside_events(world: World, port: int, cluster: ApiCluster) -> Row:
    cluster.begin(f"events {EVENTS_PER_SECOND} {SECONDS}")
    bodies = filter_bodies(world, True, NAMES)
    with ThreadPoolExecutor(CALLERS) as callers:
        times = callers.map(lambda _: from_one_caller(port, bodies, cluster.is_done), range(CALLERS))
    what = f"/filter and /prioritize of {NAMES} names together, {CALLERS} callers at once"
    name = f"{what}, {EVENTS_PER_SECOND} events/s: 0 failed"
    return Row(GROUP, name, list(chain(*times)), requirement="L1")


def from_one_caller(port: int, bodies: Sequence[bytes], is_done: Callable[[], bool]) -> list[float]:
    with contextlib.closing(Client(port)) as client:
        turns = cycle(bodies)
        return list(until(is_done, lambda: both(client, next(turns))))


def beside_relists(world: World, service: Started, cluster: ApiCluster) -> Iterator[Row]:
    bodies = cycle(filter_bodies(world, True, NAMES))
    with contextlib.closing(Client(service.port)) as client, contextlib.closing(Client(service.admin_port)) as admin:
        quiet = [one_filter(client, next(bodies)) for _ in range(PAIRS)]
        for changed in CHANGED:
            times: list[float] = []
            for _ in range(RELISTS):
                relisted = Relisted(service.admin_port, pods_in(admin))
                cluster.begin(f"expire {min(changed, world.plan.nodes)}")
                times += until(relisted.is_set, lambda: one_filter(client, next(bodies)))
                time.sleep(SECONDS_BETWEEN_RELISTS)
            what = f"/filter of {NAMES} names during a relist of all kinds, {changed:,} pods changed"
            yield Row(GROUP, what, times, "the same, no lists", quiet, TIMES_QUIET, of_p99=True)


class Relisted(threading.Event):
    """Set when a list with the pod that `expire` creates has been applied, plus a short delay."""

    def __init__(self, admin_port: int, before: int) -> None:
        super().__init__()
        threading.Thread(target=self._watch, args=(admin_port, before), daemon=True).start()

    def _watch(self, admin_port: int, before: int) -> None:
        with contextlib.closing(Client(admin_port)) as admin:
            while pods_in(admin) <= before:
                time.sleep(SECONDS_BETWEEN_LOOKS)
        time.sleep(SECONDS_AFTER_RELIST)
        self.set()


def until(is_done: Callable[[], bool], measure: Callable[[], float]) -> Iterator[float]:
    """Measure repeatedly until `is_done` returns true."""
    while not is_done():
        yield measure()


def both(client: Client, body: bytes) -> float:
    """Send a pod to /filter and /prioritize; return the seconds of both."""
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


def pods_in(admin: Client) -> int:
    """Return the number of pods in the cluster cache."""
    found = re.search(r'^extender_cache_objects\{kind="Pod"\} (\d+)', admin.get("/metrics").decode(), re.MULTILINE)
    assert found is not None, "no metric with the number of pods"
    return int(found.group(1))


def version_of_pods(admin: Client) -> int | None:
    """Return the resourceVersion of the pod watch; None while pods are not being watched."""
    found = re.search(r"^\[\+\] Pod: watching, version (\d+)", admin.get("/readyz?verbose").decode(), re.MULTILINE)
    return int(found.group(1)) if found else None
