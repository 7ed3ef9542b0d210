"""Prometheus counters and histograms that calls update, in one registry per application so that two never share series.

Gauges that are computed at scrape time are in `server.admin.collectors`. docs/metrics.md lists every metric.

Rule: every label has few values, all known in advance, and each series starts at 0: an alert can see an increase from
0 to 1, but not a series that appears with the value 1.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

from extender.core.engine import PreemptDecision
from extender.core.framework.plugins import UNEVALUATED_FILTERS
from extender.core.framework.plugins.missing_permissions import REQUIRED_TABLES
from extender.core.preemption.sent_candidates import UNKNOWN_NODE, UNKNOWN_VICTIM
from extender.errors import DeadlineMissed, ExtenderError, GuardError, NotReady, Overloaded, UnknownNode
from extender.server.guard.guard import DUPLICATE_NODE, RULES
from extender.version import __version__
from extender.wire import PreemptRequest

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

VERBS = ("filter", "prioritize", "preempt")

DURATION_BUCKETS_SECONDS = (0.001, 0.005, 0.025, 0.1, 1.0, 4.0)
"""Upper bounds of the latency buckets: a call on an idle machine; a filter of a large cluster; the latency bounds of
filter and of preempt under load; a call that needs an operator's attention; the deadline derived from kube-scheduler's
default httpTimeout of 5 s."""

TIMED_STATUSES = (
    ("filter", 200),
    ("filter", 503),
    ("prioritize", 200),
    ("preempt", 200),
    ("preempt", 503),
    ("bind", 200),
)
"""(verb, HTTP status) pairs that get a latency histogram each: every answer except refused requests."""

REFUSAL_STATUSES = (400, 404, 408, 413, 415)
"""HTTP statuses of refused requests: the body was not a valid request."""

ANSWER_RESULTS = {
    "filter": ("fits", "nowhere", "passthrough", "failed"),
    "prioritize": ("scored", "passthrough", "failed"),
    "preempt": ("evicted", "vetoed", "passthrough", "failed"),
    "bind": ("failed",),
}
"""Verb -> results of extender_answers_total. The other outcomes of /bind are in extender_binds_total."""

COUNTED_ERRORS: tuple[type[ExtenderError], ...] = (NotReady, Overloaded, DeadlineMissed, UnknownNode, GuardError)
"""Errors that extender_failures_total counts under their class name."""
OTHER_ERROR = "Other"
"""Reason of any other ExtenderError."""
INTERNAL_ERROR = "Internal"
"""Reason of an unexpected exception, hence a bug; the log has its stack trace."""
FAILURE_REASONS = (*(one.__name__ for one in COUNTED_ERRORS), OTHER_ERROR, INTERNAL_ERROR)

UNKNOWN_LABELS = {UNKNOWN_NODE: "node", UNKNOWN_VICTIM: "victim"}
"""Reason why the engine drops a sent candidate -> label value of extender_unknown_candidates_total."""

# A `_created` series beside each counter would double the number of series; the client library offers only this
# process-wide switch.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of one application since its start, and the registry that collectors join."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._count_calls()
        self._count_decisions()
        self._count_preemptions()
        build = Gauge(
            "extender_build_info", "Always 1, labelled with the running version.", ("version",), registry=self._registry
        )
        build.labels(__version__).set(1)
        ProcessCollector(registry=self._registry)

    def _count_calls(self) -> None:
        duration = Histogram(
            "extender_request_duration_seconds",
            "Latency of calls in seconds, from the first byte of the request to the response, by verb and HTTP status.",
            ("verb", "code"),
            buckets=DURATION_BUCKETS_SECONDS,
            registry=self._registry,
        )
        self._durations = {(verb, code): duration.labels(verb, code) for verb, code in TIMED_STATUSES}
        refused = self._counter(
            "extender_refused_requests_total",
            "Number of calls refused because the request was malformed, too large or too slow, by HTTP status.",
            ("code",),
        )
        self._refused = {code: refused.labels(code) for code in REFUSAL_STATUSES}
        self._in_flight = Gauge(
            "extender_requests_in_flight",
            "Number of calls in flight, from reading the body to the response.",
            registry=self._registry,
        )
        self.in_flight = 0
        self._in_flight.set_function(lambda: self.in_flight)
        failures = self._counter(
            "extender_failures_total",
            "Number of calls answered by the failure policy (in mode Observe: that would have been), by reason.",
            ("reason",),
        )
        self._failures = {reason: failures.labels(reason) for reason in FAILURE_REASONS}

    def _count_decisions(self) -> None:
        answers = self._counter(
            "extender_answers_total",
            "Number of answers by result: at least one node fits (fits) or none (nowhere); nodes are scored (scored); "
            "pods are evicted (evicted) or no pod is (vetoed); the decision is left to kube-scheduler by killSwitch or "
            "mode Observe (passthrough); the failure policy answered (failed).",
            ("verb", "result"),
        )
        self._answers = {
            (verb, result): answers.labels(verb, result)
            for verb, results in ANSWER_RESULTS.items()
            for result in results
        }
        not_evaluated = self._counter(
            "extender_not_evaluated_total",
            "Number of decisions that left a filter plugin, which the extender could not evaluate, to kube-scheduler.",
            ("plugin",),
        )
        self._not_evaluated = {
            plugin: not_evaluated.labels(plugin) for plugin in (*UNEVALUATED_FILTERS, *REQUIRED_TABLES)
        }
        binds = self._counter("extender_binds_total", "Number of requests to bind a pod, by outcome.", ("outcome",))
        self._binds = {outcome: binds.labels(outcome) for outcome in ("bound", "refused", "unknown")}
        observed = self._counter(
            "extender_observed_answers_total",
            "Number of calls in mode Observe, by whether the extender's answer would have differed from what "
            "kube-scheduler does by itself, as far as the request shows it. For a preemption, the node that "
            "kube-scheduler would have chosen among its candidates is not compared.",
            ("verb", "outcome"),
        )
        outcomes = ("same", "differs", "failed")
        self._observed = {(verb, one): observed.labels(verb, one) for verb in VERBS for one in outcomes}

    def _count_preemptions(self) -> None:
        self._victims = self._counter(
            "extender_victims_total", "Number of preemption victims on the best node of answers to /preempt."
        )
        self._violations = self._counter(
            "extender_violations_total",
            "Number of PodDisruptionBudget violations on the best node of answers to /preempt.",
        )
        self._avoided = self._counter(
            "extender_violations_avoided_total",
            "Number of PodDisruptionBudget violations that answers to /preempt avoided: the lowest NumPDBViolations of "
            "the candidates that kube-scheduler sent (it would have chosen such a node) minus those of the answer's "
            "best node, never below 0; all of them where no pod is evicted.",
        )
        rejections = self._counter(
            "extender_guard_rejections_total",
            "Number of preemption candidates that the final check of an answer rejected, by violated rule.",
            ("rule",),
        )
        rules = (DUPLICATE_NODE, *(name for name, _ in RULES))
        self._guard_rejections = {rule: rejections.labels(rule) for rule in rules}
        unknown = self._counter(
            "extender_unknown_candidates_total",
            "Number of candidates sent by kube-scheduler and dropped because the node or a victim is not in the "
            "cluster cache.",
            ("what",),
        )
        self._unknown_candidates = {what: unknown.labels(what) for what in UNKNOWN_LABELS.values()}

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    # --- calls ------------------------------------------------------------------------------------------------------

    @contextmanager
    def track_in_flight(self) -> Iterator[int]:
        """Count one call as in flight inside the `with` block; yield the number of calls in flight, including it."""
        self.in_flight += 1
        try:
            yield self.in_flight
        finally:
            self.in_flight -= 1

    def observe_request(self, verb: str, status: int, seconds: float) -> None:
        """Observe the latency of one answered call, or count it as refused."""
        timed = self._durations.get((verb, status))
        if timed is not None:
            timed.observe(seconds)
        else:
            self._refused[status].inc()

    def count_failure(self, error: Exception) -> None:
        """Count one call that failed with this error."""
        name = next((one.__name__ for one in COUNTED_ERRORS if isinstance(error, one)), None)
        self._failures[name or (OTHER_ERROR if isinstance(error, ExtenderError) else INTERNAL_ERROR)].inc()

    # --- decisions --------------------------------------------------------------------------------------------------

    def count_answer(self, verb: str, result: str) -> None:
        """Count one answer; `result`: one of ANSWER_RESULTS[verb]."""
        self._answers[verb, result].inc()

    def count_preemption(self, request: PreemptRequest, decision: PreemptDecision) -> None:
        """Count the victims of one answer, its PDB violations, and those that it avoided."""
        best = decision.kept[0] if decision.kept else None
        violations = best.num_pdb_violations if best is not None else 0
        self._victims.inc(len(best.victims) if best is not None else 0)
        self._violations.inc(violations)
        fewest = min(map(attrgetter("num_pdb_violations"), request.sent.values()), default=0)
        self._avoided.inc(max(0, fewest - violations))

    def count_not_evaluated(self, plugins: Iterable[str]) -> None:
        """Count one decision that left these plugins to kube-scheduler."""
        for plugin in plugins:
            self._not_evaluated[plugin].inc()

    def count_guard_rejection(self, rule: str) -> None:
        """Count one candidate that violates the rule."""
        self._guard_rejections[rule].inc()

    def count_unknown_candidates(self, reasons: Iterable[str]) -> None:
        """Count the dropped candidates among these reasons whose node or victim is not in the cluster cache."""
        for reason in reasons:
            if reason in UNKNOWN_LABELS:
                self._unknown_candidates[UNKNOWN_LABELS[reason]].inc()

    def count_bind(self, outcome: str) -> None:
        """Count one request to bind."""
        self._binds[outcome].inc()

    def count_observed_answer(self, verb: str, outcome: str) -> None:
        """Count one call in mode Observe."""
        self._observed[verb, outcome].inc()

    # --- exposition -------------------------------------------------------------------------------------------------

    def register(self, collector: Collector) -> None:
        """Add a collector whose metrics are computed at scrape time."""
        self._registry.register(collector)

    def guard_rejections(self) -> dict[str, int]:
        """Return rule -> number of rejected candidates, for the rules with at least one."""
        counted = {rule: _value(counter) for rule, counter in self._guard_rejections.items()}
        return {rule: count for rule, count in counted.items() if count}

    def exposition(self) -> bytes:
        """Render every metric in the Prometheus text format, of type CONTENT_TYPE."""
        return generate_latest(self._registry)


def _value(counter: Counter) -> int:
    (family,) = counter.collect()
    return int(family.samples[0].value)
