"""Generate the cluster to measure on: nearly full, thousands of nodes, 30 pods on each, PDBs, a dozen priorities.

Every object is raw JSON as `kubectl get -o json` prints it; typed objects are decoded from it, so that the slow
reference and the engine see the same cluster.

Rule: an object depends on the seed and its own number only; a few nodes are generated exactly as in the whole cluster.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Namespace, Node, Pod, PodDisruptionBudget

JSON = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

NAMESPACES = 30
BUDGETS_PER_NAMESPACE = 10
APPS_PER_NAMESPACE = 10
PODS_PER_NODE = (26, 34)
CPU_REQUESTED = (0.94, 1.0)

CORES = ((16, 1), (32, 2), (64, 1))
"""(cores of a node, share); each node has 4 GiB of memory per core, 100 GiB of ephemeral storage, 110 pods."""

PRIORITIES = {-10: 6, 0: 20, 100: 14, 500: 7, 1000: 14, 5000: 6, 10_000: 8, 50_000: 4, 100_000: 8, 900_000: 5}
"""Priority -> share of the pods in percent; all below the incoming pod's."""

INCOMING_PRIORITY = 1_000_000
STAYING = {INCOMING_PRIORITY: 10, 2_000_001_000: 8}
"""Priority -> share in percent, of pods that may not be evicted by the incoming pod."""

WITH_TERMS = 0.1
"""Share of the pods with affinity or anti-affinity to other pods of their app."""

PLAIN_APP = ("team-10", 9)
"""App of the incoming pod with resources only: none of its pods has terms, so only resources constrain it."""

SPREADING_APP = ("team-10", 4)

ALLOWED = (0, 0, 0, 1, 1, 2, 2, 3)
"""Values of disruptionsAllowed that budgets draw from."""


NODES = 5000
SEED = 20261121


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of a generated cluster."""

    seed: int
    nodes: int
    pods: tuple[int, int] = PODS_PER_NODE
    """Minimum and maximum number of pods on a node; at most 110, the limit of a node."""

    def chance(self, what: str, number: int = 0) -> random.Random:
        """Return a random generator for one object, seeded by the plan and the object."""
        return random.Random(f"{self.seed} {what} {number}")


# --- the cluster, in both forms -------------------------------------------------------------------------------------


def as_list(plan: Plan, rows: Iterable[int]) -> JSON:
    """Return the nodes of `rows` with their pods, and all budgets, as one List object in that order."""
    rows = list(rows)
    items = [node(plan, row) for row in rows]
    items += [pod for row in rows for pod in pods_on(plan, row)]
    items += budgets(plan) + namespaces()
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}


def as_objects(plan: Plan) -> ClusterObjects:
    """Return the whole cluster as typed objects."""
    rows = range(plan.nodes)
    return ClusterObjects(
        nodes=tuple(msgspec.convert(node(plan, row), Node) for row in rows),
        pods=tuple(msgspec.convert(pod, Pod) for row in rows for pod in pods_on(plan, row)),
        budgets=tuple(msgspec.convert(budget, PodDisruptionBudget) for budget in budgets(plan)),
        namespaces=tuple(msgspec.convert(namespace, Namespace) for namespace in namespaces()),
    )


def node(plan: Plan, row: int) -> JSON:
    """A node with the fields that a decision may read."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node_name(row), "uid": _uid(plan.chance("node uid", row)), "labels": _node_labels(row)},
        "spec": {},
        "status": {"allocatable": _allocatable(plan, row)},
    }


def node_name(row: int) -> str:
    return f"worker-{row:05}"


def _cores(plan: Plan, row: int) -> int:
    return _one_of(plan.chance("node", row), dict(CORES))


def _allocatable(plan: Plan, row: int) -> JSON:
    cores = _cores(plan, row)
    return {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "110", "ephemeral-storage": "100Gi"}


def _node_labels(row: int) -> JSON:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        HOSTNAME: node_name(row),
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "example.large",
        "topology.kubernetes.io/region": "region-1",
        ZONE: f"zone-{row % 3}",
    }


def pods_on(plan: Plan, row: int) -> list[JSON]:
    """Return the pods of one node, which together request 94-100 % of its cpu."""
    chance = plan.chance("pods", row)
    count = chance.randint(*plan.pods)
    if count == 0:
        return []
    wanted = int(1000 * _cores(plan, row) * chance.uniform(*CPU_REQUESTED))
    weights = [chance.uniform(0.3, 1.7) for _ in range(count)]
    cpu = [int(wanted * weight / sum(weights)) for weight in weights]
    cpu[-1] += wanted - sum(cpu)
    return [_pod(chance, row, number, millicores) for number, millicores in enumerate(cpu)]


