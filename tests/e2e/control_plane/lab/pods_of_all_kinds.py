"""A cluster of 20 nodes, and pods with every constraint that kube-scheduler's default plugins know.

Rule: the same number and seed give the same pod.
"""

import random
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.e2e.control_plane.lab.api import Api
from tests.e2e.control_plane.lab.kubelet import START_TIME
from tests.e2e.control_plane.lab.objects import budget, node, pod, priority_class, workload
from tests.e2e.control_plane.lab.service import Service

JSON = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NODES = 20
TAINTED = 3
"""Number of nodes with the taint dedicated=x:NoSchedule."""
CLASSES = {"low": 100, "standard": 1000, "high": 10_000, "critical": 100_000}
KINDS = ("plain", "node-affinity", "anti-affinity", "pod-affinity", "zone-spread", "host-spread", "tolerates", "volume",
         "host-port", "rich")  # fmt: skip
_VOLUME = KINDS.index("volume")


def create_cluster(api: Api) -> None:
    """Create priority classes, a storage class and the nodes, some of them tainted or cordoned."""
    api.create(*(priority_class(name, value) for name, value in CLASSES.items()))
    api.create(priority_class("patient", CLASSES["critical"], policy="Never"))
    api.create(
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
         "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    )  # fmt: skip
    for i in range(NODES):
        labels = {ZONE: f"zone-{'abc'[i % 3]}", "pool": "burst" if i % 4 == 0 else "base"}
        taints = []
        if i < TAINTED:
            labels["dedicated"] = "x"
            taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
        elif i == TAINTED:
            taints = [{"key": "soft", "value": "x", "effect": "PreferNoSchedule"}]
        one = node(f"n{i:02}", cpu="8", memory="32Gi", labels=labels, taints=taints)
        if i == TAINTED + 1:
            one["spec"]["unschedulable"] = True
        api.create(one)


def create_volumes(api: Api, prefix: str, count: int) -> None:
    """Create local volumes on the last nodes and a claim for each; arrivals of kind `volume` use the claims."""
    for i in range(count):
        term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"n{NODES - 1 - i % 5:02}"]}]}
        api.create(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{prefix}-{i}"},
             "spec": {"capacity": {"storage": f"{10 + i}Gi"}, "accessModes": ["ReadWriteOnce"],
                      "storageClassName": "local", "local": {"path": "/mnt/data"},
                      "persistentVolumeReclaimPolicy": "Retain",
                      "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
             "metadata": {"name": f"{prefix}-{i}", "namespace": "default"},
             "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                      "resources": {"requests": {"storage": "5Gi"}}}},
        )  # fmt: skip


def arrival(i: int, prefix: str) -> JSON:
    """Pod number `i`, of kind KINDS[i modulo their number]."""
    draw = random.Random(f"{prefix}{i}")
    kind = KINDS[i % len(KINDS)]
    one = pod(
        f"{prefix}-{i}",
        draw.choice(["100m", "150m", "200m", "350m", "470m"]),
        draw.choice(["128Mi", "256Mi", "700Mi"]),
        priority_class=draw.choice(list(CLASSES)),
        labels={"app": f"{prefix}-{kind}", "kind": kind},
    )
    constrain(one, kind, claim=f"{prefix}-{i // len(KINDS)}", port=9000 + i // len(KINDS) % 3)
    return one


def constrain(one: JSON, kind: str, *, claim: str = "", port: int = 9000) -> None:
    """Add the constraints of a kind to a pod."""
    spec = one["spec"]
    own = {"matchLabels": {"app": one["metadata"]["labels"]["app"]}}
    match kind:
        case "node-affinity":
            spec["affinity"] = {"nodeAffinity": node_affinity(ZONE, "zone-a") | _preferred_pool("burst")}
        case "anti-affinity":
            spec["affinity"] = {"podAntiAffinity": _required({"labelSelector": own, "topologyKey": HOST})}
        case "pod-affinity":
            spec["affinity"] = {"podAffinity": _required({"labelSelector": own, "topologyKey": ZONE})}
        case "zone-spread":
            spec["topologySpreadConstraints"] = [_spread(own, ZONE, "DoNotSchedule")]
        case "host-spread":
            spread = [_spread(own, HOST, "DoNotSchedule"), _spread(own, ZONE, "ScheduleAnyway")]
            spec["topologySpreadConstraints"] = spread
        case "tolerates":
            spec["tolerations"] = [{"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"}]
            spec["nodeSelector"] = {"dedicated": "x"}
        case "volume":
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
            spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        case "host-port":
            spec["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": port}]
        case "rich":
            near = {"weight": 10, "podAffinityTerm": {"labelSelector": own, "topologyKey": ZONE}}
            far = {"weight": 50, "podAffinityTerm": {"labelSelector": own, "topologyKey": HOST}}
            spec["affinity"] = {
                "nodeAffinity": node_affinity(ZONE, "zone-a", "zone-b") | _preferred_pool("base"),
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near]},
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [far]},
            }
            spec["topologySpreadConstraints"] = [_spread(own, ZONE, "ScheduleAnyway")]
            spec["tolerations"] = [{"key": "soft", "operator": "Exists"}]


