"""Prometheus collectors for state that is read at scrape time: cluster cache, settings, recording, TLS and the process.

Rule: a scrape changes nothing, performs no network I/O, and takes well below a millisecond per collector.
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
from extender.server.context import Lifecycle, ServerContext
from extender.server.observability.audit_log import AuditLog
from extender.server.observability.cache_status import ClusterSource
from extender.server.observability.metrics import Metrics
from extender.server.settings import LiveSettings

# --- the cluster cache ----------------------------------------------------------------------------------------------


class CacheCollector(Collector):
    """The cluster cache and the reflectors of its source."""

    def __init__(self, cache: ClusterCache, source: ClusterSource) -> None:
        self._cache = cache
        self._source = source

    def collect(self) -> Iterator[Metric]:
        ready = self._cache.version > 0 and self._source.problem() is None
        yield _gauge("cache_ready", "1 if the cluster cache is ready for decisions, else 0.", ready)
        yield _gauge(
            "assumed_pods",
            "Number of assumed pods: bound, nominated or evicted by an answer, but not yet confirmed by a watch event.",
            len(self._cache.assumed),
        )
        reflector_statuses = self._source.reflector_statuses()
        yield self._objects([one.kind for one in reflector_statuses] or list(KINDS))
        if not reflector_statuses:
            return
        age = _by_kind(
            "cache_age_seconds",
            "Seconds since the last list, event or bookmark of this kind.",
        )
        for one in reflector_statuses:
            if one.age is not None and one.phase not in ("forbidden", "absent"):
                age.add_metric((one.kind,), one.age)
        yield age
        phases = GaugeMetricFamily(
            "extender_watch_streams",
            "Number of watched kinds, by the phase of their reflector; /readyz?verbose lists them.",
            labels=("phase",),
        )
        for phase in PHASES:
            phases.add_metric((phase,), sum(one.phase == phase for one in reflector_statuses))
        yield phases
        for counter, (metric, text) in _WATCH_COUNTERS.items():
            total = sum(getattr(one, counter) for one in reflector_statuses)
            yield CounterMetricFamily(metric, text, value=total)

    def _objects(self, kinds: list[str]) -> Metric:
        family = _by_kind("cache_objects", "Number of objects of this kind in the cluster cache.")
        try:
            tables = self._cache.mutable_snapshot().objects
        except NotReady:
            tables = None
        for kind in kinds:
            family.add_metric((kind,), len(tables.of(kind)) if tables is not None else 0)
        return family


_WATCH_COUNTERS = {
    "relists": ("extender_watch_relists", "Number of relists (lists after the first one), over all kinds."),
    "watch_restarts": (
        "extender_watch_restarts",
        "Number of watches restarted after they ended, over all kinds; an API server ends each after 5 to 10 minutes.",
    ),
    "events": ("extender_watch_events", "Number of watch events received, over all kinds."),
    "skipped": (
        "extender_watch_skipped_objects",
        "Number of objects and events skipped because they could not be decoded; the log names them.",
    ),
    "divergences": (
        "extender_cache_divergences",
        "Number of cached objects that differed from the API server's copy without an event; the log names their kind.",
    ),
}
"""Counter of a reflector -> (metric, help text)."""


# --- the settings ---------------------------------------------------------------------------------------------------


class SettingsCollector(Collector):
    """The settings in effect, and whether the process is shutting down."""

    def __init__(self, live_settings: LiveSettings, lifecycle: Lifecycle, max_in_flight: int) -> None:
        self._configured = live_settings
        self._lifecycle = lifecycle
        self._max_in_flight = max_in_flight

    def collect(self) -> Iterator[Metric]:
        is_valid, settings = self._configured.last_error is None, self._configured.settings
        is_killed = settings.kill_switch is not None
        yield _gauge(
            "config_valid", "1 if the current configuration file is in effect, 0 if it was rejected.", is_valid
        )
        yield _gauge("kill_switch", "1 while killSwitch is enabled, else 0.", is_killed)
        yield _gauge(
            "observing", "1 in mode Observe (decisions are made but not answered), else 0.", settings.is_observing
        )
        yield _gauge(
            "requests_in_flight_limit",
            "Limit of calls in flight (server.maxInFlight); calls above it are rejected as overload.",
            self._max_in_flight,
        )
        yield _gauge("draining", "1 while the process is shutting down, else 0.", self._lifecycle.is_draining)


# --- recording and audit --------------------------------------------------------------------------------------------


class RecordingCollector(Collector):
    """The counters of the recorder; `status` is Recorder.status."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield _gauge("recording", "1 while calls are being recorded, else 0.", status["enabled"])
        yield _gauge("recording_bytes", "Size of all segments of the recording on disk, in bytes.", status["size"])
        for name, text in _RECORDING_COUNTERS.items():
            yield CounterMetricFamily(f"extender_recording_{name}", text, value=status[name])


