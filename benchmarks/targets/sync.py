"""Measure the first sync with an API server over TLS on loopback: wall time from process start until ready."""

import contextlib
import time
from collections.abc import Iterator

from benchmarks import process
from benchmarks.api_cluster import ApiCluster
from benchmarks.measure import Bound, Limit, Row, Work
from benchmarks.service import started, wait_until_ready
from benchmarks.world import World

GROUP = "targets"
ROUNDS = 3
TIMES_READING = Limit("≤", 2.5)
MEGABYTES = 400


def rows(world: World) -> Iterator[Row]:
    held: list[int] = []
    with contextlib.closing(ApiCluster(world.plan, tls=True)) as cluster:
        pairs = [
            (sync(cluster, held), Work(cluster.read_all, clock=time.perf_counter).seconds()) for _ in range(ROUNDS)
        ]
    own, others = [one for one, _ in pairs], [other for _, other in pairs]
    name = f"first sync over TLS, {len(world.objects.pods):,} pods"
    yield Row(GROUP, name, own, "reading the pages of all kinds", others, TIMES_READING)
    if held:
        yield Row(
            GROUP, f"RSS after it, {len(world.objects.pods):,} pods", held, unit="MB", bounds=(Bound("max", MEGABYTES),)
        )


def sync(cluster: ApiCluster, held: list[int], profiles: int = 0, worked: list[float] | None = None) -> float:
    """Return the seconds until ready; append the resident memory at that moment to `held`, the CPU time to `worked`."""
    options = ("--url", cluster.url, "--ca", cluster.ca_file, "--profiles", str(profiles))
    start = time.perf_counter()
    with started("benchmarks.serve_live", *options) as service:
        wait_until_ready(service.admin_port)
        seconds = time.perf_counter() - start
        now = process.resident(service.process)
        held += [now] if now is not None else []
        if worked is not None:
            worked.append(process.worked(service.process) or seconds)
    return seconds
