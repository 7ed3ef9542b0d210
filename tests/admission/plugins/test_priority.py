"""Priority: the class of a pod, and what contradicts it."""

import pytest

from extender.admission.plugins import priority
from tests.admission.plugins.requests import cluster, pod, request

HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
USUAL = {
    "kind": "PriorityClass",
    "metadata": {"name": "usual"},
    "value": 500,
    "globalDefault": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
RIVAL = {**USUAL, "metadata": {"name": "rival"}, "value": 7}


def admitted(one, *objects, unreadable=(), is_state=False):
    made = request("Pod", one, cluster(*objects, unreadable=unreadable), is_state=is_state)
    priority.admit(made)
    spec = made.object["spec"]
    fields = {name: spec.get(name) for name in ("priority", "priorityClassName", "preemptionPolicy")}
    return fields, made.findings


def test_a_pod_gets_priority_and_policy_of_its_class():
    fields, findings = admitted(pod(priorityClassName="high"), HIGH, USUAL)
    assert fields == {"priority": 1000, "priorityClassName": "high", "preemptionPolicy": "Never"}
    assert not findings.forbidden


def test_without_a_class_the_default_class_counts_the_lowest_of_several():
    assert admitted(pod(), HIGH, USUAL, RIVAL)[0]["priorityClassName"] == "rival"
    assert admitted(pod(priorityClassName=""), USUAL)[0]["priority"] == 500


def test_without_any_class_the_priority_is_zero_and_assumed():
    fields, findings = admitted(pod())
    assert fields == {"priority": 0, "priorityClassName": None, "preemptionPolicy": "PreemptLowerPriority"}
    assert findings.assumed == ["the default PriorityClass"]
    assert not admitted(pod(), HIGH)[1].assumed, "a whole cluster has no default class, which is known"


def test_system_classes_are_in_every_cluster():
    assert admitted(pod(priorityClassName="system-node-critical"))[0]["priority"] == 2_000_001_000


def test_a_class_without_a_policy_sets_none():
    assert admitted(pod(priorityClassName="old"), {**HIGH, "metadata": {"name": "old"}, "preemptionPolicy": None})[
        0
    ] == {
        "priority": 1000,
        "priorityClassName": "old",
        "preemptionPolicy": None,
    }


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"priority": 5, "priorityClassName": "high"}, "the integer value of priority (5)"),
        ({"priority": 1000}, "the integer value of priority (1000)"),
        ({"priority": 0, "priorityClassName": "high"}, "the integer value of priority (0)"),
        ({"preemptionPolicy": "Never"}, "the string value of PreemptionPolicy (Never)"),
        ({"preemptionPolicy": ""}, "the string value of PreemptionPolicy ()"),
        ({"preemptionPolicy": "PreemptLowerPriority", "priorityClassName": "high"}, "(PreemptLowerPriority)"),
        ({"priorityClassName": "missing"}, "no PriorityClass with name missing was found"),
    ],
)
def test_what_contradicts_the_class_is_refused(spec, said):
    (message,) = admitted(pod(**spec), HIGH)[1].forbidden
    assert said in message


def test_what_agrees_with_the_class_is_not_refused():
    for spec in ({"priority": 1000, "priorityClassName": "high", "preemptionPolicy": "Never"}, {"priority": 0}):
        assert not admitted(pod(**spec), HIGH)[1].forbidden


def test_a_running_pod_keeps_what_it_has():
    fields, findings = admitted(pod(nodeName="n", priority=7, priorityClassName="high"), HIGH, is_state=True)
    assert fields == {"priority": 7, "priorityClassName": "high", "preemptionPolicy": None}
    assert not findings.forbidden
    fields, findings = admitted(pod(nodeName="n", priorityClassName="missing"), HIGH, is_state=True)
    assert (fields["priority"], findings.assumed, findings.forbidden) == (0, ["PriorityClass missing"], [])
    assert admitted(pod(nodeName="n"), USUAL, is_state=True)[0]["priority"] == 500, "what is missing is filled in"
    policy = admitted(pod(nodeName="n", priorityClassName="high", preemptionPolicy="X"), HIGH, is_state=True)
    assert policy[0]["preemptionPolicy"] == "X"


def test_a_pending_pod_of_a_cluster_file_is_admitted_in_full():
    assert admitted(pod(priority=7, priorityClassName="high"), HIGH, is_state=True)[1].forbidden


def test_without_permission_to_list_classes_the_given_priority_counts():
    unreadable = ("priority_classes",)
    fields, findings = admitted(pod(priority=7, priorityClassName="high"), unreadable=unreadable)
    assert (fields["priority"], findings.assumed, findings.forbidden) == (7, ["PriorityClass high"], [])
    fields, findings = admitted(pod(priority=7), unreadable=unreadable)
    assert (fields["priority"], findings.assumed, findings.forbidden) == (7, ["the default PriorityClass"], [])
    assert "spec.priority must be set" in admitted(pod(priorityClassName="high"), unreadable=unreadable)[1].forbidden[0]


def test_a_second_default_class_is_refused():
    def refused(one):
        made = request("PriorityClass", one, cluster(USUAL))
        priority.validate(made)
        return made.findings.forbidden

    assert refused({**RIVAL}) == ["PriorityClass usual is already marked as default. Only one default can exist"]
    assert not refused({**RIVAL, "globalDefault": False})
    assert not refused(USUAL), "the same class again"
