"""What is counted, for Prometheus: one registry per application, so that two of them never share a number.

Rule: every label has few values, all known beforehand, and each series starts at 0: an increase from 0 to 1 can be
alerted on, one from nothing cannot.
"""

from collections.abc import Iterable

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    disable_created_metrics,
    generate_latest,
)

from extender.core.plugins import NOT_MODELLED
from extender.server.guard import NODE_TWICE, RULES

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

VERBS = ("filter", "prioritize", "preempt")

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
        for verb in VERBS:
            for plugin in NOT_MODELLED:
                self._not_evaluated.labels(verb, plugin)
        for rule in (NODE_TWICE, *(name for name, _ in RULES)):
            self._guard_rejections.labels(rule)

    def not_evaluated(self, verb: str, plugins: Iterable[str]) -> None:
        """Count one decision that says nothing of these plugins."""
        for plugin in plugins:
            self._not_evaluated.labels(verb, plugin).inc()

    def guard_rejected(self, rule: str) -> None:
        """Count one candidate that breaks the rule."""
        self._guard_rejections.labels(rule).inc()

    def guard_rejections(self) -> dict[str, int]:
        """Rule -> how many candidates broke it, without those that none did."""
        samples = (sample for family in self._guard_rejections.collect() for sample in family.samples)
        return {sample.labels["rule"]: int(sample.value) for sample in samples if sample.value}

    def text(self) -> bytes:
        """All of it in the Prometheus text format, of type CONTENT_TYPE."""
        return generate_latest(self._registry)
