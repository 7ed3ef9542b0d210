"""Shapes of requests, on the incoming pod and on running ones."""

from typing import Any

from tests.upstream.generate.quantities import (
    GI,
    MI,
    spelled_bytes,
    spelled_count,
    spelled_cpu,
    spelled_list,
)
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.words import EPHEMERAL_STORAGE, GPU, HUGE_PAGES, JSON


def add_resources(scenario: Scenario) -> None:
    """Change requests in one of the ways below, or in nearly all of them."""
    random = scenario.random
    kind = random.choice(
        ["plain", "gpu", "eph", "init", "sidecar", "overhead", "podlevel", "resize", "huge", "zero", "mix"]
    )
    scenario.tag(f"res-{kind}")
    mixed = {
        "gpu": _add_gpus,
        "eph": _add_ephemeral_storage,
        "init": _add_init_containers,
        "sidecar": _add_sidecars,
        "overhead": _add_overhead,
        "podlevel": _add_pod_level_resources,
        "resize": _resize,
        "huge": _add_huge_pages,
    }
    for name, change in mixed.items():
        if kind in (name, "mix"):
            change(scenario)
    if scenario.chance(0.04) and len(scenario.nodes) > 2:
        allocatable = random.choice([{}, {"cpu": "4"}, {"pods": "10"}])
        random.choice(scenario.nodes)["status"]["allocatable"] = allocatable
        scenario.tag("node-no-allocatable")
    if kind == "zero":
        _request_nothing(scenario)
    if kind == "plain" and scenario.chance(0.5):
        _split_containers(scenario, random.randint(2, 3))


def _first_resources(pod: JSON) -> JSON:
    resources: JSON = pod["spec"]["containers"][0]["resources"]
    return resources


def _some_running(scenario: Scenario, most: int) -> list[Any]:
    return scenario.some(scenario.running(), most)


def _add_gpus(scenario: Scenario) -> None:
    random = scenario.random
    wanted = random.choice([1, 2, 4])
    for node in [node for node in scenario.nodes if scenario.chance(0.8)]:
        left = random.choice([2, 4, 8])
        for figures in ("capacity", "allocatable"):
            node["status"][figures][GPU] = spelled_count(random, left, scenario.fancy)
        for pod in scenario.running_on(node["metadata"]["name"]):
            taken = min(left, random.choice([1, 1, 2]))
            if taken and scenario.chance(0.7):
                for figures in ("requests", "limits"):
                    _first_resources(pod).setdefault(figures, {})[GPU] = str(taken)
                left -= taken
    resources = _first_resources(scenario.pod)
    for figures in ("requests", "limits"):
        resources.setdefault(figures, {})[GPU] = str(wanted)
    if scenario.chance(0.1):
        resources["requests"]["example.com/fpga"] = str(random.choice([0, 1]))  # no node has it
    if scenario.chance(0.5) and "memory" in resources["requests"]:
        resources["requests"]["memory"] = "1Mi"


def _add_ephemeral_storage(scenario: Scenario) -> None:
    random = scenario.random
    for node in scenario.nodes:
        left = random.choice([10, 20]) * GI
        for figures in ("capacity", "allocatable"):
            node["status"][figures][EPHEMERAL_STORAGE] = spelled_bytes(random, left, scenario.fancy)
        for pod in scenario.running_on(node["metadata"]["name"]):
            taken = min(left, random.choice([1, 2, 4, 6]) * GI)
            if taken and scenario.chance(0.8):
                requests = _first_resources(pod).setdefault("requests", {})
                requests[EPHEMERAL_STORAGE] = spelled_bytes(random, taken, scenario.fancy)
                left -= taken
    wanted = random.choice([1, 4, 8]) * GI
    requests = _first_resources(scenario.pod).setdefault("requests", {})
    requests[EPHEMERAL_STORAGE] = spelled_bytes(random, wanted, scenario.fancy)


def _add_init_containers(scenario: Scenario) -> None:
    random = scenario.random
    requests = scenario.requests or {"cpu": 10}
    large = {resource: int(value * random.choice([0.5, 1.0, 1.5])) or 1 for resource, value in requests.items()}
    count = random.randint(1, 2)
    scenario.pod["spec"]["initContainers"] = [scenario.container(large, f"i{number}") for number in range(count)]
    for pod in _some_running(scenario, 4):
        requests = {"cpu": scenario.cpu_unit * random.choice([1, 2]), "memory": scenario.memory_unit}
        pod["spec"]["initContainers"] = [scenario.container(requests, "i0")]


def _add_sidecars(scenario: Scenario) -> None:
    _prepend_sidecars(scenario, scenario.pod, small=scenario.chance(0.5))
    for pod in _some_running(scenario, 5):
        _prepend_sidecars(scenario, pod, small=True)


def _prepend_sidecars(scenario: Scenario, pod: JSON, small: bool) -> None:
    random = scenario.random
    added = []
    for number in range(random.randint(1, 3)):
        cpu = random.choice([10, 50, 100]) if small else scenario.cpu_unit
        container = scenario.container({"cpu": cpu, "memory": random.choice([16, 32, 64]) * MI}, f"s{number}")
        if scenario.chance(0.65):
            container["restartPolicy"] = "Always"
        added.append(container)
    pod["spec"]["initContainers"] = added + pod["spec"].get("initContainers", [])
    for number, container in enumerate(pod["spec"]["initContainers"]):
        container["name"] = f"ic{number}"


