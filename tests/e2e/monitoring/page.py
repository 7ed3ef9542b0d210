"""docs/metrics.md, written from what /metrics shows and from the alert rules: `python -m tests.e2e.monitoring.page`."""

from pathlib import Path

from prometheus_client.metrics_core import Metric

from tests.e2e.monitoring.everything import families, name_of
from tests.e2e.monitoring.promql import alerts, metrics_of

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"

SECTIONS: dict[str, tuple[str, ...]] = {
    "Calls": (
        "extender_request_duration_seconds",
        "extender_requests_in_flight",
        "extender_requests_in_flight_limit",
        "extender_failures_total",
        "extender_refused_requests_total",
        "extender_refused_clients_total",
    ),
    "Decisions": (
        "extender_answers_total",
        "extender_victims_total",
        "extender_violations_total",
        "extender_violations_avoided_total",
        "extender_guard_rejections_total",
        "extender_not_evaluated_total",
        "extender_unknown_offers_total",
        "extender_observed_answers_total",
        "extender_binds_total",
    ),
    "The picture of the cluster": (
        "extender_picture_ready",
        "extender_objects",
        "extender_assumed_pods",
        "extender_stream_age_seconds",
        "extender_streams",
        "extender_stream_events_total",
        "extender_stream_relists_total",
        "extender_stream_watch_restarts_total",
        "extender_stream_skipped_total",
        "extender_stream_divergences_total",
    ),
    "Configuration and certificates": (
        "extender_config_valid",
        "extender_kill_switch",
        "extender_observing",
        "extender_certificate_expiry_timestamp_seconds",
        "extender_certificate_files_valid",
    ),
    "Recording and audit": (
        "extender_recording",
        "extender_recording_calls_total",
        "extender_recording_dropped_total",
        "extender_recording_bytes",
        "extender_audit_dropped_total",
    ),
    "The process": (
        "extender_build_info",
        "extender_draining",
        "extender_event_loop_lag_seconds",
        "extender_memory_limit_bytes",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    ),
}

SOMETIMES = {
    "extender_stream": "with `cluster.source: kubernetes`",
    "extender_certificate": "with TLS",
    "extender_refused_clients": "with TLS",
    "extender_audit": "with `audit.enabled`",
    "extender_memory": "where the container has a limit",
}
"""Beginnings of names that are not always there."""

HEAD = """\
# Metrics

`GET /metrics` on the admin listener (8889) answers in the Prometheus text format: {count} series at most, with all
kinds followed, TLS on both listeners and the audit log on. Every counter is there from the start, at 0, and every value
of a label is one of those below. Counting costs a call about 5 µs, an answer to Prometheus about 2 ms.

What to do when an alert fires is in [runbook.md](runbook.md); the rules and a dashboard for Grafana are in
[deploy/monitoring](../deploy/monitoring).

This page is written by `make metrics`.
"""

LABELS = """\

## Labels

| metric | label | values |
|---|---|---|
"""


def page() -> str:
    """The text of docs/metrics.md."""
    shown = families()
    by_name = {name_of(family): family for family in shown}
    used = _used(by_name)
    parts = [HEAD.format(count=sum(len(family.samples) for family in shown))]
    for title, names in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| metric | type | meaning | alerts |\n|---|---|---|---|\n")
        parts += [_row(name, by_name[name], used[name]) for name in names]
    parts.append(LABELS)
    parts += [_labels(name, by_name[name]) for names in SECTIONS.values() for name in names]
    return "".join(parts)


def _used(by_name: dict[str, Metric]) -> dict[str, list[str]]:
    """Name of a metric -> the alerts that ask for it, or for one of a histogram's three."""
    used: dict[str, list[str]] = {name: [] for name in by_name}
    of_sample = {sample.name: name for name, family in by_name.items() for sample in family.samples}
    for alert in alerts():
        for name in sorted({of_sample[one] for one in metrics_of(alert["expr"]) if one in of_sample}):
            used[name].append(alert["alert"])
    return used


def _labels_of(family: Metric) -> dict[str, list[str]]:
    """Label -> its values, in their order."""
    found: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label != "le":
                found.setdefault(label, {})[value] = None
    return {label: list(values) for label, values in found.items()}


def _row(name: str, family: Metric, used: list[str]) -> str:
    labels = ",".join(_labels_of(family))
    when = next((f" Only {text}." for start, text in SOMETIMES.items() if name.startswith(start)), "")
    links = ", ".join(f"[{alert}](runbook.md#{alert.lower()})" for alert in used)
    shown = f"`{name}{{{labels}}}`" if labels else f"`{name}`"
    return f"| {shown} | {family.type} | {family.documentation}{when} | {links} |\n"


def _labels(name: str, family: Metric) -> str:
    rows = (
        f"| `{name}` | `{label}` | {', '.join(f'`{value}`' for value in values)} |\n"
        for label, values in _labels_of(family).items()
        if label != "version"  # which is another with every release
    )
    return "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
