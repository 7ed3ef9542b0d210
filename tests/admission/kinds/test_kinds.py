"""Kinds beside Pod as an API server stores them: what is filled in, what is dropped, and what is refused.

The pairs of tests/parity/admission have what a real API server answered; here are the fields beside theirs.
"""

from typing import Any

import pytest

from extender.admission import rules
from extender.admission.admit import admit
from extender.admission.cluster import AdmissionCluster
from extender.admission.findings import Findings, Refused
from extender.admission.request import Manifest
from extender.admission.schema import fields_of
from extender.k8s.kinds import ObjectTables
from extender.k8s.objects import Namespace, ObjectMeta
from extender.k8s.version.features import Features

POD: Manifest = {"containers": [{"name": "main", "image": "i"}]}
TEMPLATE: Manifest = {"metadata": {"labels": {"app": "a"}}, "spec": POD}
SELECTOR: Manifest = {"matchLabels": {"app": "a"}}
CLAIM: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME: Manifest = {
    "accessModes": ["ReadWriteOnce"],
    "capacity": {"storage": "1Gi"},
    "csi": {"driver": "d.example.com", "volumeHandle": "h"},
}
EXACTLY: Manifest = {"deviceClassName": "gpu.example.com"}
DEVICES: Manifest = {"requests": [{"name": "gpu", "exactly": EXACTLY}]}
SLICE: Manifest = {
    "driver": "d.example.com",
    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    "nodeName": "n1",
}

VALID: dict[str, Manifest] = {
    "CSIDriver": {"spec": {}},
    "CSINode": {"spec": {"drivers": [{"name": "csi.example.com", "nodeID": "x"}]}},
    "CSIStorageCapacity": {"storageClassName": "std", "capacity": "1Gi"},
    "CronJob": {
        "spec": {
            "schedule": "@daily",
            "jobTemplate": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}},
        }
    },
    "DaemonSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "Deployment": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "DeviceClass": {"spec": {}},
    "DeviceTaintRule": {"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}},
    "Job": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}},
    "LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}},
    "Namespace": {},
    "Node": {"status": {"capacity": {"cpu": "4"}}},
    "PersistentVolume": {"spec": VOLUME},
    "PersistentVolumeClaim": {"spec": CLAIM},
    "Pod": {"spec": POD},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    "PodGroup": {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}},
    "PriorityClass": {"value": 1},
    "ReplicaSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "ReplicationController": {"spec": {"template": TEMPLATE}},
    "ResourceClaim": {"spec": {"devices": DEVICES}},
    "ResourceClaimTemplate": {"spec": {"spec": {"devices": DEVICES}}},
    "ResourceQuota": {"spec": {"hard": {"pods": "3", "requests.cpu": "2", "count/deployments.apps": "1"}}},
    "ResourceSlice": {"spec": {**SLICE, "devices": [{"name": "g0"}]}},
    "RuntimeClass": {"handler": "kata", "overhead": {"podFixed": {"cpu": "100m"}}},
    "Service": {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}},
    "StatefulSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "StorageClass": {"provisioner": "csi.example.com"},
    "VolumeAttachment": {
        "spec": {"attacher": "d.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
    },
}


def admitted(
    kind: str, manifest: Manifest, minor: int = 37, *, is_state: bool = False, admin: bool | None = None
) -> tuple[Manifest, Findings]:
    tables = ObjectTables()
    if admin is not None:
        labels = {"resource.kubernetes.io/admin-access": "true"} if admin else {}
        tables.namespaces["", "default"] = Namespace(ObjectMeta(name="default", labels=labels))
    cluster = AdmissionCluster(tables, Features.of(minor), minor)
    return admit(kind, {"metadata": {"name": "a"}, **manifest}, cluster, is_state=is_state)


def mistakes(kind: str, manifest: Manifest, **options: Any) -> str:
    with pytest.raises(Refused) as refused:
        admitted(kind, manifest, **options)
    return str(refused.value)


def changed(manifest: Any, path: str, value: Any) -> Any:
    """Return a copy with another value at a path such as spec.drivers.0.name; without the field if it is None."""
    key, _, rest = path.partition(".")
    if isinstance(manifest, list):
        index = int(key)
        item = changed(manifest[index], rest, value) if rest else value
        return [*manifest[:index], item, *manifest[index + 1 :]]
    if rest:
        return {**manifest, key: changed(manifest.get(key, {}), rest, value)}
    return {**{one: found for one, found in manifest.items() if one != key}, **({} if value is None else {key: value})}


