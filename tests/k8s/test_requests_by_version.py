"""What pods request of kube-schedulers of other minors or with other feature gates; each case states its sum."""

import pytest

from extender.k8s.objects import ContainerStatus, ResourceRequirements
from extender.k8s.requests import (
    DEFAULT_MEMORY_REQUEST,
    DEFAULT_MILLI_CPU_REQUEST,
    balanced_scoring_request,
    fit_scoring_request,
    incoming_requests,
    running_usage,
)
from extender.k8s.version.features import Features
from tests.k8s.test_requests import asking, container, pod, sidecar

RESIZED = ContainerStatus(name="c", resources=ResourceRequirements(requests={"cpu": "3"}))
OF_POD = {"level": {"cpu": "2"}, "resources": asking({"cpu": "5"})}
"""Asks for 2 as a whole and holds 5."""


@pytest.mark.parametrize(
    ("minor", "gates", "millicores"),
    [
        (32, {}, 1000),
        (33, {}, 3000),
        (33, {"InPlacePodVerticalScaling": False}, 1000),
        (36, {}, 3000),
    ],
)
def test_a_resize_counts_from_1_33(minor, gates, millicores):
    running = pod(container(cpu="1"), container_statuses=[RESIZED])
    features = Features.of(minor, gates)
    assert running_usage(running, features).requests == {"cpu": millicores}
    assert balanced_scoring_request(running, "cpu", features) == millicores
    assert incoming_requests(running, features) == {"cpu": 1000}


@pytest.mark.parametrize(
    ("minor", "order", "millicores"), [(36, 1, 1000), (36, -1, 7000), (37, 1, 7000), (37, -1, 1000)]
)
def test_of_two_statuses_of_one_name_the_last_one_counts_up_to_1_36_and_the_first_one_since(minor, order, millicores):
    held = [ContainerStatus(name="c", resources=ResourceRequirements(requests={"cpu": cpu})) for cpu in ("7", "1")]
    running = pod(container(cpu="1"), container_statuses=held[::order])
    assert running_usage(running, Features.of(minor)).requests == {"cpu": millicores}


def test_a_status_of_two_containers_of_one_name_counts_for_both_since_1_37():
    held = ContainerStatus(name="c", resources=ResourceRequirements(requests={"cpu": "2"}))
    running = pod(container(cpu="1"), container(cpu="2"), container_statuses=[held])
    assert running_usage(running, Features.of(37)).requests == {"cpu": 4000}


@pytest.mark.parametrize(
    ("minor", "gates", "running", "incoming"),
    [
        (33, {}, 1000, 1000),
        (33, {"PodLevelResources": True}, 2000, 2000),
        (34, {}, 2000, 2000),
        (34, {"PodLevelResources": False}, 1000, 1000),
        (35, {"InPlacePodLevelResourcesVerticalScaling": True, "NodeDeclaredFeatures": True}, 5000, 2000),
        (36, {}, 5000, 2000),
        (36, {"InPlacePodLevelResourcesVerticalScaling": False}, 2000, 2000),
    ],
)
def test_the_pods_own_requests_count_from_1_34_and_their_resize_from_1_36(minor, gates, running, incoming):
    asked, features = pod(container(cpu="1"), **OF_POD), Features.of(minor, gates)
    usage = running_usage(asked, features)
    assert (usage.requests, usage.non_zero_cpu) == ({"cpu": running}, running)
    assert incoming_requests(asked, features) == {"cpu": incoming}
    assert balanced_scoring_request(asked, "cpu", features) == running
    assert fit_scoring_request(asked, "cpu", features) == 1000


def test_the_fit_score_saw_the_pods_own_requests_up_to_1_32():
    asked = pod(container(cpu="1"), **OF_POD)
    assert fit_scoring_request(asked, "cpu", Features.of(32, {"PodLevelResources": True})) == 2000
    assert fit_scoring_request(asked, "cpu", Features.of(33, {"PodLevelResources": True})) == 1000


SIDECAR_CASES = {
    "a sidecar is a step of its own: max(100, 50), not 100 + 50": (
        pod(container(cpu="100m"), init=[sidecar(cpu="50m")]),
        100,
        150,
    ),
    "sidecars add up: max(100, 50 + 60 + 300)": (
        pod(container(cpu="100m"), init=[sidecar(cpu="50m"), sidecar("t", cpu="60m"), container("i", cpu="300m")]),
        410,
        410,
    ),
    "a step that requests nothing has the default": (
        pod(container(cpu="10m"), init=[sidecar()]),
        DEFAULT_MILLI_CPU_REQUEST,
        10 + DEFAULT_MILLI_CPU_REQUEST,
    ),
    "beside a sidecar that requests something it has none": (
        pod(container(cpu="10m"), init=[sidecar(cpu="50m"), container("i")]),
        50,
        50 + DEFAULT_MILLI_CPU_REQUEST,
    ),
    "every container is rounded up by itself: 0.4m + 0.4m -> 2": (
        pod(container(cpu="400u"), container("d", cpu="400u")),
        2,
        1,
    ),
    "overhead comes on top: 100 + 10": (pod(container(), overhead={"cpu": "10m"}), 110, 110),
}


@pytest.mark.parametrize(("running", "before", "since"), SIDECAR_CASES.values(), ids=SIDECAR_CASES)
def test_sidecars_add_to_what_scores_see_from_1_32(running, before, since):
    usages = [running_usage(running, Features.of(minor)) for minor in (31, 32)]
    assert [usage.non_zero_cpu for usage in usages] == [before, since]
    assert usages[0].requests == usages[1].requests
    assert {usage.non_zero_memory for usage in usages} <= {n * DEFAULT_MEMORY_REQUEST for n in (1, 2, 3)}
