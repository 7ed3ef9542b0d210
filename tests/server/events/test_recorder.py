"""Events at a fake API server: what is written, counted in a series, retried, and given up."""

import contextlib
import json
import logging
import time

import pytest

from extender.core.profile import PreemptionPolicy
from extender.k8s.time import SECOND, parse_time
from extender.server.events import recorder
from extender.server.events.correlator import PATCH_INTERVAL_SECONDS
from extender.server.events.recorder import EventRecorder
from tests.builders import incoming, node, pod
from tests.cluster.watch.reflector_rig import server_at
from tests.fakes.api_server import Answer, Drop, FakeAPI, Fault, Hang
from tests.fakes.clock import Clock
from tests.fakes.events import KIND
from tests.server.events.preemptions import answered

NOW = parse_time("2026-01-01T12:00:00.5Z")


@pytest.fixture
def api():
    with FakeAPI() as fake:
        yield fake


@contextlib.contextmanager
def recording(api, clock=None, *, stops=True):
    """An EventRecorder that writes to the fake; with `stops`, all is written at the end of the block."""
    clock, server = clock or Clock(0.0), server_at(api.url)
    events = EventRecorder(
        server, names_across_namespaces=False, clock=clock, now=lambda: NOW + round(clock.now * SECOND)
    )
    events.start()
    try:
        yield events
    finally:
        if stops:
            events.stop()
        server.close()


def preemption(namespace="shop", name="urgent", **metadata):
    """One victim."""
    nodes = {node("n1", "1"): [pod("low", "1", priority=10, namespace=namespace)]}
    return answered(nodes, incoming(name, namespace=namespace, metadata=metadata))


def veto(name="urgent"):
    """Only the preemptor learns of it."""
    nodes = {node("n1"): [pod("low", "3", priority=10)]}
    return answered(nodes, incoming(name, "4", namespace="shop"), PreemptionPolicy(disruption_budgets="Strict"))


def counted(events):
    return {result: count for result, count in events.counts.items() if count}


def wait_for(events, **counts):
    """Wait until the thread has got so far."""
    ends_at = time.monotonic() + 10
    while counted(events) != counts and time.monotonic() < ends_at:
        time.sleep(0.001)
    assert counted(events) == counts


# --- written --------------------------------------------------------------------------------------------------------


def test_events_have_the_form_of_kube_schedulers_own(api):
    with recording(api) as events:
        events.record(preemption())
    victim, preemptor = sorted(api.objects(KIND), key=lambda one: one["regarding"]["name"])
    assert counted(events) == {"created": 2}
    assert preemptor["apiVersion"] == "events.k8s.io/v1"
    assert preemptor["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "urgent",
        "uid": "uid-urgent",
    }
    assert preemptor["eventTime"] == "2026-01-01T12:00:00.500000Z"
    assert (preemptor["type"], preemptor["reason"], preemptor["action"]) == (
        "Normal",
        "PreemptionNominated",
        "Preempting",
    )
    assert preemptor["reportingController"] == "kube-scheduler-extender"
    assert victim["related"]["name"] == "urgent"
    assert victim["metadata"]["name"].startswith("low.")


def test_a_repetition_is_a_patch_of_the_event_that_is_there(api):
    clock = Clock(0.0)
    with recording(api, clock) as events:
        for number in range(1, 4):
            events.record(preemption())
            wait_for(events, created=2) if number == 1 else wait_for(events, created=2, repeated=2 * (number - 1))
            clock.now += PATCH_INTERVAL_SECONDS
    assert len(api.asked("create")) == 2
    (series, _) = [one["series"] for one in api.objects(KIND)]
    assert series == {"count": 3, "lastObservedTime": "2026-01-01T12:02:00.500000Z"}


def test_an_event_that_is_gone_is_written_again(api):
    """The API server keeps Events for an hour."""
    clock = Clock(0.0)
    with recording(api, clock) as events:
        events.record(preemption())
        wait_for(events, created=2)
        for one in api.objects(KIND):
            api.delete(KIND, one["metadata"]["name"], "shop")
        clock.now += PATCH_INTERVAL_SECONDS
        events.record(preemption())
    assert counted(events) == {"created": 4}
    assert len(api.objects(KIND)) == 2


def test_a_lost_response_is_no_second_event(api):
    api.faults.add(Fault("create", KIND, Drop(done=True)))
    with recording(api) as events, _without_pauses():
        events.record(preemption())
        wait_for(events, created=2)
    assert len(api.objects(KIND)) == 2
    assert [one.status for one in api.asked("create")][1:] == [409, 201]


