"""What is counted, for Prometheus: one registry per application, so that two of them never share a number.

Rule: every label has few values, all known beforehand, and each series starts at 0: an increase from 0 to 1 can be
alerted on, one from nothing cannot.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.cluster.store import ClusterStore
from extender.core.engine import UNKNOWN_NODE, UNKNOWN_VICTIM
from extender.core.plugins import NOT_MODELLED
from extender.core.plugins.unread import NEEDS
from extender.server.guard import NODE_TWICE, RULES
from extender.server.picture import Source
from extender.server.settings import LiveSettings

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

VERBS = ("filter", "prioritize", "preempt")

UNKNOWN = {UNKNOWN_NODE: "node", UNKNOWN_VICTIM: "victim"}
"""Why the engine drops an offer -> label of what is not known."""

# A time of creation beside each counter would double the series; the client has only this switch for the process.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of one application since its start."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._not_evaluated = Counter(
            "extender_not_evaluated_total",
            "Decisions that left a filter plugin of kube-scheduler, not modelled here, to kube-scheduler.",
            ("verb", "plugin"),
            registry=self._registry,
        )
        self._guard_rejections = Counter(
            "extender_guard_rejections_total",
            "Preemption candidates that the last check of an answer rejected, by the rule that they break.",
            ("rule",),
            registry=self._registry,
        )
        self._unknown_offers = Counter(
            "extender_unknown_offers_total",
            "Offered nodes that were left out of a preemption because the picture does not hold what was offered.",
            ("what",),
            registry=self._registry,
        )
        self._binds = Counter(
            "extender_binds_total",
            "Requests to bind a pod, by what came of them.",
            ("outcome",),
            registry=self._registry,
        )
        self._observed = Counter(
            "extender_observed_answers_total",
            "Calls in mode Observe: whether an answer of ours would have differed from what kube-scheduler does by "
            "itself, as far as the call shows it. Which of the offered nodes kube-scheduler would have chosen for a "
            "preemption is not compared.",
            ("verb", "outcome"),
            registry=self._registry,
        )
        for what in UNKNOWN.values():
            self._unknown_offers.labels(what)
        for outcome in ("bound", "refused", "unknown"):
            self._binds.labels(outcome)
        for verb in VERBS:
            for plugin in (*NOT_MODELLED, *NEEDS):
                self._not_evaluated.labels(verb, plugin)
            for answer in ("same", "differs", "failed"):
                self._observed.labels(verb, answer)
        for rule in (NODE_TWICE, *(name for name, _ in RULES)):
            self._guard_rejections.labels(rule)

    def not_evaluated(self, verb: str, plugins: Iterable[str]) -> None:
        """Count one decision that says nothing of these plugins."""
        for plugin in plugins:
            self._not_evaluated.labels(verb, plugin).inc()

    def guard_rejected(self, rule: str) -> None:
        """Count one candidate that breaks the rule."""
        self._guard_rejections.labels(rule).inc()

    def offers_unknown(self, reasons: Iterable[str]) -> None:
        """Count the offers that were dropped, of which these are the reasons, for not being known."""
        for reason in reasons:
            if reason in UNKNOWN:
                self._unknown_offers.labels(UNKNOWN[reason]).inc()

    def bind(self, outcome: str) -> None:
        """Count one request to bind."""
        self._binds.labels(outcome).inc()

    def observed(self, verb: str, outcome: str) -> None:
        """Count one call in mode Observe."""
        self._observed.labels(verb, outcome).inc()

    def follow(self, store: ClusterStore, source: Source, configured: LiveSettings) -> None:
        """Show how true the picture is, and which settings are in effect."""
        self._registry.register(_Picture(store, source))
        self._registry.register(_Configured(configured))

    def follow_recording(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """Show whether calls are recorded; `status`: that of the Recorder."""
        self._registry.register(_Recording(status))

    def guard_rejections(self) -> dict[str, int]:
        """Rule -> how many candidates broke it, without those that none did."""
        samples = (sample for family in self._guard_rejections.collect() for sample in family.samples)
        return {sample.labels["rule"]: int(sample.value) for sample in samples if sample.value}

    def text(self) -> bytes:
        """All of it in the Prometheus text format, of type CONTENT_TYPE."""
        return generate_latest(self._registry)


class _Picture(Collector):
    """The store and its source as they are when somebody asks."""

    def __init__(self, store: ClusterStore, source: Source) -> None:
        self._store = store
        self._source = source

    def collect(self) -> Iterator[Metric]:
        ready = self._store.version > 0 and self._source.problem() is None
        yield _gauge("picture_ready", "1 if decisions are made on the picture of the cluster, else 0.", ready)
        yield _gauge("assumed_pods", "Pods of which more is assumed than a watch has shown.", len(self._store.assumed))
        streams = self._source.streams()
        if not streams:
            return
        age = _by_kind("stream_age_seconds", "Since the API server last proved that a kind is current.")
        up = _by_kind("stream_up", "1 if a kind of objects is being followed, else 0.")
        version = _by_kind("stream_version", "The resourceVersion of a kind that was seen last.")
        for one in streams:
            up.add_metric((one.kind,), one.phase == "watching")
            if one.age is not None:
                age.add_metric((one.kind,), one.age)
            if one.version.isdecimal():
                version.add_metric((one.kind,), float(one.version))
        yield from (age, up, version)
        for name, text in _BY_KIND.items():
            family = CounterMetricFamily(f"extender_stream_{name}", text, labels=("kind",))
            for one in streams:
                family.add_metric((one.kind,), getattr(one, name))
            yield family
        for name, text in _TOGETHER.items():
            total = sum(getattr(one, name) for one in streams)
            yield CounterMetricFamily(f"extender_stream_{name}", text, value=total)


class _Configured(Collector):
    """The settings as they are when somebody asks."""

    def __init__(self, configured: LiveSettings) -> None:
        self._configured = configured

    def collect(self) -> Iterator[Metric]:
        is_valid, is_killed = self._configured.last_error is None, self._configured.settings.kill_switch is not None
        yield _gauge("config_valid", "1 if the configuration file is in effect as it is now, else 0.", is_valid)
        yield _gauge("kill_switch", "1 while kube-scheduler is left to itself by killSwitch, else 0.", is_killed)


class _Recording(Collector):
    """How recording stands when somebody asks."""

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
_BY_KIND = {
    "relists": "Lists of a kind after the first one.",
    "watch_restarts": "Watches of a kind that ended and were begun again.",
}
_TOGETHER = {
    "events": "Watch events of all kinds.",
    "skipped": "Objects and events that could not be read and were left out; the log says which.",
    "divergences": "Objects that differed from the API server's without an event; the log says of which kind.",
}
"""Fields of StreamView; by kind only where that is worth 17 series."""


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"extender_{name}", text, value=value)


def _by_kind(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"extender_{name}", text, labels=("kind",))
