"""Workload and QoS class of a pod."""

import pytest

from extender.k8s.workloads import qos_class, workload_of
from tests.builders import pod, typed


def owner(kind, name, controller=True):
    return {"kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}


HASHED = {"pod-template-hash": "6d4b"}


@pytest.mark.parametrize(
    ("owners", "labels", "expected"),
    [
        pytest.param([], {}, ("Pod", "a"), id="1: no owner: the pod itself"),
        pytest.param([owner("StatefulSet", "db")], {}, ("StatefulSet", "db"), id="2: its controller"),
        pytest.param([owner("Job", "sum")], {}, ("Job", "sum"), id="3: any kind of controller"),
        pytest.param([owner("Tool", "x", False)], {}, ("Pod", "a"), id="4: an owner that does not control it"),
        pytest.param([owner("Tool", "x", None)], {}, ("Pod", "a"), id="5: one that does not say"),
        pytest.param([owner("Tool", "x", False), owner("Job", "sum")], {}, ("Job", "sum"), id="6: the one that does"),
        pytest.param([owner("ReplicaSet", "web-6d4b")], HASHED, ("Deployment", "web"), id="7: a Deployment's"),
        pytest.param([owner("ReplicaSet", "web")], {}, ("ReplicaSet", "web"), id="8: a ReplicaSet by itself"),
        pytest.param([owner("ReplicaSet", "web-6d4b")], {}, ("ReplicaSet", "web-6d4b"), id="9: without the label"),
        pytest.param([owner("ReplicaSet", "web-77")], HASHED, ("ReplicaSet", "web-77"), id="10: of another hash"),
        pytest.param([owner("ReplicaSet", "web6d4b")], HASHED, ("ReplicaSet", "web6d4b"), id="11: without the dash"),
        pytest.param([owner("ReplicaSet", "-6d4b")], HASHED, ("ReplicaSet", "-6d4b"), id="12: nothing before it"),
        pytest.param([owner("ReplicaSet", "a-b-6d4b")], HASHED, ("Deployment", "a-b"), id="13: a dash in the name"),
        pytest.param(
            [owner("ReplicaSet", "web-6d4b-6d4b")], HASHED, ("Deployment", "web-6d4b"), id="14: the hash in the name"
        ),
        pytest.param([owner("StatefulSet", "web-6d4b")], HASHED, ("StatefulSet", "web-6d4b"), id="15: of other kinds"),
        pytest.param([owner("ReplicaSet", "web-None")], {}, ("ReplicaSet", "web-None"), id="16: None is not a hash"),
    ],
)
def test_a_pod_belongs_to_the_workload_that_runs_it(owners, labels, expected):
    one = pod("a", namespace="shop", labels=labels, metadata={"ownerReferences": owners})
    assert workload_of(typed(one)) == ("shop", *expected)


def test_a_pod_without_labels_or_owners_is_its_own_workload():
    one = pod("a", metadata={"labels": None, "ownerReferences": None})
    assert workload_of(typed(one)) == ("default", "Pod", "a")


def container(requests=None, limits=None):
    """A container with (cpu, memory, others) as texts."""

    def amounts(given):
        return {key: value for key, value in zip(("cpu", "memory", "x.com/gpu"), given, strict=False) if value}

    resources = {name: amounts(given) for name, given in (("requests", requests), ("limits", limits)) if given}
    return {"name": "main", "resources": resources}


NOTHING = container()
FULL = container(("1", "1Gi"), ("1", "1Gi"))
HALF = container(("1", "1Gi"), ("2", "1Gi"))


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([NOTHING], "BestEffort", id="1: nothing asked for"),
        pytest.param([FULL], "Guaranteed", id="2: as much as it may have"),
        pytest.param([HALF], "Burstable", id="3: less cpu than it may have"),
        pytest.param([container(("1", "1Gi"), ("1", "2Gi"))], "Burstable", id="4: less memory than it may have"),
        pytest.param([container(("1", "1Gi"))], "Burstable", id="5: no limits"),
        pytest.param([container(None, ("1", "1Gi"))], "Guaranteed", id="6: limits are what is requested, too"),
        pytest.param([container(("1",), ("1", "1Gi"))], "Guaranteed", id="7: the same for one of them"),
        pytest.param([container(("1",), ("1",))], "Burstable", id="8: cpu only"),
        pytest.param([container((None, "1Gi"), (None, "1Gi"))], "Burstable", id="9: memory only"),
        pytest.param([container(("1000m", "1024Mi"), ("1", "1Gi"))], "Guaranteed", id="10: amounts, not texts"),
        pytest.param([container(("0", "0"), ("0", "0"))], "BestEffort", id="11: nothing, said twice"),
        pytest.param([container(("0", "1Gi"), ("1", "1Gi"))], "Burstable", id="12: nothing is a request"),
        pytest.param([container((None, None, "1"), (None, None, "1"))], "BestEffort", id="13: other resources only"),
        pytest.param([FULL, container(("2", "2Gi"), ("2", "2Gi"))], "Guaranteed", id="14: every container"),
        pytest.param([FULL, NOTHING], "Burstable", id="15: one asks for nothing"),
        pytest.param([NOTHING, NOTHING], "BestEffort", id="16: all ask for nothing"),
        pytest.param([FULL, HALF], "Burstable", id="17: one asks for less"),
        pytest.param([], "BestEffort", id="18: no containers"),
        pytest.param(
            [container(("1", "plenty"), ("1", "plenty"))], "Burstable", id="19: an amount that does not parse"
        ),
    ],
)
def test_the_qos_class_is_computed_where_the_status_has_none(containers, expected):
    """ComputePodQOS, after the defaults of the API server."""
    assert qos_class(typed(pod("a", containers=containers))) == expected


def test_init_containers_count_as_well():
    assert qos_class(typed(pod("a", containers=[FULL], initContainers=[FULL]))) == "Guaranteed"
    assert qos_class(typed(pod("a", containers=[FULL], initContainers=[NOTHING]))) == "Burstable"
    assert qos_class(typed(pod("a", containers=[NOTHING], initContainers=[FULL]))) == "Burstable"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param(FULL["resources"], "Guaranteed", id="1: as much as the pod may have"),
        pytest.param(HALF["resources"], "Burstable", id="2: less"),
        pytest.param({}, "BestEffort", id="3: set, but to nothing"),
    ],
)
def test_pod_level_resources_go_first(resources, expected):
    assert qos_class(typed(pod("a", containers=[container(("1",))], resources=resources))) == expected


@pytest.mark.parametrize("qos", ["BestEffort", "Burstable", "Guaranteed"])
def test_the_qos_class_of_the_status_goes_first(qos):
    assert qos_class(typed(pod("a", containers=[FULL], status={"qosClass": qos}))) == qos


@pytest.mark.parametrize("qos", ["", "Best", None])
def test_an_unknown_qos_class_is_ignored(qos):
    status = {} if qos is None else {"qosClass": qos}
    assert qos_class(typed(pod("a", containers=[FULL], status=status))) == "Guaranteed"