def _pod(chance: random.Random, row: int, number: int, millicores: int) -> JSON:
    team, app = chance.randrange(NAMESPACES), chance.randrange(APPS_PER_NAMESPACE)
    requests = {"cpu": f"{millicores}m", "memory": f"{int(millicores * chance.uniform(3.0, 3.9))}Mi"}
    if chance.random() < 0.8:
        requests["ephemeral-storage"] = f"{chance.randint(1024, 4096)}Mi"
    metadata: JSON = {"name": f"app-{app}-{row}-{number}", "namespace": f"team-{team:02}", "uid": _uid(chance)}
    if chance.random() < 0.98:
        tier = "web" if app < 3 else "batch"
        metadata["labels"] = {"app": f"app-{app}", "tier": tier, "pod-template-hash": f"{team * 97 + app:08x}"}
    spec: JSON = {
        "nodeName": node_name(row),
        "priority": _one_of(chance, PRIORITIES | STAYING),
        "schedulerName": "default-scheduler",
        "containers": [
            {"name": "main", "image": f"registry.example/app-{app}:v1", "resources": {"requests": requests}}
        ],
    }
    status: JSON = {"phase": "Running"}
    if chance.random() < 0.99:
        status["startTime"] = _time(chance)
    if chance.random() < WITH_TERMS and (metadata["namespace"], app) != PLAIN_APP:
        spec["affinity"] = _affinity(chance, app)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _affinity(chance: random.Random, app: int) -> JSON:
    """Draw required host anti-affinity, required zone affinity or preferred host anti-affinity to the own app."""
    term: JSON = {"labelSelector": {"matchLabels": {"app": f"app-{app}"}}, "topologyKey": HOSTNAME}
    kind = chance.randrange(3)
    if kind == 0:
        return {"podAntiAffinity": {REQUIRED: [term]}}
    if kind == 1:
        return {"podAffinity": {REQUIRED: [term | {"topologyKey": ZONE}]}}
    return {"podAntiAffinity": {PREFERRED: [{"weight": chance.choice((1, 50, 100)), "podAffinityTerm": term}]}}


def budgets(plan: Plan) -> list[JSON]:
    """Return ten budgets per namespace: eight of one app each, two that overlap them."""
    found = []
    for team in range(NAMESPACES):
        chance = plan.chance("budgets", team)
        for number in range(BUDGETS_PER_NAMESPACE):
            selector: JSON = {"matchLabels": {"app": f"app-{number}"}}
            if number >= 8:
                tier = {"key": "tier", "operator": "In", "values": ["web"]}
                selector = {"matchExpressions": [tier, {"key": "app", "operator": "Exists"}]}
            found.append(
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": f"budget-{number}", "namespace": f"team-{team:02}", "uid": _uid(chance)},
                    "spec": {"maxUnavailable": 3, "selector": selector},
                    "status": {"disruptionsAllowed": chance.choice(ALLOWED)},
                }
            )
    return found


def namespaces() -> list[JSON]:
    names = [f"team-{team:02}" for team in range(NAMESPACES)]
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]


# --- requests -------------------------------------------------------------------------------------------------------


def incoming(plan: Plan) -> JSON:
    """Return the incoming pod: it fits nowhere, and four resources decide where preemption helps."""
    return _waiting(plan, "incoming", {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "20Gi"})


