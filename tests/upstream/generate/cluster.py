"""Random small clusters: nodes that are full of running pods, and the pod that wants a place.

Rule: what is drawn here leaves a scenario that every plugin accepts somewhere, unless resources lack.
"""

from datetime import timedelta
from typing import Final

from tests.upstream.generate.quantities import GI, MI
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.words import APPS, EPOCH, HOST, JSON, OS, REGION, ZONE, timestamp

PRIORITIES: Final = (1000, 1000, 1000, 100, 100000, 1000000, 1000000000, 2000001000, 2000000000, 10, 1, 0)
"""Name of the incoming pod."""
RUNNING_PRIORITIES: Final = (-1000, -10, -1, 0, None, 0, 5, 10, 100, 500, 900, 999, 5000, 100000, 1000000)
SYSTEM_NODE_CRITICAL: Final = 2000001000
LATER: Final = timestamp(EPOCH + timedelta(days=2))
"""deletionTimestamp of terminating pods."""


def random_cluster(
    scenario: Scenario,
    *,
    pressure: str | None = None,
    roomy: float = 0.4,
    tight: bool = True,
    nodes: int | None = None,
    fancy: bool = False,
) -> None:
    """Add nodes with running pods.

    `roomy`: probability that a third of the nodes have room; `tight`: whether the others are full, or far from it.
    """
    random = scenario.random
    scenario.fancy = fancy
    scenario.uniform = scenario.chance(0.6)
    scenario.pressure = pressure or random.choice(["cpu", "cpu", "cpu", "memory", "both", "both", "pods", "cpu"])
    count = nodes or random.choice([2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9, 10, 12, 14, 16])
    scenario.apps = random.sample(APPS, random.randint(2, 4))
    _draw_priorities(scenario)
    _draw_start_times(scenario)
    zones = [f"z{number}" for number in range(1, random.randint(2, 4) + 1)]
    scenario.cpu_unit, scenario.memory_unit = random.choice([250, 500, 1000]), random.choice([512 * MI, GI, 2 * GI])
    scenario.units_per_node = random.choice([4, 6, 8, 10])
    for number in range(count):
        _add_node(scenario, number, zones, roomy, tight)
    _add_oddities(scenario)


def _draw_priorities(scenario: Scenario) -> None:
    random = scenario.random
    scenario.priority = random.choice(PRIORITIES)
    lower = [one for one in RUNNING_PRIORITIES if (one or 0) < scenario.priority]
    scenario.lower_priorities = scenario.some(lower, random.randint(1, 4))
    scenario.other_priorities = [
        scenario.priority,
        scenario.priority,
        scenario.higher_priority(),
        SYSTEM_NODE_CRITICAL,
    ]
    scenario.lower_share = random.choice([1.0, 0.95, 0.9, 0.9, 0.8, 0.7])


def _draw_start_times(scenario: Scenario) -> None:
    random = scenario.random
    count = random.choice([1, 2, 4, 30, 200, 200, 200])  # few distinct ones give ties
    unit = random.choice([1, 60, 3600, 86400])
    scenario.start_times = [
        EPOCH + timedelta(seconds=unit * random.randint(0, min(3 * count, 300))) for _ in range(count)
    ]


