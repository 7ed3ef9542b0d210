"""RuntimeClass: overhead, node selector and tolerations."""

import pytest

from extender.admission.plugins import runtime_class
from tests.admission.plugins.requests import cluster, pod, request

KATA = {
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "1Gi"}},
    "scheduling": {
        "nodeSelector": {"kata": "yes"},
        "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
    },
}
PLAIN = {"kind": "RuntimeClass", "metadata": {"name": "plain"}, "handler": "runc"}


def admitted(one, *objects, is_state=False, unreadable=()):
    made = request("Pod", one, cluster(*objects, unreadable=unreadable), is_state=is_state)
    runtime_class.admit(made)
    runtime_class.validate(made)
    return made.object["spec"], made.findings


def test_a_pod_gets_what_its_class_defines():
    given = [{"key": "own", "operator": "Exists"}]
    spec, findings = admitted(pod(runtimeClassName="kata", nodeSelector={"disk": "ssd"}, tolerations=given), KATA)
    assert spec["overhead"] == {"cpu": "250m", "memory": "1Gi"}
    assert spec["nodeSelector"] == {"kata": "yes", "disk": "ssd"}
    assert spec["tolerations"] == [*given, {"key": "kata", "operator": "Exists", "effect": "NoSchedule"}]
    assert not findings.forbidden


def test_an_equal_overhead_in_another_spelling_is_accepted():
    assert not admitted(pod(runtimeClassName="kata", overhead={"cpu": "0.25", "memory": "1024Mi"}), KATA)[1].forbidden


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}, "Overhead doesn't match"),
        (
            {"runtimeClassName": "kata", "nodeSelector": {"kata": "no"}},
            "conflict: runtimeClass.scheduling.nodeSelector",
        ),
        ({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}, "without corresponding RuntimeClass"),
        ({"overhead": {"cpu": "1"}}, "without corresponding RuntimeClass"),
        ({"overhead": {}}, "without corresponding RuntimeClass"),
        ({"runtimeClassName": "missing"}, 'RuntimeClass "missing" not found'),
        ({"runtimeClassName": "missing", "overhead": {"cpu": "1"}}, 'RuntimeClass "missing" not found'),
    ],
)
def test_what_contradicts_the_class_is_refused(spec, said):
    (message,) = admitted(pod(**spec), KATA, PLAIN)[1].forbidden
    assert said in message


def test_a_running_pod_is_not_refused():
    for spec in ({"overhead": {"cpu": "1"}}, {"runtimeClassName": "kata", "nodeSelector": {"kata": "no"}}):
        assert not admitted(pod(nodeName="n", **spec), KATA, is_state=True)[1].forbidden
    spec, findings = admitted(pod(nodeName="n", runtimeClassName="missing"), KATA, is_state=True)
    assert (findings.forbidden, findings.assumed) == ([], ["RuntimeClass missing"])


def test_a_class_that_cannot_be_read_is_assumed_to_change_nothing():
    spec, findings = admitted(pod(runtimeClassName="kata", overhead={"cpu": "1"}), unreadable=("runtime_classes",))
    assert (spec["overhead"], findings.forbidden, findings.assumed) == ({"cpu": "1"}, [], ["RuntimeClass kata"])


EVERYTHING = {"operator": "Exists"}
A, A_VALUE = {"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "x"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([A, A], [A]),
        ([A_VALUE, A], [A]),
        ([A, A_VALUE], [A]),
        ([A, EVERYTHING], [EVERYTHING]),
        ([{**A, "effect": "NoSchedule"}, A], [A]),
        ([{**A, "effect": ""}, A], [A]),
        ([{**A, "effect": "NoSchedule"}, {**A, "effect": "NoExecute"}], "all"),
        ([A_VALUE, {**A_VALUE, "value": "y"}], "all"),
        # An empty operator means Equal for the wider one only (tolerations.isSuperset).
        ([{"key": "a", "value": "x"}, A_VALUE], [{"key": "a", "value": "x"}]),
        (
            [{**A, "effect": "NoExecute", "tolerationSeconds": 60}, {**A, "effect": "NoExecute"}],
            [{**A, "effect": "NoExecute"}],
        ),
        (
            [
                {**A, "effect": "NoExecute", "tolerationSeconds": 60},
                {**A, "effect": "NoExecute", "tolerationSeconds": 9},
            ],
            [{**A, "effect": "NoExecute", "tolerationSeconds": 60}],
        ),
        ([{"key": "a", "operator": "Lt", "value": "5"}, A_VALUE], "all"),
    ],
)
def test_tolerations_that_another_one_covers_are_dropped(given, kept):
    assert runtime_class.merge_tolerations(given) == (given if kept == "all" else kept)


def test_merging_many_tolerations_costs_linear_work():
    many = [{"key": f"k{number}", "operator": "Exists"} for number in range(20_000)]
    assert len(runtime_class.merge_tolerations(many)) == 20_000
