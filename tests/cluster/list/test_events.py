"""What Events and conditions say of a pod: the last FailedScheduling, and which pod took its place."""

import pytest

from tests.builders import incoming, node, placed, pod
from tests.cluster.list.rig import put, read
from tests.fakes.api_server import Answer, Fault

UID = "11111111-2222-4333-8444-555555555555"


def event(name, reason, message, *, of="incoming", uid=None, seen="2026-11-23T10:00:00Z", **fields):
    """An Event as older versions of kube-scheduler wrote it, and as core/v1 shows it."""
    about = {"kind": "Pod", "namespace": "default", "name": of, "uid": uid or f"uid-{of}"}
    return {
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-11-23T09:00:00Z"},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "lastTimestamp": seen,
        "source": {"component": "default-scheduler"},
        "count": 1,
    } | fields


def preempted(message, **fields):
    return event("preempted", "Preempted", message, of="victim", **fields)


def series(name, message, count, observed, **fields):
    """An Event as kube-scheduler writes it with events.k8s.io, and as core/v1 shows it."""
    one = event(name, "FailedScheduling", message, **fields)
    return one | {
        "lastTimestamp": None,
        "eventTime": "2026-11-23T09:30:00.000001Z",
        "source": {},
        "count": None,
        "reportingComponent": "my-scheduler",
        "series": {"count": count, "lastObservedTime": observed},
    }


@pytest.fixture
def shop(api):
    put(api, [node("n1").raw, incoming()])
    return api


# --- FailedScheduling -------------------------------------------------------------------------------------------------


def test_the_last_message_of_kube_scheduler_is_kept(shop):
    put(shop, [event("a", "FailedScheduling", "0/2 nodes: older", count=7, seen="2026-11-23T09:59:59Z")])
    put(shop, [event("b", "FailedScheduling", "0/1 nodes: newer", count=3), event("c", "Scheduled", "no", seen="2027")])
    history = read(shop).history
    assert history is not None
    said = history.failed_scheduling
    assert said is not None
    assert (said.message, said.count, said.reporter) == ("0/1 nodes: newer", 3, "default-scheduler")
    assert said.last_seen == "2026-11-23T10:00:00Z"
    assert (history.preempted, history.nominated_node, history.notes) == (None, None, [])


def test_an_event_of_a_series_was_seen_when_it_was_observed_last(shop):
    put(shop, [event("a", "FailedScheduling", "older"), series("b", "newer", 12, "2026-11-23T10:30:00.000000Z")])
    history = read(shop).history
    assert history is not None
    said = history.failed_scheduling
    assert said is not None
    assert (said.message, said.count, said.reporter) == ("newer", 12, "my-scheduler")
    assert said.last_seen == "2026-11-23T10:30:00.000000Z"


def test_an_event_without_a_time_of_its_own_was_seen_when_it_was_created(shop):
    put(shop, [event("a", "FailedScheduling", "x", lastTimestamp=None, count=None, source=None)])
    history = read(shop).history
    assert history is not None
    said = history.failed_scheduling
    assert said is not None
    assert (said.last_seen, said.count, said.reporter) == ("2026-11-23T09:00:00Z", 1, "")


def test_events_of_other_objects_say_nothing(shop):
    put(shop, [event("a", "FailedScheduling", "of another pod of this name", uid="uid-earlier")])
    put(shop, [event("b", "FailedScheduling", "of another pod", of="incoming-2")])
    replica_set = event("c", "FailedScheduling", "of no pod")
    replica_set["involvedObject"]["kind"] = "ReplicaSet"
    put(shop, [replica_set])
    history = read(shop).history
    assert history is not None
    assert (history.failed_scheduling, history.notes) == (None, [])


def test_the_nominated_node_is_named(shop):
    shop.put("Pod", incoming(status={"nominatedNodeName": "n1"}))
    history = read(shop).history
    assert history is not None
    assert history.nominated_node == "n1"


# --- Preempted --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "node_name", "is_running"),
    [
        ({"nodeName": "n1"}, "n1", True),
        ({"status": {"nominatedNodeName": "n1"}}, "n1", False),
        ({}, None, False),
    ],
)
def test_a_pod_that_is_gone_was_preempted_by_a_pod_that_is_there(shop, where, node_name, is_running):
    shop.put("Pod", incoming("winner", metadata={"uid": UID}, **where))
    shop.put("Event", preempted(f"Preempted by pod {UID} on node n1"))
    found = read(shop, ("default", "victim"))
    assert found.pod is None
    assert found.history is not None
    by = found.history.preempted
    assert by is not None
    assert (by.message, by.time, by.node) == (f"Preempted by pod {UID} on node n1", "2026-11-23T10:00:00Z", "n1")
    assert (by.preemptor_uid, by.preemptor, by.preemptor_exists) == (UID, "default/winner", True)
    assert (by.preemptor_node, by.is_running) == (node_name, is_running)
    assert [one.key for one in found.objects.pods] == ["default/incoming", "default/winner"]


