"""Properties of objects that are computed from their fields."""

import msgspec
import pytest

from extender.k8s.objects import COSCHEDULING, COSCHEDULING_LABEL, SCHEDULING, Pod
from extender.k8s.workloads import PodGroup


def pod(labels=None, spec=None, conditions=None):
    return msgspec.convert(
        {
            "metadata": {"name": "a", "labels": labels},
            "spec": spec or {},
            "status": {"conditions": conditions},
        },
        Pod,
    )


# --- ready ----------------------------------------------------------------------------------------------------------

READY = {
    "no conditions": (None, False),
    "an empty list of them": ([], False),
    "other conditions": ([{"type": "PodScheduled", "status": "True"}], False),
    "ready": ([{"type": "ContainersReady", "status": "False"}, {"type": "Ready", "status": "True"}], True),
    "not ready": ([{"type": "Ready", "status": "False"}], False),
    "unknown": ([{"type": "Ready", "status": "Unknown"}], False),
    "a condition without a status": ([{"type": "Ready"}], False),
    "the first of two counts": ([{"type": "Ready", "status": "False"}, {"type": "Ready", "status": "True"}], False),
}


@pytest.mark.parametrize(("conditions", "wanted"), READY.values(), ids=READY)
def test_a_pod_is_ready_if_its_condition_is_true(conditions, wanted):
    assert pod(conditions=conditions).is_ready is wanted


# --- groups ---------------------------------------------------------------------------------------------------------

LABELS = {COSCHEDULING_LABEL: "old"}
GROUPS = {
    "neither": (None, {}, None),
    "the field": (None, {"schedulingGroup": {"podGroupName": "new"}}, (SCHEDULING, "new")),
    "the label": (LABELS, {}, (COSCHEDULING, "old")),
    "both: the field counts": (LABELS, {"schedulingGroup": {"podGroupName": "new"}}, (SCHEDULING, "new")),
    "a field without a name": (LABELS, {"schedulingGroup": {}}, (COSCHEDULING, "old")),
    "an empty name": (None, {"schedulingGroup": {"podGroupName": ""}}, None),
    "null": (None, {"schedulingGroup": None}, None),
    "an empty label": ({COSCHEDULING_LABEL: ""}, {}, None),
    "another label": ({"pod-group.scheduling.sigs.k8s.io": "x"}, {}, None),
}


@pytest.mark.parametrize(("labels", "spec", "wanted"), GROUPS.values(), ids=GROUPS)
def test_the_group_of_a_pod(labels, spec, wanted):
    assert pod(labels, spec).pod_group == wanted


def test_a_pod_group_has_its_api_group():
    found = pod(LABELS).pod_group
    assert found is not None
    assert (found.api_group, found.name) == ("scheduling.x-k8s.io", "old")


MINIMUM = {
    "a gang": ({"schedulingPolicy": {"gang": {"minCount": 3}}}, 3),
    "no gang": ({"schedulingPolicy": {"basic": {}}}, None),
    "a policy that says nothing": ({"schedulingPolicy": {}}, None),
    "no policy": ({}, None),
    "members": ({"minMember": 2}, 2),
    "no members, as Go leaves them out": ({"minMember": 0}, None),
}


@pytest.mark.parametrize(("spec", "wanted"), MINIMUM.values(), ids=MINIMUM)
def test_the_minimum_of_a_group(spec, wanted):
    assert msgspec.convert({"metadata": {"name": "g"}, "spec": spec}, PodGroup).minimum == wanted
