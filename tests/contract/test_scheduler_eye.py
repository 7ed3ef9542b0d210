"""The port of kube-scheduler's rules, against what a real one was seen to do with odd answers."""

import json

import pytest

from extender.k8s.objects import ObjectMeta, Pod, PodSpec, PodStatus
from tests.contract.scheduler_eye import NOW, SchedulerEye, SchedulerRefuses, Victims, choices


def pod(uid, priority=0, start="2026-01-01T00:00:00Z"):
    return Pod(ObjectMeta(name=uid, uid=uid), PodSpec(priority=priority), PodStatus(start_time=start))


EYE = SchedulerEye({"n1": {"a": pod("a"), "b": pod("b")}, "n2": {"c": pod("c")}})
NAMES = b'{"Pod":{},"Nodes":null,"NodeNames":["n1","n2"]}'
WHOLE = b'{"Pod":{},"Nodes":{"items":[]},"NodeNames":null}'


def meta(**nodes):
    return json.dumps({"NodeNameToMetaVictims": nodes}).encode()


def uids(*names, violations=0):
    return {"Pods": [{"UID": name} for name in names], "NumPDBViolations": violations}


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (meta(n1=uids("a"), n2=uids("c")), {"n1", "n2"}),
        (b'{"nodeNameToMetaVictims":{"n1":{"pods":[{"uid":"a"}]}}} and more', {"n1"}),
        (meta(n1=uids("a", "a", violations=-5)), {"n1"}),
        (b"{}", set()),
        (b"null", set()),
        (b'{"NodeNameToVictims":{"n1":{}}}', set()),
    ],
)
def test_preempt_answers_that_count(answer, left):
    assert EYE.preempt(200, answer).keys() == left


@pytest.mark.parametrize(
    ("status", "answer", "says"),
    [
        (500, meta(), "code 500"),
        (201, meta(n1=uids("a")), "code 201"),
        (200, b"", "EOF"),
        (200, b"<html>", "invalid character"),
        (200, b"\xef\xbb\xbf{}", "invalid character"),
        (200, b"[]", "cannot unmarshal list"),
        (200, meta(n9=uids("a")), 'nodeinfo not found for node name "n9"'),
        (200, meta(n1=uids("c")), "the pod is not found on that node"),
        (200, meta(n1=uids()), 'expected at least one victim pod on node "n1"'),
        (200, meta(n1={**uids("a"), "NumPDBViolations": 0.0}), "NumPDBViolations of type int64"),
        (200, meta(n1={**uids("a"), "NumPDBViolations": "7"}), "NumPDBViolations of type int64"),
    ],
)
def test_preempt_answers_that_fail(status, answer, says):
    with pytest.raises(SchedulerRefuses, match=says):
        EYE.preempt(status, answer)


def test_an_ignorable_extender_may_leave_victims_out():
    assert SchedulerEye(EYE.pods, ignorable=True).preempt(200, meta(n1=uids(), n2=uids("c"))).keys() == {"n2"}


@pytest.mark.parametrize(
    ("request_", "answer", "left"),
    [
        (NAMES, b'{"NodeNames":["n2","n1"]}', ["n2", "n1"]),
        (NAMES, b'{"nodenames":["n1","n1"]}', ["n1", "n1"]),
        (NAMES, b'{"Nodes":{"items":[{"metadata":{"name":"ghost"}}]}}', ["ghost"]),
        (NAMES, b"{}", []),
        (NAMES, b'{"NodeNames":[]}', []),
        (WHOLE, b'{"Nodes":{"items":[{"metadata":{"name":"n1"}}]}}', ["n1"]),
        (WHOLE, b'{"NodeNames":["n1"]}', []),
    ],
)
def test_filter_answers_that_count(request_, answer, left):
    assert EYE.filter(request_, 200, answer).nodes == left


def test_unresolvable_wins_over_failed():
    answer = b'{"FailedNodes":{"n1":"x","n2":"x"},"FailedAndUnresolvableNodes":{"n1":"y"}}'
    filtered = EYE.filter(NAMES, 200, answer)
    assert (filtered.failed, filtered.unresolvable) == ({"n2": "x"}, {"n1": "y"})


@pytest.mark.parametrize("answer", [b'{"Error":"no"}', b'{"NodeNames":["ghost"]}', b'{"NodeNames":"n1"}', b"oops"])
def test_filter_answers_that_fail(answer):
    with pytest.raises(SchedulerRefuses):
        EYE.filter(NAMES, 200, answer)


def test_scores_of_one_host_add_up():
    assert EYE.prioritize(200, b'[{"Host":"n1","Score":4},{"host":"n1","score":4},{"Host":"ghost"}]') == {
        "n1": 8,
        "ghost": 0,
    }


@pytest.mark.parametrize("answer", [b'{"HostPriorityList":[]}', b'[{"Host":"n1","Score":7.0}]', b'[{"Score":"7"}]'])
def test_scores_that_are_dropped(answer):
    with pytest.raises(SchedulerRefuses):
        EYE.prioritize(200, answer)


def victims(*pods, violations=0):
    return Victims(list(pods), violations)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (victims(pod("x", 9), pod("y", 9)), victims(pod("x", 1), violations=1)),
        (victims(pod("x", 1), pod("y", 1)), victims(pod("x", 2))),
        (victims(pod("x", 2)), victims(pod("x", 2), pod("y", -(2**31)))),
        (victims(pod("x", 2, "2026-02-01T00:00:00Z")), victims(pod("x", 2, "2026-01-01T00:00:00Z"))),
        (victims(pod("x", 2, None)), victims(pod("x", 2))),
    ],
)
def test_which_candidate_is_chosen(better, worse):
    assert choices({"worse": worse, "better": better, "same": better}, NOW) == {"better", "same"}
