"""Requests of every kind at once: of containers, sidecars and pods, with overhead, and as a resize leaves them."""

from collections.abc import Mapping

from tests.upstream.generate.quantities import BINARY, GI, KI, MI, canonical, canonical_list
from tests.upstream.generate.scenario import Scenario, give
from tests.upstream.generate.words import EPHEMERAL_STORAGE, GPU, HUGE_PAGES, JSON


def add_pod_level_resources(scenario: Scenario) -> None:
    """Give nodes more resources, and pods requests of all levels."""
    random = scenario.random
    for node in scenario.nodes:
        give(node, EPHEMERAL_STORAGE, random.choice([4, 10, 20]) * GI)
        if scenario.chance(0.7):
            give(node, GPU, random.choice([1, 2, 4]))
        if scenario.chance(0.7):
            give(node, HUGE_PAGES, random.choice([64, 128, 256]) * MI)
    share = random.choice([0.3, 0.6, 1.0])
    for pod in scenario.running():
        if scenario.chance(share):
            _shape(scenario, pod, random.choice([0.25, 0.5, 1]), resized=scenario.chance(0.7))
    _shape(scenario, scenario.pod, random.choice([1, 2, 3]), resized=scenario.chance(0.35))


def _shape(scenario: Scenario, pod: JSON, factor: float, resized: bool) -> None:
    """Replace what the pod requests, by amounts of about this factor; `resized`: its status says otherwise."""
    random, spec = scenario.random, pod["spec"]
    requests: dict[str, dict[str, int]] = {}
    spec["containers"] = []
    for number in range(random.choice([1, 1, 2, 3])):
        requests[f"c{number}"] = _requests(scenario, factor)
        spec["containers"].append(_container(scenario, f"c{number}", requests[f"c{number}"]))
    starting: dict[str, dict[str, int]] = {}
    if scenario.chance(0.5):
        spec["initContainers"] = []
        for number in range(random.randint(1, 3)):
            name = f"i{number}"
            starting[name] = _requests(scenario, factor * random.choice([0.5, 1, 2]), 0.15)
            container = _container(scenario, name, starting[name])
            if scenario.chance(0.55):
                container["restartPolicy"] = "Always"
            spec["initContainers"].append(container)
    if scenario.chance(0.35):
        _add_overhead(scenario, spec)
    level = _add_pod_level(scenario, spec, factor) if scenario.chance(0.6) else {}
    if resized:
        _resize_containers(scenario, pod["status"], requests, starting)
        _resize_pod_level(scenario, pod["status"], level)
        _add_resize_conditions(scenario, pod["status"])


# --- the spec ---------------------------------------------------------------------------------------------------------


def _requests(scenario: Scenario, factor: float = 1.0, further: float = 0.3) -> dict[str, int]:
    """Return millicores, bytes and numbers that a container asks for; `further`: how often beyond cpu and memory."""
    random = scenario.random
    requests = {}
    if scenario.chance(0.85):
        requests["cpu"] = max(1, int(scenario.cpu_unit * random.choice([0.1, 0.25, 0.5, 1, 1.5]) * factor))
    if scenario.chance(0.85):
        memory = max(1, int(scenario.memory_unit * random.choice([0.1, 0.25, 0.5, 1, 1.5]) * factor))
        requests["memory"] = memory // KI * KI
    if scenario.chance(further * 0.5):
        requests[EPHEMERAL_STORAGE] = random.choice([1, 2, 4]) * GI
    if scenario.chance(further * 0.4):
        requests[GPU] = random.choice([1, 1, 2])
    if scenario.chance(further * 0.4):
        requests[HUGE_PAGES] = random.choice([2, 32, 64]) * MI
    return requests


def _container(scenario: Scenario, name: str, requests: Mapping[str, int]) -> JSON:
    """Return a container whose limits an API server would accept: those of huge pages equal the requests."""
    container = scenario.container({}, name)
    resources = {"requests": canonical_list(requests)} if requests else {}
    limits = {key: value for key, value in requests.items() if "/" in key or key.startswith("hugepages-")}
    for resource in ("cpu", "memory"):
        if resource in requests and scenario.chance(0.3):
            limits[resource] = requests[resource] * scenario.random.choice([1, 1, 2])
    if limits:
        resources["limits"] = canonical_list(limits)
    container["resources"] = resources
    return container


