"""The extender attaches to a real API server with exactly the shipped role, and a kube-scheduler calls it."""

import pytest
import yaml

from tests.e2e.control_plane.lab.cache_check import assert_cache_is_current
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.evictions import judge
from tests.e2e.control_plane.lab.objects import budget, node, pod, priority_class, workload
from tests.e2e.control_plane.lab.service import RBAC, Service

EXTENDER = "system:serviceaccount:kube-system:extender"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def plane(plane_of_each_etcd):
    """A small cluster in which every node is nearly full of pods of low priority."""
    api = plane_of_each_etcd.api
    api.create(priority_class("high", 1000), *(node(f"n{i}", cpu="4", labels={ZONE: f"z{i % 2}"}) for i in range(6)))
    owner = api.create(workload("ReplicaSet", "low", 6, {"app": "low"}))
    api.create(budget("low", {"app": "low"}, maxUnavailable=3))
    api.create(*(pod(f"low-{i}", "3", node=f"n{i}", labels={"app": "low"}, owner=owner) for i in range(6)))
    api.wait_until(lambda: api.get("PodDisruptionBudget", "low").get("status", {}).get("currentHealthy") == 6)
    return plane_of_each_etcd


@pytest.fixture(scope="module")
def service(plane):
    with Service(plane, {"bind": {"enabled": True}}, roles=("bind",)) as started:
        yield started


def test_the_cache_equals_the_api_server(plane, service):
    plane.api.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "low", "namespace": "default"},
         "spec": {"selector": {"app": "low"}, "ports": [{"port": 80}]}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
         "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
         "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                  "resources": {"requests": {"storage": "1Gi"}}}},
        workload("StatefulSet", "db", 1, {"app": "db"}),
    )  # fmt: skip
    assert_cache_is_current(service, plane.api)


def test_kube_scheduler_filters_scores_preempts_and_binds_through_the_extender(plane, service):
    api = plane.api
    with CallRecorder(service.url) as recorder:
        scheduler = plane.start_scheduler({"extenders": [service.extender(recorder.url, bindVerb="bind")]})
        small = [f"small-{i}" for i in range(3)]
        urgent = [f"urgent-{i}" for i in range(2)]
        api.create(*(pod(name, "300m") for name in small), *(pod(name, "3", priority_class="high") for name in urgent))
        for name in small + urgent:
            api.wait_until(lambda name=name: api.get("Pod", name)["spec"].get("nodeName"), 30, f"{name} to be bound")
        judgement = judge(plane.audit_events(), recorder.calls)
        assert {one.preemptor for one in judgement.preemptions} == {
            api.get("Pod", name)["metadata"]["uid"] for name in urgent
        }
        assert (judgement.evictions, judgement.unexplained, judgement.faults) == (2, [], [])
        assert {call.verb for call in recorder.calls} == {"filter", "prioritize", "preempt", "bind"}
        assert {call.status for call in recorder.calls} == {200}
        scheduler.stop()
    assert_cache_is_current(service, api)


def test_the_role_is_what_the_extender_needs(plane, service):
    """Last: what the tests before made the extender ask for."""
    done = [one for one in plane.audit_events() if one.user == EXTENDER]
    assert [one for one in done if one.status == 403] == []
    # the version of the API server, which every authenticated user may read (system:public-info-viewer)
    assert {one.uri for one in done if not one.resource} == {"/version"}
    used = {
        (one.group, "/".join(filter(None, (one.resource, one.subresource))), one.verb) for one in done if one.resource
    }
    assert used <= allowed("rbac") | allowed("components/bind")
    # List is for an API server that cannot stream the initial events, get for a binding whose outcome is unknown.
    assert {one for one in allowed("rbac") - used if one[2] != "list"} == set()
    assert ("", "pods/binding", "create") in used


def allowed(folder):
    """(API group, resource, verb) of the roles in a folder of deploy/kustomize."""
    documents = yaml.safe_load_all((RBAC / folder / "rbac.yaml").read_text())
    rules = [rule for one in documents if one["kind"] == "ClusterRole" for rule in one["rules"]]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