_RECORDING_COUNTERS = {
    "calls": "Number of calls recorded.",
    "dropped": "Number of calls that were not recorded although recording was enabled; the log says why.",
}


class AuditCollector(Collector):
    """The audit log, if it is enabled."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "extender_audit_dropped", "Number of audit lines lost; the log says why.", value=self._audit.dropped
        )


# --- TLS ------------------------------------------------------------------------------------------------------------


class CertificateCollector(Collector):
    """The certificates of the listeners with TLS; no series for other listeners."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    def collect(self) -> Iterator[Metric]:
        if not self._lifecycle.certificates:
            return
        expires = _by_listener(
            "certificate_expiry_timestamp_seconds", "Expiry of the certificate in use, in seconds since the Unix epoch."
        )
        valid = _by_listener(
            "certificate_files_valid",
            "1 if the current certificate, key and CA files are in use, 0 if they were rejected.",
        )
        refused = CounterMetricFamily(
            "extender_refused_clients",
            "Number of connections refused because the client presented no accepted certificate; the log says why.",
            labels=("listener",),
        )
        for listener, files in self._lifecycle.certificates.items():
            expires.add_metric((listener,), files.expires)
            valid.add_metric((listener,), files.problem is None)
            refused.add_metric((listener,), files.refused)
        yield from (expires, valid, refused)


# --- the process ----------------------------------------------------------------------------------------------------

LAG_WINDOW_SECONDS = 30.0
"""Length of a window; the exposed lag is the maximum of the current and the previous window. A scrape does not reset
it, so the scrape interval and the number of Prometheus servers do not matter."""

LAG_SAMPLE_SECONDS = 0.1
"""Interval between two measurements of the event loop's lag."""

MEMORY_LIMIT_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the memory limit of the container: control groups version 2, then version 1."""

_UNLIMITED_BYTES = 1 << 60
"""Control groups version 1 report a number of at least this size if unlimited."""


class EventLoopCollector(Collector):
    """The lag of the event loop, measured by `run()` as a task, and the memory limit of the container."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        memory_limit: Callable[[], int | None] = lambda: read_memory_limit(MEMORY_LIMIT_FILES),
    ) -> None:
        self._clock = clock
        self._memory_limit = memory_limit
        self._longest = [0.0, 0.0]
        """[current window, previous window]: longest lag in seconds."""
        self._began = clock()

    async def run(self) -> None:
        """Measure the lag until cancelled."""
        while True:
            due = self._clock() + LAG_SAMPLE_SECONDS
            await asyncio.sleep(LAG_SAMPLE_SECONDS)
            self.record_lag(self._clock() - due)

    def record_lag(self, seconds: float) -> None:
        """Record one measurement."""
        self._advance_window()
        self._longest[0] = max(self._longest[0], seconds)

    def _advance_window(self) -> None:
        windows = int((self._clock() - self._began) / LAG_WINDOW_SECONDS)
        if windows:
            self._longest = [0.0, self._longest[0] if windows == 1 else 0.0]
            self._began += windows * LAG_WINDOW_SECONDS

    def collect(self) -> Iterator[Metric]:
        self._advance_window()
        yield _gauge(
            "event_loop_lag_seconds",
            "Longest delay of the event loop in the last 30 to 60 seconds.",
            max(self._longest),
        )
        limit = self._memory_limit()
        if limit is not None:
            yield _gauge("memory_limit_bytes", "Memory limit of the container in bytes, if there is one.", limit)


def read_memory_limit(files: Iterable[Path]) -> int | None:
    """Return the limit in bytes from the first readable file; None if no file is readable or it states no limit."""
    for path in files:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        return int(text) if text.isdigit() and int(text) < _UNLIMITED_BYTES else None
    return None


# --- registration ---------------------------------------------------------------------------------------------------


def register_collectors(metrics: Metrics, server_context: ServerContext, waits: EventLoopCollector) -> None:
    """Register every collector that applies to this server."""
    metrics.register(CacheCollector(server_context.cache, server_context.source))
    metrics.register(
        SettingsCollector(server_context.live_settings, server_context.lifecycle, server_context.max_in_flight)
    )
    metrics.register(CertificateCollector(server_context.lifecycle))
    if server_context.recorder is not None:
        metrics.register(RecordingCollector(server_context.recorder.status))
    if server_context.audit is not None:
        metrics.register(AuditCollector(server_context.audit))
    metrics.register(waits)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"extender_{name}", text, value=value)


def _by_kind(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"extender_{name}", text, labels=("kind",))


def _by_listener(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"extender_{name}", text, labels=("listener",))