@pytest.mark.parametrize("kind", sorted(rules.KINDS))
@pytest.mark.parametrize("is_state", [False, True])
def test_valid_objects_are_admitted(kind: str, is_state: bool) -> None:
    for minor in (37, 34):
        _, findings = admitted(kind, VALID[kind], minor, is_state=is_state)
        assert (findings.left_out, findings.pruned) == ([], [])


@pytest.mark.parametrize(
    ("kind", "path", "value", "found"),
    [
        # nodes
        ("Node", "spec.taints", [{"key": "a b", "effect": "NoSchedule"}], "spec.taints[0].key"),
        ("Node", "spec.taints", [{"key": "a", "value": "b c", "effect": "NoSchedule"}], "spec.taints[0].value"),
        ("Node", "spec.taints", [{"key": "a", "effect": "Evict"}], "spec.taints[0].effect: Unsupported value"),
        ("Node", "status.capacity.cpu", "-1", "status.capacity.cpu: Invalid value"),
        (
            "Node",
            "status.capacity",
            {"pods": "1.5"},
            "status.capacity.pods: Invalid",
        ),
        ("Node", "status.declaredFeatures", ["a"], "status.declaredFeatures[0]"),
        ("Node", "status.declaredFeatures", ["B", "A"], "list must be sorted"),
        # storage
        ("PersistentVolumeClaim", "spec.accessModes", ["ReadWriteTwice"], "spec.accessModes[0]: Unsupported"),
        ("PersistentVolumeClaim", "spec.selector", {"matchLabels": {"a b": ""}}, "spec.selector.matchLabels"),
        ("PersistentVolumeClaim", "spec.resources", None, "spec.resources[storage]: Required"),
        ("PersistentVolumeClaim", "spec.volumeAttributesClassName", "A", "spec.volumeAttributesClassName: Invalid"),
        ("PersistentVolume", "spec.accessModes", None, "spec.accessModes: Required"),
        ("PersistentVolume", "spec.capacity", {"storage": "1", "cpu": "1"}, "spec.capacity[cpu]: Unsupported"),
        ("PersistentVolume", "spec.capacity.storage", "0", "spec.capacity[storage]: Invalid"),
        ("PersistentVolume", "spec.csi.driver", "", "spec.csi.driver: Required"),
        ("PersistentVolume", "spec.csi.volumeHandle", None, "spec.csi.volumeHandle: Required"),
        ("PersistentVolume", "spec.hostPath", {"path": "/a"}, "spec: Invalid value"),
        ("PersistentVolume", "spec.nodeAffinity", {}, "spec.nodeAffinity.required: Required"),
        (
            "PersistentVolume",
            "spec.nodeAffinity",
            {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}},
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
        ("PersistentVolume", "spec.persistentVolumeReclaimPolicy", "Keep", "spec.persistentVolumeReclaimPolicy"),
        ("PersistentVolume", "spec.volumeAttributesClassName", "", "spec.volumeAttributesClassName"),
        ("StorageClass", "reclaimPolicy", "Keep", "reclaimPolicy: Unsupported"),
        ("StorageClass", "provisioner", "a b", "provisioner: Invalid"),
        (
            "StorageClass",
            "allowedTopologies",
            [{"matchLabelExpressions": [{"key": "zone", "values": []}]}],
            "allowedTopologies[0].matchLabelExpressions[0].values: Required",
        ),
        ("CSINode", "spec.drivers.0.topologyKeys", ["a", "a"], "spec.drivers[0].topologyKeys[1]: Duplicate"),
        ("CSINode", "spec.drivers.0.name", "a b", "spec.drivers[0].name: Invalid"),
        ("CSIStorageCapacity", "capacity", "-1", "capacity: Invalid"),
        ("CSIStorageCapacity", "nodeTopology", {"matchExpressions": [{"key": "a", "operator": "?"}]}, "nodeTopology"),
        ("VolumeAttachment", "spec.source", {}, "spec.source: Required"),
        ("VolumeAttachment", "spec.nodeName", None, "spec.nodeName: Required"),
        ("CSIDriver", "metadata", {"name": "a" * 64}, "metadata.name: Invalid"),
        # policies
        ("PodDisruptionBudget", "spec.maxUnavailable", 1, "cannot be both set"),
        ("PodDisruptionBudget", "spec.minAvailable", -1, "spec.minAvailable: Invalid"),
        ("PodDisruptionBudget", "spec.minAvailable", "9" * 5000 + "%", "must not be greater than 100%"),
        ("PriorityClass", "metadata", {"name": "system-mine"}, "reserved for system use"),
        ("RuntimeClass", "overhead.podFixed", {"gpu": "1"}, "must be a standard resource"),
        ("RuntimeClass", "scheduling", {"nodeSelector": {"a": "b c"}}, "scheduling.nodeSelector"),
        ("RuntimeClass", "scheduling", {"tolerations": [{"operator": "Equal"}]}, "scheduling.tolerations[0].operator"),
        ("RuntimeClass", "scheduling", {"tolerations": [{"operator": "Exists"}] * 2}, "tolerations[1]: Duplicate"),
        ("LimitRange", "spec.limits.0.type", "Contaner", "must be a standard limit type"),
        ("LimitRange", "spec.limits.0.min", {"cpu": "3"}, "spec.limits[0].min[cpu]"),
        ("LimitRange", "spec.limits.0.default", {"cpu": "3"}, "spec.limits[0].default[cpu]"),
        ("LimitRange", "spec.limits.0.maxLimitRequestRatio", {"cpu": "0.5"}, "is less than 1"),
        ("LimitRange", "spec.limits.0.max", {"gpu": "1"}, 'spec.limits[0]: Invalid value: "gpu"'),
        ("LimitRange", "spec.limits.0", {"type": "Pod", "default": {"cpu": "1"}}, "spec.limits[0].default: Forbidden"),
        ("LimitRange", "spec.limits.0", {"type": "PersistentVolumeClaim"}, "spec.limits[0].limits: Required"),
        (
            "LimitRange",
            "spec.limits.0",
            {"type": "Container", "default": {"a.b/gpu": "2"}, "defaultRequest": {"a.b/gpu": "1"}},
            "must equal to defaultRequest",
        ),
        ("ResourceQuota", "spec.hard", {"gpu": "1"}, "spec.hard[gpu]"),
        ("ResourceQuota", "spec.hard", {"pods": "0.5"}, "must be an integer"),
        ("ResourceQuota", "spec.scopes", ["BestEffort", "NotBestEffort"], "conflicting scopes"),
        ("ResourceQuota", "spec.scopes", ["Best"], "spec.scopes[0]: Unsupported"),
        ("Namespace", "metadata", {"name": "a.b"}, "metadata.name: Invalid"),
        ("Service", "metadata", {"name": "1a"}, "metadata.name: Invalid"),
        ("Service", "spec.selector", {"a": "b c"}, "spec.selector: Invalid"),
        ("PodGroup", "spec.schedulingPolicy", {}, "spec.schedulingPolicy: Required"),
        ("PodGroup", "spec.schedulingPolicy.gang.minCount", 0, "spec.schedulingPolicy.gang.minCount"),
        # workloads
        ("Deployment", "spec.selector", {}, "empty selector is invalid for deployment"),
        ("Deployment", "spec.strategy", {"type": "Rolling"}, "spec.strategy.type: Unsupported"),
        ("Deployment", "spec.template.spec.activeDeadlineSeconds", 5, "activeDeadlineSeconds in Deployment"),
        ("Deployment", "spec.template.spec.tolerations", [{"operator": "Is"}], "spec.template.spec.tolerations[0]"),
        ("DaemonSet", "spec.selector", None, "spec.selector: Required"),
        ("ReplicationController", "spec.selector", {"app": "b"}, "does not match template"),
        ("StatefulSet", "metadata", {"name": "a.b"}, "metadata.name: Invalid"),
        (
            "StatefulSet",
            "spec.volumeClaimTemplates",
            [{"metadata": {"name": "d"}}],
            "spec.volumeClaimTemplates[0].spec",
        ),
        ("Job", "spec.parallelism", -1, "spec.parallelism: Invalid"),
        ("Job", "spec.template.metadata", {"labels": {"job-name": "b"}}, "spec.template.metadata.labels"),
        ("Job", "spec.completionMode", "indexed", "spec.completionMode: Unsupported"),
        ("CronJob", "spec.schedule", "often", "expected exactly 5 fields"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.restartPolicy", None, "restartPolicy: Required"),
        ("CronJob", "spec.jobTemplate.spec.selector", SELECTOR, "spec.jobTemplate.spec.selector"),
        ("CronJob", "metadata", {"name": "a" * 53}, "no more than 52"),
        # devices
        ("ResourceClaim", "spec.devices.requests.0.firstAvailable", [{"name": "a", **EXACTLY}], "cannot be both set"),
        ("ResourceClaim", "spec.devices.requests.0.exactly.count", -1, "must be greater than zero"),
        ("ResourceClaim", "spec.devices.requests.0.exactly.selectors", [{}], "selectors[0].cel: Required"),
        (
            "ResourceClaim",
            "spec.devices.requests.0.exactly.selectors",
            [{"cel": {"expression": "device.driver"}}],
            "must evaluate to bool",
        ),
        (
            "ResourceClaim",
            "spec.devices.requests.0.exactly.selectors",
            [{"cel": {"expression": "true" + " " * (10 << 10)}}],
            "Too long",
        ),
        (
            "ResourceClaim",
            "spec.devices.requests.0.exactly.tolerations",
            [{"key": "a", "operator": "Exists", "value": "b"}],
            "must be empty for operator",
        ),
        ("ResourceClaim", "spec.devices.constraints", [{"requests": ["gpu"]}], "spec.devices.constraints[0]: Required"),
        ("ResourceClaim", "spec.devices.constraints", [{"matchAttribute": "a"}], "matchAttribute: Invalid"),
        ("ResourceClaim", "spec.devices.config", [{"requests": ["other"]}], "spec.devices.config[0].requests[0]"),
        ("ResourceClaimTemplate", "spec.spec.devices.requests.0.name", "A", "spec.spec.devices.requests[0].name"),
        ("DeviceClass", "spec.extendedResourceName", "cpu", "must be a valid extended resource name"),
        ("DeviceTaintRule", "spec.taint.effect", "", "spec.taint.effect: Required"),
        ("DeviceTaintRule", "spec.deviceSelector", {"pool": "A/b"}, "spec.deviceSelector.pool"),
        ("ResourceSlice", "spec.pool.name", "", "spec.pool.name: Required"),
        ("ResourceSlice", "spec.pool", None, "spec.pool.name: Required"),
        ("ResourceSlice", "spec.allNodes", False, "must be either unset"),
        ("ResourceSlice", "spec.sharedCounters", [{"name": "c", "counters": {"m": {"value": "1"}}}], "both set"),
        ("ResourceSlice", "spec.devices", [{"name": f"g{one}"} for one in range(129)], "at most 128 items"),
        (
            "ResourceSlice",
            "spec.devices",
            [{"name": f"g{one}", "taints": [{"key": "k", "effect": "NoSchedule"}]} for one in range(65)],
            "at most 64 items",
        ),
        ("ResourceSlice", "spec.devices.0.nodeName", "n1", "`perDeviceNodeSelection`"),
        ("ResourceSlice", "spec.devices.0.attributes", {"a-b": {"int": 1}}, "attributes[a-b]"),
        ("ResourceSlice", "spec.devices.0.attributes", {"a": {}}, "attributes[a]: Required"),
        ("ResourceSlice", "spec.devices.0.attributes", {"a": {"int": 0, "bool": False}}, "cannot be both set"),
        ("ResourceSlice", "spec.devices.0.attributes", {"a": {"version": "1.2"}}, "semver.org"),
        ("ResourceSlice", "spec.devices.0.taints", [{"effect": "NoSchedule"}], "taints[0].key: Required"),
        ("ResourceSlice", "spec.devices.0.bindingConditions", ["a"], "need each other"),
        ("ResourceSlice", "spec.devices.0.consumesCounters", [{"counterSet": "c"}], "consumesCounters[0].counters"),
        (
            "ResourceSlice",
            "spec.devices.0.capacity",
            {"m": {"value": "1", "requestPolicy": {"default": "1"}}},
            "allowMultipleAllocations must be true",
        ),
    ],
)
def test_refused(kind: str, path: str, value: Any, found: str) -> None:
    message = mistakes(kind, changed(VALID[kind], path, value))
    assert found in message


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ({"default": "2", "validValues": ["1", "2", "4"]}, ""),
        ({"default": "2", "validRange": {"min": "1", "max": "4", "step": "1"}}, ""),
        ({"validValues": ["1"]}, "default: Required"),
        ({"default": "2", "validValues": ["2", "1"]}, "must ascend"),
        ({"default": "2", "validValues": ["2", "9"]}, "must ascend"),
        ({"default": "3", "validValues": ["2"]}, "is not valid"),
        ({"default": "1", "validRange": {"min": "2"}}, "must ascend"),
        ({"default": "2", "validRange": {"min": "1", "step": "2"}}, "whole steps"),
        ({"default": "1", "validRange": {"min": "1", "step": "0"}}, "must be greater than zero"),
        ({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}}, "both set"),
    ],
)
def test_request_policy_of_a_shared_device(policy: Manifest, found: str) -> None:
    capacity = {"memory": {"value": "8", "requestPolicy": policy}}
    device = {"name": "g0", "allowMultipleAllocations": True, "capacity": capacity}
    manifest = changed(VALID["ResourceSlice"], "spec.devices", [device])
    assert found in mistakes("ResourceSlice", manifest) if found else admitted("ResourceSlice", manifest)


