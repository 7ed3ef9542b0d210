"""All that /metrics can show: every kind followed, TLS on both listeners, audit and recording on, a memory limit."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from extender.cluster.cache.cache import ClusterCache, ReflectorStatus
from extender.cluster.watch.list_watch import POD_GROUP_RESOURCES, RESOURCES
from extender.config import Configuration
from extender.server.admin.collectors import Waits, show
from extender.server.app import create_app
from extender.server.observability.cache_status import NoSource
from extender.server.observability.metrics import Metrics


@dataclass
class Certificate:
    """What is seen of the TLSFiles of a listener."""

    expires: float = 1_800_000_000.0
    problem: str | None = None
    refused: int = 0


@dataclass
class Live(NoSource):
    """Follows kinds of a cluster, in one phase."""

    kinds: Iterable[str] = tuple(one.kind for one in (*RESOURCES, *POD_GROUP_RESOURCES))
    phase: str = "watching"
    age: float | None = 0.1

    def reflector_statuses(self):
        return [ReflectorStatus(kind, self.phase, "7", self.age, None, 1, 2, 3, 4, 5) for kind in self.kinds]


def everything(source: Live | None = None) -> Metrics:
    """Of an application that has just started."""
    server_context = create_app(ClusterCache(), Configuration(), source or Live()).state.server_context
    server_context.lifecycle.certificates.update(server=Certificate(), admin=Certificate())
    metrics = Metrics()
    show(metrics, server_context, Waits(memory_limit=lambda: 1 << 30))
    return metrics


def families(metrics: Metrics | None = None) -> list[Metric]:
    """What is shown, in its order."""
    return list(text_string_to_metric_families((metrics or everything()).text().decode()))


def name_of(family: Metric) -> str:
    """As it is written in the text format; the parser leaves `_total` out."""
    return family.name + "_total" * (family.type == "counter")


@dataclass
class Series:
    """What can be asked of a name in PromQL."""

    labels: dict[str, set[str]] = field(default_factory=dict)
    """Label -> its values."""


@cache
def series() -> dict[str, Series]:
    """Name of a sample -> its labels; of a histogram there are three names."""
    found: dict[str, Series] = {}
    for family in families():
        for sample in family.samples:
            of_name = found.setdefault(sample.name, Series())
            for label, value in sample.labels.items():
                of_name.labels.setdefault(label, set()).add(value)
    return found