def node_affinity(key: str, *values: str) -> JSON:
    """Required node affinity to nodes whose label has one of the values."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def affinity_to_node(name: str) -> JSON:
    """Affinity to one node by its name, which PreFilter turns into the only node that is looked at."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _preferred_pool(value: str) -> JSON:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": [value]}]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 20, "preference": term}]}


def _required(term: JSON) -> JSON:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _spread(selector: JSON, key: str, when: str) -> JSON:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}


# --- full nodes and preemptors


def fill_nodes(api: Api, seed: str) -> None:
    """Fill every node with running pods of lower classes, of four workloads with a budget each.

    Each pod has a start time of its own, so that no two candidates of a preemption are equal.
    """
    draw = random.Random(seed)
    shops = ("cart", "search", "etl", "mail")
    owners = {name: api.create(workload("ReplicaSet", f"{seed}-{name}", 30, {"app": name})) for name in shops}
    api.create(budget(f"{seed}-cart", {"app": "cart"}, maxUnavailable=4))
    api.create(budget(f"{seed}-search", {"app": "search"}, minAvailable="90%"))
    api.create(budget(f"{seed}-mail", {"app": "mail"}, maxUnavailable=0))
    began = datetime(2025, 1, 1, tzinfo=UTC)
    total = 0
    for i in range(NODES):
        free = 8000
        while free >= 1000:
            cpu = min(free, draw.choice([1000, 1500, 2000, 2500]))
            name = draw.choices(shops, [5, 3, 6, 1])[0]
            seconds = draw.randrange(10**4) * 1000 + total
            one = pod(
                f"{seed}-{name}-{total}", f"{cpu}m", draw.choice(["512Mi", "1Gi", "2Gi"]), node=f"n{i:02}",
                priority_class=draw.choices(["low", "standard"], [3, 1])[0], labels={"app": name}, owner=owners[name],
                annotations=started(began, seconds), grace=1,
            )  # fmt: skip
            if draw.random() < 0.1:
                constrain(one, "host-port", port=9100)
            api.create(one)
            free -= cpu
            total += 1
    wait_for_budgets(api)


def wait_for_budgets(api: Api) -> list[JSON]:
    """Wait until bound pods run and the status of every budget counts them; return all pods."""

    def counted() -> list[JSON] | None:
        pods = api.list("Pod", "default")
        bound = [one for one in pods if one["spec"].get("nodeName") and not is_leaving(one)]
        is_counted = all(one["status"]["phase"] == "Running" for one in bound) and all(
            one.get("status", {}).get("currentHealthy") == sum(_selects(one, other) for other in bound)
            for one in api.list("PodDisruptionBudget", "default")
        )
        return pods if is_counted else None

    return api.wait_until(counted, 30, "running pods and the status of budgets")