def test_all_mistakes_are_reported_at_once() -> None:
    message = mistakes("PersistentVolume", {"spec": {"volumeMode": "x"}, "metadata": {"name": "A"}})
    for path in ("metadata.name", "spec.accessModes", "spec.capacity", "spec.volumeMode", "spec: Required"):
        assert path in message


def test_defaults_of_nodes_and_limits() -> None:
    node, _ = admitted("Node", {"status": {"capacity": {"cpu": "1.0005", "memory": "1Gi"}}})
    assert node["status"]["allocatable"] == {"cpu": "1001m", "memory": "1Gi"}
    node, _ = admitted("Node", {"status": {"capacity": {"cpu": "4"}, "allocatable": {}}})
    assert node["status"]["allocatable"] == {"cpu": "4"}
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Gi"}}
    limits, _ = admitted("LimitRange", {"spec": {"limits": [item]}})
    assert limits["spec"]["limits"][0]["default"] == {"cpu": "2"}
    assert limits["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("given", "parallelism", "completions"),
    [({}, 1, 1), ({"completions": 3}, 1, 3), ({"parallelism": 3}, 3, None), ({"completions": 0}, 1, 0)],
)
def test_numbers_of_a_job(given: Manifest, parallelism: int, completions: int | None) -> None:
    spec = {**VALID["Job"]["spec"], **given}
    job, _ = admitted("Job", {"spec": spec})
    assert (job["spec"]["parallelism"], job["spec"].get("completions")) == (parallelism, completions)
    cron_job, _ = admitted("CronJob", {"spec": {"schedule": "@daily", "jobTemplate": {"spec": spec}}})
    assert given.items() <= cron_job["spec"]["jobTemplate"]["spec"].items()
    assert ("parallelism" in cron_job["spec"]["jobTemplate"]["spec"]) == ("parallelism" in given)


