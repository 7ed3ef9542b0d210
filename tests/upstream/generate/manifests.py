"""Random manifests as people write them, right and wrong ones, and the objects that they are created among.

    world = random_world("1")                       # namespaces, limits, quotas and classes, in order of creation
    kind, manifest = random_manifest("1", 17)       # for that world

Rule: the same seed and number give the same manifest. What a manifest depends on has the same name in each world.
"""

import copy
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from tests.upstream.generate.quantities import spelled_bytes, spelled_cpu
from tests.upstream.generate.words import APPS, GPU, HOST, PREFERRED, REQUIRED, ZONE

JSON = dict[str, Any]

NAMESPACES: Final = {"default": 8, "defaults": 6, "bounds": 3, "pods": 2, "ratio": 1, "metered": 2, "full": 1}
"""Namespace -> how often it is drawn."""
ASIDE: Final = "aside"
"""Namespace of the manifests that would change others: LimitRanges and quotas."""
MI: Final = 1 << 20
IMAGE: Final = "registry.example.com/app:1"


# --- the objects that are there before --------------------------------------------------------------------------------


def random_world(seed: str) -> list[JSON]:
    """Return the objects; whether there are a default PriorityClass and StorageClass is drawn."""
    random = Random(f"world/{seed}")
    default_class, default_storage = random.random() < 0.5, random.random() < 0.5
    cpu = random.choice(["100m", "0.25", "1e-1"])
    return [
        *(_namespace(name) for name in (*NAMESPACES, ASIDE) if name != "default"),
        _limit_range("defaults", type="Container", default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": cpu}),
        _limit_range("bounds", type="Container", min={"cpu": "50m"}, max={"cpu": "2", "memory": "4Gi"}),
        _limit_range("pods", type="Pod", max={"cpu": "3", "memory": "8Gi"}),
        _limit_range("ratio", type="Container", maxLimitRequestRatio={"cpu": "4"}),
        _limit_range("ratio", "claims", type="PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "10Gi"}),
        _quota("metered", {"requests.cpu": "1k", "limits.memory": "10Ti"}),
        _quota("full", {"pods": "0"}),
        _priority_class("high", 1000),
        _priority_class("low", -10, preemptionPolicy="Never"),
        *([_priority_class("standard", 100, globalDefault=True)] if default_class else []),
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "runc"}, "handler": "runc"},
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata",
         "overhead": {"podFixed": {"cpu": "120m", "memory": "64Mi"}},
         "scheduling": {"nodeSelector": {"sandbox": "true"},
                        "tolerations": [{"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}]}},
        _storage_class("slow", is_default=False),
        _storage_class("fast", is_default=default_storage),
    ]  # fmt: skip


def _namespace(name: str) -> JSON:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _limit_range(namespace: str, name: str = "limits", **item: Any) -> JSON:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}


def _quota(namespace: str, hard: Mapping[str, str]) -> JSON:
    metadata = {"name": "quota", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": dict(hard)}}


def _priority_class(name: str, value: int, **rest: Any) -> JSON:
    metadata = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value, **rest}


def _storage_class(name: str, *, is_default: bool) -> JSON:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if is_default else {}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, "provisioner": "csi"}


# --- a manifest -------------------------------------------------------------------------------------------------------


def random_manifest(seed: str, number: int) -> tuple[str, JSON]:
    """Return a kind and a manifest of it; every third has one mistake or two."""
    random = Random(f"manifests/{seed}/{number}")
    kind = random.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
    manifest = _Drawing(random).manifest(kind, number)
    if random.random() < 0.33:
        for _ in range(random.choice((1, 1, 2))):
            random.choice(_MISTAKES)(random, manifest)
    return kind, manifest


class _Drawing:
    """Parts of a manifest, drawn one after the other."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def manifest(self, kind: str, number: int) -> JSON:
        name, (_, api_version) = f"{self.random.choice(APPS)}-{number}", _KINDS[kind]
        metadata: JSON = {"name": name}
        if kind in ("LimitRange", "ResourceQuota"):
            metadata["namespace"] = ASIDE
        elif kind not in _CLUSTER_SCOPED:
            drawn = self.random.choices(list(NAMESPACES), list(NAMESPACES.values()))[0]
            metadata |= {"namespace": drawn} if self.chance(0.8) else {}
        body = {
            "Pod": lambda: {"spec": self.pod_spec()},
            "PersistentVolumeClaim": self.claim,
            "Node": lambda: self.node(metadata),
            "PodDisruptionBudget": self.budget,
            "PriorityClass": self.priority_class,
            "RuntimeClass": self.runtime_class,
            "StorageClass": self.storage_class,
            "PersistentVolume": self.volume,
            "ResourceClaim": self.resource_claim,
            "LimitRange": self.limit_range,
            "ResourceQuota": self.quota,
            "Namespace": lambda: {"spec": {"finalizers": ["kubernetes"]}},
        }.get(kind, lambda: {"spec": self.workload(kind, name)})()
        if kind == "Pod":
            metadata |= {"labels": self.labels()} if self.chance(0.7) else {}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def labels(self) -> JSON:
        found = {"app": self.random.choice(APPS), "version": self.random.choice(["1", "2"])}
        return found if self.chance(0.7) else {"app": found["app"]}

    # --- pods

    def pod_spec(self) -> JSON:
        random, spec = self.random, {"containers": [self.container("main")]}
        for name in ("side", "third")[: random.choice((0, 0, 0, 1, 2))]:
            spec["containers"].append(self.container(name))
        if self.chance(0.25):
            spec["initContainers"] = [self.container("init")]
            if self.chance(0.5):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        optional: dict[str, tuple[float, Callable[[], Any]]] = {
            "resources": (0.15, self.pod_resources),
            "hostNetwork": (0.2, lambda: random.choice((True, True, False, None))),
            "priorityClassName": (0.25, lambda: random.choice(("high", "low", "system-node-critical", ""))),
            "preemptionPolicy": (0.05, lambda: "PreemptLowerPriority"),
            "runtimeClassName": (0.15, lambda: random.choice(("runc", "kata", "kata", None))),
            "nodeSelector": (0.2, lambda: random.choice(({"disk": "ssd"}, {"sandbox": "true"}, None, {}))),
            "tolerations": (0.25, self.tolerations),
            "topologySpreadConstraints": (0.25, self.spread),
            "affinity": (0.3, self.affinity),
            "volumes": (0.2, self.volumes),
            "schedulingGates": (0.06, lambda: [{"name": "example.com/wait"}]),
            "terminationGracePeriodSeconds": (0.1, lambda: random.choice((0, 30, None))),
            "schedulerName": (0.08, lambda: random.choice(("default-scheduler", "mine", "", None))),
            "nodeName": (0.05, lambda: random.choice(("n1", "", None))),
            "dnsPolicy": (0.05, lambda: "ClusterFirstWithHostNet"),
            "resourceClaims": (0.05, lambda: [{"name": "gpu", "resourceClaimName": "gpu"}]),
        }
        for field, (probability, draw) in optional.items():
            if self.chance(probability):
                spec[field] = draw()
        return spec

    def container(self, name: str) -> JSON:
        found: JSON = {"name": name, "image": IMAGE}
        if self.chance(0.75):
            found["resources"] = self.resources()
        if self.chance(0.3):
            port = {"main": 8080, "side": 9090}.get(name, 7070)
            found["ports"] = [{"containerPort": port}, {"containerPort": 53, "protocol": "UDP"}][
                : self.random.choice((1, 2))
            ]
            if self.chance(0.3):
                found["ports"][0]["hostPort"] = port
        return found

    def resources(self) -> JSON:
        cpu, memory = self.random.choice((100, 250, 500, 1000, 2000)), self.random.choice((64, 256, 1024)) * MI
        spelled = {"cpu": spelled_cpu(self.random, cpu, True), "memory": spelled_bytes(self.random, memory, True)}
        limits: JSON = {"cpu": f"{cpu * 2}m", "memory": f"{memory * 2}"}
        if self.chance(0.1):
            limits[GPU] = spelled[GPU] = "1"
        if self.chance(0.1):
            limits["hugepages-2Mi"] = spelled["hugepages-2Mi"] = "4Mi"
        some = {key: value for key, value in limits.items() if self.chance(0.8)}
        form = self.random.randrange(6)
        if form == 0:
            return {"limits": some}
        if form == 1:
            return {"requests": {"cpu": spelled["cpu"]}, "limits": some}
        if form == 2:
            return {"requests": {name: spelled[name] for name in ("cpu", "memory")}, "limits": None}
        return {"requests": spelled, "limits": limits} if form < 5 else {"requests": None}

    def pod_resources(self) -> JSON:
        found: JSON = {"limits": {"cpu": "12", "memory": "32Gi"}}
        if self.chance(0.4):
            found["requests"] = {"cpu": "9"} if self.chance(0.5) else {"cpu": "9", "memory": "16Gi"}
        if self.chance(0.3):
            del found["limits"]["memory"]
        return found

    def tolerations(self) -> list[JSON]:
        return self.random.sample(
            [
                {"operator": "Exists"},
                {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": None},
                {"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "spot", "operator": "Equal", "value": "", "effect": None},
            ],
            self.random.choice((1, 2, 3)),
        )

    def selector(self) -> JSON | None:
        return self.random.choice(
            [
                {"matchLabels": {"app": self.random.choice(APPS)}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]},
                {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                {},
                None,
            ]
        )

    def spread(self) -> list[JSON]:
        found: list[JSON] = []
        for key in self.random.sample((ZONE, HOST), self.random.choice((1, 1, 2))):
            when = self.random.choice(("DoNotSchedule", "ScheduleAnyway"))
            one: JSON = {"maxSkew": self.random.choice((1, 2)), "topologyKey": key, "whenUnsatisfiable": when}
            one["labelSelector"] = self.selector()
            if one["labelSelector"] and self.chance(0.5):
                one["matchLabelKeys"] = ["version"]
            if when == "DoNotSchedule" and self.chance(0.2):
                one["minDomains"] = 2
            if self.chance(0.3):
                one |= {"nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"}
            found.append(one)
        return found

    def affinity(self) -> JSON:
        found: JSON = {}
        for which in self.random.sample(
            ("podAffinity", "podAntiAffinity", "nodeAffinity"), self.random.choice((1, 1, 2))
        ):
            if which == "nodeAffinity":
                term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
                required = self.chance(0.6)
                found[which] = (
                    {REQUIRED: {"nodeSelectorTerms": [term]}}
                    if required
                    else {PREFERRED: [{"weight": 5, "preference": term}]}
                )
            else:
                term = self.affinity_term()
                found[which] = (
                    {REQUIRED: [term]} if self.chance(0.6) else {PREFERRED: [{"weight": 10, "podAffinityTerm": term}]}
                )
        return found

    def affinity_term(self) -> JSON:
        term: JSON = {"topologyKey": self.random.choice((ZONE, HOST)), "labelSelector": self.selector()}
        if term["labelSelector"] and self.chance(0.5):
            keys = self.random.choice(({"matchLabelKeys": ["version"]}, {"mismatchLabelKeys": ["version"]}))
            term |= keys
        if self.chance(0.2):
            term["namespaces"] = ["other"]
        if self.chance(0.15):
            term["namespaceSelector"] = {}
        return term

    def volumes(self) -> list[JSON]:
        return self.random.sample(
            [
                {"name": "scratch", "emptyDir": {}},
                {"name": "bare"},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "host", "hostPath": {"path": "/var/lib"}},
                {"name": "config", "configMap": {"name": "config", "optional": None}},
                {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}},
            ],
            self.random.choice((1, 2)),
        )

    # --- other kinds

    def workload(self, kind: str, name: str) -> JSON:
        template: JSON = {"metadata": {"labels": {"app": name, "version": "1"}}, "spec": self.pod_spec()}
        template["spec"].pop("nodeName", None)
        selector = {"matchLabels": {"app": name}}
        if kind in ("Job", "CronJob"):
            template["spec"]["restartPolicy"] = self.random.choice(("Never", "OnFailure"))
            job: JSON = {"template": template}
            if self.chance(0.5):
                job |= {"parallelism": self.random.choice((1, 2, None)), "completions": 3}
            return job if kind == "Job" else {"schedule": "5 * * * *", "jobTemplate": {"spec": job}}
        found: JSON = {"selector": selector, "template": template}
        if kind != "DaemonSet" and self.chance(0.8):
            found["replicas"] = self.random.choice((0, 1, 3, None))
        if kind == "StatefulSet" and self.chance(0.5):
            found |= {"serviceName": name, "podManagementPolicy": "Parallel"}
            found["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, **self.claim()}]
        return found

    def claim(self) -> JSON:
        size = self.random.choice(("500Mi", "1Gi", "5e9", "20Gi", "1024Mi"))
        spec: JSON = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        if self.chance(0.6):
            spec["storageClassName"] = self.random.choice(("fast", "slow", "", None))
        if self.chance(0.2):
            spec |= {"volumeMode": "Block", "selector": self.selector()}
        return {"spec": spec}

    def node(self, metadata: JSON) -> JSON:
        if self.chance(0.7):
            metadata["labels"] = {ZONE: "a", HOST: metadata["name"]}
        found: JSON = {"spec": {}}
        if self.chance(0.4):
            found["spec"]["taints"] = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
        if self.chance(0.3):
            found["spec"]["unschedulable"] = self.random.choice((True, False, None))
        sizes = {"cpu": self.random.choice(("4", "4000m", 4, "3.5")), "memory": "16Gi", "pods": "110"}
        if self.chance(0.85):
            found["status"] = {"capacity": sizes}
        if self.chance(0.5):
            found.setdefault("status", {})["allocatable"] = sizes | {"cpu": "3"}
        return found

    def budget(self) -> JSON:
        field = self.random.choice(("minAvailable", "maxUnavailable"))
        spec: JSON = {field: self.random.choice((0, 1, "50%", "100%"))}
        if self.chance(0.8):
            spec["selector"] = self.selector()
        return {"spec": spec}

    def priority_class(self) -> JSON:
        found: JSON = {"value": self.random.choice((0, 10, -10, 10**9))}
        if self.chance(0.3):
            found["preemptionPolicy"] = self.random.choice(("Never", "PreemptLowerPriority"))
        return found

    def runtime_class(self) -> JSON:
        found: JSON = {"handler": self.random.choice(("runc", "kata"))}
        if self.chance(0.6):
            found["overhead"] = {"podFixed": {"cpu": spelled_cpu(self.random, 250, True), "memory": "0.5Gi"}}
        if self.chance(0.6):
            found["scheduling"] = {"nodeSelector": {"disk": "ssd"}, "tolerations": self.tolerations()}
        return found

    def storage_class(self) -> JSON:
        found: JSON = {"provisioner": "csi.example.com"}
        if self.chance(0.5):
            found["volumeBindingMode"] = self.random.choice(("Immediate", "WaitForFirstConsumer"))
        if self.chance(0.4):
            found["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}]
        return found

    def volume(self) -> JSON:
        spec: JSON = {"capacity": {"storage": "5e9"}, "accessModes": ["ReadWriteOnce"]}
        spec |= (
            {"csi": {"driver": "csi.example.com", "volumeHandle": "v"}}
            if self.chance(0.7)
            else {"local": {"path": "/x"}}
        )
        if self.chance(0.6):
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        if self.chance(0.5):
            spec |= {"storageClassName": "slow", "persistentVolumeReclaimPolicy": "Retain"}
        return {"spec": spec}

    def resource_claim(self) -> JSON:
        request: JSON = {"deviceClassName": "gpu.example.com"}
        if self.chance(0.4):
            request |= {"allocationMode": "ExactCount", "count": 2} if self.chance(0.6) else {"allocationMode": "All"}
        if self.chance(0.4):
            request["selectors"] = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
        if self.chance(0.3):
            request["tolerations"] = [{"key": "broken", "operator": "Exists", "effect": "NoSchedule"}]
        if self.chance(0.2):
            request["capacity"] = {"requests": {"memory": "8Gi"}}
        if self.chance(0.2):
            return {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "a", **request}]}]}}}
        found: JSON = {"requests": [{"name": "r", "exactly": request}]}
        if self.chance(0.2):
            found["constraints"] = [{"requests": ["r"], "matchAttribute": "gpu.example.com/numa"}]
        return {"spec": {"devices": found}}

    def limit_range(self) -> JSON:
        item: JSON = {"type": self.random.choice(("Container", "Pod"))}
        if self.chance(0.7):
            item["max"] = {"cpu": "2", "memory": "4Gi"}
        if self.chance(0.5):
            item["min"] = {"cpu": self.random.choice(("100m", "3"))}
        if item["type"] == "Container" and self.chance(0.6):
            item["defaultRequest"] = {"cpu": self.random.choice(("0.5", "1e3m"))}
        return {"spec": {"limits": [item]}}

    def quota(self) -> JSON:
        spec: JSON = {"hard": {"pods": "3", "requests.cpu": "2.5", "limits.memory": "8Gi"}}
        if self.chance(0.4):
            spec["scopes"] = [self.random.choice(("NotTerminating", "BestEffort", "NotBestEffort"))]
        if self.chance(0.3):
            one = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
            spec["scopeSelector"] = {"matchExpressions": [one]}
        return {"spec": spec}


_CLUSTER_SCOPED: Final = ("Node", "PriorityClass", "RuntimeClass", "StorageClass", "PersistentVolume", "Namespace")

_KINDS: Final[Mapping[str, tuple[int, str]]] = {
    "Pod": (60, "v1"),
    "Deployment": (8, "apps/v1"),
    "StatefulSet": (4, "apps/v1"),
    "ReplicaSet": (2, "apps/v1"),
    "DaemonSet": (2, "apps/v1"),
    "Job": (4, "batch/v1"),
    "CronJob": (2, "batch/v1"),
    "PersistentVolumeClaim": (6, "v1"),
    "Node": (6, "v1"),
    "PodDisruptionBudget": (4, "policy/v1"),
    "PriorityClass": (2, "scheduling.k8s.io/v1"),
    "RuntimeClass": (2, "node.k8s.io/v1"),
    "StorageClass": (2, "storage.k8s.io/v1"),
    "PersistentVolume": (3, "v1"),
    "ResourceClaim": (4, "resource.k8s.io/v1"),
    "LimitRange": (2, "v1"),
    "ResourceQuota": (2, "v1"),
    "Namespace": (1, "v1"),
}
"""Kind -> (how often it is drawn, its apiVersion)."""


# --- mistakes ---------------------------------------------------------------------------------------------------------


def _wrong_value(random: Random, manifest: JSON) -> None:
    """Put a value of a wrong type, an empty text, null or an odd number in the place of a drawn one."""
    place, key = _drawn_place(random, manifest)
    place[key] = copy.deepcopy(random.choice(_ODD_VALUES))


def _missing_field(random: Random, manifest: JSON) -> None:
    place, key = _drawn_place(random, manifest)
    if isinstance(place, dict) and place is not manifest:
        del place[key]


def _unknown_field(random: Random, manifest: JSON) -> None:
    places = [place for place, _ in _places(manifest) if isinstance(place, dict)]
    random.choice(places)[random.choice(("cpus", "hostnetwork", "Name", "nodeselector"))] = "x"


def _wrong_name(random: Random, manifest: JSON) -> None:
    manifest["metadata"]["name"] = random.choice(("Upper", "a_b", "-a", "a..b", "x" * 254, "", "1.2.3"))


def _wrong_label(random: Random, manifest: JSON) -> None:
    labels = random.choice(({"a/b/c": "x"}, {"app": "not a value"}, {"-x": ""}, {"app": 1}, {"x" * 64: "y"}))
    manifest["metadata"]["labels"] = labels


def _repeated_item(random: Random, manifest: JSON) -> None:
    lists = [place for place, _ in _places(manifest) if isinstance(place, list)]
    if lists:
        chosen = random.choice(lists)
        chosen.append(chosen[0])


_ODD_VALUES: Final[tuple[Any, ...]] = (
    None, "", "x_Y", "Exists", "In", "NoSchedule", "Never", "1", "0.5", "1x", "-2", "12e9", "a" * 64,
    -1, 0, 1, 1.5, 10**10, True, False, [], {}, [""], ["a", "a"], [{}], {"cpu": "1"}, {"a/b/c": "x"},
)  # fmt: skip
"""Values that are wrong in most places."""

_MISTAKES: Final = (
    _wrong_value, _wrong_value, _wrong_value, _missing_field, _missing_field, _unknown_field, _wrong_name, _wrong_label,
    _repeated_item,
)  # fmt: skip


def _drawn_place(random: Random, manifest: JSON) -> tuple[Any, Any]:
    """Draw a value beside apiVersion, kind and metadata."""
    body = [(manifest, key) for key in manifest if key not in ("apiVersion", "kind", "metadata")]
    return random.choice([place for parent, key in body for place in ((parent, key), *_places(parent[key]))])


def _places(one: Any) -> list[tuple[Any, Any]]:
    """List (dict or list, key) of every value in it."""
    found: list[tuple[Any, Any]] = []
    items = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
    for key, value in items:
        found += [(one, key), *_places(value)]
    return found
