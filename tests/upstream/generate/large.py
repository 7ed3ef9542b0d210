"""One large cluster for measurements: nodes of a cloud's sizes, all of them nearly full.

Rule: the same number of nodes and pods, variant and seed give the same cluster.
"""

from datetime import timedelta
from random import Random
from typing import Final

from tests.upstream.generate.basic.preemption import anti_affinity
from tests.upstream.generate.cluster import SYSTEM_NODE_CRITICAL
from tests.upstream.generate.quantities import GI, MI
from tests.upstream.generate.scenario import Scenario, expression
from tests.upstream.generate.words import EPOCH, HOST, JSON, OS, REGION, ZONE, stable_hash

VARIANTS: Final = ("resources", "mixed")
"""`mixed`: the incoming pod and a tenth of the running ones have anti-affinity or spread constraints."""
SIZES: Final = ((16000, 64 * GI), (32000, 128 * GI), (32000, 128 * GI), (64000, 256 * GI))
"""Millicores and bytes of memory of nodes."""
APPS: Final = tuple(f"svc-{number:03}" for number in range(200))
NAMESPACES: Final = tuple(f"team-{number:02}" for number in range(30))
PRIORITIES: Final = (
    *(None, 0, 0, 100, 100, 1000, 1000, 10000, 100000, 900000, 1000000),
    SYSTEM_NODE_CRITICAL,
)
BUDGETS: Final = 300


def large_cluster(nodes: int, pods_per_node: int, variant: str, seed: str) -> JSON:
    """Return a scenario of this many nodes with about so many pods each, which no node has room for."""
    random = Random(f"own/scale/{variant}/{seed}")
    scenario = Scenario(random, "scale", f"scale-{variant}-{nodes}x{pods_per_node}")
    scenario.namespaces = ["default", *NAMESPACES]
    scenario.namespace_labels = {name: {"team": name, "kind": random.choice(["red", "blue"])} for name in NAMESPACES}
    for number in range(nodes):
        _add_node(scenario, number, pods_per_node, variant)
    for _ in range(BUDGETS):
        _add_budget(scenario)
    scenario.pod = _incoming_pod(scenario, variant)
    return scenario.document()


def _namespace_of(app: str) -> str:
    return NAMESPACES[stable_hash(app) % len(NAMESPACES)]


def _add_node(scenario: Scenario, number: int, pods: int, variant: str) -> None:
    """Add a node of which 94 to 100 % of the cpu are requested, and 80 % of the memory."""
    random = scenario.random
    name = f"node-{number:05}"
    cpu, memory = random.choice(SIZES)
    labels = {
        HOST: name,
        OS: "linux",
        "kubernetes.io/arch": "amd64",
        ZONE: f"z{number % 9}",
        REGION: "r1",
        "node.kubernetes.io/instance-type": f"m{cpu // 1000}",
    }
    scenario.add_node(name, cpu, memory, 110, labels, 100 * GI)
    weights = [random.choice([1, 1, 2, 2, 3, 5]) for _ in range(pods + random.randint(-4, 4))]
    requested = cpu * random.choice([0.94, 0.97, 0.99, 1.0])
    for weight in weights:
        requests = {
            "cpu": max(10, int(requested * weight / sum(weights)) // 10 * 10),
            "memory": max(32, int(memory * 0.8 * weight / sum(weights) / MI)) * MI,
        }
        scenario.pods.append(_running_pod(scenario, name, requests, variant))


def _running_pod(scenario: Scenario, node: str, requests: dict[str, int], variant: str) -> JSON:
    random = scenario.random
    app = random.choice(APPS)
    labels = {"app": app, "pod-template-hash": f"{stable_hash(app) % (1 << 32):08x}"}
    priority = random.choice(PRIORITIES)
    container = scenario.container(requests, image=f"registry.example/{app}:v1")
    start = EPOCH + timedelta(seconds=random.randint(0, 30 * 86400))
    pod = scenario.new_pod(app, _namespace_of(app), node, priority, labels, [container], start)
    if variant == "mixed" and scenario.chance(0.1):
        if scenario.chance(0.5):
            pod["spec"]["affinity"] = anti_affinity(HOST, app)
        else:
            pod["spec"]["topologySpreadConstraints"] = [_spread_over_zones(app, 5)]
    return pod


def _spread_over_zones(app: str, skew: int) -> JSON:
    return {
        "maxSkew": skew,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _add_budget(scenario: Scenario) -> None:
    random = scenario.random
    app = random.choice(APPS)
    if scenario.chance(0.8):
        selector: JSON = {"matchLabels": {"app": app}}
    else:
        selector = {"matchExpressions": [expression("app", "In", *random.sample(APPS, 3))]}
    scenario.add_budget(_namespace_of(app), selector, random.choice([0, 0, 1, 2, 3]))


def _incoming_pod(scenario: Scenario, variant: str) -> JSON:
    app = APPS[0]
    container = scenario.container({"cpu": 8000, "memory": 16 * GI})
    pod = scenario.new_pod("incoming", _namespace_of(app), None, 1000000, {"app": app}, [container])
    pod["spec"]["preemptionPolicy"] = "PreemptLowerPriority"
    if variant == "mixed":
        pod["spec"]["affinity"] = anti_affinity(HOST, app)
        pod["spec"]["topologySpreadConstraints"] = [_spread_over_zones(app, 20)]
    return pod
