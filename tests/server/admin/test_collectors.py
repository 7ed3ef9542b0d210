"""What is looked at when Prometheus asks: how long calls wait, the memory limit, settings, and the objects held."""

import asyncio
from types import SimpleNamespace

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.server.admin import collectors
from extender.server.admin.collectors import (
    LAG_SAMPLE_SECONDS,
    LAG_WINDOW_SECONDS,
    EventLoopCollector,
    LogCollector,
    StateCollector,
    cache_metrics,
    certificate_metrics,
    read_memory_limit,
    settings_metrics,
)
from extender.server.context import Lifecycle, ServerContext
from extender.server.observability.audit_log import AuditLog
from extender.server.observability.cache_status import NO_SOURCE
from extender.server.settings import Failure, LiveSettings
from tests.server.conftest import filled_cache


def shown(families):
    """(name, label values) -> value; without labels the name alone."""
    found = {}
    for family in families:
        for sample in family.samples:
            found[(sample.name, *sample.labels.values()) if sample.labels else sample.name] = sample.value
    return found


# --- how long calls wait --------------------------------------------------------------------------------------------


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Time()


def waits(clock, limit=None):
    return EventLoopCollector(clock, memory_limit=lambda: limit)


def lag(one):
    return shown(one.collect())["extender_event_loop_lag_seconds"]


def test_the_longest_wait_is_shown(clock):
    one = waits(clock)
    assert lag(one) == 0
    for late in (0.2, 0.7, 0.1):
        one.record_lag(late)
    assert lag(one) == 0.7


def test_to_look_changes_nothing(clock):
    """Two Prometheus servers see the same."""
    one = waits(clock)
    one.record_lag(0.7)
    assert lag(one) == lag(one) == 0.7


@pytest.mark.parametrize(
    ("seconds", "seen"),
    [
        (1, 0.7),
        (LAG_WINDOW_SECONDS - 1, 0.7),
        (LAG_WINDOW_SECONDS + 1, 0.7),
        (2 * LAG_WINDOW_SECONDS + 1, 0),
        (99 * LAG_WINDOW_SECONDS, 0),
    ],
)
def test_a_wait_is_forgotten_after_one_or_two_windows(clock, seconds, seen):
    one = waits(clock)
    one.record_lag(0.7)
    clock.now += seconds
    assert lag(one) == seen


def test_a_later_wait_does_not_keep_an_earlier_one(clock):
    one = waits(clock)
    one.record_lag(0.7)
    clock.now += LAG_WINDOW_SECONDS + 1
    one.record_lag(0.2)
    assert lag(one) == 0.7
    clock.now += LAG_WINDOW_SECONDS
    assert lag(one) == 0.2


def test_a_loop_that_is_kept_busy_is_noticed():
    """The clock says that the sleep of 0.1 s took 0.4 s: something else had the loop."""

    async def busy():
        clock = Time()
        one = waits(clock)
        looking = asyncio.create_task(one.run())
        await asyncio.sleep(0)
        clock.now += LAG_SAMPLE_SECONDS + 0.3
        await asyncio.sleep(0.01 + LAG_SAMPLE_SECONDS)
        looking.cancel()
        return lag(one)

    assert asyncio.run(asyncio.wait_for(busy(), 5)) == pytest.approx(0.3)


# --- memory ---------------------------------------------------------------------------------------------------------

LIMITS = {
    "control groups 2": (["1073741824\n"], 1 << 30),
    "control groups 2 without a limit": (["max\n"], None),
    "control groups 1": ([None, "1073741824\n"], 1 << 30),
    "control groups 1 without a limit": ([None, "9223372036854771712\n"], None),
    "neither": ([None, None], None),
    "something else": (["a lot"], None),
}