def wait_for_cache(api: Api, service: Service) -> list[JSON]:
    """Wait for the budgets, then until the extender has the pods and budgets of the API server; return all pods."""
    wait_for_budgets(api)
    asked = pod("asked")
    asked["metadata"]["uid"] = "asked"

    def held() -> list[JSON] | None:
        latest = {kind: api.list(kind, "default") for kind in ("Pod", "PodDisruptionBudget")}
        answer = service.call("filter", {"Pod": asked, "NodeNames": [api.list("Node")[0]["metadata"]["name"]]})
        versions = dict(re.findall(r"(\w+)=(\d+)@", answer.headers["X-Extender-Cache"]))
        for kind, found in latest.items():
            if any(int(one["metadata"]["resourceVersion"]) > int(versions.get(kind, -1)) for one in found):
                return None
        items = service.admin_get("/cluster").raise_for_status().json()["items"]
        pods = (one["metadata"] for one in items if one["kind"] == "Pod")
        cached = {one["uid"] for one in pods if one["namespace"] == "default"}
        return latest["Pod"] if cached == {one["metadata"]["uid"] for one in latest["Pod"]} else None

    return api.wait_until(held, 10, "the extender's cache")


def is_leaving(one: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in one["metadata"]


def _selects(one: JSON, other: JSON) -> bool:
    wanted: dict[str, str] = one["spec"]["selector"]["matchLabels"]
    return wanted.items() <= other["metadata"]["labels"].items()


def started(began: datetime, seconds: int) -> dict[str, str]:
    """Return the annotation with which the fake kubelet reports that start time."""
    return {START_TIME: (began + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")}


def preemptor(i: int, prefix: str, *, priority_class: str | None = None) -> JSON:
    """Pod number `i` with a size that needs evictions on full nodes; every fourth has constraints."""
    draw = random.Random(f"{prefix}{i}")
    one = pod(
        f"{prefix}-{i}", draw.choice(["2600m", "3", "3500m", "4100m", "5500m"]), draw.choice(["512Mi", "2Gi", "4Gi"]),
        priority_class=priority_class or draw.choices(["critical", "high", "standard"], [6, 3, 2])[0],
        labels={"app": f"{prefix}-{i % 4}"}, annotations=started(datetime(2025, 6, 1, tzinfo=UTC), i), grace=1,
    )  # fmt: skip
    kind = {3: "node-affinity", 7: "zone-spread", 11: "anti-affinity", 15: "tolerates", 19: "rich", 1: "host-port"}
    constrain(one, kind.get(i % 20, "plain"), port=9100)
    return one


def clear_pods(api: Api) -> None:
    """Delete all pods at once, and the owners and budgets of those that ran."""
    for kind in ("PodDisruptionBudget", "ReplicaSet", "Event"):
        api.request("DELETE", api.path(kind, "default"))
    api.request("DELETE", api.path("Pod", "default"), {"gracePeriodSeconds": 0})
    api.wait_until(lambda: not api.list("Pod", "default"), 20, "all pods to go")


def settle(api: Api, name: str, timeout: float = 20, or_once: Callable[[], bool] = lambda: False) -> JSON:
    """Wait until a pod is bound, or was tried and is neither bound nor nominated, or the condition; return the pod.

    A pod whose preemption fails keeps the node that was nominated before.
    """

    def settled() -> JSON | None:
        is_over = or_once()
        one = api.get("Pod", name)
        tried = any(it["type"] == "PodScheduled" for it in one["status"].get("conditions", ()))
        pending = tried and not one["status"].get("nominatedNodeName")
        return one if one["spec"].get("nodeName") or pending or is_over else None

    return api.wait_until(settled, timeout, f"{name} to be bound or refused")
