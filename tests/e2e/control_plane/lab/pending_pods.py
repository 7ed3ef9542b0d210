"""Pods that stay pending on the full cluster of pods_of_all_kinds, each for a reason of its own, and what they name."""

from typing import Any

from tests.e2e.control_plane.lab import pods_of_all_kinds as kinds
from tests.e2e.control_plane.lab.api import Api
from tests.e2e.control_plane.lab.objects import pod

JSON = dict[str, Any]

WHY_NOT = {
    # part of the name -> cpu and class: nothing of lower priority to evict, may not evict, and evicting does not help
    "lowest": ("7", "low"),
    "never": ("3", "patient"),
    "too-large": ("64", "critical"),
}
GATES = [{"name": "example.com/first"}, {"name": "example.com/second"}]


def create_what_they_name(api: Api) -> None:
    """Create claims, classes and volumes that the pods name; those named absent do not exist."""
    kinds.create_volumes(api, "pending", len(WHY_NOT))
    api.create(
        _storage_class("immediate", "Immediate"),
        _storage_class("waits", "WaitForFirstConsumer"),
        *(_claim(name, storage_class) for name, storage_class in
          [("immediate", "immediate"), ("waits", "waits"), ("no-class", "absent")]),
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
         "metadata": {"name": "gpu", "namespace": "default"},
         "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
    )  # fmt: skip


def pending_pods() -> list[JSON]:
    """Return pods that kube-scheduler neither binds nor nominates."""
    return [*_of_all_kinds(), *_of_resources(), *_of_nodes(), *_of_pods(), *_of_claims()]


def not_tried_pods() -> list[JSON]:
    """Return pods that kube-scheduler does not try, and writes no event about."""
    claim = {"name": "gpu", "resourceClaimName": "absent"}
    return [
        pod("gated", schedulingGates=GATES),
        pod("of-another", schedulerName="absent"),
        pod("without-claim", resourceClaims=[claim]),
    ]


def _of_all_kinds() -> list[JSON]:
    made = []
    for number, (reason, (cpu, priority_class)) in enumerate(WHY_NOT.items()):
        for kind in kinds.KINDS:
            name = f"{reason}-{kind}"
            one = pod(name, cpu, "128Mi", priority_class=priority_class, labels={"app": name, "kind": kind})
            kinds.constrain(one, kind, claim=f"pending-{number}")
            made.append(one)
    return made


def _of_resources() -> list[JSON]:
    return [
        pod("memory", "1m", "500Gi"),
        pod("storage", "1m", requests={"ephemeral-storage": "1Ti"}),
        pod("extended", "1m", requests={"example.com/gpu": "1"}),
        pod("cpu-and-memory", "64", "500Gi", priority_class="high"),
        pod("overhead-of-init", "1m", initContainers=[_container("init", "64")]),
    ]


def _of_nodes() -> list[JSON]:
    zone, other = kinds.ZONE, {"operator": "Exists", "key": "other"}
    return [
        pod("selector", "1m", nodeSelector={"absent": "x"}),
        pod("tainted", "1m", priority_class="critical", nodeSelector={"dedicated": "x"}),
        pod("tolerates-other", "1m", nodeSelector={"dedicated": "x"}, tolerations=[other]),
        pod("absent-node", "1m", affinity=kinds.affinity_to_node("absent")),
        pod("cordoned-node", "1m", affinity=kinds.affinity_to_node(f"n{kinds.TAINTED + 1:02}")),
        pod("full-node", "7", priority_class="low", affinity=kinds.affinity_to_node("n07")),
        pod("absent-zone", "1m", affinity={"nodeAffinity": kinds.node_affinity(zone, "zone-q")}),
    ]


def _of_pods() -> list[JSON]:
    absent = {"labelSelector": {"matchLabels": {"app": "absent"}}, "topologyKey": kinds.HOST}
    everywhere = {"labelSelector": {}, "topologyKey": "kubernetes.io/os"}
    domains = {"maxSkew": 1, "minDomains": 9, "topologyKey": kinds.ZONE, "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"app": "etl"}}}  # fmt: skip
    no_key = {"maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule",
              "labelSelector": {"matchLabels": {"app": "rack"}}}  # fmt: skip
    return [
        pod("absent-pod", "1m", affinity={"podAffinity": _required(absent)}),
        pod("alone", "1m", priority_class="low", affinity={"podAntiAffinity": _required(everywhere)}),
        pod("few-domains", "1m", priority_class="low", labels={"app": "etl"}, topologySpreadConstraints=[domains]),
        pod("no-rack", "1m", labels={"app": "rack"}, topologySpreadConstraints=[no_key]),
    ]


def _of_claims() -> list[JSON]:
    ephemeral = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": _claim("x", "waits")["spec"]}}}
    return [
        *(pod(f"claim-{name}", "1m", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])
          for name in ("absent", "immediate", "waits", "no-class")),
        pod("claim-ephemeral", "1m", volumes=[ephemeral]),
        pod("claim-gpu", "1m", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
    ]  # fmt: skip


def _required(term: JSON) -> JSON:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _container(name: str, cpu: str) -> JSON:
    return {"name": name, "image": "registry.example.com/app:1", "resources": {"requests": {"cpu": cpu}}}


def _storage_class(name: str, mode: str) -> JSON:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}  # fmt: skip


def _claim(name: str, storage_class: str) -> JSON:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class,
            "resources": {"requests": {"storage": "5Gi"}}}  # fmt: skip
    about = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about, "spec": spec}
