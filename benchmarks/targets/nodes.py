"""Measure the peak memory of a fresh service process that receives full Node objects."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice

from benchmarks import process
from benchmarks.measure import Limit, Row
from benchmarks.requests import full_nodes_body
from benchmarks.service import Client, running
from benchmarks.world import World

GROUP = "targets"
REQUESTS = 5
TIMES_BODY = 3
BASE_BYTES = 150e6
WITHIN = Limit("≤", 1)


def rows(world: World) -> Iterator[Row]:
    bodies = [full_nodes_body(world, fits=True, replica=number) for number in range(2)]
    name = f"peak RSS, {REQUESTS} x /filter of {world.plan.nodes:,} full nodes"
    alone = replace(world.plan, pods=(0, 0))
    with running(alone) as service:
        ask(service.port, bodies)
        most = process.peak(service.process)
    if most is None:
        print("peak RSS is not available on this system")
        return
    bytes_of_body = len(bodies[0])
    allowed = TIMES_BODY * bytes_of_body + BASE_BYTES
    yield Row(GROUP, f"{name}, no pods", [most], "body x 3 + 150 MB", [allowed], WITHIN, unit="MB")
    with running(world.plan) as service:
        process.forget_peak(service.process)
        before = process.resident(service.process) or 0
        ask(service.port, bodies)
        more = (process.peak(service.process) or 0) - before
    note = f"{before / 1e6:,.0f} MB"
    about = f"{name}, above what it takes with all pods"
    yield Row(GROUP, about, [more], "body x 3", [TIMES_BODY * bytes_of_body], unit="MB", note=note)


def ask(port: int, bodies: Sequence[bytes]) -> None:
    """Send the bodies one after another, each about another pod, so that no call hits the cache of the previous one."""
    with contextlib.closing(Client(port)) as client:
        for body in islice(cycle(bodies), REQUESTS):
            client.post("/filter", body)