def _add_overhead(scenario: Scenario) -> None:
    random = scenario.random
    cpu = spelled_cpu(random, random.choice([10, 100, scenario.cpu_unit]), scenario.fancy)
    memory = spelled_bytes(random, random.choice([16, 120]) * MI, scenario.fancy)
    scenario.pod["spec"] |= {"overhead": {"cpu": cpu, "memory": memory}, "runtimeClassName": "kata"}
    for pod in _some_running(scenario, 4):
        pod["spec"] |= {"overhead": {"cpu": "50m", "memory": "64Mi"}, "runtimeClassName": "kata"}


def _add_pod_level_resources(scenario: Scenario) -> None:
    random = scenario.random
    _set_pod_level_resources(scenario, scenario.pod, random.choice([1, 2, 3]))
    if scenario.chance(0.4):  # nothing at the containers
        for container in scenario.pod["spec"]["containers"]:
            container["resources"] = {}
    for pod in _some_running(scenario, 4):
        _set_pod_level_resources(scenario, pod, random.choice([0.5, 1, 2]))
        if scenario.chance(0.4):
            cpu = int(scenario.cpu_unit * random.choice([0.5, 2]))
            actual = {"cpu": cpu, "memory": int(scenario.memory_unit * random.choice([0.5, 2]))}
            pod["status"]["resources"] = {"requests": spelled_list(random, actual, fancy=False)}
            if scenario.chance(0.5):
                allocated = {"cpu": int(scenario.cpu_unit * random.choice([1, 3])), "memory": scenario.memory_unit}
                pod["status"]["allocatedResources"] = spelled_list(random, allocated, fancy=False)
            scenario.tag("podlevel-resize")


def _set_pod_level_resources(scenario: Scenario, pod: JSON, factor: float) -> None:
    random = scenario.random
    values = {"cpu": max(1, int(scenario.cpu_unit * factor)), "memory": int(scenario.memory_unit * factor)}
    chosen = random.choice([["cpu"], ["memory"], ["cpu", "memory"]])
    requests = spelled_list(random, {resource: values[resource] for resource in chosen}, scenario.fancy)
    pod["spec"]["resources"] = {"requests": requests}
    if scenario.chance(0.3):
        pod["spec"]["resources"]["limits"] = dict(requests)


def _resize(scenario: Scenario) -> None:
    """Let statuses of running pods say other resources than the specs."""
    for pod in _some_running(scenario, 6):
        pod["status"]["containerStatuses"] = [
            _resized_status(scenario, container) for container in pod["spec"]["containers"]
        ]
        if scenario.chance(0.4):
            reason = scenario.random.choice(["Infeasible", "Deferred"])
            pending = {"type": "PodResizePending", "status": "True", "reason": reason}
            pod["status"].setdefault("conditions", []).append(pending)


def _resized_status(scenario: Scenario, container: JSON) -> JSON:
    status: JSON = {
        "name": container["name"],
        "ready": True,
        "restartCount": 0,
        "image": container["image"],
        "imageID": "",
        "state": {"running": {}},
    }
    if scenario.chance(0.85):
        status["resources"] = {"requests": _some_amounts(scenario, [0.5, 1, 2])}
    if scenario.chance(0.8):
        status["allocatedResources"] = _some_amounts(scenario, [0.5, 1, 1.5])
    return status


def _some_amounts(scenario: Scenario, factors: list[float]) -> dict[str, str]:
    cpu = int(scenario.cpu_unit * scenario.random.choice(factors))
    memory = int(scenario.memory_unit * scenario.random.choice(factors))
    return spelled_list(scenario.random, {"cpu": cpu, "memory": memory}, scenario.fancy)


def _add_huge_pages(scenario: Scenario) -> None:
    random = scenario.random
    for node in scenario.nodes:
        if scenario.chance(0.8):
            for figures in ("capacity", "allocatable"):
                node["status"][figures][HUGE_PAGES] = spelled_bytes(random, random.choice([64, 128, 256]) * MI, False)
    for pod in scenario.running():
        if scenario.chance(0.3):
            _request_huge_pages(scenario, pod, [32, 64])
    _request_huge_pages(scenario, scenario.pod, [32, 64, 128])


def _request_huge_pages(scenario: Scenario, pod: JSON, choices: list[int]) -> None:
    for figures in ("requests", "limits"):
        amount = spelled_bytes(scenario.random, scenario.random.choice(choices) * MI, False)
        _first_resources(pod).setdefault(figures, {})[HUGE_PAGES] = amount


def _request_nothing(scenario: Scenario) -> None:
    """Let the incoming pod ask for nothing but a place among a node's pods, which most nodes lack."""
    scenario.pod["spec"]["containers"][0]["resources"] = scenario.random.choice(
        [
            {},
            {"requests": {"cpu": "0"}},
            {"requests": {"cpu": "0", "memory": "0"}},
            {"requests": {"memory": "1"}},
        ]
    )
    for node in scenario.nodes:
        if scenario.chance(0.8):
            pods = len(scenario.running_on(node["metadata"]["name"]))
            node["status"]["allocatable"]["pods"] = str(max(pods, 1))


def _split_containers(scenario: Scenario, count: int) -> None:
    """Spread the incoming pod's requests over several containers."""
    if scenario.requests:
        part = {resource: max(1, value // count) for resource, value in scenario.requests.items()}
        scenario.pod["spec"]["containers"] = [scenario.container(part, f"c{number}") for number in range(count)]