def _add_overhead(scenario: Scenario, spec: JSON) -> None:
    random = scenario.random
    overhead = {
        "cpu": random.choice([10, 50, 100, scenario.cpu_unit // 2]),
        "memory": random.choice([16, 64, 120]) * MI,
        EPHEMERAL_STORAGE: GI,
    }
    spec["overhead"] = canonical_list({key: value for key, value in overhead.items() if scenario.chance(0.7)})
    spec["runtimeClassName"] = "kata"


def _add_pod_level(scenario: Scenario, spec: JSON, factor: float) -> dict[str, int]:
    """Add requests and limits of the pod; return the amounts."""
    random = scenario.random
    cpu = int(scenario.cpu_unit * factor * random.choice([0.5, 1, 1.5, 2, 3]))
    memory = int(scenario.memory_unit * factor * random.choice([0.5, 1, 1.5, 2, 3])) // KI * KI
    amounts = {"cpu": cpu, "memory": memory, HUGE_PAGES: random.choice([2, 32, 64, 128]) * MI}
    level = {}
    for resource, value in amounts.items():
        if scenario.chance(0.2 if resource == HUGE_PAGES else 0.6):
            level[resource] = max(1, value)
    if level:
        kind = random.random()
        spec["resources"] = {}
        if kind < 0.8:
            spec["resources"]["requests"] = canonical_list(level)
        if kind > 0.6:
            spec["resources"]["limits"] = _limits(scenario, level)
        if scenario.chance(0.85):
            _default_pod_level_requests(spec)
    return level


def _limits(scenario: Scenario, level: Mapping[str, int]) -> dict[str, str]:
    limits = {}
    for resource, value in level.items():
        if scenario.chance(0.8):
            factor = 1 if resource == HUGE_PAGES else scenario.random.choice([1, 1, 2])
            limits[resource] = value * factor
    return canonical_list(limits or level)


def _default_pod_level_requests(spec: JSON) -> None:
    """Add the requests of the pod that an API server adds: what its containers ask for, else the limit."""
    resources = spec["resources"]
    requests = dict(resources.get("requests") or {})
    totals: dict[str, int] = {}
    for container in spec["containers"]:
        for resource, text in (container["resources"].get("requests") or {}).items():
            if resource in ("cpu", "memory"):
                totals[resource] = totals.get(resource, 0) + _number(text)
    for resource, total in totals.items():
        requests.setdefault(resource, canonical(resource, total))
    for resource, text in (resources.get("limits") or {}).items():
        requests.setdefault(resource, text)
    if requests:
        resources["requests"] = requests


def _number(text: str) -> int:
    """Return the millicores or bytes of a canonical quantity; what has under four digits is cores."""
    for suffix, unit in BINARY:
        if text.endswith(suffix):
            return int(text[:-2]) * unit
    if text.endswith("m"):
        return int(text[:-1])
    return int(text) * (1000 if len(text) < 4 else 1)


# --- the status of a resize -------------------------------------------------------------------------------------------


def _changed(scenario: Scenario, requests: Mapping[str, int]) -> dict[str, str]:
    """Return other amounts of the same resources, some left out and some more."""
    random = scenario.random
    changed = {}
    for resource, value in requests.items():
        if scenario.chance(0.9):
            changed[resource] = int(value * random.choice([0.5, 1, 1, 2, 3])) or 1
    if scenario.chance(0.15):
        changed.update(_requests(scenario, 0.5))
    return canonical_list(changed)


def _resize_containers(
    scenario: Scenario,
    status: JSON,
    requests: Mapping[str, dict[str, int]],
    starting: Mapping[str, dict[str, int]],
) -> None:
    if not scenario.chance(0.75):
        return
    statuses = [_status(scenario, name, own) for name, own in requests.items() if scenario.chance(0.9)]
    if scenario.chance(0.08):  # of a container that the spec lacks
        statuses.append(_status(scenario, "gone", _requests(scenario)))
    status["containerStatuses"] = statuses
    if starting and scenario.chance(0.8):
        status["initContainerStatuses"] = [
            _status(scenario, name, own) for name, own in starting.items() if scenario.chance(0.85)
        ]
    scenario.tag("resize")


def _status(scenario: Scenario, name: str, requests: Mapping[str, int]) -> JSON:
    status = running_status(name)
    if scenario.chance(0.85):
        status["resources"] = _actual(scenario, requests, 0.93)
    if scenario.chance(0.8):
        status["allocatedResources"] = _changed(scenario, requests)
    return status


def _actual(scenario: Scenario, requests: Mapping[str, int], probability: float) -> JSON:
    return {"requests": _changed(scenario, requests)} if scenario.chance(probability) else {}


def running_status(name: str) -> JSON:
    """Return the status of a container that runs, without its resources."""
    return {
        "name": name,
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": "i",
        "imageID": "",
        "state": {"running": {}},
    }


def _resize_pod_level(scenario: Scenario, status: JSON, level: Mapping[str, int]) -> None:
    if (level and scenario.chance(0.6)) or scenario.chance(0.05):
        if scenario.chance(0.85):
            status["resources"] = _actual(scenario, level, 0.9)
        if scenario.chance(0.75):
            status["allocatedResources"] = _changed(scenario, level)
        scenario.tag("podlevel-resize")


def _add_resize_conditions(scenario: Scenario, status: JSON) -> None:
    random = scenario.random
    conditions = []
    if scenario.chance(0.5):
        value = "True" if scenario.chance(0.9) else "False"
        conditions.append(pending_resize(random.choice(["Infeasible", "Infeasible", "Deferred"]), value))
    if scenario.chance(0.3):
        reason = random.choice(["", "Error"])
        conditions.append({"type": "PodResizeInProgress", "status": "True", "reason": reason})
    if scenario.chance(0.05):
        conditions.append(pending_resize("Deferred"))
    random.shuffle(conditions)
    if conditions:
        status.setdefault("conditions", []).extend(conditions)


def pending_resize(reason: str, status: str = "True") -> dict[str, str]:
    return {"type": "PodResizePending", "status": status, "reason": reason}
