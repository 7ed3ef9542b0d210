"""Prometheus metrics of state, read at scrape time: cluster cache, settings, recording, TLS and the process.

Rule: a scrape changes nothing, performs no network I/O, and takes well below a millisecond.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.watch.state import Phase
from extender.errors import NotReady
from extender.k8s.kinds import ADMISSION_KINDS, KINDS
from extender.server.context import Lifecycle, ServerContext
from extender.server.observability.cache_status import ClusterSource
from extender.server.observability.log_writer import installed_handler
from extender.server.observability.metrics import Metrics
from extender.server.settings import LiveSettings


def register_collectors(metrics: Metrics, server_context: ServerContext, waits: "EventLoopCollector") -> None:
    """Register every collector that applies to this server."""
    metrics.register(StateCollector(server_context))
    metrics.register(LogCollector())
    metrics.register(waits)


@dataclass(frozen=True, slots=True, eq=False)
class StateCollector(Collector):
    """Metrics of the server context; hashed by identity, as the registry requires."""

    server_context: ServerContext

    def collect(self) -> Iterator[Metric]:
        server = self.server_context
        yield from cache_metrics(server.cache, server.source)
        yield from settings_metrics(server.live_settings, server.lifecycle, server.max_in_flight)
        yield from certificate_metrics(server.lifecycle)
        if server.recorder is not None:
            yield from recording_metrics(server.recorder.status())
        if server.audit is not None:
            yield _counter("audit_dropped", "Number of audit lines lost; the log says why.", server.audit.dropped)
        if server.events is not None:
            yield _counter(
                "events",
                "Number of Events about preemptions: written, or counted by the one that is there already (written); "
                "lost to a rate or a full queue (dropped); not taken by the API server (failed: the log says why).",
                server.events.totals(),
                "result",
            )


class LogCollector(Collector):
    """The metric of lost log lines; always 0 unless `extender serve` has configured logging."""

    def collect(self) -> Iterator[Metric]:
        handler = installed_handler()
        dropped = 0 if handler is None else handler.dropped
        yield _counter("log_lines_dropped", "Number of log lines lost because standard error was not read.", dropped)


def cache_metrics(cache: ClusterCache, source: ClusterSource) -> Iterator[Metric]:
    """Yield the metrics of the cluster cache and of its reflectors."""
    yield _gauge(
        "cache_ready",
        "1 if the cluster cache is ready for decisions, else 0.",
        cache.version > 0 and source.problem() is None,
    )
    yield _gauge(
        "assumed_pods",
        "Number of assumed pods: bound, nominated or evicted by an answer, but not yet confirmed by a watch event.",
        len(cache.assumed),
    )
    reflectors = source.reflector_statuses()
    # No decision reads the kinds of admission: they have no series of their own, and raise no alert about staleness.
    kinds = [kind for kind in [one.kind for one in reflectors] or KINDS if kind not in ADMISSION_KINDS]
    try:
        tables = cache.mutable_snapshot().objects
        counts = {kind: len(tables.of(kind)) for kind in kinds}
    except NotReady:
        counts = dict.fromkeys(kinds, 0)
    yield _gauge("cache_objects", "Number of objects of this kind in the cluster cache.", counts, "kind")
    if not reflectors:
        return
    # A kind that cannot be listed has an age that only grows, and would raise an alert about staleness.
    readable = (one for one in reflectors if one.phase not in ("forbidden", "absent"))
    ages = {one.kind: one.age for one in readable if one.age is not None and one.kind in kinds}
    yield _gauge("cache_age_seconds", "Seconds since the last list, event or bookmark of this kind.", ages, "kind")
    phases = Counter(one.phase for one in reflectors)
    yield _gauge(
        "watch_streams",
        "Number of watched kinds, by the phase of their reflector; /readyz?verbose lists them.",
        {phase.value: phases[phase] for phase in Phase},
        "phase",
    )
    for field, (name, text) in _REFLECTOR_COUNTERS.items():
        yield _counter(name, text, sum(getattr(one, field) for one in reflectors))


_REFLECTOR_COUNTERS = {
    "relists": ("watch_relists", "Number of relists (lists after the first one), over all kinds."),
    "watch_restarts": (
        "watch_restarts",
        "Number of watches restarted after they ended, over all kinds; an API server ends each after 5 to 10 minutes.",
    ),
    "events": ("watch_events", "Number of watch events received, over all kinds."),
    "skipped": (
        "watch_skipped_objects",
        "Number of objects and events skipped because they could not be decoded; the log names them.",
    ),
    "divergences": (
        "cache_divergences",
        "Number of cached objects that differed from the API server's copy without an event; the log names their kind.",
    ),
}
"""Field of ReflectorStatus -> (metric, help text)."""


def settings_metrics(live_settings: LiveSettings, lifecycle: Lifecycle, max_in_flight: int) -> Iterator[Metric]:
    """Yield the metrics of the settings in effect and of the process's lifecycle."""
    settings = live_settings.active
    text = "1 if the current configuration file is in effect, 0 if it was rejected."
    yield _gauge("config_valid", text, live_settings.is_valid)
    yield _gauge("kill_switch", "1 while killSwitch is enabled, else 0.", settings.kill_switch is not None)
    text = "1 in mode Observe (decisions are made but not answered), else 0."
    yield _gauge("observing", text, settings.is_observing)
    text = "Limit of calls in flight (server.maxInFlight); calls above it are rejected as overload."
    yield _gauge("requests_in_flight_limit", text, max_in_flight)
    yield _gauge("draining", "1 while the process is shutting down, else 0.", lifecycle.is_draining)


