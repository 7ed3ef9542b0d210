"""Measure the memory of a service that follows a cluster of three times as many nodes: after the sync, in a relist."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from benchmarks import process
from benchmarks.api_cluster import ApiCluster
from benchmarks.live import Relisted, pods_in
from benchmarks.measure import Bound, Limit, Row
from benchmarks.service import Client, started, wait_until_ready
from benchmarks.world import World

GROUP = "targets"
TIMES_NODES = 3
MEGABYTES = 800
TIMES_SYNCED = Limit("≤", 1.5)
CHANGED = 5000
"""Pods that differ in the relist: too many to change one by one, so that a second snapshot is built."""


def rows(world: World) -> Iterator[Row]:
    plan = replace(world.plan, nodes=TIMES_NODES * world.plan.nodes)
    with (
        contextlib.closing(ApiCluster(plan)) as cluster,
        started("benchmarks.serve_live", "--url", cluster.url) as service,
        contextlib.closing(Client(service.admin_port)) as admin,
    ):
        wait_until_ready(service.admin_port)
        synced = process.resident(service.process)
        if synced is None:
            print("RSS is not available on this system")
            return
        about = f"{plan.nodes:,} nodes, {cluster.pods:,} pods"
        bounds = (Bound("max", MEGABYTES),)
        yield Row(GROUP, f"RSS after the first sync, {about}", [synced], unit="MB", bounds=bounds)
        process.forget_peak(service.process)
        relisted = Relisted(service.admin_port, pods_in(admin))
        cluster.carry_out(f"expire {CHANGED}")
        relisted.wait()
        most = process.peak(service.process) or 0
        name = f"peak RSS during a relist of all kinds, {about}"
        yield Row(GROUP, name, [most], "RSS after the first sync", [synced], TIMES_SYNCED, unit="MB")
