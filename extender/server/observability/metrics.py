"""What is counted while calls are answered, for Prometheus: one registry per application, so that two never share one.

`server.admin.collectors` has what is looked at when somebody asks. docs/metrics.md lists all of it.

Rule: every label has few values, all known beforehand, and each series starts at 0: an increase from 0 to 1 can be
alerted on, one from nothing cannot.
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

from extender.core.engine import UNKNOWN_NODE, UNKNOWN_VICTIM, PreemptDecision
from extender.core.framework.plugins import NOT_MODELLED
from extender.core.framework.plugins.missing_permissions import NEEDS
from extender.errors import DeadlineMissed, ExtenderError, GuardError, NotReady, Overloaded, UnknownNode
from extender.server.guard.guard import NODE_TWICE, RULES
from extender.version import __version__
from extender.wire import PreemptRequest

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

VERBS = ("filter", "prioritize", "preempt")

BUCKETS = (0.001, 0.005, 0.025, 0.1, 1.0, 4.0)
"""Seconds: an idle machine; what a filter of a large cluster takes; the bounds of filter and preempt under load; what
an operator wants to know of; and the deadline under kube-scheduler's default httpTimeout of 5 s."""

TIMED = (("filter", 200), ("filter", 503), ("prioritize", 200), ("preempt", 200), ("preempt", 503), ("bind", 200))
"""(verb, status) of every answer but refusals of what is not a request: a histogram each."""

REFUSALS = (400, 404, 408, 413, 415)
"""Statuses of those."""

RESULTS = {
    "filter": ("fits", "nowhere", "passed", "failed"),
    "prioritize": ("scored", "passed", "failed"),
    "preempt": ("evicted", "vetoed", "passed", "failed"),
    "bind": ("failed",),
}
"""What an answer says; of /bind the rest is in extender_binds_total."""

FAILURES: tuple[type[ExtenderError], ...] = (NotReady, Overloaded, DeadlineMissed, UnknownNode, GuardError)
"""Why there is no answer: of these each is counted by its name."""
OTHER, INTERNAL = "Other", "Internal"
"""Another error that has words for users; a mistake of ours, of which the log has the stack."""
REASONS = (*(one.__name__ for one in FAILURES), OTHER, INTERNAL)

UNKNOWN = {UNKNOWN_NODE: "node", UNKNOWN_VICTIM: "victim"}
"""Why the engine drops an offer -> label of what is not known."""

