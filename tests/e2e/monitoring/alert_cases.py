"""When each alert fires, and when it does not: series as promtool writes them, a sample a minute.

`0+1x10`: 0, then 1 more each minute, ten times. An alert of which nothing is expected is silent at that time.
"""

from dataclasses import dataclass
from typing import Any

A = 'instance="a", job="extender"'
B = 'instance="b", job="extender"'

Labels = dict[str, str]


@dataclass(frozen=True)
class Case:
    alert: str
    series: dict[str, str]
    """Selector -> values."""
    at: str
    """Minutes or hours after the first sample."""
    fires: tuple[tuple[Labels, str], ...] = ()
    """Labels beside those of Prometheus' target, and the description without the instance before it."""


def of(name: str, more: str = "", target: str = A) -> str:
    """`name{…}` of one instance."""
    return f"{name}{{{more}{', ' if more else ''}{target}}}"


def fires(alert: str, series: dict[str, str], at: str, text: str, **labels: str) -> Case:
    return Case(alert, series, at, (({"instance": "a", "job": "extender"} | labels, text),))


def silent(alert: str, series: dict[str, str], at: str) -> Case:
    return Case(alert, series, at)


def gauge(
    alert: str, series: str, bad: str, good: str, after: str, before: str, text: str, **labels: str
) -> list[Case]:
    """Fires `after` so long at the bad value, not `before`, and never at the good one."""
    return [
        fires(alert, {series: f"{bad}x2000"}, after, text, **labels),
        silent(alert, {series: f"{bad}x2000"}, before),
        silent(alert, {series: f"{good}x2000"}, after),
    ]


def counter(
    alert: str, series: str, text: str, at: str = "6m", once: str = "0 0 0 1 1 1 1 1 1 1 1", **labels: str
) -> list[Case]:
    """Fires `at` for an increase, and not for a number that stays."""
    return [fires(alert, {series: once}, at, text, **labels), silent(alert, {series: "7+0x2000"}, at)]


BUILD = of("extender_build_info", 'version="1"')
READY, KILLED, OBSERVING = (of(f"extender_{one}") for one in ("cache_ready", "kill_switch", "observing"))


def readiness(ready: int, killed: int, observing: int) -> dict[str, str]:
    return {READY: f"{ready}+0x10", KILLED: f"{killed}+0x10", OBSERVING: f"{observing}+0x10"}


def failing(failed: int) -> dict[str, str]:
    """So many of 100 calls a minute."""
    return {
        of("extender_answers_total", 'result="failed", verb="filter"'): f"0+{failed}x20",
        of("extender_answers_total", 'result="fits", verb="filter"'): f"0+{100 - failed}x20",
        of("extender_request_duration_seconds_count", 'code="200", verb="filter"'): f"0+{100 - failed}x20",
        of("extender_request_duration_seconds_count", 'code="503", verb="filter"'): f"0+{failed}x20",
    }


def slow(slow: int) -> dict[str, str]:
    """So many of 1000 /preempt calls a minute take longer than 1 s."""
    of_bucket = 'code="200", le="1.0", verb="preempt"'
    return {
        of("extender_request_duration_seconds_bucket", of_bucket): f"0+{1000 - slow}x30",
        of("extender_request_duration_seconds_count", 'code="200", verb="preempt"'): "0+1000x30",
    }


def vetoing(vetoed: int, evicted: int) -> dict[str, str]:
    return {
        of("extender_answers_total", 'result="vetoed", verb="preempt"'): f"0+{vetoed}x90",
        of("extender_answers_total", 'result="evicted", verb="preempt"'): f"0+{evicted}x90",
    }


EXPIRY = of("extender_certificate_expiry_timestamp_seconds", 'listener="server"')

