"""Prometheus counters and histograms that calls update, in one registry per application.

Metrics that are computed at scrape time are in `server.admin.collectors`. docs/metrics.md lists every metric.

Rule: every label has few values, all known in advance, and each series starts at 0: `increase()` sees a step from 0 to
1, but not a series that first appears with the value 1.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

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
from extender.core.framework.plugins import REQUIRED_TABLES
from extender.core.preemption.sent_candidates import CandidateRejection, RejectionReason
from extender.core.profile import KubeScheduler
from extender.errors import (
    CallerGone,
    DeadlineMissed,
    ExtenderError,
    GuardError,
    NotReady,
    Overloaded,
    PluginFailed,
    UnknownNode,
    UnknownScheduler,
)
from extender.server.guard.guard import DUPLICATE_NODE, rules
from extender.server.observability.decision_log import VERBS
from extender.version import __version__
from extender.wire.decode import PreemptRequest

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

DURATION_BUCKETS_SECONDS = tuple(
    bound
    for exponent in range(-4, 1)
    for step in (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8)
    if 0.0005 <= (bound := float(f"{step}e{exponent}")) <= 5
)
"""Upper bounds of the latency buckets, from 0.5 ms to kube-scheduler's default httpTimeout of 5 s.

Each is at most 1.25 times the one before: a quantile within this range is off by at most 25 %, whatever the
distribution. 53 bounds and +Inf for each of TIMED_STATUSES: 324 series, plus a count and a sum each."""

TIMED_STATUSES = (
    ("filter", 200),
    ("filter", 503),
    ("prioritize", 200),
    ("preempt", 200),
    ("preempt", 503),
    ("bind", 200),
)
"""(verb, HTTP status) pairs with a latency histogram: every answer except refused requests."""

REFUSAL_STATUSES = (400, 404, 408, 413, 415)
"""HTTP statuses of requests that are refused because their body is not valid."""

ANSWER_RESULTS = {
    "filter": ("fits", "nowhere", "passthrough", "failed"),
    "prioritize": ("scored", "passthrough", "failed"),
    "preempt": ("evicted", "vetoed", "passthrough", "failed"),
    "bind": ("failed",),
}
"""Verb -> results of extender_answers_total. The other outcomes of /bind are in extender_binds_total."""

COUNTED_ERRORS: tuple[type[ExtenderError], ...] = (
    NotReady,
    Overloaded,
    DeadlineMissed,
    CallerGone,
    UnknownScheduler,
    UnknownNode,
    PluginFailed,
    GuardError,
)
"""Errors that extender_failures_total counts under their class name."""
OTHER_ERROR = "Other"
"""Reason of any other ExtenderError."""
INTERNAL_ERROR = "Internal"
"""Reason of an unexpected exception, hence a bug; the log has its stack trace."""
FAILURE_REASONS = (*(one.__name__ for one in COUNTED_ERRORS), OTHER_ERROR, INTERNAL_ERROR)

UNKNOWN_LABELS = {RejectionReason.UNKNOWN_NODE: "node", RejectionReason.UNKNOWN_VICTIM: "victim"}
"""Reason why the engine drops a sent candidate -> label value of extender_unknown_candidates_total."""

# A `_created` series beside each counter would double the number of series; the library has only this process-wide
# switch.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Series(NamedTuple):
    """A family of counters."""

    help: str
    labels: tuple[str, ...] = ()
    values: Iterable[tuple[str | int, ...]] = ()
    """Label values of each series that exists from the start."""


COUNTERS = {
    "refused_requests": Series(
        "Number of calls refused because the request was malformed, too large or too slow, by HTTP status.",
        ("code",),
        list(product(REFUSAL_STATUSES)),
    ),
    "failures": Series(
        "Number of calls answered by the failure policy (in mode Observe: that would have been), by reason; "
        "UnknownScheduler counts the calls for pods whose schedulerName no profile has, of every verb.",
        ("reason",),
        list(product(FAILURE_REASONS)),
    ),
    "answers": Series(
        "Number of answers by result: at least one node fits (fits) or none (nowhere); nodes are scored (scored); "
        "pods are evicted (evicted) or no pod is (vetoed); the decision is left to kube-scheduler by killSwitch or "
        "mode Observe, or the pod is not ours (passthrough); the failure policy answered (failed).",
        ("verb", "result"),
        [(verb, result) for verb, results in ANSWER_RESULTS.items() for result in results],
    ),
    "not_evaluated": Series(
        "Number of decisions that left a plugin, which the extender could not evaluate, to kube-scheduler; beside the "
        "plugins listed below, those of kube-scheduler's profiles that are not in-tree.",
        ("plugin",),
        list(product(REQUIRED_TABLES)),
    ),
    "watch_waits": Series(
        "Number of calls that waited for the watch, at most 50 ms or, before a preemption, 500 ms, because the "
        "decision contradicted kube-scheduler, by whether an event resolved it (agreed) or none did (expired).",
        ("result",),
        list(product(("agreed", "expired"))),
    ),
    "binds": Series(
        "Number of requests to bind a pod, by outcome.", ("outcome",), list(product(("bound", "refused", "unknown")))
    ),
    "observed_answers": Series(
        "Number of calls in mode Observe, by whether the extender's answer would have differed from what "
        "kube-scheduler does by itself, as far as the request shows it. For a preemption, the node that "
        "kube-scheduler would have chosen among its candidates is not compared.",
        ("verb", "outcome"),
        list(product(VERBS, ("same", "differs", "failed"))),
    ),
    "filter_dryruns": Series(
        "Number of calls of /filter-dryrun by result: answered, or failed with an error or a refused request. No other "
        "metric counts them.",
        ("result",),
        list(product(("answered", "failed"))),
    ),
    "victims": Series("Number of preemption victims on the best node of answers to /preempt."),
    "violations": Series("Number of PodDisruptionBudget violations on the best node of answers to /preempt."),
    "violations_avoided": Series(
        "Number of PodDisruptionBudget violations that answers to /preempt avoided: the lowest NumPDBViolations of "
        "the candidates that kube-scheduler sent (it would have chosen such a node) minus those of the answer's "
        "best node, never below 0; all of them where no pod is evicted."
    ),
    "guard_rejections": Series(
        "Number of preemption candidates that the final check of an answer rejected, by violated rule.",
        ("rule",),
        list(product((DUPLICATE_NODE, *(name for name, _ in rules())))),
    ),
    "unknown_candidates": Series(
        "Number of candidates sent by kube-scheduler and dropped because the node or a victim is not in the "
        "cluster cache.",
        ("what",),
        list(product(UNKNOWN_LABELS.values())),
    ),
}
"""Name of a counter, without `extender_` and `_total` -> its series."""


class Metrics:
    """The counters of one application, and the registry that its collectors join."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        duration = Histogram(
            "extender_request_duration_seconds",
            "Latency of calls in seconds, from the arrival of the request to the response, by verb and HTTP status.",
            ("verb", "code"),
            buckets=DURATION_BUCKETS_SECONDS,
            registry=registry,
        )
        self._durations = {(verb, code): duration.labels(verb, code) for verb, code in TIMED_STATUSES}
        self.in_flight = 0
        Gauge(
            "extender_requests_in_flight",
            "Number of calls in flight, from the last byte of the body to the response.",
            registry=registry,
        ).set_function(lambda: self.in_flight)
        self._counters: dict[tuple[str | int, ...], Counter] = {}
        """(key of COUNTERS, *label values) -> series; the key alone -> the whole counter."""
        # Looked up once: `Counter.labels` takes a lock and hashes its arguments, in each call of a verb.
        for name, series in COUNTERS.items():
            counter = Counter(f"extender_{name}_total", series.help, series.labels, registry=registry)
            self._counters[name,] = counter
            self._counters |= {(name, *values): counter.labels(*values) for values in series.values}
        build = Gauge(
            "extender_build_info", "Always 1, labelled with the running version.", ("version",), registry=registry
        )
        build.labels(__version__).set(1)
        ProcessCollector(registry=registry)

    # --- calls ------------------------------------------------------------------------------------------------------

    @contextmanager
    def track_in_flight(self) -> Iterator[int]:
        """Count one call as in flight inside the `with` block; yield the number of calls in flight, including it."""
        self.in_flight += 1
        try:
            yield self.in_flight
        finally:
            self.in_flight -= 1

    def count(self, name: str, *values: str) -> None:
        """Add one to the series of COUNTERS with this name and these label values."""
        self._counters[name, *values].inc()

    def observe_request(self, verb: str, status: int, seconds: float) -> None:
        """Observe the latency of a call with one of TIMED_STATUSES, or count it as refused."""
        timed = self._durations.get((verb, status))
        if timed is not None:
            timed.observe(seconds)
        else:
            self._counters["refused_requests", status].inc()

    def count_failure(self, error: Exception) -> None:
        """Count one failed call by its reason, one of FAILURE_REASONS."""
        name = next((one.__name__ for one in COUNTED_ERRORS if isinstance(error, one)), None)
        reason = name or (OTHER_ERROR if isinstance(error, ExtenderError) else INTERNAL_ERROR)
        self._counters["failures", reason].inc()

    # --- decisions --------------------------------------------------------------------------------------------------

    def count_preemption(self, request: PreemptRequest, decision: PreemptDecision) -> None:
        """Count victims, PDB violations and avoided PDB violations of one answer to /preempt."""
        best = decision.kept[0] if decision.kept else None
        violations = best.num_pdb_violations if best is not None else 0
        self._counters["victims",].inc(len(best.victims) if best is not None else 0)
        self._counters["violations",].inc(violations)
        # kube-scheduler prefers the fewest violations before anything else, so this is the least that it would cause.
        fewest = min(request.sent.num_pdb_violations, default=0)
        self._counters["violations_avoided",].inc(max(0, fewest - violations))

    def add_plugins(self, scheduler: KubeScheduler) -> None:
        """Begin the series of plugins that are not in-tree, which are known only from kube-scheduler's profiles."""
        for profile in scheduler.profiles:
            for plugin in profile.not_evaluated_plugins:
                self._counters["not_evaluated",].labels(plugin)

    def count_not_evaluated(self, plugins: Iterable[str]) -> None:
        """Count one decision that left these plugins to kube-scheduler."""
        for plugin in plugins:
            self._counters["not_evaluated",].labels(plugin).inc()

    def count_unknown_candidates(self, dropped: Iterable[CandidateRejection]) -> None:
        """Count the dropped candidates whose node or victim is not in the cluster cache."""
        codes = [one.code for one in dropped]
        for code, label in UNKNOWN_LABELS.items():
            self._counters["unknown_candidates", label].inc(codes.count(code))

    # --- exposition -------------------------------------------------------------------------------------------------

    def register(self, collector: Collector) -> None:
        """Add a collector whose metrics are computed at scrape time."""
        self._registry.register(collector)

    def nonzero(self, name: str) -> dict[str, int]:
        """Return label value -> count, for a counter with one label; series that are 0 are omitted."""
        (family,), (label,) = self._counters[name,].collect(), COUNTERS[name].labels
        return {one.labels[label]: int(one.value) for one in family.samples if one.value}

    def exposition(self) -> bytes:
        """Render every metric in the Prometheus text format, of type CONTENT_TYPE."""
        return generate_latest(self._registry)