def spreading(plan: Plan) -> JSON:
    """Return the incoming pod with topology spread constraints and anti-affinity to its own app."""
    namespace, app = SPREADING_APP
    pod, selector = incoming(plan), {"matchLabels": {"app": f"app-{app}"}}
    pod["metadata"] |= {"name": "spreading", "namespace": namespace, "labels": selector["matchLabels"]}
    constraint = {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    pod["spec"]["topologySpreadConstraints"] = [
        constraint | {"topologyKey": ZONE, "maxSkew": 1},
        constraint | {"topologyKey": HOSTNAME, "maxSkew": 2},
    ]
    pod["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [{"labelSelector": selector, "topologyKey": HOSTNAME}]}}
    return pod


def undemanding(plan: Plan) -> JSON:
    """Return a pod without requests, which fits everywhere."""
    return _waiting(plan, "undemanding", {})


def _waiting(plan: Plan, name: str, requests: JSON) -> JSON:
    return {
        "metadata": {
            "name": name,
            "namespace": "team-10",
            "uid": _uid(plan.chance(name)),
            "creationTimestamp": "2025-06-01T08:00:00Z",
            "labels": {"app": "app-9"},
        },
        "spec": {
            "containers": [{"name": "main", "image": "registry.example/batch:v1", "resources": {"requests": requests}}],
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "priority": INCOMING_PRIORITY,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def full_node(plan: Plan, row: int) -> JSON:
    """A Node as the scheduler sends it in full: about 8 KB, most of it managedFields, conditions and images."""
    chance = plan.chance("full node", row)
    slim, seen = node(plan, row), _time(chance)
    metadata = {
        **slim["metadata"],
        "resourceVersion": str(chance.randrange(10**8)),
        "creationTimestamp": seen,
        "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        "managedFields": [
            _managed(_FIELDS_OF_SPEC, seen),
            {**_managed(_FIELDS_OF_STATUS, seen), "subresource": "status"},
        ],
    }
    status = {
        "capacity": slim["status"]["allocatable"],
        **slim["status"],
        "conditions": [_condition(kind, seen) for kind in _CONDITIONS],
        "addresses": [
            {"type": "InternalIP", "address": f"10.64.{row // 256}.{row % 256}"},
            {"type": "Hostname", "address": node_name(row)},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": _digest(chance)[:32],
            "systemUUID": _uid(chance),
            "bootID": _uid(chance),
            "kernelVersion": "6.12.0-example",
            "osImage": "Example Linux 12",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": "v1.36.2",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "images": [_image(chance, number) for number in range(28)],
    }
    spec = {"podCIDR": f"10.{row // 256}.{row % 256}.0/24", "providerID": f"example:///zone-{row % 3}/{row}"}
    return {"metadata": metadata, "spec": spec, "status": status}


_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
_FIELDS_OF_SPEC: JSON = {
    "f:metadata": {
        "f:annotations": {".": {}, "f:node.alpha.kubernetes.io/ttl": {}},
        "f:labels": {".": {}} | {f"f:{name}": {} for name in _node_labels(0)},
    },
    "f:spec": {"f:podCIDR": {}, "f:podCIDRs": {".": {}}, "f:providerID": {}},
}
_FIELDS_OF_STATUS: JSON = {
    "f:status": {
        "f:conditions": {f'k:{{"type":"{kind}"}}': {"f:lastHeartbeatTime": {}} for kind in _CONDITIONS},
        "f:images": {},
        "f:nodeInfo": {"f:bootID": {}, "f:kernelVersion": {}, "f:kubeletVersion": {}},
    }
}


def _managed(fields: JSON, seen: str) -> JSON:
    own = {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": seen}
    return {**own, "fieldsType": "FieldsV1", "fieldsV1": fields}


def _condition(kind: str, seen: str) -> JSON:
    return {
        "type": kind,
        "status": "True" if kind == "Ready" else "False",
        "lastHeartbeatTime": seen,
        "lastTransitionTime": seen,
        "reason": f"KubeletHas{kind}",
        "message": f"kubelet reports condition {kind}",
    }


def _image(chance: random.Random, number: int) -> JSON:
    """Return an image in one of nine versions, with the same size and digest on every node."""
    name, version = f"registry.example/team-{number % NAMESPACES:02}/service-{number}", chance.randint(1, 9)
    of_version = random.Random(f"{name} {version}")
    names = [f"{name}@sha256:{_digest(of_version)}", f"{name}:{version}.0.0"]
    return {"names": names, "sizeBytes": of_version.randint(20 << 20, 900 << 20)}


# --- values ---------------------------------------------------------------------------------------------------------


def _one_of(chance: random.Random, shares: dict[int, int]) -> int:
    """Draw a key with the probability given by its share."""
    return chance.choices(list(shares), list(shares.values()))[0]


def _uid(chance: random.Random) -> str:
    digits = f"{chance.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _digest(chance: random.Random) -> str:
    return f"{chance.getrandbits(256):064x}"


def _time(chance: random.Random) -> str:
    date = f"{chance.choice((2024, 2025))}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    return f"{date}T{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}Z"
