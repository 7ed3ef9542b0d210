"""What is looked at when Prometheus asks: the picture, the settings, the recording, and how the process is.

Rule: looking changes nothing, asks nobody else, and takes well below a millisecond for each of these.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.watch.list_watch import PHASES
from extender.errors import NotReady
from extender.k8s.kinds import KINDS
from extender.server.context import ServerContext
from extender.server.lifecycle import Lifecycle
from extender.server.observability.audit_log import AuditLog
from extender.server.observability.cache_status import Source
from extender.server.observability.metrics import Metrics
from extender.server.settings import LiveSettings

# --- the picture ----------------------------------------------------------------------------------------------------


class Picture(Collector):
    """The store and its source."""

    def __init__(self, cache: ClusterCache, source: Source) -> None:
        self._cache = cache
        self._source = source

    def collect(self) -> Iterator[Metric]:
        ready = self._cache.version > 0 and self._source.problem() is None
        yield _gauge("picture_ready", "1 if decisions are made on the picture of the cluster, else 0.", ready)
        yield _gauge("assumed_pods", "Pods of which more is assumed than a watch has shown.", len(self._cache.assumed))
        streams = self._source.streams()
        yield self._objects([one.kind for one in streams] or list(KINDS))
        if not streams:
            return
        age = _by_kind(
            "stream_age_seconds",
            "Since the API server last proved that a kind is current; of kinds of which it has, and that can be read.",
        )
        for one in streams:
            if one.age is not None and one.phase not in ("forbidden", "absent"):
                age.add_metric((one.kind,), one.age)
        yield age
        phases = GaugeMetricFamily(
            "extender_streams",
            "Kinds of objects by how they are followed now; /readyz?verbose says which.",
            labels=("phase",),
        )
        for phase in PHASES:
            phases.add_metric((phase,), sum(one.phase == phase for one in streams))
        yield phases
        for name, text in _OF_STREAMS.items():
            total = sum(getattr(one, name) for one in streams)
            yield CounterMetricFamily(f"extender_stream_{name}", text, value=total)

    def _objects(self, kinds: list[str]) -> Metric:
        family = _by_kind("objects", "Objects of a kind that the picture holds.")
        try:
            tables = self._cache.changing().objects
        except NotReady:
            tables = None
        for kind in kinds:
            family.add_metric((kind,), len(tables.of(kind)) if tables is not None else 0)
        return family


_OF_STREAMS = {
    "relists": "Lists of a kind after the first one.",
    "watch_restarts": "Watches of a kind that ended and were begun again; an API server ends each after 5 to 10 "
    "minutes.",
    "events": "Watch events of all kinds.",
    "skipped": "Objects and events that could not be read and were left out; the log says which.",
    "divergences": "Objects that differed from the API server's without an event; the log says of which kind.",
}
"""Fields of StreamView, of all kinds together."""


# --- the settings ---------------------------------------------------------------------------------------------------


class Configured(Collector):
    """The settings, and whether the end has been asked for."""

    def __init__(self, configured: LiveSettings, lifecycle: Lifecycle, max_in_flight: int) -> None:
        self._configured = configured
        self._lifecycle = lifecycle
        self._max_in_flight = max_in_flight

    def collect(self) -> Iterator[Metric]:
        is_valid, settings = self._configured.last_error is None, self._configured.settings
        is_killed = settings.kill_switch is not None
        yield _gauge("config_valid", "1 if the configuration file is in effect as it is now, else 0.", is_valid)
        yield _gauge("kill_switch", "1 while kube-scheduler is left to itself by killSwitch, else 0.", is_killed)
        yield _gauge("observing", "1 in mode Observe: what is decided is not answered; else 0.", settings.observing)
        yield _gauge(
            "requests_in_flight_limit", "server.maxInFlight: more calls at once are overload.", self._max_in_flight
        )
        yield _gauge("draining", "1 since the end of the process was asked for, else 0.", self._lifecycle.draining)


# --- what is written ------------------------------------------------------------------------------------------------


class Recording(Collector):
    """`status`: that of the Recorder."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield _gauge("recording", "1 while calls are recorded, else 0.", status["enabled"])
        yield _gauge("recording_bytes", "What all segments of the recording take on the disk.", status["size"])
        for name, text in _OF_RECORDING.items():
            yield CounterMetricFamily(f"extender_recording_{name}", text, value=status[name])


