"""The judge of the tests with a real control plane: what it calls a fault, and what it does not."""

import msgspec
import pytest

from tests.e2e.control_plane.lab.audit_log import AuditEvent, read_event
from tests.e2e.control_plane.lab.call_recorder import ExtenderCall
from tests.e2e.control_plane.lab.evictions import NEVER, judge

SCHEDULER = "system:kube-scheduler"


def event(time, user, verb, resource, name="", *, subresource="", request=None, response=None, status=201):
    return AuditEvent(
        received=time - 0.001, completed=time, user=user, verb=verb, resource=resource, subresource=subresource,
        namespace="default", name=name, status=status, request=request or {}, response=response or {},
    )  # fmt: skip


def node(name, cpu="4"):
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}
    return event(0.0, "admin", "create", "nodes", name, response={"metadata": {"name": name}, "status": status})


def pod(name, on="", *, priority=0, cpu="3", time=1.0):
    """A pod with the UID u-<name>, which runs `on` a node or waits."""
    spec = {"priority": priority, "containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    about = {"name": name, "namespace": "default", "uid": f"u-{name}"}
    raw = {"metadata": about, "spec": spec | ({"nodeName": on} if on else {})}
    return event(time, "admin", "create", "pods", response=raw)


def deleted(time, name, user=SCHEDULER, grace=30, status=200, version="1"):
    metadata = {"uid": f"u-{name}", "deletionGracePeriodSeconds": grace, "resourceVersion": version}
    about = {"metadata": metadata}
    return event(time, user, "delete", "pods", name, response=about, status=status)


def bound(time, name, on):
    request = {"metadata": {"uid": f"u-{name}"}, "target": {"name": on}}
    return event(time, SCHEDULER, "create", "pods", name, subresource="binding", request=request)


def preempted(time, victim, by, on):
    """The event of kube-scheduler about a victim."""
    note = f"Preempted by pod u-{by} on node {on}"
    request = {"reason": "Preempted", "regarding": {"uid": f"u-{victim}"}, "note": note}
    return event(time, SCHEDULER, "create", "events", request=request)


def evicted(time, victim, by, on):
    return [deleted(time, victim), preempted(time + 0.01, victim, by, on)]


def call(time, name, offered, answered, status=200, **others):
    """A call of /preempt: node -> names of victims."""
    metas = {node: {"Pods": [{"UID": f"u-{one}"} for one in victims]} for node, victims in answered.items()}
    victims = {node: tuple(f"u-{one}" for one in names) for node, names in offered.items()}
    violations = {node: nth for nth, node in enumerate(victims)}  # the first candidate is the best
    answer = {"NodeNameToMetaVictims": metas}
    return ExtenderCall(
        time=time,
        verb="preempt",
        status=status,
        uid=f"u-{name}",
        victims=victims,
        violations=violations,
        answer=answer,
        **others,
    )


CLUSTER = [
    node("n1"), node("n2"), node("n3"), pod("a", "n1"), pod("b", "n2"), pod("c", "n3"),
    pod("p", priority=9), pod("q", priority=9),
]  # fmt: skip


def test_a_preemption_as_answered_has_no_fault():
    judged = judge(
        [*CLUSTER, *evicted(2.0, "a", "p", "n1"), bound(3.0, "p", "n1")],
        [call(1.9, "p", {"n1": ["a"], "n2": ["b"]}, {"n1": ["a"]})],
    )
    assert [(one.preemptor, one.node, one.victims) for one in judged.preemptions] == [("u-p", "n1", ["u-a"])]
    assert (judged.evictions, judged.faults, judged.unexplained) == (1, [], [])


def test_a_second_preemption_is_needless_if_the_pod_is_bound_to_the_first_node():
    twice = [*evicted(2.0, "a", "p", "n1"), *evicted(2.5, "b", "p", "n2")]
    judged = judge([*CLUSTER, *twice, bound(3.0, "p", "n1")])
    assert judged.needless_preemptions == [
        "default/p: default/a evicted on n1, then default/b on n2 0.500s later, although it was bound to n1 after all"
    ]


@pytest.mark.parametrize(
    ("answer", "faults"),
    [
        ({"NodeNames": ["n1"], "FailedNodes": {}, "FailedAndUnresolvableNodes": None}, 0),
        ({"NodeNames": [], "FailedNodes": {"n1": "Insufficient cpu"}, "FailedAndUnresolvableNodes": None}, 1),
        ({"NodeNames": [], "FailedNodes": None, "FailedAndUnresolvableNodes": {"n1": "Insufficient cpu"}}, 1),
    ],
    ids=["accepted", "failed", "unresolvable"],
)
def test_a_second_preemption_is_needless_if_the_first_node_was_offered_to_filter_and_rejected(answer, faults):
    twice = [*evicted(2.0, "a", "p", "n1"), *evicted(2.5, "b", "p", "n2")]
    asked = ExtenderCall(time=2.3, verb="filter", uid="u-p", nodes=("n1",), answer=answer)
    judged = judge([*CLUSTER, *twice, bound(3.0, "p", "n2")], [asked])
    why = "kube-scheduler found that it fitted on n1, and the extender did not"
    line = f"default/p: default/a evicted on n1, then default/b on n2 0.500s later, although {why}"
    assert judged.needless_preemptions == [line][:faults]


def test_a_second_preemption_is_needed_if_another_pod_took_the_room():
    taken = [bound(2.2, "q", "n1")]
    twice = [*evicted(2.0, "a", "p", "n1"), *evicted(2.5, "b", "p", "n2")]
    assert judge([*CLUSTER, *twice, *taken, bound(3.0, "p", "n2")]).faults == []


@pytest.mark.parametrize(("left_at", "faults"), [(1.8, 1), (1.95, 0)], ids=["before the call", "during the call"])
def test_a_candidate_whose_victims_are_leaving_needs_no_eviction(left_at, faults):
    judged = judge(
        [*CLUSTER, deleted(left_at, "a", user="admin"), *evicted(2.0, "b", "p", "n2"), bound(3.0, "p", "n2")],
        [call(1.9, "p", {"n1": ["a"], "n2": ["b"]}, {"n2": ["b"]})],
    )
    why = "all victims of the candidate n1 were leaving or gone at the time of the call"
    lines = [f"default/b was evicted for default/p, although {why}"]
    assert judged.needless_evictions == lines[:faults]


@pytest.mark.parametrize(("shown", "faults"), [("20", 1), ("19", 0)], ids=["shown", "not yet"])
def test_a_deletion_that_the_watch_had_not_shown_is_unknown(shown, faults):
    events = [*CLUSTER, deleted(1.8, "a", user="admin", version="20"), *evicted(2.0, "b", "p", "n2")]
    headers = {"x-extender-cache": f"version=7 Node=3@1.0s Pod={shown}@0.1s"}
    asked = call(1.9, "p", {"n1": ["a"], "n2": ["b"]}, {"n2": ["b"]}, headers=headers)
    assert len(judge([*events, bound(3.0, "p", "n2")], [asked]).faults) == faults


@pytest.mark.parametrize(("gone_at", "faults"), [(1.8, 1), (NEVER, 0)], ids=["gone", "leaving"])
def test_a_candidate_that_is_not_the_best_counts_if_its_victims_are_gone(gone_at, faults):
    left = [deleted(1.7, "a", user="admin"), deleted(gone_at, "a", user="admin", grace=0)]
    events = [*CLUSTER, *left[: 1 + (gone_at < NEVER)], *evicted(2.0, "b", "p", "n2"), bound(3.0, "p", "n2")]
    assert len(judge(events, [call(1.9, "p", {"n2": ["b"], "n1": ["a"]}, {"n2": ["b"]})]).faults) == faults


def test_room_that_another_nominated_pod_waits_for_is_not_free():
    events = [*CLUSTER, *evicted(1.7, "a", "q", "n1"), *evicted(2.0, "b", "p", "n2"), bound(3.0, "p", "n2")]
    calls = [call(1.6, "q", {"n1": ["a"]}, {"n1": ["a"]}), call(1.9, "p", {"n1": ["a"], "n2": ["b"]}, {"n2": ["b"]})]
    assert judge(events, calls).faults == []
    assert len(judge(events, calls[1:]).faults) == 1


@pytest.mark.parametrize(("gone_at", "faults"), [(1.8, 1), (1.95, 0)], ids=["before the call", "after the call"])
def test_a_pod_bound_to_an_offered_node_that_had_room_needed_no_eviction(gone_at, faults):
    judged = judge(
        [
            *CLUSTER,
            deleted(gone_at, "b", user="admin", grace=0),
            *evicted(2.0, "a", "p", "n1"),
            bound(3.0, "p", "n2"),
        ],
        [call(1.9, "p", {"n1": ["a"], "n2": ["b", "c"]}, {"n1": ["a"]})],
    )
    why = "the pod was bound to n2, which was offered and had room at the time of the call"
    assert judged.needless_evictions == [f"default/a was evicted for default/p, although {why}"][:faults]


def test_victims_of_equal_priority_of_another_node_and_not_answered_are_wrong():
    equal = [*CLUSTER, pod("equal", "n1", priority=9)]
    lines = judge([*equal, *evicted(2.0, "equal", "p", "n1")]).wrong_victims
    assert lines == ["default/equal on n1, evicted for default/p, has priority 9 against 9"]
    lines = judge([*CLUSTER, *evicted(2.0, "b", "p", "n1")]).wrong_victims
    assert lines == ["default/b on n2, evicted for default/p, is not on the chosen node n1"]
    other = [call(1.9, "p", {"n1": ["a"]}, {"n1": []})]
    lines = judge([*CLUSTER, *evicted(2.0, "a", "p", "n1")], other).wrong_victims
    assert lines == ["default/a on n1, evicted for default/p, is not among the answered victims on n1"]


def test_a_pod_may_be_bound_before_the_response_about_its_creation_is_complete():
    slow = msgspec.structs.replace(pod("late", time=1.5), received=1.0)
    judged = judge([*CLUSTER, slow, bound(1.2, "late", "n1"), *evicted(2.0, "late", "p", "n1")])
    assert judged.wrong_victims == []


def test_the_node_of_a_pod_is_known_although_kube_scheduler_gave_up_its_binding():
    gone = deleted(2.0, "late", SCHEDULER)
    gone.response["spec"] = {"nodeName": "n2"}
    given_up = msgspec.structs.replace(bound(1.2, "late", "n2"), status=504)
    lines = judge([*CLUSTER, pod("late"), given_up, gone, preempted(2.1, "late", "p", "n1")]).wrong_victims
    assert lines == ["default/late on n2, evicted for default/p, is not on the chosen node n1"]


def test_a_victim_that_was_deleted_before_its_binding_is_where_kube_scheduler_assumed_it():
    assert judge([*CLUSTER, pod("assumed"), *evicted(2.0, "assumed", "p", "n1")]).wrong_victims == []


def test_a_call_that_failed_does_not_bind_kube_scheduler():
    failed = [call(1.9, "p", {"n1": ["a"]}, {}, status=503)]
    assert judge([*CLUSTER, *evicted(2.0, "a", "p", "n1")], failed).faults == []


def test_without_an_event_the_answer_names_the_preemptor():
    answered = [call(1.9, "p", {"n1": ["a"]}, {"n1": ["a"]})]
    judged = judge([*CLUSTER, deleted(2.0, "a")], answered)
    assert [(one.preemptor, one.node) for one in judged.preemptions] == [("u-p", "n1")]
    assert judge([*CLUSTER, deleted(2.0, "a")]).unexplained == ["default/a was evicted for an unknown pod"]


def test_deletions_by_others_and_those_that_failed_are_no_evictions():
    judged = judge([*CLUSTER, deleted(2.0, "a", user="admin"), deleted(2.0, "b", status=409)])
    assert (judged.preemptions, judged.unexplained) == ([], [])


def test_a_line_of_the_audit_log_is_read():
    line = {
        "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces/default/pods/a", "verb": "delete",
        "user": {"username": SCHEDULER}, "objectRef": {"resource": "pods", "namespace": "default", "name": "a"},
        "responseStatus": {"code": 200}, "responseObject": {"metadata": {"uid": "u-a"}},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.250000Z", "stageTimestamp": "2026-01-01T00:00:00.500000Z",
    }  # fmt: skip
    read = read_event(line)
    assert (read.completed - read.received, read.verb, read.resource, read.name) == (0.25, "delete", "pods", "a")
    assert read.response["metadata"]["uid"] == "u-a"