def certificate_metrics(lifecycle: Lifecycle) -> Iterator[Metric]:
    """Yield the metrics of listeners that serve TLS."""
    files = lifecycle.certificates
    if not files:
        return
    yield _gauge(
        "certificate_expiry_timestamp_seconds",
        "Expiry of the certificate in use, in seconds since the Unix epoch.",
        {listener: one.expires for listener, one in files.items()},
        "listener",
    )
    yield _gauge(
        "certificate_files_valid",
        "1 if the current certificate, key and CA files are in use, 0 if they were rejected.",
        {listener: one.problem is None for listener, one in files.items()},
        "listener",
    )
    yield _counter(
        "refused_clients",
        "Number of connections refused because the client presented no accepted certificate; the log says why.",
        {listener: one.refused for listener, one in files.items()},
        "listener",
    )


def recording_metrics(status: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield the metrics of a recorder from its status."""
    yield _gauge("recording", "1 while calls are being recorded, else 0.", status["enabled"])
    yield _gauge("recording_bytes", "Size of all segments of the recording on disk, in bytes.", status["size"])
    yield _counter("recording_calls", "Number of calls recorded.", status["calls"])
    yield _counter(
        "recording_dropped",
        "Number of calls that were not recorded although recording was enabled; the log says why.",
        status["dropped"],
    )


# --- the process ----------------------------------------------------------------------------------------------------

LAG_WINDOW_SECONDS = 30.0
"""Length of a window. The exposed lag is the maximum of the current and the previous window, which no scrape resets, so
the scrape interval and the number of Prometheus servers do not matter."""

LAG_SAMPLE_SECONDS = 0.1
"""Interval between two measurements of the event loop's lag."""

MEMORY_LIMIT_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the memory limit of the container: control groups version 2, then version 1."""

_UNLIMITED_BYTES = 1 << 60
"""Without a limit, control groups version 1 report a value of at least this size."""


class EventLoopCollector(Collector):
    """Metrics of the event loop's lag, which `run()` measures as a task, and of the container's memory limit."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        memory_limit: Callable[[], int | None] = lambda: read_memory_limit(MEMORY_LIMIT_FILES),
    ) -> None:
        self._clock = clock
        self._memory_limit = memory_limit
        self._longest = [0.0, 0.0]
        """Longest lag in seconds of the current and of the previous window."""
        self._began = clock()

    async def run(self) -> None:
        """Measure the lag until cancelled."""
        while True:
            due = self._clock() + LAG_SAMPLE_SECONDS
            await asyncio.sleep(LAG_SAMPLE_SECONDS)
            self.record_lag(self._clock() - due)

    def record_lag(self, seconds: float) -> None:
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
    """Return the limit in bytes from the first readable file; None if no file is readable or it holds no limit."""
    for path in files:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        return int(text) if text.isdigit() and int(text) < _UNLIMITED_BYTES else None
    return None


def _gauge(name: str, text: str, value: float | Mapping[str, float], label: str = "") -> Metric:
    return _family(GaugeMetricFamily, name, text, value, label)


def _counter(name: str, text: str, value: float | Mapping[str, float], label: str = "") -> Metric:
    return _family(CounterMetricFamily, name, text, value, label)


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    text: str,
    value: float | Mapping[str, float],
    label: str,
) -> Metric:
    """Return a metric: one series, or one per value of the label."""
    family = kind(f"extender_{name}", text, labels=(label,) if label else ())
    for of_label, one in value.items() if isinstance(value, Mapping) else (("", value),):
        family.add_metric((of_label,) if label else (), one)
    return family