CASES = [
    # --- availability
    Case("ExtenderDown", {}, "3m", (({}, ""),)),
    silent("ExtenderDown", {}, "1m"),
    silent("ExtenderDown", {BUILD: "1+0x10"}, "3m"),
    fires(
        "ExtenderInstanceDown",
        {of("up"): "0+0x20", of("up", target=B): "1+0x20", of("extender_build_info", 'version="1"', B): "1+0x20"},
        "11m",
        "has not been scraped for 10 minutes.",
    ),
    silent("ExtenderInstanceDown", {of("up"): "0+0x20"}, "11m"),  # not recognizable as an extender; ExtenderDown fires
    silent(
        "ExtenderInstanceDown",
        {'up{instance="z", job="other"}': "0+0x20", of("up"): "1+0x20", BUILD: "1+0x20"},
        "11m",
    ),
    fires(
        "ExtenderNotReady",
        readiness(0, 0, 0),
        "3m",
        "answers every call by the failure policy; /readyz gives the reason.",
    ),
    silent("ExtenderNotReady", readiness(0, 0, 0), "1m"),
    silent("ExtenderNotReady", readiness(1, 0, 0), "3m"),
    silent("ExtenderNotReady", readiness(0, 1, 0), "3m"),
    silent("ExtenderNotReady", readiness(0, 0, 1), "3m"),
    *counter(
        "ExtenderOverloaded",
        of("extender_failures_total", 'reason="Overloaded"'),
        "rejected about 1 requests within 5 minutes.",
        reason="Overloaded",
    ),
    silent("ExtenderOverloaded", {of("extender_failures_total", 'reason="NotReady"'): "0+1x10"}, "6m"),
    fires("ExtenderFailing", failing(10), "11m", "fails 10% of all calls."),
    silent("ExtenderFailing", failing(10), "3m"),
    silent("ExtenderFailing", failing(4), "11m"),
    fires(
        "ExtenderRefusesRequests",
        {of("extender_refused_requests_total", 'code="404"'): "0+1x30"},
        "15m",
        "rejected about 5 requests within 5 minutes.",
    ),
    silent("ExtenderRefusesRequests", {of("extender_refused_requests_total", 'code="404"'): "0 0 1+0x30"}, "15m"),
    # --- decisions
    *counter(
        "ExtenderGuardRejected",
        of("extender_guard_rejections_total", 'rule="VictimProtected"'),
        "guard rule VictimProtected failed: this is a bug, please report it.",
        rule="VictimProtected",
    ),
    *counter(
        "ExtenderInternalError",
        of("extender_failures_total", 'reason="Internal"'),
        "logged a stack trace or a guard rejection: this is a bug, please report it.",
    ),
    silent("ExtenderInternalError", {of("extender_failures_total", 'reason="NotReady"'): "0+1x10"}, "6m"),
    fires("ExtenderVetoing", vetoing(19, 1), "65m", "vetoes 95% of all /preempt calls.", verb="preempt"),
    silent("ExtenderVetoing", vetoing(8, 2), "65m"),
    silent("ExtenderVetoing", dict.fromkeys(vetoing(1, 0), "0 0 20 20+0x70"), "65m"),  # few preemptions
    # --- latency
    fires("ExtenderSlow", slow(20), "16m", "2% of /preempt take longer.", verb="preempt"),
    silent("ExtenderSlow", slow(20), "9m"),
    silent("ExtenderSlow", slow(9), "16m"),
    *counter(
        "ExtenderDeadlineMissed",
        of("extender_failures_total", 'reason="DeadlineMissed"'),
        "failed about 1 calls within 10 minutes.",
        reason="DeadlineMissed",
    ),
    *gauge(
        "ExtenderEventLoopLag",
        of("extender_event_loop_lag_seconds"),
        "0.6+0",
        "0.5+0",
        "6m",
        "4m",
        "600ms at worst within the last minute.",
    ),
    # --- cluster cache
    *gauge(
        "ExtenderCacheStale",
        of("extender_cache_age_seconds", 'kind="Pod"'),
        "130+0",
        "110+0",
        "6m",
        "4m",
        "Pod, for 2m 10s.",
        kind="Pod",
    ),
    *gauge(
        "ExtenderPermissionMissing",
        of("extender_watch_streams", 'phase="forbidden"'),
        "1+0",
        "0+0",
        "16m",
        "14m",
        "1 kinds; plugins that need them are left to kube-scheduler.",
        phase="forbidden",
    ),
    silent("ExtenderPermissionMissing", {of("extender_watch_streams", 'phase="absent"'): "2+0x30"}, "16m"),
    *counter(
        "ExtenderDivergence",
        of("extender_cache_divergences_total"),
        "about 1 objects within an hour; they were relisted.",
    ),
    *counter(
        "ExtenderObjectsSkipped",
        of("extender_watch_skipped_objects_total"),
        "about 1 objects or events within an hour.",
    ),
    fires(
        "ExtenderRelisting",
        {of("extender_watch_relists_total"): "0+4x60"},
        "30m",
        "about 60 lists within 15 minutes.",
    ),
    silent("ExtenderRelisting", {of("extender_watch_relists_total"): "0 19+0x60"}, "16m"),  # the API server restarts
    fires(
        "ExtenderWatchesFlapping",
        {of("extender_watch_restarts_total"): "0+20x60"},
        "30m",
        "about 300 restarts within 15 minutes.",
    ),
    silent("ExtenderWatchesFlapping", {of("extender_watch_restarts_total"): "0+4x60"}, "30m"),  # a quiet day
    # --- configuration
    *gauge(
        "ExtenderConfigurationInvalid",
        of("extender_config_valid"),
        "0+0",
        "1+0",
        "6m",
        "4m",
        "keeps its settings; a restart with this file would fail.",
    ),
    *gauge(
        "ExtenderKillSwitchOn",
        KILLED,
        "1+0",
        "0+0",
        "61m",
        "59m",
        "makes no decisions, so no preemption policy protects pods.",
    ),
    *gauge(
        "ExtenderObserving",
        OBSERVING,
        "1+0",
        "0+0",
        "1441m",
        "1430m",
        "decides and counts, but answers as if it were not registered.",
    ),
    *gauge(
        "ExtenderCertificateExpiresSoon",
        EXPIRY,
        "600000+0",
        "700000+0",
        "11m",
        "9m",
        "listener server: in 6d 22h 29m 0s.",
        listener="server",
    ),
    fires(
        "ExtenderCertificateExpiresToday",
        {EXPIRY: "86520+0x10"},
        "3m",
        "listener server: in 23h 59m 0s.",
        listener="server",
    ),
    silent("ExtenderCertificateExpiresToday", {EXPIRY: "86520+0x10"}, "1m"),
    fires(
        "ExtenderCertificateExpiresToday", {EXPIRY: "60+0x10"}, "2m", "listener server: in -1m 0s.", listener="server"
    ),
    *gauge(
        "ExtenderCertificateNotReloaded",
        of("extender_certificate_files_valid", 'listener="admin"'),
        "0+0",
        "1+0",
        "6m",
        "4m",
        "listener admin: the log gives the reason.",
        listener="admin",
    ),
    fires(
        "ExtenderClientsRefused",
        {of("extender_refused_clients_total", 'listener="server"'): "0+2x30"},
        "15m",
        "server listener: about 10 calls.",
        listener="server",
    ),
    silent("ExtenderClientsRefused", {of("extender_refused_clients_total", 'listener="server"'): "0 1+0x30"}, "15m"),
    # --- process
    fires(
        "ExtenderMemoryNearLimit",
        {of("process_resident_memory_bytes"): "950+0x20", of("extender_memory_limit_bytes"): "1000+0x20"},
        "11m",
        "uses 95% of its limit.",
    ),
    silent(
        "ExtenderMemoryNearLimit",
        {of("process_resident_memory_bytes"): "890+0x20", of("extender_memory_limit_bytes"): "1000+0x20"},
        "11m",
    ),
    silent("ExtenderMemoryNearLimit", {of("process_resident_memory_bytes"): "950+0x20"}, "11m"),
    fires(
        "ExtenderFileDescriptorsNearLimit",
        {of("process_open_fds"): "81+0x20", of("process_max_fds"): "100+0x20", BUILD: "1+0x20"},
        "11m",
        "uses 81% of its file descriptors.",
    ),
    silent(
        "ExtenderFileDescriptorsNearLimit",
        {of("process_open_fds"): "81+0x20", of("process_max_fds"): "100+0x20"},  # a process of another job
        "11m",
    ),
    *counter(
        "ExtenderRecordingDropping",
        of("extender_recording_dropped_total"),
        "about 1 within 10 minutes; the log gives the reason.",
    ),
    *counter(
        "ExtenderAuditDropping",
        of("extender_audit_dropped_total"),
        "about 1 within 10 minutes; the log gives the reason.",
    ),
]


