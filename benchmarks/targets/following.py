"""Measure /filter and /prioritize of a service that follows a live cluster: between bindings, and beside events.

The fake API server and the service run in their own processes and share the cores. Phases without and with events take
turns, so that a slower machine slows down both.
"""

import contextlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.api_cluster import ApiCluster
from benchmarks.arrivals import arriving_body, best
from benchmarks.live import both, one_filter, until, version_of_pods
from benchmarks.measure import Limit, Row, p99
from benchmarks.requests import filter_bodies
from benchmarks.service import Client, Started, started, wait_until_ready
from benchmarks.targets.calls import AGAINST, BARE, TWO_CALLS, echo
from benchmarks.world import World

GROUP = "targets"
NAMES = 500
ROUNDS_BOUND = 300
ROUNDS_OF_PHASES = 5
SECONDS_OF_PHASE = 2.0
WARM_UP = 20
APPLIED_SECONDS = 0.005
"""Pause after the watch has delivered an event, in which the service applies it."""
TIMES_QUIET = {200: Limit("≤", 1.3), 1000: Limit("≤", 2)}
"""Events per second -> limit on the mean, against the mean without events."""
TIMES_MEDIAN = Limit("≤", 5)
"""Limit on the 99th percentile beside the smaller rate, against its own median."""
BOTH = f"/filter and /prioritize, {NAMES} names, fits everywhere"


def rows(world: World) -> Iterator[Row]:
    with (
        contextlib.closing(ApiCluster(world.plan)) as cluster,
        started("benchmarks.serve_live", "--url", cluster.url) as service,
    ):
        wait_until_ready(service.admin_port)
        yield between_bindings(world, cluster, service)
        yield from beside_events(world, cluster, service)


def between_bindings(world: World, cluster: ApiCluster, service: Started) -> Row:
    """Schedule the pods of a template one after another: each is bound before the calls of the next."""
    count = ROUNDS_BOUND + WARM_UP
    own, others = [], []
    with (
        contextlib.closing(Client(service.port)) as client,
        contextlib.closing(Client(service.admin_port)) as admin,
        echo() as bare,
        contextlib.closing(Client(bare.port)) as plain,
    ):
        tell(cluster, admin, f"arrive {count}")
        for number in range(count):
            body = arriving_body(world.plan, number, NAMES)
            start = time.perf_counter()
            client.post("/filter", body)
            scores = client.post("/prioritize", body)
            called = time.perf_counter()
            plain.post(BARE, body)
            plain.post(BARE, body)
            own.append(called - start)
            others.append(time.perf_counter() - called)
            tell(cluster, admin, f"bind {number} {best(scores)}")
    name = f"{BOTH}, each pod bound before the next"
    return Row(GROUP, name, own[WARM_UP:], AGAINST[BARE], others[WARM_UP:], TWO_CALLS)


def tell(cluster: ApiCluster, admin: Client, command: str) -> None:
    """Carry out a command of the fake API server that changes pods; return when the service has applied it."""
    before = version_of_pods(admin)
    cluster.carry_out(command)
    while version_of_pods(admin) in (None, before):
        time.sleep(APPLIED_SECONDS)
    time.sleep(APPLIED_SECONDS)


def beside_events(world: World, cluster: ApiCluster, service: Started) -> Iterator[Row]:
    for which, fits in ((BOTH, True), (f"/filter, {NAMES} names, fits nowhere", False)):
        with contextlib.closing(Client(service.port)) as client:
            bodies = itertools.cycle(filter_bodies(world, fits, NAMES))
            times = in_phases(cluster, partial(post_next, both if fits else one_filter, client, bodies))
        quiet = times.pop(0)
        for rate, busy in times.items():
            yield compared(f"{which}, {rate:,} events/s", busy, quiet, TIMES_QUIET[rate])
        name, busy = f"{which}, {min(times)} events/s, 99th percentile", times[min(times)]
        tail = p99(busy) / statistics.median(busy)
        yield Row(GROUP, name, busy, "its own median", limit=TIMES_MEDIAN, given=tail, requirement="L1")


def post_next(send: Callable[[Client, bytes], float], client: Client, bodies: Iterator[bytes]) -> float:
    return send(client, next(bodies))


def in_phases(cluster: ApiCluster, measure: Callable[[], float]) -> dict[int, list[float]]:
    """Return events per second -> seconds of the calls beside them."""
    times: dict[int, list[float]] = {rate: [] for rate in (0, *TIMES_QUIET)}
    for _ in range(ROUNDS_OF_PHASES):
        for rate, found in times.items():
            cluster.begin(f"events {rate} {SECONDS_OF_PHASE}")
            found += until(cluster.is_done, measure)
    return times


def compared(name: str, busy: list[float], quiet: list[float], limit: Limit) -> Row:
    """Compare the means, since phases have different numbers of calls."""
    ratio = statistics.fmean(busy) / statistics.fmean(quiet)
    return Row(GROUP, name, busy, "mean without events", quiet, limit, given=ratio, requirement="L1")