@pytest.mark.parametrize(("contents", "limit"), LIMITS.values(), ids=LIMITS)
def test_the_memory_limit_is_what_the_container_sees(contents, limit, tmp_path):
    files = [tmp_path / str(number) for number in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        if content is not None:
            file.write_text(content)
    assert read_memory_limit(files) == limit


@pytest.mark.parametrize("limit", [None, 1 << 30])
def test_without_a_limit_there_is_no_such_metric(clock, limit):
    assert shown(waits(clock, limit).collect()).get("extender_memory_limit_bytes") == limit


# --- the rest -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sections", "on"),
    [
        ({}, set()),
        ({"mode": "Observe"}, {"extender_observing"}),
        ({"killSwitch": {"enabled": True}}, {"extender_kill_switch"}),
    ],
)
def test_modes_are_gauges(sections, on):
    live_settings = LiveSettings(Configuration.model_validate(sections))
    found = shown(settings_metrics(live_settings, Lifecycle(), 7))
    assert found["extender_requests_in_flight_limit"] == 7
    assert {name for name, value in found.items() if value == 1} == on | {"extender_config_valid"}


def test_draining_is_a_gauge():
    lifecycle = Lifecycle()
    live_settings = LiveSettings(Configuration())
    assert shown(settings_metrics(live_settings, lifecycle, 7))["extender_draining"] == 0
    lifecycle.is_draining = True
    assert shown(settings_metrics(live_settings, lifecycle, 7))["extender_draining"] == 1


def test_a_file_that_is_wrong_is_a_gauge():
    live_settings = LiveSettings(Configuration())
    live_settings.failure = Failure(unread="mode: no such mode")
    assert shown(settings_metrics(live_settings, Lifecycle(), 7))["extender_config_valid"] == 0


def test_objects_are_counted_by_kind_and_0_without_a_cluster():
    found = shown(cache_metrics(filled_cache(), NO_SOURCE))
    assert (found["extender_cache_objects", "Node"], found["extender_cache_objects", "Pod"]) == (3, 2)
    assert found["extender_cache_objects", "PodGroup.scheduling.x-k8s.io"] == 0
    empty = shown(cache_metrics(ClusterCache(), NO_SOURCE))
    assert {value for key, value in empty.items() if key[0] == "extender_cache_objects"} == {0}
    assert (found["extender_cache_ready"], empty["extender_cache_ready"]) == (1, 0)


def test_certificates_are_shown_by_listener_as_they_are_now():
    lifecycle = Lifecycle()
    assert shown(certificate_metrics(lifecycle)) == {}
    files = SimpleNamespace(expires=1_800_000_000.0, problem=None, refused=3)
    lifecycle.certificates["server"] = files  # type: ignore[assignment]
    name = "extender_certificate"
    expected = {
        (f"{name}_expiry_timestamp_seconds", "server"): 1_800_000_000.0,
        (f"{name}_files_valid", "server"): 1,
        ("extender_refused_clients_total", "server"): 3,
    }
    assert shown(certificate_metrics(lifecycle)) == expected
    files.problem = "the key does not belong to the certificate"
    assert shown(certificate_metrics(lifecycle)) == expected | {(f"{name}_files_valid", "server"): 0}


def test_audit_lines_that_were_lost_are_counted():
    server_context = ServerContext(ClusterCache(), LiveSettings(Configuration()), audit=AuditLog())
    assert server_context.audit is not None
    assert shown(StateCollector(server_context).collect())["extender_audit_dropped_total"] == 0
    server_context.audit.count_lost()
    assert shown(StateCollector(server_context).collect())["extender_audit_dropped_total"] == 1
    without = ServerContext(ClusterCache(), LiveSettings(Configuration()))
    assert "extender_audit_dropped_total" not in shown(StateCollector(without).collect())


def test_H8_log_lines_that_were_lost_are_counted(monkeypatch):
    for handler, lost in (None, 0), (SimpleNamespace(dropped=3), 3):
        monkeypatch.setattr(collectors, "installed_handler", lambda handler=handler: handler)
        assert shown(LogCollector().collect()) == {"extender_log_lines_dropped_total": lost}
