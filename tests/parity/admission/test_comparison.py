"""The comparison sees what kube-scheduler reads, and nothing else."""

import pytest

from tests.parity.admission.comparison import different_facts
from tests.parity.admission.pairs import decoded


def pod(**spec):
    containers = spec.pop("containers", [{"name": "c"}])
    return decoded("Pod", {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}})


def container(**fields):
    return [{"name": "c", **fields}]


TERMS = "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def affine(**term):
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}
    return pod(affinity={"podAffinity": terms})


A, B = {"key": "a", "operator": "Exists"}, {"key": "b", "value": "x"}

SAME = {
    "tolerations in another order": (pod(tolerations=[A, B]), pod(tolerations=[B, A])),
    "a default operator": (pod(tolerations=[B]), pod(tolerations=[{**B, "operator": "Equal"}])),
    "amounts in another spelling": (
        pod(containers=container(resources={"requests": {"cpu": "1000m"}})),
        pod(containers=container(resources={"requests": {"cpu": 1}})),
    ),
    "limits": (pod(containers=container(resources={"limits": {"cpu": "1"}})), pod()),
    "ports without a host port": (pod(containers=container(ports=[{"containerPort": 80}])), pod()),
    "pod-level requests that are the containers' sum": (
        pod(containers=container(resources={"requests": {"cpu": "1"}}), resources={"requests": {"cpu": "1"}}),
        pod(containers=container(resources={"requests": {"cpu": "1"}})),
    ),
}

DIFFERENT = {
    "spec.priority": (pod(priority=1), pod()),
    "spec.tolerations[0].value": (pod(tolerations=[B]), pod(tolerations=[{**B, "value": "y"}])),
    "spec.containers[0].ports[0].hostPort": (pod(containers=container(ports=[{"hostPort": 80}])), pod()),
    "spec.all requests.cpu": (pod(resources={"requests": {"cpu": "1"}}), pod()),
    "spec.nodeSelector.a": (pod(nodeSelector={"a": ""}), pod()),
    f"spec.{TERMS}[0].labelSelector": (affine(labelSelector={}), affine()),
}


@pytest.mark.parametrize(("a", "b"), SAME.values(), ids=SAME)
def test_what_is_read_alike_is_the_same(a, b):
    assert different_facts("", "Pod", a, b) == different_facts("", "Pod", b, a) == []


@pytest.mark.parametrize(("path", "pods"), DIFFERENT.items(), ids=DIFFERENT)
def test_what_is_read_is_compared(path, pods):
    found = [one.partition(": ")[0] for one in different_facts("", "Pod", *pods)]
    assert path in found
