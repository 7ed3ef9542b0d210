"""`python -m benchmarks.cluster.pending`: what pods that stay pending cost, by how soon they are retried.

The durations are values of kube-scheduler's --pod-max-in-unschedulable-pods-duration; KUBE_BIN as in __main__.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx
import msgspec

from benchmarks.cluster.__main__ import control_plane, progress
from benchmarks.cluster.bulk import Bindings, BulkClient, following
from benchmarks.cluster.population import ARRIVALS, Population, Size
from benchmarks.cluster.turns import LIMIT_SECONDS
from benchmarks.measure import MALLOC, positive
from benchmarks.printing import aligned, number
from benchmarks.process import worked
from tests.e2e.control_plane.lab import binaries, keys
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.process import Process
from tests.e2e.control_plane.lab.service import Service

SMALL_MILLICORES = 1
SECONDS_BETWEEN_SMALL = 3.0
FLUSH_SECONDS = 30.0
"""kube-scheduler looks that often for pods that have waited longer than the duration."""


class Kind(StrEnum):
    """Why the pods stay pending, as the class of PRIORITIES that decides it."""

    NOTHING_TO_EVICT = "low"
    VETOED = "high"


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """One turn: pods that stay pending, over a whole number of retries of each."""

    kind: Kind
    pending: int
    duration: int
    seconds: float
    attempts: float
    calls: float
    cpu: dict[str, float]
    """Process -> CPU seconds."""
    waits: list[float]
    """Seconds until each small pod that arrived meanwhile was bound."""
    not_bound: int
    """Small pods that were not bound in the end."""


def main(argv: Sequence[str] | None = None) -> None:
    given = _options().parse_args(argv)
    os.environ.update(MALLOC, KUBE_BIN=str(Path(os.environ.get("KUBE_BIN", binaries.BUILT)).absolute()))
    with tempfile.TemporaryDirectory(prefix="extender-bench-") as directory, control_plane(Path(directory)) as plane:
        client = BulkClient(plane.url, plane.keys.ca_file, plane.keys.token(keys.ADMIN))
        population = Population(Size(given.nodes, 13, 20261121), plane.api, client)
        population.create()
        with Service(plane, {"preemption": {"minPendingDuration": "24h"}}) as service:
            turns = Turns(plane, client, population, service)
            costs = []
            for kind in given.kinds:
                for pending in given.pending:
                    costs += list(turns.measure(Kind[kind], pending, given.durations))
    print(report(given.nodes, costs))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.pending", description=__doc__)
    parser.add_argument("--nodes", type=positive, default=100, help="number of nodes of 13 pods (%(default)s)")
    parser.add_argument("--pending", type=positive, nargs="+", default=[1000, 5000], help="pending pods (1000 5000)")
    parser.add_argument("--durations", nargs="+", type=positive, default=[10, 30, 300], help="seconds (10 30 300)")
    parser.add_argument("--kinds", nargs="+", choices=[one.name for one in Kind], default=[one.name for one in Kind])
    return parser


class Turns:
    """A populated control plane with an extender that vetoes every preemption."""

    def __init__(self, plane: ControlPlane, client: BulkClient, population: Population, service: Service) -> None:
        self._plane = plane
        self._client = client
        self._population = population
        self._service = service
        self._small = 0

    def measure(self, kind: Kind, pending: int, durations: Sequence[int]) -> Iterator[Cost]:
        """Create the pending pods once and let one kube-scheduler after another retry them."""
        names = [f"pending-{number}" for number in range(pending)]
        self._population.arrive(names, self._population.size.preemptor_millicores, kind)
        for duration in durations:
            with following(self._client, ARRIVALS) as bindings:
                cost = self._turn(kind, pending, duration, bindings)
            progress(f"{kind.name}, {pending} pending, {duration} s: {cost}")
            yield cost
        self._population.clear_arrivals()

    def _turn(self, kind: Kind, pending: int, duration: int, bindings: Bindings) -> Cost:
        extender = self._service.extender(prioritizeVerb=None)
        flag = f"--pod-max-in-unschedulable-pods-duration={duration}s"
        scheduler = self._plane.start_scheduler({"extenders": [extender]}, verbosity=1, flags=[flag])
        try:
            self._plane.wait_until(lambda: attempts(scheduler, self._plane) >= pending, LIMIT_SECONDS, "first attempts")
            # each pod is retried once in 330 s with a duration of 300 s, in 60 s with 30 s, in 30 s with 10 s
            period = FLUSH_SECONDS * (1 + duration // FLUSH_SECONDS)
            return self._watch(scheduler, kind, pending, duration, max(period, 120.0), bindings)
        finally:
            scheduler.stop()

    def _watch(
        self, scheduler: Process, kind: Kind, pending: int, duration: int, seconds: float, bindings: Bindings
    ) -> Cost:
        before, began = self._counters(scheduler), time.monotonic()
        created: dict[str, float] = {}
        while time.monotonic() < began + seconds:
            name = f"small-{self._small}"
            self._small += 1
            created[name] = time.monotonic()
            self._population.arrive([name], SMALL_MILLICORES, "low")
            time.sleep(SECONDS_BETWEEN_SMALL)
        after, elapsed = self._counters(scheduler), time.monotonic() - began
        changed = {name: after[name] - before[name] for name in after}
        waits = [bindings.times[name] - at for name, at in created.items() if name in bindings.times]
        attempted, calls = changed.pop("attempts"), changed.pop("calls")
        return Cost(
            kind=kind, pending=pending, duration=duration, seconds=elapsed, attempts=attempted, calls=calls,
            cpu=changed, waits=waits, not_bound=len(created) - len(waits),
        )  # fmt: skip

    def _counters(self, scheduler: Process) -> dict[str, float]:
        processes = {"kube-scheduler": scheduler, "API server": self._plane.api_server, "extender": self._service}
        return {
            **{name: worked(process.pid) or 0.0 for name, process in processes.items()},
            "attempts": attempts(scheduler, self._plane),
            "calls": self._service.metric("extender_request_duration_seconds_count", verb="preempt"),
        }


def attempts(scheduler: Process, plane: ControlPlane) -> float:
    """Return how often this kube-scheduler found that a pod fits on no node."""
    (port,) = [one.partition("=")[2] for one in scheduler.argv if one.startswith("--secure-port=")]
    headers = {"Authorization": f"Bearer {plane.keys.token(keys.ADMIN)}"}
    answer = httpx.get(f"https://127.0.0.1:{port}/metrics", headers=headers, verify=False, trust_env=False, timeout=30)
    answer.raise_for_status()
    counted = [
        line for line in answer.text.splitlines()
        if line.startswith("scheduler_schedule_attempts_total{") and 'result="unschedulable"' in line
    ]  # fmt: skip
    return sum(float(line.rpartition(" ")[2]) for line in counted)


def report(nodes: int, costs: Sequence[Cost]) -> str:
    heading = ["pods that stay pending", "duration", "attempts/s", "/preempt/s", "CPU of kube-scheduler", "API server",
               "extender", "small pod bound, p50 s", "longest s", "not bound"]  # fmt: skip
    return f"{nodes} nodes of 13 pods; CPU in cores\n\n" + aligned([heading, *map(_line, costs)], heading[:2])


def _line(cost: Cost) -> list[str]:
    shares: list[Any] = [cost.attempts, cost.calls, *cost.cpu.values()]
    waits = [statistics.median(cost.waits), max(cost.waits)] if cost.waits else []
    name = f"{cost.pending:,} {cost.kind.name.lower().replace('_', ' ')}"
    return [name, f"{cost.duration} s", *(number(one / cost.seconds) for one in shares),
            *(map(number, waits) if waits else ("", "")), str(cost.not_bound)]  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