# A time of creation beside each counter would double the series; the client has only this switch for the process.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of one application since its start."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._count_calls()
        self._count_decisions()
        self._count_preemptions()
        build = Gauge("extender_build_info", "Always 1; which version runs.", ("version",), registry=self._registry)
        build.labels(__version__).set(1)
        ProcessCollector(registry=self._registry)

    def _count_calls(self) -> None:
        duration = Histogram(
            "extender_request_duration_seconds",
            "From the first byte of a call to its answer, by verb and HTTP status.",
            ("verb", "code"),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._durations = {(verb, code): duration.labels(verb, code) for verb, code in TIMED}
        refused = self._counter(
            "extender_refused_requests_total",
            "Calls that were refused because what was sent is no request, by HTTP status.",
            ("code",),
        )
        self._refused = {code: refused.labels(code) for code in REFUSALS}
        self._in_flight = Gauge(
            "extender_requests_in_flight",
            "Calls that are under way now, from the first look at the body to the answer.",
            registry=self._registry,
        )
        self.in_flight = 0
        self._in_flight.set_function(lambda: self.in_flight)
        failures = self._counter(
            "extender_failures_total",
            "Calls that were answered by the failure rule, or in mode Observe would have been, by the reason.",
            ("reason",),
        )
        self._failures = {reason: failures.labels(reason) for reason in REASONS}

    def _count_decisions(self) -> None:
        answers = self._counter(
            "extender_answers_total",
            "Answers by what they tell kube-scheduler: some node fits, or none; nodes are scored; pods are evicted, or "
            "nobody is (vetoed); all is left to kube-scheduler by killSwitch or mode Observe (passed); the failure "
            "rule applied (failed).",
            ("verb", "result"),
        )
        self._answers = {
            (verb, result): answers.labels(verb, result) for verb, results in RESULTS.items() for result in results
        }
        not_evaluated = self._counter(
            "extender_not_evaluated_total",
            "Decisions that left a filter plugin of kube-scheduler, not modelled here, to kube-scheduler.",
            ("plugin",),
        )
        self._not_evaluated = {plugin: not_evaluated.labels(plugin) for plugin in (*NOT_MODELLED, *NEEDS)}
        binds = self._counter("extender_binds_total", "Requests to bind a pod, by what came of them.", ("outcome",))
        self._binds = {outcome: binds.labels(outcome) for outcome in ("bound", "refused", "unknown")}
        observed = self._counter(
            "extender_observed_answers_total",
            "Calls in mode Observe: whether an answer of ours would have differed from what kube-scheduler does by "
            "itself, as far as the call shows it. Which of the offered nodes kube-scheduler would have chosen for a "
            "preemption is not compared.",
            ("verb", "outcome"),
        )
        outcomes = ("same", "differs", "failed")
        self._observed = {(verb, one): observed.labels(verb, one) for verb in VERBS for one in outcomes}

    def _count_preemptions(self) -> None:
        self._victims = self._counter(
            "extender_victims_total", "Pods that answers to /preempt name as victims on their best node."
        )
        self._violations = self._counter(
            "extender_violations_total",
            "Disruption budget violations of the best node of answers to /preempt: of the evictions that were "
            "answered, those that break a budget.",
        )
        self._avoided = self._counter(
            "extender_violations_avoided_total",
            "Disruption budget violations that answers to /preempt spare: the fewest NumPDBViolations of all offered "
            "nodes (kube-scheduler would have chosen such a node) less those of the answer's best node, never below 0; "
            "all of them where nobody is evicted.",
        )
        rejections = self._counter(
            "extender_guard_rejections_total",
            "Preemption candidates that the last check of an answer rejected, by the rule that they break.",
            ("rule",),
        )
        rules = (NODE_TWICE, *(name for name, _ in RULES))
        self._guard_rejections = {rule: rejections.labels(rule) for rule in rules}
        unknown = self._counter(
            "extender_unknown_offers_total",
            "Offered nodes that were left out of a preemption because the picture does not hold what was offered.",
            ("what",),
        )
        self._unknown_offers = {what: unknown.labels(what) for what in UNKNOWN.values()}

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    # --- calls ----------------------------------------------------------------------------------------------------

    @contextmanager
    def under_way(self) -> Iterator[int]:
        """A call is, until this ends -> how many are, with this one."""
        self.in_flight += 1
        try:
            yield self.in_flight
        finally:
            self.in_flight -= 1

    def answered(self, verb: str, status: int, seconds: float) -> None:
        """Count one call that got its answer after so long."""
        timed = self._durations.get((verb, status))
        if timed is not None:
            timed.observe(seconds)
        else:
            self._refused[status].inc()

    def failed(self, error: Exception) -> None:
        """Count one call for which this is why there was no answer."""
        name = next((one.__name__ for one in FAILURES if isinstance(error, one)), None)
        self._failures[name or (OTHER if isinstance(error, ExtenderError) else INTERNAL)].inc()

    # --- decisions ------------------------------------------------------------------------------------------------

    def told(self, verb: str, result: str) -> None:
        """Count one answer; `result`: one of RESULTS."""
        self._answers[verb, result].inc()

    def preempted(self, request: PreemptRequest, decision: PreemptDecision) -> None:
        """Count what one answer evicts, and the budgets that it breaks and does not break."""
        best = decision.kept[0] if decision.kept else None
        violations = best.num_pdb_violations if best is not None else 0
        self._victims.inc(len(best.victims) if best is not None else 0)
        self._violations.inc(violations)
        fewest = min(map(attrgetter("num_pdb_violations"), request.offers.values()), default=0)
        self._avoided.inc(max(0, fewest - violations))

    def not_evaluated(self, plugins: Iterable[str]) -> None:
        """Count one decision that says nothing of these plugins."""
        for plugin in plugins:
            self._not_evaluated[plugin].inc()

    def guard_rejected(self, rule: str) -> None:
        """Count one candidate that breaks the rule."""
        self._guard_rejections[rule].inc()

    def offers_unknown(self, reasons: Iterable[str]) -> None:
        """Count the offers that were dropped, of which these are the reasons, for not being known."""
        for reason in reasons:
            if reason in UNKNOWN:
                self._unknown_offers[UNKNOWN[reason]].inc()

    def bind(self, outcome: str) -> None:
        """Count one request to bind."""
        self._binds[outcome].inc()

    def observed(self, verb: str, outcome: str) -> None:
        """Count one call in mode Observe."""
        self._observed[verb, outcome].inc()

    # --- shown ----------------------------------------------------------------------------------------------------

    def follow(self, collector: Collector) -> None:
        """Show this too."""
        self._registry.register(collector)

    def guard_rejections(self) -> dict[str, int]:
        """Rule -> how many candidates broke it, without those that none did."""
        counted = {rule: _value(counter) for rule, counter in self._guard_rejections.items()}
        return {rule: count for rule, count in counted.items() if count}

    def text(self) -> bytes:
        """All of it in the Prometheus text format, of type CONTENT_TYPE."""
        return generate_latest(self._registry)


def _value(counter: Counter) -> int:
    (family,) = counter.collect()
    return int(family.samples[0].value)