def test_a_job_may_select_what_will_be_generated_only() -> None:
    spec = VALID["Job"]["spec"]
    admitted("Job", {"spec": {**spec, "selector": {"matchLabels": {"job-name": "a"}}}})
    assert "not auto-generated" in mistakes("Job", {"spec": {**spec, "selector": SELECTOR}})
    by_hand = {**spec, "manualSelector": True, "selector": SELECTOR}
    assert "does not match" in mistakes("Job", {"spec": by_hand})
    admitted("Job", {"spec": {**by_hand, "template": {**spec["template"], "metadata": {"labels": {"app": "a"}}}}})


def test_claim_templates_of_a_stateful_set_provide_the_volumes() -> None:
    pod = {"containers": [{"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}], "hostname": "A"}
    spec = {"selector": SELECTOR, "template": {**TEMPLATE, "spec": pod}}
    assert "volumeMounts[0]" in mistakes("StatefulSet", {"spec": spec})
    claims = [{"metadata": {"name": "data"}, "spec": CLAIM}]
    admitted_set, _ = admitted("StatefulSet", {"spec": {**spec, "volumeClaimTemplates": claims}})
    assert "volumes" not in admitted_set["spec"]["template"]["spec"]
    assert admitted_set["spec"]["volumeClaimTemplates"][0]["spec"]["volumeMode"] == "Filesystem"


def test_admin_access_is_for_labelled_namespaces() -> None:
    manifest = changed(VALID["ResourceClaim"], "spec.devices.requests.0.exactly.adminAccess", True)
    admitted("ResourceClaim", manifest, admin=True)
    for admin in (False, None):
        assert "resource.kubernetes.io/admin-access" in mistakes("ResourceClaim", manifest, admin=admin)
    _, findings = admitted("ResourceClaim", manifest, is_state=True)
    assert findings.assumed == ["label resource.kubernetes.io/admin-access of namespace default"]


def test_status_counts_for_objects_that_exist() -> None:
    for kind in ("PodDisruptionBudget", "ResourceClaim", "Deployment"):
        manifest = {**VALID[kind], "status": {}}
        assert "status" not in admitted(kind, manifest)[0]
        assert "status" in admitted(kind, manifest, is_state=True)[0]
    assert "status" not in admitted("PodDisruptionBudget", VALID["PodDisruptionBudget"], is_state=True)[0]


@pytest.mark.parametrize(
    ("given", "is_state", "phase"),
    [
        ({}, True, "Available"),
        ({}, False, "Available"),
        ({"spec": {**VOLUME, "claimRef": {"name": "c"}}}, True, "Bound"),
        ({"status": {"phase": "Released"}}, True, "Released"),
        ({"status": {"phase": "Released"}}, False, "Available"),
    ],
)
def test_phase_of_a_volume(given: Manifest, is_state: bool, phase: str) -> None:
    volume, _ = admitted("PersistentVolume", {"spec": VOLUME, **given}, is_state=is_state)
    assert volume["status"]["phase"] == phase


def test_the_template_of_a_controller_that_exists_may_be_left_out() -> None:
    _, findings = admitted("ReplicaSet", {"spec": {"selector": SELECTOR}}, is_state=True)
    assert findings.left_out == ["spec.template.spec.containers"]
    assert "does not match" in mistakes("ReplicaSet", {"spec": {"selector": SELECTOR}})


@pytest.mark.parametrize(
    ("kind", "path", "path_of_field"),
    [
        ("RuntimeClass", "handler", "handler"),
        ("CSINode", "spec.drivers.0.nodeID", "spec.drivers[0].nodeID"),
        ("CronJob", "spec.schedule", "spec.schedule"),
    ],
)
def test_left_out(kind: str, path: str, path_of_field: str) -> None:
    _, findings = admitted(kind, changed(VALID[kind], path, None))
    assert findings.left_out == [path_of_field]


def test_fields_of_gates_that_are_off_are_dropped_unless_the_object_exists() -> None:
    path = "spec.devices.requests.0.exactly.capacity"
    manifest = changed(VALID["ResourceClaim"], path, {"requests": {"memory": "1Gi"}})
    for minor, is_state, is_kept in ((34, False, False), (34, True, True), (37, False, True)):
        claim, _ = admitted("ResourceClaim", manifest, minor, is_state=is_state)
        assert ("capacity" in claim["spec"]["devices"]["requests"][0]["exactly"]) == is_kept


def test_older_versions_keep_to_the_same_rules() -> None:
    manifest = {"apiVersion": "resource.k8s.io/v1beta2", **VALID["ResourceClaim"]}
    claim, _ = admitted("ResourceClaim", manifest, 34)
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert "count" in mistakes("ResourceClaim", changed(manifest, "spec.devices.requests.0.exactly.count", -1))


def test_devices_and_counters_shared_a_slice_before_1_35() -> None:
    counters = [{"name": "c", "counters": {"m": {"value": "1"}}}]
    manifest = changed(VALID["ResourceSlice"], "spec.sharedCounters", counters)
    admitted("ResourceSlice", manifest, 34, is_state=True)
    mistakes("ResourceSlice", manifest, minor=35, is_state=True)


def test_tables_name_types_fields_and_switches_that_exist() -> None:
    tables = rules.TABLES
    assert [kind for kind, of in tables["kinds"].items() if not fields_of(of)] == []
    unknown = []
    for name in ("defaults", "completed", "gated", "structs", "fields"):
        for of, entries in tables[name].items():
            group, *_, one = of.split(".")
            found = [fields_of(f"{group}.{version}.{one}") for version in rules.VERSIONS]
            keys = set(entries) if name in ("defaults", "gated", "fields") else set()
            if not any(found) or keys - {key for fields in found for key in fields}:
                unknown.append(f"{name}: {of}")
            if name == "gated":
                unknown += [feature for feature in entries.values() if not hasattr(Features(), feature)]
    unknown += [of for of, field in tables["required"]["left_out"] if field not in fields_of(of)]
    unknown += [of for of in tables["required"]["unread"] if not fields_of(of)]
    assert unknown == []