def _add_node(scenario: Scenario, number: int, zones: list[str], roomy: float, tight: bool) -> None:
    random = scenario.random
    name = f"node-{number:02}"
    of_the_usual_size = scenario.uniform or scenario.chance(0.5)
    units = scenario.units_per_node if of_the_usual_size else random.choice([2, 4, 6, 8, 10, 12])
    cpu, memory = scenario.cpu_unit * units, scenario.memory_unit * units
    if not scenario.uniform:
        cpu += random.randint(0, scenario.cpu_unit // 2)
        memory += random.randint(0, 64) * MI
    most_pods = random.choice([10, 15, 20, 110])
    labels = {
        HOST: name,
        OS: "linux",
        ZONE: zones[number % len(zones)],
        REGION: "r1",
        "disk": random.choice(["ssd", "hdd"]),
        "gen": str(random.randint(1, 9)),
    }
    if scenario.chance(0.05):
        labels["gen"] = random.choice(["x", "", "1.5"])  # Gt and Lt never match it
    if scenario.chance(0.3):
        labels["pool"] = random.choice(["a", "b"])
    room = scenario.chance(0.35) if scenario.chance(roomy) else False
    if cpu > scenario.largest_node.get("cpu", 0):
        scenario.largest_node = {"cpu": cpu, "memory": memory}
    node = scenario.add_node(name, cpu, memory, most_pods, labels, random.choice([20, 50, 100]) * GI)
    if not scenario.chance(0.03):  # else it is empty
        _fill(scenario, node, cpu, memory, room, tight)


def _fill(scenario: Scenario, node: JSON, cpu: int, memory: int, room: bool, tight: bool) -> None:
    """Add running pods until the node is as full as it is to be."""
    random = scenario.random
    name = node["metadata"]["name"]
    if room:
        share = random.choice([0.2, 0.4, 0.6])
    elif tight:
        share = random.choice([1.0, 1.0, 1.0, 0.95, 0.9, 0.85])
    else:
        share = random.choice([0.1, 0.2, 0.3, 0.5])
    left_cpu, left_memory = int(cpu * share), int(memory * share)
    most = random.choice([3, 5, 8, 14])
    pods = 0
    while pods < most and (left_cpu > 0 or left_memory > 0 or pods == 0):
        cpu_request, memory_request = _request(scenario, cpu, memory, left_cpu, left_memory)
        last = pods == most - 1
        if last or cpu_request > left_cpu or memory_request > left_memory:  # take what is left
            cpu_request = left_cpu if last else min(cpu_request, left_cpu)
            memory_request = left_memory if last else min(memory_request, left_memory)
            if cpu_request <= 0 and memory_request <= 0:
                break
        cpu_request, memory_request = max(cpu_request, 0), max(memory_request, 0)
        add_running_pod(scenario, name, {"cpu": cpu_request, "memory": memory_request})
        left_cpu, left_memory, pods = left_cpu - cpu_request, left_memory - memory_request, pods + 1
    if scenario.pressure == "pods" and not room:
        count = sum(pod["spec"].get("nodeName") == name for pod in scenario.pods)
        node["status"]["allocatable"]["pods"] = str(max(1, count + random.choice([0, 0, 0, 0, 1, -1])))


def _request(scenario: Scenario, cpu: int, memory: int, left_cpu: int, left_memory: int) -> tuple[int, int]:
    """Return the millicores and bytes that one running pod asks for."""
    random = scenario.random
    if scenario.uniform:
        cpu_request = scenario.cpu_unit * random.choice([1, 1, 1, 2, 2, 3])
        memory_request = scenario.memory_unit * random.choice([1, 1, 1, 2, 2, 3])
    else:
        cpu_request = random.randint(1, max(2, cpu // 3))
        memory_request = random.randint(16, max(17, memory // MI // 3)) * MI
    if scenario.pressure == "cpu":
        memory_request = min(memory_request, max(MI, left_memory // 3))
    elif scenario.pressure == "memory":
        cpu_request = min(cpu_request, max(1, left_cpu // 3))
    return cpu_request, memory_request


def add_running_pod(scenario: Scenario, node: str, requests: dict[str, int]) -> JSON:
    random = scenario.random
    requests = {resource: value for resource, value in requests.items() if value}
    parts = [requests]
    if requests and scenario.chance(0.12) and all(value > 4 for value in requests.values()):
        half = {resource: value // 2 for resource, value in requests.items()}
        parts = [half, {resource: requests[resource] - half[resource] for resource in requests}]
    containers = [scenario.container(part, f"c{number}") for number, part in enumerate(parts)]
    pod = scenario.new_pod(
        random.choice(["web", "api", "job", "db"]),
        random.choice(["default", "default", "prod", "dev"]),
        node,
        random.choice(
            scenario.lower_priorities if scenario.chance(scenario.lower_share) else scenario.other_priorities
        ),
        scenario.random_labels(),
        containers,
        random.choice(scenario.start_times),
    )
    scenario.pods.append(pod)
    return pod


def _add_oddities(scenario: Scenario) -> None:
    """Let a few running pods have finished, be terminating or not have started; add pods that are on no node."""
    random = scenario.random
    for pod in scenario.pods:
        kind = random.random()
        if kind < 0.015:  # it keeps its nodeName and uses nothing
            pod["status"]["phase"] = random.choice(["Succeeded", "Failed"])
            scenario.tag("finished-pod")
        elif kind < 0.035:
            pod["metadata"] |= {"deletionTimestamp": LATER, "deletionGracePeriodSeconds": 30}
            scenario.tag("terminating-pod")
        elif kind < 0.042:
            pod["status"].pop("startTime", None)
            pod["status"]["phase"] = "Pending"
            scenario.tag("no-start-time")
    if scenario.chance(0.02):
        add_running_pod(scenario, "node-gone", {"cpu": 100})
        scenario.tag("orphan-pod")
    if scenario.chance(0.1):  # of no consequence, as it is not nominated
        priority = random.choice([0, scenario.priority, None])
        labels = scenario.random_labels()
        containers = [scenario.container({"cpu": scenario.cpu_unit})]
        scenario.pods.append(scenario.new_pod("pend", "default", None, priority, labels, containers))


def add_incoming_pod(scenario: Scenario, *, share: float | None = None, namespace: str = "default") -> None:
    """Set the incoming pod, which wants about this share of a node."""
    random = scenario.random
    share = random.choice([0.2, 0.3, 0.4, 0.5, 0.5, 0.6, 0.75, 0.9]) if share is None else share
    if scenario.uniform:
        units = max(1, round(scenario.units_per_node * share))
        requests = {"cpu": scenario.cpu_unit * units, "memory": scenario.memory_unit * units}
    else:
        largest = scenario.largest_node
        requests = {"cpu": int(largest["cpu"] * share), "memory": int(largest["memory"] * share) // MI * MI}
    if scenario.pressure == "cpu":
        requests["memory"] = 16 * MI
    elif scenario.pressure == "memory":
        requests["cpu"] = 10
    elif scenario.pressure == "pods":
        requests = {"cpu": 10, "memory": 16 * MI} if scenario.chance(0.6) else {}
    scenario.requests = requests
    labels = {"app": random.choice(scenario.apps), "tier": "front", "version": "v1"}
    containers = [scenario.container(requests)]
    pod = scenario.new_pod("incoming", namespace, None, scenario.priority, labels, containers)
    pod["spec"]["preemptionPolicy"] = "PreemptLowerPriority"
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    scenario.pod = pod