_OF_RECORDING = {
    "calls": "Calls that were recorded.",
    "dropped": "Calls that were not recorded although recording was on; the log says why.",
}


class Audit(Collector):
    """The audit lines, where there are some."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "extender_audit_dropped", "Audit lines that were lost; the log says why.", value=self._audit.dropped
        )


# --- TLS ------------------------------------------------------------------------------------------------------------


class Certificates(Collector):
    """Of the listeners that speak TLS; others show nothing."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    def collect(self) -> Iterator[Metric]:
        if not self._lifecycle.certificates:
            return
        expires = _by_listener(
            "certificate_expiry_timestamp_seconds", "When the certificate in use expires, Unix time."
        )
        valid = _by_listener("certificate_files_valid", "1 if certificate, key and CA are in use as the files are now.")
        refused = CounterMetricFamily(
            "extender_refused_clients",
            "Connections that were refused for want of a client certificate that is accepted; the log says why.",
            labels=("listener",),
        )
        for listener, files in self._lifecycle.certificates.items():
            expires.add_metric((listener,), files.expires)
            valid.add_metric((listener,), files.problem is None)
            refused.add_metric((listener,), files.refused)
        yield from (expires, valid, refused)


# --- the process ----------------------------------------------------------------------------------------------------

WINDOW = 30.0
"""Seconds; the longest wait of the last one or two windows is shown, however often and by whomever it is asked for."""

LOOK = 0.1
"""Seconds between two looks at how late the event loop is."""

MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Of the container, as control groups 2 and 1 show it."""

_NO_LIMIT = 1 << 60
"""Version 1 writes a number from here on where there is none."""


class Waits(Collector):
    """How long the event loop keeps calls waiting; `run()` as a task measures it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        memory_limit: Callable[[], int | None] = lambda: read_limit(MEMORY_LIMITS),
    ) -> None:
        self._clock = clock
        self._memory_limit = memory_limit
        self._longest = [0.0, 0.0]
        """In this window, and in the one before."""
        self._began = clock()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            due = self._clock() + LOOK
            await asyncio.sleep(LOOK)
            self.note(self._clock() - due)

    def note(self, late: float) -> None:
        """The loop was so many seconds late."""
        self._turn()
        self._longest[0] = max(self._longest[0], late)

    def _turn(self) -> None:
        windows = int((self._clock() - self._began) / WINDOW)
        if windows:
            self._longest = [0.0, self._longest[0] if windows == 1 else 0.0]
            self._began += windows * WINDOW

    def collect(self) -> Iterator[Metric]:
        self._turn()
        yield _gauge(
            "event_loop_lag_seconds",
            "The longest that a call had to wait for the event loop in the last 30 to 60 s.",
            max(self._longest),
        )
        limit = self._memory_limit()
        if limit is not None:
            yield _gauge("memory_limit_bytes", "What the container may take, where there is a limit.", limit)


def read_limit(files: Iterable[Path]) -> int | None:
    """The number in the first of the files that can be read; None if there is none, or it means no limit."""
    for path in files:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        return int(text) if text.isdigit() and int(text) < _NO_LIMIT else None
    return None


# --- all of it ------------------------------------------------------------------------------------------------------


def show(metrics: Metrics, service: ServerContext, waits: Waits) -> None:
    """Have all of it shown beside what is counted."""
    metrics.follow(Picture(service.cache, service.source))
    metrics.follow(Configured(service.configured, service.lifecycle, service.max_in_flight))
    metrics.follow(Certificates(service.lifecycle))
    if service.recorder is not None:
        metrics.follow(Recording(service.recorder.status))
    if service.audit is not None:
        metrics.follow(Audit(service.audit))
    metrics.follow(waits)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"extender_{name}", text, value=value)


def _by_kind(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"extender_{name}", text, labels=("kind",))


def _by_listener(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"extender_{name}", text, labels=("listener",))
