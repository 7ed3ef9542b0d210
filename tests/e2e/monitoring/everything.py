"""Every metric that /metrics can show: all kinds watched, TLS on both listeners, audit, Events, recording, a limit."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from extender.cluster.cache.cache import ClusterCache, ReflectorStatus
from extender.cluster.watch.list_watch import POD_GROUP_RESOURCES, RESOURCES
from extender.config import Configuration
from extender.server.admin.collectors import EventLoopCollector, register_collectors
from extender.server.app import create_app
from extender.server.observability.cache_status import NoSource
from extender.server.observability.metrics import Metrics


@dataclass
class Certificate:
    """The attributes of TLSFiles that the collector reads."""

    expires: float = 1_800_000_000.0
    problem: str | None = None
    refused: int = 0


@dataclass
class ReflectorsInPhase(NoSource):
    """A source whose reflectors are all in one phase."""

    kinds: Iterable[str] = tuple(one.kind for one in (*RESOURCES, *POD_GROUP_RESOURCES))
    phase: str = "watching"
    age: float | None = 0.1

    def reflector_statuses(self):
        return [ReflectorStatus(kind, self.phase, "7", self.age, None, 1, 2, 3, 4, 5) for kind in self.kinds]


class UnusedApi:
    """An API server that is asked for nothing."""

    def get(self, path: str, *, timeout: Any) -> bytes:
        raise NotImplementedError

    def post(self, path: str, body: bytes, *, timeout: Any) -> bytes:
        raise NotImplementedError

    def patch(self, path: str, body: bytes, *, timeout: Any) -> bytes:
        raise NotImplementedError


def everything(source: ReflectorsInPhase | None = None) -> Metrics:
    """Return the metrics of an application that has just started."""
    config = Configuration.model_validate({"cluster": {"source": "kubernetes"}, "events": {"enabled": True}})
    server_context = create_app(ClusterCache(), config, source or ReflectorsInPhase(), UnusedApi()).server_context
    certificates: dict[str, Any] = {"server": Certificate(), "admin": Certificate()}
    server_context.lifecycle.certificates.update(certificates)
    metrics = Metrics()
    register_collectors(metrics, server_context, EventLoopCollector(memory_limit=lambda: 1 << 30))
    return metrics


def families(metrics: Metrics | None = None) -> list[Metric]:
    """Return the metric families in the order of the exposition."""
    return list(text_string_to_metric_families((metrics or everything()).exposition().decode()))


def name_of(family: Metric) -> str:
    """Return the name as the text format writes it; the parser drops `_total`."""
    return family.name + "_total" * (family.type == "counter")


@dataclass
class Series:
    """The labels and values that a PromQL expression can select."""

    labels: dict[str, set[str]] = field(default_factory=dict)
    """Label -> its values."""


@cache
def series() -> dict[str, Series]:
    """Return name of a sample -> its labels; a histogram has three names."""
    found: dict[str, Series] = {}
    for family in families():
        for sample in family.samples:
            of_name = found.setdefault(sample.name, Series())
            for label, value in sample.labels.items():
                of_name.labels.setdefault(label, set()).add(value)
    return found
