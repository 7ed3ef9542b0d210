"""Which kinds are read for which pod, and that no other kind could have changed what is said of it."""

from dataclasses import replace

import pytest

from extender.cluster.list.requests import ListRequest, late_requests_for, requests_for
from extender.config.scheduler.load import kube_scheduler_of
from extender.core.evaluation import Evaluation
from extender.core.profile import UNCONFIGURED, KubeScheduler, PreemptionPolicy, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import KINDS, ClusterObjects
from tests.builders import incoming, pod, stored_cluster, typed
from tests.device_builders import using_claims
from tests.parity.agreement import EVERY_CATEGORY, load
from tests.parity.parity import NOW, Evaluated

ALWAYS = {"Node", "Pod", "PodDisruptionBudget", "Namespace"}
VOLUMES = {"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "VolumeAttachment"}
CLAIMS = VOLUMES | {"CSIDriver", "CSIStorageCapacity"}
DEVICES = {"ResourceClaim", "ResourceSlice", "DeviceClass"}

SPREADS_ITSELF = {
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
}
NO_SPREADING = KubeScheduler((Profile(default_spread_constraints=()),))


def with_volume(**source):
    return {"volumes": [{"name": "v", **source}]}


def owned(kind, api_version="apps/v1"):
    return {
        "ownerReferences": [{"kind": kind, "apiVersion": api_version, "name": "web", "uid": "u", "controller": True}]
    }


def with_policy(**policy):
    return NO_SPREADING.with_preemption(PreemptionPolicy(**policy), 1)


@pytest.mark.parametrize(
    ("fields", "scheduler", "more"),
    [
        ({}, NO_SPREADING, set()),
        (SPREADS_ITSELF, UNCONFIGURED, set()),
        ({}, UNCONFIGURED, {"Service"}),
        ({"metadata": owned("ReplicaSet")}, UNCONFIGURED, {"Service", "ReplicaSet"}),
        ({"metadata": owned("StatefulSet")}, UNCONFIGURED, {"Service", "StatefulSet"}),
        ({"metadata": owned("ReplicationController", "v1")}, UNCONFIGURED, {"Service", "ReplicationController"}),
        ({"metadata": owned("ReplicaSet", "example.com/v1")}, UNCONFIGURED, {"Service"}),
        ({"metadata": owned("ReplicaSet")}, NO_SPREADING, set()),
        (with_volume(persistentVolumeClaim={"claimName": "c"}), NO_SPREADING, CLAIMS),
        (with_volume(ephemeral={}), NO_SPREADING, CLAIMS),
        (with_volume(awsElasticBlockStore={"volumeID": "v"}), NO_SPREADING, VOLUMES | {"CSIDriver"}),
        (with_volume(emptyDir={}), NO_SPREADING, set()),
        (using_claims("mine"), NO_SPREADING, DEVICES | {"ResourceClaimTemplate"}),
        ({"requests": {"example.com/gpu": "1"}}, NO_SPREADING, DEVICES),
        ({"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}, NO_SPREADING, DEVICES),
        ({"requests": {"ephemeral-storage": "1Gi"}}, NO_SPREADING, set()),
        ({}, with_policy(preemption_toleration=True), {"PriorityClass"}),
        ({}, with_policy(ranking=("PodGroups",)), {"PodGroup", "PodGroup.scheduling.x-k8s.io"}),
        ({"schedulerName": "another"}, UNCONFIGURED, None),
    ],
)
def test_the_kinds_follow_from_the_pod_the_profile_and_the_policy(fields, scheduler, more):
    found = {one.kind for one in requests_for(typed(incoming(**fields)), scheduler)}
    assert found - {"DeviceTaintRule"} == (ALWAYS - {"Namespace"} if more is None else ALWAYS | more)


def test_rules_that_taint_devices_are_read_where_the_version_has_them():
    pod = typed(incoming(**using_claims("mine")))
    for minor in (33, 36):
        scheduler = kube_scheduler_of({}, version=f"1.{minor}")
        has_rules = scheduler.features.dra_device_taint_rules
        assert ("DeviceTaintRule" in {one.kind for one in requests_for(pod, scheduler)}) is has_rules


@pytest.mark.parametrize("spec", [{"priorityClassName": "high"}, {}])
def test_a_manifest_without_a_priority_needs_the_classes_and_a_stored_pod_has_its_priority(spec):
    given = incoming(**spec)
    del given["spec"]["priority"]
    assert "PriorityClass" in {one.kind for one in requests_for(typed(given), NO_SPREADING)}
    assert "PriorityClass" not in {one.kind for one in requests_for(typed(incoming(**spec)), NO_SPREADING)}


ADMISSION = {"PriorityClass", "LimitRange", "ResourceQuota"}


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({}, ADMISSION),
        ({"runtimeClassName": "kata"}, ADMISSION | {"RuntimeClass"}),
        ({"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": 1}}}]}, ADMISSION | DEVICES),
        ({"initContainers": [{"name": "c", "resources": {"limits": {"example.com/gpu": 1}}}]}, ADMISSION | DEVICES),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "hugepages-2Mi": 1}}}]}, ADMISSION),
        ({"schedulerName": "another"}, set()),
    ],
)
def test_a_manifest_that_is_yet_to_be_admitted_needs_what_admission_reads(fields, more):
    given = incoming(**fields)
    found = {one.kind: one for one in requests_for(typed(given), NO_SPREADING, given)}
    stored = {one.kind for one in requests_for(typed(given), NO_SPREADING)}
    assert {*found} - stored - {"DeviceTaintRule"} == more
    assert all(found[kind].namespace == "default" for kind in ("LimitRange", "ResourceQuota") if kind in found)
    if "RuntimeClass" in found:
        assert found["RuntimeClass"].params == {"fieldSelector": "metadata.name=kata"}