@pytest.mark.parametrize(
    ("message", "related", "expected"),
    [
        (f"Preempted by pod {UID} on node n1", None, (UID, None, "n1")),
        (
            f"Preempted by pod {UID} on node n1",
            {"kind": "Pod", "namespace": "b", "name": "was", "uid": UID},
            (UID, "b/was", "n1"),
        ),
        (
            f"Preempted by podgroup {UID} on node cluster",
            {"kind": "PodGroup", "namespace": "b", "name": "group", "uid": UID},
            (UID, "b/group", None),
        ),
        (f"Preempted by compositepodgroup {UID} on node cluster", None, (UID, None, None)),
        ("Preempted by a pod on node n1", None, (None, None, None)),
        ("by another scheduler", {"kind": "Pod", "namespace": "b", "name": "was", "uid": "u"}, ("u", "b/was", None)),
    ],
    ids=[
        "by UID",
        "with the related object",
        "by a pod group",
        "by a composite one",
        "older than 1.26",
        "of another scheduler",
    ],
)
def test_a_preemptor_that_is_gone_is_named_as_far_as_the_event_does(shop, message, related, expected):
    shop.put("Event", preempted(message, related=related))
    found = read(shop, ("default", "victim"))
    assert found.history is not None
    by = found.history.preempted
    assert by is not None
    assert by.message == message
    assert (by.preemptor_uid, by.preemptor, by.node) == expected
    assert (by.preemptor_exists, by.preemptor_node, by.is_running) == (False, None, False)


def test_a_pod_that_is_being_evicted_says_so_by_its_condition(shop):
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "lastTransitionTime": "2026-11-23T10:00:00Z",
    }
    victim = placed(pod("victim", status={"conditions": [{"type": "Ready", "status": "True"}, condition]}), "n1")
    shop.put("Pod", victim)
    history = read(shop, ("default", "victim")).history
    assert history is not None
    by = history.preempted
    assert by is not None
    assert (by.message, by.time, by.node) == (condition["message"], condition["lastTransitionTime"], "n1")
    assert (by.preemptor_uid, by.preemptor) == (None, None)


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"},
        {"type": "Ready", "status": "True"},
    ],
)
def test_other_conditions_are_no_preemption(shop, condition):
    shop.put("Pod", placed(pod("victim", status={"conditions": [condition]}), "n1"))
    history = read(shop, ("default", "victim")).history
    assert history is not None
    assert history.preempted is None


def test_a_pod_that_came_back_under_its_name_was_not_evicted_itself(shop):
    """As a StatefulSet's pods do."""
    shop.put("Pod", incoming("winner", metadata={"uid": UID}, nodeName="n1"))
    shop.put("Pod", incoming("victim"))
    shop.put("Event", preempted(f"Preempted by pod {UID} on node n1", uid="uid-of-the-earlier-one"))
    history = read(shop, ("default", "victim")).history
    assert history is not None
    assert history.preempted is None
    assert history.notes == [
        f"an earlier pod of this name was evicted: Preempted by pod {UID} on node n1 (default/winner)"
    ]


# --- what cannot be read ----------------------------------------------------------------------------------------------


def test_events_are_optional(shop):
    shop.forbid("Event", "list")
    history = read(shop).history
    assert history is not None
    assert history.notes == ["no permission to list Events"]


def test_what_else_goes_wrong_with_events_is_said(shop):
    shop.faults.add(Fault("list", "Event", Answer(500, "broken"), times=None))
    history = read(shop).history
    assert history is not None
    assert history.notes == ["Events could not be read: 500 InternalError: broken"]


def test_many_events_of_a_name_are_not_all_read(shop, monkeypatch):
    monkeypatch.setattr("extender.cluster.list.events.PAGE_SIZE", 2)
    monkeypatch.setattr("extender.cluster.list.events.MAX_EVENTS", 4)
    put(shop, [event(f"e{number}", "FailedScheduling", "x") for number in range(9)])
    history = read(shop).history
    assert history is not None
    assert history.notes == ["the pod has more than 4 Events: only some of them were read"]
    assert sum(one.kind == "Event" for one in shop.requests) == 2
