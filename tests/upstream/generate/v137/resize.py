"""Resizes in progress: what statuses of containers and pods say beside the specs."""

from tests.upstream.generate.quantities import GI, MI, canonical_bytes, canonical_cpu
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.wide.podlevel import pending_resize, running_status
from tests.upstream.generate.words import JSON


def add_resizes(scenario: Scenario) -> None:
    """Let running pods be in all stages of a resize, and the incoming pod ask at pod level."""
    random = scenario.random
    for pod in scenario.running():
        if scenario.chance(0.75):
            _resize(scenario, pod)
    if scenario.chance(0.3):
        cpu = _cpu(scenario.cpu_unit * random.choice([1, 2]))
        scenario.pod["spec"]["resources"] = {"requests": {"cpu": cpu, "memory": _memory(scenario.memory_unit)}}


def _resize(scenario: Scenario, pod: JSON) -> None:
    random, spec, status = scenario.random, pod["spec"], pod["status"]
    factor = random.choice([0.5, 1, 1])
    spec["containers"] = [
        _container(scenario, f"c{number}", factor / 2) for number in range(random.choice([1, 2, 2, 3]))
    ]
    starting = []
    for number in range(random.choice([0, 0, 1, 1, 2])):
        container = scenario.container({}, f"i{number}")
        container["resources"] = {"requests": _requests(scenario, factor * random.choice([0.5, 1]))}
        if scenario.chance(0.5):
            container["restartPolicy"] = "Always"
        starting.append(container)
    if starting:
        spec["initContainers"] = starting
    if scenario.chance(0.3):
        spec["overhead"] = {"cpu": "50m", "memory": "64Mi"}
    _add_statuses(scenario, status, spec["containers"], starting)
    if scenario.chance(0.4):
        _add_pod_level(scenario, pod, factor)
    if random.random() < 0.45:
        pending = pending_resize(random.choice(["Infeasible", "Infeasible", "Deferred"]))
        status.setdefault("conditions", []).append(pending)
        if scenario.chance(0.15):
            other = "Deferred" if pending["reason"] == "Infeasible" else "Infeasible"
            status["conditions"].append(pending_resize(other))
        scenario.tag(pending["reason"])
    if scenario.chance(0.3):
        status.setdefault("conditions", []).append({"type": "PodResizeInProgress", "status": "True"})


# --- amounts ----------------------------------------------------------------------------------------------------------


def _cpu(millicores: float) -> str:
    return canonical_cpu(max(1, int(millicores)))


def _memory(value: float) -> str:
    return canonical_bytes(max(1, int(value)) // MI * MI or MI)


def _container(scenario: Scenario, name: str, factor: float) -> JSON:
    container = scenario.container({}, name)
    container["resources"] = {"requests": _requests(scenario, factor)}
    return container


def _requests(scenario: Scenario, factor: float) -> dict[str, str]:
    random = scenario.random
    requests = {}
    if scenario.chance(0.9):
        requests["cpu"] = _cpu(scenario.cpu_unit * factor * random.choice([0.25, 0.5, 1, 1, 2]))
    if scenario.chance(0.7):
        requests["memory"] = _memory(scenario.memory_unit * factor * random.choice([0.25, 0.5, 1, 1]))
    return requests


def _moved(scenario: Scenario, requests: dict[str, str]) -> dict[str, str]:
    """Return the same resources, each larger, smaller or as before."""
    random = scenario.random
    moved = {}
    for resource, text in requests.items():
        if resource == "cpu":
            millicores = int(text[:-1]) if text.endswith("m") else int(text) * 1000
            moved[resource] = _cpu(millicores * random.choice([0.5, 0.5, 1, 1, 2, 3]))
        else:
            size = int(text[:-2]) * {"Gi": GI, "Mi": MI}[text[-2:]]
            moved[resource] = _memory(size * random.choice([0.5, 1, 1, 2]))
    return moved


# --- statuses ---------------------------------------------------------------------------------------------------------


def _add_statuses(scenario: Scenario, status: JSON, containers: list[JSON], starting: list[JSON]) -> None:
    random = scenario.random
    modes = ["both", "both", "both", "allocated", "actual", "settled", "mixed", "none", "empty"]
    mode = random.choice(modes)
    if mode == "none":
        return

    def status_of(container: JSON) -> JSON:
        own = random.choice(["both", "allocated", "actual", "settled", "none"]) if mode == "mixed" else mode
        return _status(scenario, container, own)

    status["containerStatuses"] = [status_of(container) for container in containers]
    if starting:
        status["initContainerStatuses"] = [status_of(container) for container in starting]
        if scenario.chance(0.3):
            for one in status["initContainerStatuses"]:
                one["state"] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    scenario.tag(f"st-{mode}")


def _status(scenario: Scenario, container: JSON, mode: str) -> JSON:
    """Return the container's status; `mode`: which of allocatedResources and resources the kubelet has written."""
    requests = container["resources"].get("requests", {})
    status = running_status(container["name"])
    if mode in ("both", "allocated"):
        status["allocatedResources"] = _moved(scenario, requests)
    if mode in ("both", "actual"):
        status["resources"] = {"requests": _moved(scenario, requests)}
    if mode == "settled":
        status |= {"allocatedResources": dict(requests), "resources": {"requests": dict(requests)}}
    if mode == "empty":
        status["resources"] = {}
    return status


def _add_pod_level(scenario: Scenario, pod: JSON, factor: float) -> None:
    """Add requests of the pod, and what its status says of them, some of it for resources that the spec lacks."""
    random, status = scenario.random, pod["status"]
    wanted = {}
    if scenario.chance(0.8):
        wanted["cpu"] = _cpu(scenario.cpu_unit * factor * random.choice([1, 1.5, 2]))
    if scenario.chance(0.5) or not wanted:
        wanted["memory"] = _memory(scenario.memory_unit * factor * random.choice([1, 1.5, 2]))
    if scenario.chance(0.8):
        pod["spec"]["resources"] = {"requests": wanted}
    mode = random.choice(["both", "both", "allocated", "actual", "none"])
    if mode in ("both", "actual"):
        status["resources"] = {"requests": _moved(scenario, wanted)}
    if mode in ("both", "allocated"):
        status["allocatedResources"] = _moved(scenario, wanted)
    if scenario.chance(0.25) and "resources" in status:
        actual = status["resources"]["requests"]
        actual.setdefault("memory", _memory(scenario.memory_unit))
        actual.setdefault("cpu", _cpu(scenario.cpu_unit))
        if "allocatedResources" in status and scenario.chance(0.7):
            status["allocatedResources"] = {
                **status["allocatedResources"],
                **{key: value for key, value in actual.items() if key not in status["allocatedResources"]},
            }
    scenario.tag(f"level-{mode}")
