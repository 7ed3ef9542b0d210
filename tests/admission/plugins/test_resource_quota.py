"""ResourceQuota: what counts, under which quotas, and what is used already."""

import pytest

from extender.admission.plugins import resource_quota
from tests.admission.plugins.requests import claim, cluster, pod, put, request


def quota(hard, name="quota", used=None, **spec):
    status = {"hard": hard, "used": used} if used is not None else {}
    return {"kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **spec}, "status": status}


def stored(one, kind="Pod", **changes):
    return {**one, "kind": kind, **changes}


def refused(one, *objects, kind="Pod", api_version="v1", **options):
    made = request(kind, {"apiVersion": api_version, **one}, cluster(*objects), **options)
    resource_quota.validate(made)
    return made.findings.forbidden


ONE = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}


@pytest.mark.parametrize(
    ("hard", "requested"),
    [
        ({"pods": "0"}, "pods=1"),
        ({"count/pods": "0"}, "count/pods=1"),
        ({"cpu": "500m"}, "cpu=1"),
        ({"requests.cpu": "500m"}, "requests.cpu=1"),
        ({"limits.cpu": "1"}, "limits.cpu=2"),
        ({"memory": "1Mi"}, "memory=1Gi"),
        ({"limits.memory": "1Gi", "pods": "0"}, "limits.memory=2Gi,pods=1"),
        ({"requests.cpu": "1", "limits.cpu": "2", "pods": "1"}, None),
        ({"services": "0", "persistentvolumeclaims": "0", "requests.storage": "0"}, None),
    ],
)
def test_a_pod_counts_by_number_requests_and_limits(hard, requested):
    found = refused(pod("a", ONE), quota(hard))
    assert [message.split(", ")[:2] for message in found] == (
        [["exceeded quota: quota", f"requested: {requested}"]] if requested else []
    )


@pytest.mark.parametrize(
    ("resources", "hard", "is_refused"),
    [
        (
            {"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}},
            {"requests.example.com/gpu": "1"},
            True,
        ),
        (
            {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}},
            {"requests.example.com/gpu": "1"},
            False,
        ),
        ({}, {"requests.example.com/gpu": "0"}, False),
        ({"requests": {"hugepages-2Mi": "4Mi"}}, {"hugepages-2Mi": "2Mi"}, True),
        ({"requests": {"hugepages-2Mi": "4Mi"}}, {"requests.hugepages-2Mi": "2Mi"}, True),
        ({"requests": {"ephemeral-storage": "2Gi"}}, {"requests.ephemeral-storage": "1Gi"}, True),
        ({"limits": {"ephemeral-storage": "2Gi"}}, {"limits.ephemeral-storage": "1Gi"}, True),
    ],
)
def test_extended_resources_huge_pages_and_ephemeral_storage_count(resources, hard, is_refused):
    assert bool(refused(pod("a", resources), quota(hard))) is is_refused


def test_overhead_and_init_containers_count():
    init = [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]
    assert refused(pod("a", ONE, initContainers=init), quota({"requests.cpu": "2"}))
    assert refused(pod("a", ONE, overhead={"cpu": "1"}), quota({"requests.cpu": "1"}))


def test_the_message_is_an_api_servers():
    found = refused(pod("a", ONE), quota({"requests.cpu": "1500m"}, used={"requests.cpu": "1"}))
    assert found == [
        "exceeded quota: quota, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1500m"
    ]


# --- must specify -----------------------------------------------------------------------------------------------------


def test_containers_must_specify_cpu_and_memory_that_a_quota_limits():
    hard = {
        "requests.cpu": "9",
        "limits.memory": "9Gi",
        "requests.example.com/gpu": "1",
        "requests.ephemeral-storage": "1",
    }
    init = [{"name": "i", "resources": {}}]
    assert refused(pod("a", {"requests": {"cpu": "1"}}, initContainers=init), quota(hard)) == [
        "failed quota: quota: must specify limits.memory for: c0,i; requests.cpu for: i"
    ]
    assert refused(pod(), quota({"cpu": "9"})) == ["failed quota: quota: must specify cpu for: c0"]


def test_pods_with_resources_of_their_own_need_not_specify_them():
    own = pod("a", {}, resources={"requests": {"cpu": "1"}})
    assert not refused(own, quota({"requests.cpu": "9", "limits.memory": "1Gi"}))
    made = request("Pod", own, cluster(quota({"requests.cpu": "9"}), minor=33))
    resource_quota.validate(made)
    assert made.findings.forbidden, "not before the gate"