@pytest.mark.parametrize("answer", [Answer(503), Answer(429, retry_after=0)])
def test_an_overloaded_api_server_is_asked_again(api, answer):
    api.faults.add(Fault("create", KIND, answer))
    with recording(api) as events, _without_pauses():
        events.record(preemption())
        wait_for(events, created=2)
    assert len(api.asked("create")) == 3


@contextlib.contextmanager
def _without_pauses():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "RETRY_SECONDS", 0.0)
        yield


# --- not written ----------------------------------------------------------------------------------------------------


def test_without_the_permission_the_log_names_it_once(api, caplog):
    api.forbid(KIND, "create", "patch")
    with recording(api) as events:
        events.record(preemption())
        events.record(preemption(name="other"))
    assert counted(events) == {"failed": 4}
    (line,) = [one for one in caplog.messages if one.startswith("Events: not allowed")]
    assert "the permission to create and patch events of events.k8s.io" in line
    assert 'cannot create resource "events" in API group "events.k8s.io" in the namespace "shop"' in line


def test_what_was_not_written_is_no_series(api):
    api.forbid(KIND, "create")
    with recording(api) as events:
        events.record(preemption())
        wait_for(events, failed=2)
        api.allow(KIND, "create")
        events.record(preemption())
    assert counted(events) == {"failed": 2, "created": 2}


def test_a_namespace_that_terminates_takes_no_events_and_that_is_no_news(api, caplog):
    details = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
    status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "being terminated", "details": details}
    api.faults.add(Fault("create", KIND, Answer(403, body=json.dumps(status).encode()), times=2))
    with recording(api) as events:
        events.record(preemption())
    assert counted(events) == {"failed": 2}
    assert not [one for one in caplog.messages if one.startswith("Events")]


def test_an_api_server_that_is_away_costs_the_answer_nothing(api, caplog):
    api.stop()
    with recording(api) as events, _without_pauses():
        events.record(preemption())
        wait_for(events, failed=2)
    assert any(one.startswith("Events: not written, no answer from the API server") for one in caplog.messages)


def test_a_full_queue_drops_and_counts(api, monkeypatch, caplog):
    hang = Hang()
    api.faults.add(Fault("create", KIND, hang))
    one = preemption()
    monkeypatch.setattr(recorder, "MAX_QUEUED_BYTES", 2 * one.size)
    with recording(api) as events:
        events.record(one)
        api.wait_for(lambda: api.asked("create"))  # the thread holds the first one, which counts
        for _ in range(3):
            events.record(one)
        assert events.counts["queueFull"] == 2
        hang.release()
    assert counted(events) == {"created": 2, "repeated": 2, "queueFull": 2}
    assert "Events: dropped those of a preemption: the queue is full" in caplog.messages


@pytest.mark.parametrize("namespace", ["..", "shop/../kube-system", "Shop", "s" * 64])
def test_a_namespace_that_would_change_the_path_is_not_asked_for(api, namespace):
    with recording(api) as events:
        events.record(preemption(namespace))
    assert counted(events) == {"failed": 2}
    assert api.requests == []


@pytest.mark.parametrize("name", ["..", "a/b", "x" * 254, "urgent\n"])
def test_nor_is_a_pod_of_such_a_name(api, name):
    with recording(api) as events:
        events.record(preemption(name=name))
    assert events.counts["failed"] == 1


def test_long_names_make_events_that_the_api_server_accepts(api):
    with recording(api) as events:
        events.record(preemption(name="x" * 253, namespace="n" * 63, uid="u"))
    assert counted(events) == {"created": 2}


def test_a_stop_does_not_wait_for_an_api_server_that_hangs(api, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(recorder, "STOP_TIMEOUT_SECONDS", 0.05)
    hang = Hang()
    api.faults.add(Fault("create", KIND, hang))
    with recording(api, stops=False) as events:
        events.record(preemption())
        api.wait_for(lambda: api.asked("create"))
        events.record(veto())
        events.stop()
    hang.release()
    assert "shutting down: the Events of 1 preemptions are not written" in caplog.messages


def test_nothing_is_queued_before_the_start_and_after_the_stop(api):
    server = server_at(api.url)
    events = EventRecorder(server, names_across_namespaces=False)
    events.record(preemption())
    events.start()
    events.stop()
    events.record(preemption())
    assert not events.is_on
    assert api.requests == []
    server.close()
