"""What few pods have, each a small change: declared features, runtime classes, gates, extreme quantities and so on."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.upstream.generate.quantities import GI, MI
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.words import (
    CREATED,
    EPHEMERAL_STORAGE,
    GPU,
    HOST,
    JSON,
    MIN_INT32,
    OS,
    REGION,
    REQUIRED,
    ZONE,
)

CONDITION_TAINTS: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.kubernetes.io/out-of-service",
)
DECLARED_FEATURES: Final = (
    "GuaranteedQoSPodCPUResize",
    "UserNamespacesHostNetworkSupport",
    "RestartAllContainersOnContainerExits",
    "ExtendWebSocketsToKubelet",
    "PodLevelResourceManagers",
    "InPlacePodVerticalScalingExclusiveCPUs",
)
ADDRESSES: Final = ("127.0.0.1", "10.0.0.1", "0.0.0.0", "::", "::1", "fd00::1")
MAX_INT64: Final = str((1 << 63) - 1)
MAX_CPUS: Final = MAX_INT64[:-3]
"""The most cores whose millicores are an int64."""


def add_features(scenario: Scenario) -> None:
    """Change the cluster and the incoming pod in two to four of the ways of CHANGES."""
    for name in scenario.random.sample([*CHANGES], scenario.random.randint(2, 4)):
        scenario.tag(f"ft-{name}")
        CHANGES[name](scenario)


def restart_rules(container: JSON, action: str) -> None:
    """Let the container never restart, but by a rule with this action."""
    rule = {"action": action, "exitCodes": {"operator": "In", "values": [42]}}
    container |= {"restartPolicyRules": [rule], "restartPolicy": "Never"}


def _declared(scenario: Scenario) -> None:
    random, spec = scenario.random, scenario.pod["spec"]
    for node in scenario.nodes:
        if scenario.chance(0.6):
            features = random.sample(DECLARED_FEATURES, random.randint(1, 4))
            node["status"]["declaredFeatures"] = sorted(features)
    kind = random.random()
    if kind < 0.3:
        spec |= {"hostNetwork": True, "hostUsers": False}
    elif kind < 0.5:
        restart_rules(spec["containers"][0], "RestartAllContainers")
    elif kind < 0.65:
        restart_rules(spec["containers"][0], "Restart")
    elif kind < 0.8:
        spec["hostUsers"] = False
    elif kind < 0.9:
        spec["resources"] = {"requests": {"cpu": "100m"}}


def _runtime_class(scenario: Scenario) -> None:
    spec = scenario.pod["spec"]
    overhead = {"cpu": "100m", "memory": "64Mi"}
    toleration = {"key": "sandbox", "operator": "Exists"}
    placement = {"nodeSelector": {"disk": "ssd"}, "tolerations": [toleration]}
    fields: JSON = {"handler": "runsc", "overhead": {"podFixed": overhead}, "scheduling": placement}
    scenario.add("node.k8s.io/v1", "RuntimeClass", "gvisor", **fields)
    spec |= {"runtimeClassName": "gvisor", "overhead": dict(overhead)}
    if scenario.chance(0.8):  # as admission merges it into the pod
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "disk": "ssd"}
        spec.setdefault("tolerations", []).append(dict(toleration))
    for node in scenario.nodes:
        if scenario.chance(0.4):
            _add_taint(node, {"key": "sandbox", "effect": "NoSchedule"})


def _add_taint(node: JSON, taint: JSON) -> None:
    node["spec"].setdefault("taints", []).append(taint)


def _conditions(scenario: Scenario) -> None:
    random = scenario.random
    for node in scenario.nodes:
        ready = node["status"]["conditions"][0]
        if scenario.chance(0.4):
            key = random.choice(CONDITION_TAINTS)
            _add_taint(node, {"key": key, "effect": random.choice(["NoSchedule", "NoExecute"])})
            if key.endswith("not-ready"):
                ready["status"] = "False"
        elif scenario.chance(0.2):  # the condition alone decides nothing
            ready["status"] = random.choice(["False", "Unknown"])
        if scenario.chance(0.1):
            node["spec"]["unschedulable"] = True
        if scenario.chance(0.1):
            node["metadata"]["deletionTimestamp"] = CREATED
    if scenario.chance(0.5):
        toleration = {"key": random.choice(CONDITION_TAINTS), "operator": "Exists"}
        scenario.pod["spec"].setdefault("tolerations", []).append(toleration)


def _scheduling_gates(scenario: Scenario) -> None:
    gates = [{"name": "example.com/g"}]
    if scenario.chance(0.5):
        scenario.pod["spec"]["schedulingGates"] = gates
    containers = [scenario.container({"cpu": scenario.cpu_unit})]
    gated = scenario.new_pod("gated", "default", None, scenario.priority, {}, containers)
    gated["spec"]["schedulingGates"] = [*gates]
    gated["status"]["nominatedNodeName"] = scenario.random.choice(scenario.node_names())
    scenario.pods.append(gated)


def _operating_system(scenario: Scenario) -> None:
    spec = scenario.pod["spec"]
    spec["os"] = {"name": scenario.random.choice(["linux", "windows"])}
    for node in scenario.nodes:
        if scenario.chance(0.3):
            node["metadata"]["labels"][OS] = "windows"
    if scenario.chance(0.5):
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), OS: spec["os"]["name"]}


def _host_ports(scenario: Scenario) -> None:
    random, spec = scenario.random, scenario.pod["spec"]
    host_network = scenario.chance(0.4)
    if host_network:
        spec["hostNetwork"] = True
    spec["containers"][0]["ports"] = _ports(scenario, random.randint(1, 3), host_network)
    if scenario.chance(0.3):
        ports = _ports(scenario, 1, host_network)
        sidecar = scenario.container({"cpu": 1}, "side", ports=ports) | {"restartPolicy": "Always"}
        spec.setdefault("initContainers", []).append(sidecar)
    for pod in scenario.running():
        if scenario.chance(0.3):
            on_host = scenario.chance(0.4)
            if on_host:
                pod["spec"]["hostNetwork"] = True
            pod["spec"]["containers"][0]["ports"] = _ports(scenario, random.randint(1, 2), on_host)


def _ports(scenario: Scenario, count: int, host_network: bool) -> list[JSON]:
    random = scenario.random
    ports: list[JSON] = []
    for _ in range(count):
        port: JSON = {"containerPort": random.choice([80, 8080, 9100])}
        port["protocol"] = random.choice(["TCP", "TCP", "UDP", "SCTP"])
        if host_network:
            port["hostPort"] = port["containerPort"]
        elif scenario.chance(0.7):
            port["hostPort"] = random.choice([80, 8080, 9100])
            if scenario.chance(0.5):
                port["hostIP"] = random.choice(ADDRESSES)
        ports.append(port)
    return ports


def _image_volumes(scenario: Scenario) -> None:
    random, spec = scenario.random, scenario.pod["spec"]
    images = [f"registry.example/m{number}:v1" for number in range(3)]
    for number in range(random.randint(1, 3)):
        reference = random.choice([*images, "registry.example/m0", ""])
        if reference:
            volume = {"name": f"iv{number}", "image": {"reference": reference, "pullPolicy": "IfNotPresent"}}
            spec.setdefault("volumes", []).append(volume)
    spec.setdefault("volumes", [])
    for node in scenario.nodes:
        node["status"]["images"] = [
            {
                "names": [image, image.replace(":v1", ":latest")],
                "sizeBytes": random.choice([10 * MI, 300 * MI, 2000 * MI, 20 * GI]),
            }
            for image in images
            if scenario.chance(0.5)
        ]


def _extreme_quantities(scenario: Scenario) -> None:
    """Let nodes have, and pods ask for, what is near the ends of int64 or rounds up from next to nothing."""
    random = scenario.random
    for node in scenario.nodes:
        allocatable = node["status"]["allocatable"]
        kind = random.random()
        if kind < 0.15:
            allocatable["memory"] = random.choice(["0", "1", "8Ei", MAX_INT64, "16Ei", "1Ki"])
        elif kind < 0.3:
            allocatable["cpu"] = random.choice(["0", "1m", MAX_CPUS, "1k", "1M", "-1"])
        elif kind < 0.4:
            allocatable["pods"] = random.choice(["0", "1", MAX_INT64, "2147483648"])
        elif kind < 0.5:
            allocatable[GPU] = random.choice(["0", MAX_INT64, "1k"])
    requests = scenario.pod["spec"]["containers"][0]["resources"].setdefault("requests", {})
    kind = random.random()
    if kind < 0.3:
        requests["memory"] = random.choice(["1", "0", "7Ei", "1Pi", MAX_INT64])
    elif kind < 0.6:
        requests["cpu"] = random.choice(["1m", "0", "100k", MAX_CPUS, "1n", "1u", "1500u"])
    elif kind < 0.8:
        requests[GPU] = random.choice(["0", "1", MAX_INT64])
    for pod in scenario.running():
        if scenario.chance(0.1):
            requests = pod["spec"]["containers"][0]["resources"].setdefault("requests", {})
            amount = random.choice(["0", "1", "1n", "1Ei" if scenario.chance(0.3) else "1Ki"])
            requests[random.choice(["memory", "cpu", EPHEMERAL_STORAGE])] = amount


def _negative_priorities(scenario: Scenario) -> None:
    random = scenario.random
    scenario.priority = random.choice([MIN_INT32, MIN_INT32 + 1, -100, -1, 0])
    scenario.pod["spec"]["priority"] = scenario.priority
    for pod in scenario.running():
        if scenario.chance(0.7):
            pod["spec"]["priority"] = random.choice([MIN_INT32, MIN_INT32, -1000, -101, -100, -2, -1])


def _topology(scenario: Scenario) -> None:
    random, spec = scenario.random, scenario.pod["spec"]
    for node in scenario.nodes:
        labels = node["metadata"]["labels"]
        kind = random.random()
        if kind < 0.15:
            labels.pop(ZONE, None)
        elif kind < 0.25:
            labels.pop(REGION, None)
        elif kind < 0.35:
            labels[HOST] = "same-host"
        elif kind < 0.45:
            labels[ZONE] = ""
        if scenario.chance(0.3):
            labels[REGION] = random.choice(["r1", "r2"])
    key = random.choice([ZONE, HOST, REGION, "disk", "gen"])
    constraint: JSON = {"maxSkew": random.choice([1, 2]), "topologyKey": key}
    constraint["whenUnsatisfiable"] = random.choice(["DoNotSchedule", "ScheduleAnyway"])
    constraint["labelSelector"] = {"matchLabels": {"app": random.choice(scenario.apps)}}
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if scenario.chance(0.4):
            constraint[policy] = random.choice(["Honor", "Ignore"])
    spec["topologySpreadConstraints"] = [constraint]
    if scenario.chance(0.5):
        term: JSON = {"topologyKey": random.choice([ZONE, REGION, HOST])}
        term |= {"labelSelector": {"matchLabels": {"app": random.choice(scenario.apps)}}}
        spec.setdefault("affinity", {})["podAffinity"] = {REQUIRED: [term]}


def _tolerations(scenario: Scenario) -> None:
    random = scenario.random
    for node in scenario.nodes:
        if scenario.chance(0.5):
            taint = {"key": "level", "value": random.choice(["1", "5", "10", ""])}
            _add_taint(node, taint | {"effect": random.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])})
    toleration = random.choice(
        [
            {"key": "level", "operator": "Gt", "value": "3"},
            {"key": "level", "operator": "Lt", "value": "7"},
            {"key": "level", "operator": "Equal", "value": "5"},
            {"key": "level", "operator": "Exists", "effect": "PreferNoSchedule"},
            {"operator": "Exists"},
            {"key": "level", "operator": "Equal", "effect": "NoSchedule"},
        ]
    )
    scenario.pod["spec"].setdefault("tolerations", []).append(toleration)


def _one_node(scenario: Scenario) -> None:
    """Let the incoming pod be for one node: as the pod of a DaemonSet, or by its label."""
    random, spec = scenario.random, scenario.pod["spec"]
    of_daemon_set = scenario.chance(0.5)
    name = random.choice(scenario.node_names())
    if of_daemon_set:
        field = {"key": "metadata.name", "operator": "In", "values": [name]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        spec.setdefault("affinity", {})["nodeAffinity"] = {REQUIRED: required}
    else:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), HOST: name}


def _pending_resize(scenario: Scenario) -> None:
    random = scenario.random
    for pod in scenario.running():
        if scenario.chance(0.4):
            condition = {"type": random.choice(["PodResizePending", "PodResizeInProgress"]), "status": "True"}
            condition["reason"] = random.choice(["Deferred", "Infeasible"])
            pod["status"].setdefault("conditions", []).append(condition)
            pod["status"]["containerStatuses"] = [
                {
                    "name": container["name"],
                    "image": "i",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "allocatedResources": dict(container["resources"].get("requests", {})),
                    "resources": {"requests": {"cpu": "50m"}},
                }
                for container in pod["spec"]["containers"]
            ]


CHANGES: Final[Mapping[str, Callable[[Scenario], None]]] = {
    "declared": _declared,
    "runtime": _runtime_class,
    "conditions": _conditions,
    "gates": _scheduling_gates,
    "os": _operating_system,
    "ports": _host_ports,
    "imagevol": _image_volumes,
    "quantities": _extreme_quantities,
    "priorities": _negative_priorities,
    "topology": _topology,
    "tolerations": _tolerations,
    "nodename": _one_node,
    "resizepending": _pending_resize,
}
