"""Measure the wall time of whole calls over HTTP to the real service in its own process, one after another.

The baseline, in turns with each call, is the same body sent back by a bare application: HTTP and body alone. For
/filter and /prioritize together it is uvicorn without a framework, for the others a bare FastAPI application.
"""

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks import process
from benchmarks.measure import Bound, Limit, Row, Run, Work, in_turns
from benchmarks.printing import number
from benchmarks.requests import filter_bodies, full_nodes_body, new_preempt_bodies, preempt_body, templates_body
from benchmarks.service import Client, Started, running, started, wait_until_ready
from benchmarks.world import World

GROUP = "targets"
REQUESTS = 300
REQUESTS_LARGE = 101
REQUESTS_FULL = 15
REQUESTS_NEW = 40
WARM_UP = 20
DEFAULT_NODES = 500
ECHO, BARE, NAMES, NODES = "/echo", "/bare", "/names", "/nodes"
"""Paths of the baselines."""
AGAINST = {
    ECHO: "echo of the body by a bare FastAPI app",
    BARE: "two echoes of the body by a bare uvicorn application",
    NAMES: "a bare FastAPI app that decodes raw nodes and sends their number back",
    NODES: "a bare FastAPI app that decodes raw nodes and sends them back",
}
RAW_NODES = {False: NAMES, True: NODES}
"""Whether the pod fits -> path of the baseline; nodes are returned only if it fits."""
NOWHERE = Limit("≤", 2.5)
TWO_CALLS = Limit("≤", 1.6)
AFTER_DRY_RUN = Limit("≤", 2)
TEMPLATES = (1, 100, 1000)
"""Template nodes of a dry run."""
SOME_CANDIDATES, ALL_CANDIDATES = Limit("≤", 4), Limit("≤", 6)
FITS = {False: "fits nowhere", True: "fits everywhere"}


def rows(world: World) -> Iterator[Row]:
    with (
        running(world.plan) as service,
        echo() as bare,
        contextlib.closing(Client(service.port)) as client,
        contextlib.closing(Client(bare.port)) as plain,
    ):
        beside = Beside(client, plain, service.process, bare.process)
        yield from of_names(world, beside)
        yield from of_candidates(world, beside)
        yield from of_templates(world, beside)
        yield from of_full_nodes(world, beside)


def of_names(world: World, beside: "Beside") -> Iterator[Row]:
    """Yield rows for node names; kube-scheduler itself never prioritizes for a pod that fits nowhere."""
    for fits, which in FITS.items():
        name, bodies = f"/filter, {world.plan.nodes:,} names, {which}", filter_bodies(world, fits)
        yield replace(beside.row(name, ["/filter"], bodies, REQUESTS), limit=None if fits else NOWHERE)
    for fits, which in FITS.items():
        few = min(DEFAULT_NODES, world.plan.nodes)
        name, bodies = f"/filter and /prioritize, {few} names, {which}", filter_bodies(world, fits, DEFAULT_NODES)
        row = beside.row(name, ["/filter", "/prioritize"], bodies, REQUESTS, echo=BARE)
        yield replace(row, limit=TWO_CALLS if fits else None)


def of_candidates(world: World, beside: "Beside") -> Iterator[Row]:
    """Yield rows for candidates sent before, as most are for consecutive preemptors of one priority, and new ones."""
    every = len(world.candidates)
    few = ((DEFAULT_NODES, REQUESTS, SOME_CANDIDATES),) if every > DEFAULT_NODES else ()
    for count, requests, limit in (*few, (every, REQUESTS_LARGE, ALL_CANDIDATES)):
        name = f"/preempt, {count:,} candidates, UIDs"
        yield replace(beside.row(name, ["/preempt"], [preempt_body(world, count)], requests), limit=limit)
        new = new_preempt_bodies(world, count, REQUESTS_NEW + WARM_UP)
        yield replace(beside.row(f"{name}, never sent before", ["/preempt"], new, REQUESTS_NEW), limit=limit)


def of_templates(world: World, beside: "Beside") -> Iterator[Row]:
    """Yield rows for dry runs with templates, and for the call of kube-scheduler that comes after one."""
    for count in TEMPLATES:
        bodies = [templates_body(world, count, fits=True, replica=replica) for replica in range(2)]
        yield beside.row(f"/filter-dryrun, {count:,} template(s)", ["/filter-dryrun"], bodies, REQUESTS_LARGE)
    for fits, which in FITS.items():
        dry_run = calls(beside.client, ["/filter-dryrun"], [templates_body(world, TEMPLATES[0], fits)])
        another = calls(beside.client, ["/filter"], filter_bodies(world, not fits))  # empties the CPU's caches, too
        works = [
            Work(calls(beside.client, ["/filter"], filter_bodies(world, fits)), prepare, time.perf_counter)
            for prepare in (dry_run, another)
        ]
        own, others = in_turns(works, REQUESTS_LARGE, WARM_UP)
        name = f"/filter, {world.plan.nodes:,} names, {which}, after a dry run"
        yield Row(GROUP, name, own, "the same after a /filter for another pod", others, limit=AFTER_DRY_RUN)


def of_full_nodes(world: World, beside: "Beside") -> Iterator[Row]:
    for fits, which in FITS.items():
        bodies = [full_nodes_body(world, fits, replica) for replica in range(2)]
        name = f"/filter, {world.plan.nodes:,} full nodes, {len(bodies[0]) / 1e6:.0f} MB, {which}"
        row = beside.row(name, ["/filter"], bodies, REQUESTS_FULL, echo=RAW_NODES[fits])
        yield replace(row, bounds=(Bound("median", 90),))


@dataclass(frozen=True, slots=True)
class Beside:
    """A connection to the service, and one to the baseline application."""

    client: Client
    plain: Client
    service: int
    bare: int
    """Process IDs of both."""

    def row(self, name: str, paths: Sequence[str], bodies: Sequence[bytes], requests: int, *, echo: str = ECHO) -> Row:
        """Send the bodies in turn to all paths; the note gives the service's CPU time, also against the baseline's."""
        works = [
            Work(calls(self.client, paths, bodies), clock=time.perf_counter),
            Work(calls(self.plain, [echo] * len(paths), bodies), clock=time.perf_counter),
        ]
        warm_up = min(WARM_UP, requests)
        before = self._worked()
        own, others = in_turns(works, requests, warm_up)
        service, bare = (after - start for after, start in zip(self._worked(), before, strict=True))
        note = f"{number(1000 * service / (requests + warm_up))} ms of CPU in the service" if service else ""
        note += f", {number(service / bare)} x the baseline's" if bare else ""
        return Row(GROUP, name, own, AGAINST[echo], others, note=note)

    def _worked(self) -> tuple[float, float]:
        """Return the CPU seconds of the service and of the baseline so far; 0 where they are not available."""
        return process.worked(self.service) or 0.0, process.worked(self.bare) or 0.0


@contextlib.contextmanager
def echo() -> Iterator[Started]:
    with started("benchmarks.serve_echo") as bare:
        wait_until_ready(bare.port)
        yield bare


def calls(client: Client, paths: Sequence[str], bodies: Sequence[bytes]) -> Run:
    turns = itertools.cycle(bodies)

    def run() -> None:
        body = next(turns)
        for path in paths:
            client.post(path, body)

    return run