# --- what is used already ---------------------------------------------------------------------------------------------


def test_a_quota_without_a_status_is_counted():
    there = [stored(pod("b", ONE)), stored(pod("c", ONE), status={"phase": "Succeeded"})]
    elsewhere = stored(pod("d", ONE))
    elsewhere["metadata"]["namespace"] = "other"
    assert not refused(pod("a", ONE), quota({"pods": "2", "requests.cpu": "2"}), *there, elsewhere)
    assert refused(pod("a", ONE), quota({"pods": "1"}), *there)
    assert refused(pod("a", ONE), quota({"count/pods": "2"}), *there), "finished pods count as objects"


def test_the_larger_one_of_status_and_count_is_used():
    there = stored(pod("b", ONE))
    assert refused(pod("a", ONE), quota({"pods": "5"}, used={"pods": "5"}), there)
    assert refused(pod("a", ONE), quota({"pods": "1"}, used={"pods": "0"}), there)
    assert not refused(pod("a", ONE), quota({"pods": "2"}, used={"pods": "1"}), there)


def test_pods_of_the_same_run_count():
    among = cluster(quota({"pods": "3"}, used={"pods": "1"}), stored(pod("b", ONE)))

    def admitted(name):
        made = request("Pod", pod(name, ONE), among)
        resource_quota.validate(made)
        if not made.findings.forbidden:
            put(among.objects, stored(pod(name, ONE)))
        return not made.findings.forbidden

    assert [admitted("c"), admitted("d"), admitted("e")] == [True, True, False]
    del among.objects.pods["shop", "b"]
    assert [admitted("e"), admitted("f")] == [True, False]
    del among.objects.pods["shop", "e"]
    assert [admitted("g"), admitted("h")] == [True, False]


def test_a_pod_of_the_same_name_is_replaced():
    there = [stored(pod("a", ONE)), stored(pod("b", ONE))]
    assert not refused(pod("a", ONE), quota({"pods": "2"}), *there)
    assert not refused(pod("a", ONE), quota({"pods": "2"}, used={"pods": "2"}), *there)
    assert refused(pod("a", ONE), quota({"pods": "1"}), *there)


def test_requests_of_the_pods_before_it_count():
    before = [stored(pod(name, ONE)) for name in ("b", "c", "d")]
    assert not refused(pod("a", ONE), quota({"requests.cpu": "3"}), *before[:2])
    assert refused(pod("a", ONE), quota({"requests.cpu": "3"}), *before)


def test_each_pod_is_counted_once_in_a_run(monkeypatch):
    among, counted, usage = cluster(quota({"pods": "1000"})), [], resource_quota._usage

    def counting(*of):
        counted.append(of)
        return usage(*of)

    monkeypatch.setattr(resource_quota, "_usage", counting)
    for number in range(50):
        resource_quota.validate(request("Pod", pod(f"p{number}", ONE), among))
        put(among.objects, stored(pod(f"p{number}", ONE)))
    assert len(counted) == 50 + 49
    del among.objects.pods["shop", "p7"]
    resource_quota.validate(request("Pod", pod("p50", ONE), among))
    assert len(counted) == 50 + 49 + 2, "the last one and the new one, after a pod is deleted"


def test_a_running_pod_is_not_refused():
    full = quota({"pods": "0"})
    assert not refused(pod("a", ONE, nodeName="n"), full, is_state=True)
    assert refused(pod("a", ONE), full, is_state=True), "pending"


def test_a_pod_that_exists_is_not_refused_by_a_quota_that_has_counted_it():
    there = stored(pod("b", ONE))
    assert not refused(pod("a", ONE), quota({"pods": "2"}, used={"pods": "2"}), there, is_state=True)
    assert not refused(pod("a", ONE), quota({"pods": "2"}), there, is_state=True)
    assert refused(pod("a", ONE), quota({"pods": "1"}), there, is_state=True)


def test_quotas_that_cannot_be_read_are_named():
    made = request("Pod", pod(), cluster(unreadable=("resource_quotas",)))
    resource_quota.validate(made)
    assert made.findings.assumed == ["ResourceQuotas of namespace shop"]


# --- scopes -----------------------------------------------------------------------------------------------------------

CROSS = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaceSelector": {}}}
        ]
    }
}
SAME = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}