@pytest.mark.parametrize("spec", [None, [], {"runtimeClassName": 1}, {"runtimeClassName": ""}])
def test_a_manifest_need_not_be_valid_yet(spec):
    given = typed(incoming())
    assert "RuntimeClass" not in {one.kind for one in requests_for(given, NO_SPREADING, {"spec": spec})}


def test_services_and_the_controller_are_those_of_the_pods_namespace_and_name():
    pod = typed(incoming(namespace="a/b", metadata=owned("ReplicaSet")))
    found = {one.kind: one for one in requests_for(pod, UNCONFIGURED)}
    assert found["Service"].path_in("/api/v1/services") == "/api/v1/namespaces/a%2Fb/services"
    assert found["ReplicaSet"].params == {"fieldSelector": "metadata.name=web"}
    assert found["Pod"].path_in("/api/v1/pods") == "/api/v1/pods"


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        (incoming("n", status={"nominatedNodeName": "n1"}, **using_claims("its")), DEVICES),
        (incoming("n", **using_claims("its")), set()),
        (incoming("n", status={"nominatedNodeName": "n1"}), set()),
        (pod("n", nodeName="n1", status={"nominatedNodeName": "n1"}, **using_claims("its")), set()),
    ],
)
def test_a_nominated_pod_with_claims_needs_the_kinds_of_devices(other, kinds):
    had = requests_for(typed(incoming()), UNCONFIGURED)
    late = late_requests_for([typed(other)], UNCONFIGURED, had)
    assert {one.kind for one in late} - {"DeviceTaintRule"} == kinds
    assert late_requests_for([typed(other)], UNCONFIGURED, [*had, *late]) == []


# --- nothing that is not read could have mattered -------------------------------------------------------------------


def as_read(objects: ClusterObjects, wanted: list[ListRequest]) -> ClusterObjects:
    """What the API server would have sent."""
    fields = {}
    for one in wanted:
        field, name = KINDS[one.kind].field, one.params.get("fieldSelector", "").removeprefix("metadata.name=")
        fields[field] = tuple(
            item
            for item in getattr(objects, field)
            if (not one.namespace or item.metadata.namespace == one.namespace) and name in ("", item.metadata.name)
        )
    return ClusterObjects(**fields)


NTH = 40
"""Every so many scenarios of a category; `pytest tests/tools/test_list_requests.py` takes all of them, in minutes."""


def test_what_is_read_decides_as_the_whole_cluster_does():
    assert sum(compare_reads(load(category, NTH)) for category in EVERY_CATEGORY) > 5


def compare_reads(scenarios) -> int:
    """Compare the verdicts; return in how many scenarios something of the cluster was not read."""
    read_less = 0
    for scenario in scenarios:
        scheduler = kube_scheduler_of(scenario["config"]) if "config" in scenario else UNCONFIGURED
        pod, objects = typed(scenario["pod"]), stored_cluster(scenario["cluster"])
        profile = Evaluated.profile_of(scheduler, pod)
        scheduler = replace(scheduler, profiles=(replace(profile, scheduler_name=pod.spec.scheduler_name),))
        wanted = list(requests_for(pod, scheduler))
        wanted += late_requests_for(objects.pods, scheduler, wanted)
        some = as_read(objects, wanted)
        read_less += some != objects
        whole, less = (Snapshot.build(one, scheduler.features) for one in (objects, some))
        expected = Evaluation(whole, pod, scheduler.profiles[0], NOW).to_dict()
        assert Evaluation(less, pod, scheduler.profiles[0], NOW).to_dict() == expected, scenario.get("name")
    return read_less