def as_promtool_wants(cases: list[Case], rule: dict[str, Any], rule_file: str) -> dict[str, Any]:
    """A test file of `promtool test rules` with the cases of the rule; those of the same series together."""
    by_series: dict[str, list[Case]] = {}
    for case in cases:
        if case.alert == rule["alert"]:
            by_series.setdefault(str(case.series), []).append(case)
    return {
        "rule_files": [rule_file],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": one, "values": values} for one, values in together[0].series.items()],
                "alert_rule_test": [
                    {
                        "eval_time": case.at,
                        "alertname": case.alert,
                        "exp_alerts": [_expected(rule, *fired) for fired in case.fires],
                    }
                    for case in together
                ],
            }
            for together in by_series.values()
        ],
    }


def _expected(rule: dict[str, Any], labels: Labels, text: str) -> dict[str, Any]:
    annotations = dict(rule["annotations"])
    if text:
        before, _, _ = annotations["description"].partition("{{ $labels.instance }}")
        rest = annotations["description"].removeprefix(f"{before}{{{{ $labels.instance }}}}")
        separator = rest[: len(rest) - len(rest.lstrip(":, "))]
        annotations["description"] = f"a{separator}{text}"
    return {"exp_labels": labels | rule["labels"], "exp_annotations": annotations}
