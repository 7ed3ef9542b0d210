"""One object at least of every kind that decisions read, with the fields that Kubernetes 1.37 added, and their dump.

Rule: nothing here names a machine, an address or a time of day; `anonymised` takes out what the API server adds.
"""

import re
from collections.abc import Iterator
from typing import Any

from extender.k8s.kinds import KINDS, kind_without_group
from tests.e2e.control_plane.lab.api import Api, ApiError
from tests.e2e.control_plane.lab.objects import budget, node, pod, priority_class, workload

JSON = dict[str, Any]

DRIVER = "gpu.example.com"
CSI = "csi.example.com"
_GATES = (
    "CSIVolumeHealth",
    "CompositePodGroup",
    "DRAListTypeAttributes",
    "EvictionRequestAPI",
    "GenericWorkload",
    "HostnameOverride",
    "InPlacePodVerticalScalingSchedulerPreemption",
    "TaintTolerationComparisonOperators",
    "TopologyAwareWorkloadScheduling",
    "VolumeBindMountOptions",
    "WorkloadWithJob",
)
GATES = ",".join(f"{gate}=true" for gate in _GATES)
"""So that the API server keeps every field that it knows."""
RUNTIME_CONFIG = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
OTHER_KINDS = (
    "batch/v1/Job",
    "scheduling.k8s.io/v1beta1/Workload",
    "scheduling.k8s.io/v1alpha3/CompositePodGroup",
    "apps/v1/Deployment",
)
"""Kinds of 1.37 that no decision reads, and that a dump of everything has."""
PENDING = "default/pending"
"""The pod that waits, for the taint of both devices."""

_SHARE = "00000000-0000-4000-8000-00000000abcd"
_TIME = "2026-01-01T00:00:00Z"


def create_every_kind(api: Api) -> None:
    """Create the objects, with the status that controllers, drivers and a kubelet would report."""
    for one in (*_classes(), *_nodes(), *_storage(), *_devices(), *_workloads()):
        _create(api, one)
    api.apply(_COSCHEDULING)
    api.wait_until(lambda: _serves_coscheduling(api), 30, "the PodGroups of scheduler-plugins")
    _create(
        api,
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": _named("older", "default"),
         "spec": {"minMember": 2}},
    )  # fmt: skip
    for one in _pods():
        _create(api, one)


