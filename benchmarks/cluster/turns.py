"""One turn: a burst of small pods, then preemptors one after another, with a new kube-scheduler.

Rule: a turn leaves the cluster as it found it; the extender runs only in turns that call it.
"""

import itertools
import os
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from benchmarks.cluster.bulk import Bindings, BulkClient, following
from benchmarks.cluster.population import ARRIVALS, Population
from benchmarks.process import worked
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.process import Process
from tests.e2e.control_plane.lab.service import Service

LIMIT_SECONDS = 300.0
WARM_UP = 3
"""Preemptors before the measured ones."""
SMALL_MILLICORES = 1


class Variant(StrEnum):
    """Which verbs kube-scheduler calls."""

    NONE = "no extender"
    PREEMPT = "preempt only"
    ALL = "all verbs"
    FILTER_AND_PREEMPT = "filter and preempt"


VERBS = ("filter", "prioritize", "preempt")

_VERBS_LEFT_OUT = {
    Variant.PREEMPT: ("filter", "prioritize"),
    Variant.FILTER_AND_PREEMPT: ("prioritize",),
    Variant.ALL: (),
}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured while pods were bound."""

    pods: int
    per_second: float
    cpu: dict[str, float]
    """Process -> CPU seconds while these pods were bound."""
    calls: dict[str, tuple[int, float]]
    """Verb -> calls and their seconds, as the extender measured them."""
    seconds: list[float] = []
    """From the creation of each preemptor until it was bound."""
    victims: float = 0.0
    """Pods evicted for each preemptor."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    variant: Variant
    load_average: float
    """Load average of the last minute before the turn."""
    burst: Figures
    preemptions: Figures | None
    """None: no preemptors."""


@dataclass(frozen=True, slots=True)
class Load:
    """How many pods a turn schedules; preemptors may be 0."""

    burst: int
    preemptors: int


class Bench:
    """A populated control plane on which turns run."""

    def __init__(self, plane: ControlPlane, client: BulkClient, population: Population, load: Load) -> None:
        self._plane = plane
        self._client = client
        self._population = population
        self._load = load
        self._service = Service(plane)
        self._number = itertools.count()

    def turn(self, variant: Variant, url: str | None = None) -> Turn:
        """Run one turn; `url` is the address of a proxy in front of the extender."""
        load_average = os.getloadavg()[0]
        self._serve(variant)
        names = [f"burst-{next(self._number)}" for _ in range(self._load.burst)]
        self._population.arrive(names, SMALL_MILLICORES, "low")
        with following(self._client, ARRIVALS) as bindings:
            scheduler = self._plane.start_scheduler(self._configuration(variant, url), verbosity=1)
            burst = self._burst(scheduler, bindings)
            self._population.clear_arrivals()
            preemptions = self._preemptions(scheduler, bindings) if self._load.preemptors else None
            scheduler.stop()
        if preemptions is not None:
            self._population.clear_arrivals()
            victims = self._population.fill() / (WARM_UP + self._load.preemptors)
            preemptions = msgspec.structs.replace(preemptions, victims=victims)
        return Turn(variant=variant, load_average=load_average, burst=burst, preemptions=preemptions)

    def recorded_calls(self) -> dict[str, list[float]]:
        """Run a turn with all verbs and a proxy in front of the extender; return the seconds of each call by verb."""
        self._serve(Variant.ALL)
        with CallRecorder(self._service.url) as recorder:
            self.turn(Variant.ALL, recorder.url)
            calls = recorder.calls
        return {verb: [one.seconds for one in calls if one.verb == verb] for verb in VERBS}

    def _serve(self, variant: Variant) -> None:
        """Start the extender for turns that call it, and stop it for the others."""
        if variant == Variant.NONE:
            self._service.stop()
        elif not self._service.is_running:
            self._service.start(wait=False)
            self._service.wait_ready(LIMIT_SECONDS)

    def _configuration(self, variant: Variant, url: str | None) -> dict[str, Any]:
        if variant == Variant.NONE:
            return {}
        left_out = dict.fromkeys(f"{verb}Verb" for verb in _VERBS_LEFT_OUT[variant])
        return {"extenders": [self._service.extender(url, **left_out)]}

    def _burst(self, scheduler: Process, bindings: Bindings) -> Figures:
        """Wait until the burst is bound; its rate is that from 10 % to 90 % of the pods."""
        meter, already = self._meter(scheduler), len(bindings.times)
        times = bindings.wait_for_count(self._load.burst, LIMIT_SECONDS)
        first, last = len(times) // 10, len(times) * 9 // 10
        rate = (last - first) / (times[last - 1] - times[first - 1])
        return meter.figures(len(times) - already, rate)

    def _preemptions(self, scheduler: Process, bindings: Bindings) -> Figures:
        """Create preemptors one after another, each as soon as the one before it is bound."""
        for _ in range(WARM_UP):
            self._preempt(bindings)
        meter = self._meter(scheduler)
        seconds = [self._preempt(bindings) for _ in range(self._load.preemptors)]
        figures = meter.figures(len(seconds), len(seconds) / sum(seconds))
        return msgspec.structs.replace(figures, seconds=seconds)

    def _preempt(self, bindings: Bindings) -> float:
        name = f"preemptor-{next(self._number)}"
        began = time.monotonic()
        self._population.arrive([name], self._population.size.preemptor_millicores, "high")
        return bindings.wait_for(name, LIMIT_SECONDS) - began

    def _meter(self, scheduler: Process) -> "Meter":
        return Meter({"kube-scheduler": scheduler, "kube-apiserver": self._plane.api_server}, self._service)


class Meter:
    """Counts CPU seconds and calls from its creation on."""

    def __init__(self, processes: dict[str, Process], service: Service) -> None:
        self._service = service if service.is_running else None
        self._processes = processes | ({"extender": service} if self._service else {})
        self._cpu = self._cpu_now()
        self._calls = self._calls_now()

    def figures(self, pods: int, per_second: float) -> Figures:
        cpu = {name: seconds - self._cpu[name] for name, seconds in self._cpu_now().items()}
        calls = {
            verb: (count - self._calls[verb][0], seconds - self._calls[verb][1])
            for verb, (count, seconds) in self._calls_now().items()
        }
        return Figures(pods=pods, per_second=per_second, cpu=cpu, calls=calls)

    def _cpu_now(self) -> dict[str, float]:
        return {name: worked(process.pid) or 0.0 for name, process in self._processes.items()}

    def _calls_now(self) -> dict[str, tuple[int, float]]:
        if self._service is None:
            return {}
        name = "extender_request_duration_seconds"
        metric = self._service.metric
        return {verb: (int(metric(f"{name}_count", verb=verb)), metric(f"{name}_sum", verb=verb)) for verb in VERBS}