@pytest.mark.parametrize(
    ("scope", "spec", "is_selected"),
    [
        ("BestEffort", {}, True),
        ("BestEffort", {"overhead": {"cpu": "1"}}, True),
        ("BestEffort", {"resources": {"limits": {"cpu": "1"}}}, False),
        ("NotBestEffort", {}, False),
        ("NotBestEffort", {"initContainers": [{"name": "i", "resources": {"requests": {"memory": "1"}}}]}, True),
        ("Terminating", {"activeDeadlineSeconds": 60}, True),
        ("Terminating", {}, False),
        ("NotTerminating", {"activeDeadlineSeconds": 60}, False),
        ("NotTerminating", {}, True),
        ("CrossNamespacePodAffinity", {"affinity": CROSS}, True),
        ("CrossNamespacePodAffinity", {"affinity": SAME}, False),
        ("CrossNamespacePodAffinity", {}, False),
        ("PriorityClass", {"priorityClassName": "high"}, True),
        ("PriorityClass", {}, False),
        ("Unknown", {}, False),
    ],
)
def test_scopes_select_pods(scope, spec, is_selected):
    assert bool(refused(pod(**spec), quota({"pods": "0"}, scopes=[scope]))) is is_selected


@pytest.mark.parametrize(
    ("operator", "values", "selected"),
    [
        ("In", ["high"], ["high"]),
        ("NotIn", ["high"], ["low", ""]),
        ("Exists", None, ["high", "low"]),
        ("DoesNotExist", None, [""]),
    ],
)
def test_scope_selectors_select_by_priority_class(operator, values, selected):
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}
    full = quota({"pods": "0"}, scopeSelector=selector)
    assert [name for name in ("high", "low", "") if refused(pod(priorityClassName=name), full)] == selected


def test_only_pods_in_all_scopes_count_as_used():
    there = [stored(pod(name, priorityClassName="high")) for name in ("b", "c")] + [stored(pod("d"))]
    assert not refused(pod(priorityClassName="high"), quota({"pods": "3"}, scopes=["PriorityClass"]), *there)
    assert refused(pod(priorityClassName="high"), quota({"pods": "2"}, scopes=["PriorityClass"]), *there)
    assert not refused(pod(priorityClassName="high"), quota({"pods": "0"}, scopes=["PriorityClass", "NotBestEffort"]))


# --- other kinds ------------------------------------------------------------------------------------------------------

CLAIM = "PersistentVolumeClaim"


@pytest.mark.parametrize(
    ("hard", "is_refused"),
    [
        ({"persistentvolumeclaims": "1"}, True),
        ({"count/persistentvolumeclaims": "1"}, True),
        ({"requests.storage": "3Gi"}, True),
        ({"requests.storage": "4Gi", "persistentvolumeclaims": "2"}, False),
        ({"fast.storageclass.storage.k8s.io/requests.storage": "1Gi"}, True),
        ({"fast.storageclass.storage.k8s.io/persistentvolumeclaims": "0"}, True),
        ({"slow.storageclass.storage.k8s.io/requests.storage": "1Gi"}, False),
        ({"pods": "0", "requests.cpu": "0"}, False),
    ],
)
def test_claims_count_by_number_storage_and_class(hard, is_refused):
    there = stored(claim("other", "2Gi"), CLAIM)
    found = refused(claim(storage="2Gi", storageClassName="fast"), quota(hard), there, kind=CLAIM)
    assert bool(found) is is_refused


def test_scopes_of_pods_select_no_claims():
    assert not refused(claim(), quota({"persistentvolumeclaims": "0"}, scopes=["BestEffort"]), kind=CLAIM)
    scopes = ["VolumeAttributesClass"]
    assert refused(
        claim(volumeAttributesClassName="gold"), quota({"persistentvolumeclaims": "0"}, scopes=scopes), kind=CLAIM
    )


def test_other_objects_count_by_number():
    deployment = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {}}
    options = {"kind": "Deployment", "api_version": "apps/v1"}
    assert refused(deployment, quota({"count/deployments.apps": "3"}, used={"count/deployments.apps": "3"}), **options)
    assert not refused(
        deployment, quota({"count/deployments.apps": "3"}, used={"count/deployments.apps": "2"}), **options
    )
    assert refused(deployment, quota({"services": "0"}), kind="Service")
    assert not refused(deployment, quota({"count/pods": "0", "pods": "0"}), **options)