def dump(api: Api) -> JSON:
    """Return all objects of these kinds in one List, as `kubectl get -A -o json` prints them."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [*_listed(api)]}


def _listed(api: Api) -> Iterator[JSON]:
    for name, kind in KINDS.items():
        version = "v1beta1" if name == "PodGroup" else "v1" if kind.group == "resource.k8s.io" else kind.version
        group = f"{kind.group}/{version}" if kind.group else version
        yield from api.list(f"{group}/{kind_without_group(name)}")
    for other in OTHER_KINDS:
        yield from api.list(other)


def anonymised(found: JSON) -> JSON:
    """Return the dump without what differs from run to run or belongs to the cluster itself: UIDs, times, versions."""
    items = [one for one in found["items"] if one["metadata"].get("namespace", "default") == "default"]
    items = [one for one in items if (one["kind"], one["metadata"]["name"]) not in _OF_THE_API_SERVER]
    uids: dict[str, str] = {}

    def uid(value: str) -> str:
        return uids.setdefault(value, f"00000000-0000-4000-8000-{len(uids):012}")

    def plain(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: plain(one, name) for name, one in value.items() if name not in _LEFT_OUT}
        if isinstance(value, list):
            return [plain(one, key) for one in value]
        if key == "resourceVersion":
            return "1"
        if key.endswith("uid") and value:
            return uid(value)
        return _TOKEN.sub("kube-api-access-", _TIMES.sub(_TIME, value)) if isinstance(value, str) else value

    return {**found, "items": [plain(one) for one in items]}


_LEFT_OUT = ("managedFields", "clusterIP", "clusterIPs", "nodePort")
_TOKEN = re.compile(r"\bkube-api-access-\w{5}$")
_TIMES = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_OF_THE_API_SERVER = {
    ("Service", "kubernetes"),
    ("PriorityClass", "system-cluster-critical"),
    ("PriorityClass", "system-node-critical"),
    ("Namespace", "kube-system"),
    ("Namespace", "kube-public"),
    ("Namespace", "kube-node-lease"),
}


def _create(api: Api, one: JSON) -> None:
    """Create the object, and its status where it has one."""
    about, status = one["metadata"], one.get("status")
    api.create(one)
    if status is not None:
        kind = f"{one['apiVersion']}/{one['kind']}"
        if kind == "v1/Pod":  # after the status of the fake kubelet
            api.wait_until(lambda: api.get("Pod", about["name"])["status"]["phase"] == "Running", 20, about["name"])
        api.patch_status(kind, about["name"], status, about.get("namespace", "default"))


def _serves_coscheduling(api: Api) -> bool:
    try:
        api.list("scheduling.x-k8s.io/v1alpha1/PodGroup")
    except (ApiError, KeyError):
        return False
    return True


def _named(name: str, namespace: str | None = None, **labels: str) -> JSON:
    about: JSON = {"name": name, "labels": labels} if labels else {"name": name}
    return about if namespace is None else about | {"namespace": namespace}


# --- the objects ------------------------------------------------------------------------------------------------------


def _classes() -> list[JSON]:
    return [
        priority_class("high", 1000),
        priority_class("low", 10, policy="Never"),
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": _named("gpu"),
         "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
                  "extendedResourceName": "example.com/gpu"}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": _named("fast"), "provisioner": CSI,
         "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": True,
         "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]},
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": _named(CSI),
         "spec": {"attachRequired": True, "storageCapacity": True, "preventPodSchedulingIfMissing": True,
                  "nodeAllocatableUpdatePeriodSeconds": 60}},
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": _named("sandboxed"), "handler": "sandbox",
         "overhead": {"podFixed": {"cpu": "100m", "memory": "64Mi"}},
         "scheduling": {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]}},
        # Neither changes or refuses one of the pods.
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": _named("claims", "default"),
         "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "100Gi"}}]}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": _named("secrets", "default"),
         "spec": {"hard": {"count/secrets": "100"}},
         "status": {"hard": {"count/secrets": "100"}, "used": {"count/secrets": "0"}}},
    ]  # fmt: skip


def _nodes() -> list[JSON]:
    first = node("n1", "4", labels={"zone": "a"}, taints=[{"key": "k", "value": "v", "effect": "PreferNoSchedule"}])
    first["spec"]["podPreemptionPolicy"] = {"disableResizePreemption": ["example.com/never"]}
    first["status"] |= {
        "declaredFeatures": ["GuaranteedQoSPodCPUResize", "UserNamespacesHostNetwork"],
        "features": {"supplementalGroupsPolicy": True},
        "runtimeHandlers": [{"name": "", "features": {"userNamespaces": True, "recursiveReadOnlyMounts": True}}],
        "images": [{"names": ["registry.example.com/app:1"], "sizeBytes": 100_000_000}],
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.1.0",
            "kernelVersion": "6.12.0", "kubeProxyVersion": "", "kubeletVersion": "v1.37.2", "machineID": "",
            "operatingSystem": "linux", "osImage": "Linux", "systemUUID": "", "runningInUserNamespace": False,
        },
    }  # fmt: skip
    return [first, node("n2", "4", labels={"zone": "b"})]


def _storage() -> list[JSON]:
    size = {"requests": {"storage": "1Gi"}}
    return [
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": _named("n1"),
         "spec": {"drivers": [{"name": CSI, "nodeID": "n1", "topologyKeys": ["zone"], "allocatable": {"count": 8}}]},
         "status": {"storageHealth": [{"name": CSI, "healthConditions": [
             {"status": "StorageDegraded", "reason": "Slow", "message": "slow", "lastTransitionTime": _TIME}]}]}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": _named("zone-a", "default"),
         "storageClassName": "fast", "capacity": "100Gi", "maximumVolumeSize": "50Gi",
         "nodeTopology": {"matchLabels": {"zone": "a"}}},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": _named("pv"),
         "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"], "storageClassName": "fast",
                  "csi": {"driver": CSI, "volumeHandle": "pv"}, "claimRef": {"namespace": "default", "name": "data"},
                  "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                      {"key": "zone", "operator": "In", "values": ["a"]}]}]}}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": _named("data", "default"),
         "spec": {"accessModes": ["ReadWriteOncePod"], "resources": size, "storageClassName": "fast",
                  "volumeName": "pv"},
         "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"],
                    "allocatedResources": {"storage": "1Gi"},
                    "healthStatus": {"lastTransitionTime": _TIME, "healthConditions": [
                        {"status": "Degraded", "reason": "Slow", "message": "slow"}]}}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": _named("pv-n1"),
         "spec": {"attacher": CSI, "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
         "status": {"attached": True}},
    ]  # fmt: skip


def _devices() -> list[JSON]:
    api, pool = "resource.k8s.io/v1", {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    shared = {
        "name": "gpu-0",
        "attributes": {"model": {"string": "A100"}, "version": {"version": "1.2.3"}, "links": {"ints": [1, 2]}},
        "capacity": {"memory": {"value": "40Gi", "requestPolicy": policy}},
        "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "40Gi"}}}],
        "allowMultipleAllocations": True,
        "bindsToNode": True,
        "bindingConditions": ["example.com/Ready"],
        "bindingFailureConditions": ["example.com/Failed"],
    }
    tainted = {
        "name": "gpu-1",
        "attributes": {"model": {"string": "A100"}},
        "taints": [{"key": "example.com/worn", "effect": "NoSchedule", "timeAdded": _TIME}],
    }
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "10Gi"}}}}
    spec = {"devices": {"requests": [request], "constraints": [{"matchAttribute": f"{DRIVER}/model"}]}}
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0", "shareID": _SHARE,
              "consumedCapacity": {"memory": "10Gi"}, "bindingConditions": ["example.com/Ready"],
              "bindingFailureConditions": ["example.com/Failed"]}  # fmt: skip
    on_n1 = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    device = {"driver": DRIVER, "pool": "n1", "device": "gpu-0", "shareID": _SHARE,
              "conditions": [{"type": "example.com/Ready", "status": "True", "reason": "Ready", "message": "",
                              "lastTransitionTime": _TIME}]}  # fmt: skip
    return [
        {"apiVersion": api, "kind": "ResourceSlice", "metadata": _named("n1-counters"),
         "spec": {"driver": DRIVER, "pool": pool, "nodeName": "n1",
                  "sharedCounters": [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]}},
        {"apiVersion": api, "kind": "ResourceSlice", "metadata": _named("n1-devices"),
         "spec": {"driver": DRIVER, "pool": pool, "nodeName": "n1", "devices": [shared, tainted]}},
        {"apiVersion": api, "kind": "ResourceClaim", "metadata": _named("held", "default"), "spec": spec,
         "status": {"allocation": {"devices": {"results": [result]}, "nodeSelector": on_n1,
                                   "allocationTimestamp": _TIME}, "devices": [device]}},
        {"apiVersion": api, "kind": "ResourceClaim", "metadata": _named("wanted", "default"),
         "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
        {"apiVersion": api, "kind": "ResourceClaimTemplate", "metadata": _named("gpu", "default"),
         "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "firstAvailable": [
             {"name": "one", "deviceClassName": "gpu", "tolerations": [
                 {"key": "example.com/worn", "operator": "Exists"}]}]}]}}}},
        {"apiVersion": api, "kind": "DeviceTaintRule", "metadata": _named("n1-is-repaired"),
         "spec": {"deviceSelector": {"driver": DRIVER, "pool": "n1"},
                  "taint": {"key": "example.com/repair", "value": "x", "effect": "NoSchedule"}},
         "status": {"conditions": [{"type": "EvictionInProgress", "status": "False", "reason": "NotStarted",
                                    "message": "", "lastTransitionTime": _TIME}]}},
    ]  # fmt: skip


def _workloads() -> list[JSON]:
    gang = {"gang": {"minCount": 2}}
    template = {"name": "workers", "schedulingPolicy": gang, "disruptionMode": {"all": {}}}
    container = {"name": "main", "image": "registry.example.com/app:1"}
    scheduling = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}
    group = {"workloadRef": {"workloadName": "train", "templateName": "workers"}, "schedulingPolicy": gang,
             "disruptionMode": {"all": {}}, "priorityClassName": "high"}  # fmt: skip
    return [
        budget("web", {"app": "web"}, minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow"),
        {"apiVersion": "v1", "kind": "Service", "metadata": _named("web", "default"),
         "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], "trafficDistribution": "PreferSameZone"}},
        {"apiVersion": "v1", "kind": "ReplicationController", "metadata": _named("old", "default"),
         "spec": {"replicas": 0, "selector": {"app": "old"},
                  "template": {"metadata": {"labels": {"app": "old"}}, "spec": {"containers": [container]}}}},
        workload("ReplicaSet", "web", 2, {"app": "web"}) | {"status": {"replicas": 2, "terminatingReplicas": 0}},
        workload("StatefulSet", "db", 1, {"app": "db"}) | {"status": {"replicas": 1, "conditions": [
            {"type": "Progressing", "status": "True"}]}},
        workload("Deployment", "web", 2, {"app": "web"}),
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": _named("train", "default"),
         "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "scheduling": scheduling,
                  "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}},
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": _named("train", "default"),
         "spec": {"podGroupTemplates": [template | {"priorityClassName": "high"}]}},
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": _named("train", "default"),
         "spec": group,
         "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled",
                                    "message": "", "lastTransitionTime": _TIME}]}},
        {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
         "metadata": _named("campaign", "default"),
         "spec": {"workloadRef": {"workloadName": "train", "templateName": "campaign"},
                  "schedulingPolicy": {"basic": {}}}},
    ]  # fmt: skip


def _pods() -> list[JSON]:
    return [_resized(), _with_devices(), _member(), _rich(), _pending()]


def _running(one: JSON, **status: Any) -> JSON:
    ready = [{"type": kind, "status": "True", "observedGeneration": 1, "lastTransitionTime": _TIME}
             for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")]  # fmt: skip
    names = [container["name"] for container in one["spec"]["containers"]]
    containers = [{"name": name, "image": "registry.example.com/app:1", "imageID": "", "ready": True, "restartCount": 0,
                   "state": {"running": {"startedAt": _TIME}}} for name in names]  # fmt: skip
    return one | {"status": {"phase": "Running", "startTime": _TIME, "observedGeneration": 1,
                             "conditions": ready, "containerStatuses": containers} | status}  # fmt: skip


def _resized() -> JSON:
    """A pod that was resized, by its container and as a whole."""
    whole = {"cpu": "2", "memory": "2Gi"}
    one = _running(pod("resized", "1", node="n1", priority_class="low", resources={"requests": whole}))
    amounts, status = {"cpu": "1500m", "memory": "1Gi"}, one["status"]
    status["containerStatuses"][0] |= {"resources": {"requests": amounts}, "allocatedResources": amounts}
    status["conditions"].append({"type": "PodResizeInProgress", "status": "True", "lastTransitionTime": _TIME})
    status |= {"resources": {"requests": whole}, "allocatedResources": whole}
    return one


def _with_devices() -> JSON:
    claims = [{"name": "gpu", "resourceClaimName": "held"}]
    one = pod("with-devices", "100m", node="n1", resourceClaims=claims)
    one["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    health = {"name": "claim:gpu", "resources": [{"resourceID": f"{DRIVER}/gpu-0", "health": "Healthy"}]}
    one = _running(one, resourceClaimStatuses=[])
    one["status"]["containerStatuses"][0]["allocatedResourcesStatus"] = [health]
    return one


def _member() -> JSON:
    return _running(pod("member", "100m", node="n1", priority_class="high", schedulingGroup={"podGroupName": "train"}))


def _rich() -> JSON:
    """A pod with the other fields that the newest versions added."""
    sidecar = {"name": "sidecar", "image": "registry.example.com/proxy:1", "restartPolicy": "Always",
               "resources": {"requests": {"cpu": "50m"}}}  # fmt: skip
    one = pod(
        "rich", "100m", node="n1", labels={"app": "web"}, initContainers=[sidecar], hostnameOverride="rich",
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                 {"name": "code", "image": {"reference": "registry.example.com/code:1"}}],
        evictionResponders=[{"name": "example.com/responder", "priority": 1000}],
        tolerations=[{"key": "example.com/level", "operator": "Gt", "value": "5", "effect": "NoSchedule"}],
    )  # fmt: skip
    one["spec"]["containers"][0] |= {
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "bindMountOptions": ["noexec"]}],
    }
    return _running(one, volumeHealth=[])


def _pending() -> JSON:
    """The pod of the question: no device is free of taints, and n2 has none."""
    one = pod("pending", "100m", priority_class="high", resourceClaims=[{"name": "gpu", "resourceClaimName": "wanted"}])
    one["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return one


_COSCHEDULING = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: podgroups.scheduling.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"}
spec:
  group: scheduling.x-k8s.io
  scope: Namespaced
  names: {kind: PodGroup, plural: podgroups}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {minMember: {type: integer}}}
"""
