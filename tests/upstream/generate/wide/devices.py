"""Devices: as extended resources of device plugins and classes, and as claims of dynamic resource allocation."""

from collections.abc import Sequence
from typing import Any, Final

from tests.upstream.generate.quantities import count
from tests.upstream.generate.scenario import Scenario, give, request, selected_by_name
from tests.upstream.generate.words import CREATED, FPGA, GPU, JSON

API: Final = "resource.k8s.io/v1"
DRIVER: Final = "gpu.example.com"
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/plain"
"""The extended resource that every DeviceClass named `plain` backs."""
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
SELECTORS: Final = (
    f'device.attributes["{DRIVER}"].model == "h100"',
    f'device.attributes["{DRIVER}"].index < 2',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
    f'device.attributes["{DRIVER}"].nosuch == "x"',
)


# --- objects ----------------------------------------------------------------------------------------------------------


def add_device_class(scenario: Scenario, name: str, driver: str = "", extended_resource: str = "") -> None:
    spec: JSON = {}
    if driver:
        spec["selectors"] = [cel(f'device.driver == "{driver}"')]
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    scenario.add(API, "DeviceClass", name, spec=spec)


def cel(text: str) -> JSON:
    return {"cel": {"expression": text}}


def _add_slice(scenario: Scenario, node: str, devices: list[JSON]) -> None:
    """Add the only ResourceSlice of the node's pool."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    scenario.add(API, "ResourceSlice", f"{node}-{DRIVER.replace('.', '-')}", spec=spec)


def users_of(pods: Sequence[JSON]) -> list[JSON]:
    """Return `reservedFor` of a claim that these pods use."""
    return [{"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in pods]


# --- extended resources -----------------------------------------------------------------------------------------------


def add_extended_resources(scenario: Scenario) -> None:
    """Let the incoming pod ask for extended resources, which device plugins or classes serve."""
    random = scenario.random
    backed = random.choice([GPU, GPU, None])
    if backed:
        add_device_class(scenario, "gpu", DRIVER, backed)
        if scenario.chance(0.15):
            add_device_class(scenario, "gpu2", "gpu2.example.com", backed)
    if scenario.chance(0.4):
        add_device_class(scenario, "plain", DRIVER)
    for node in scenario.nodes:
        _add_devices(scenario, node)
    resources = (GPU, FPGA, IMPLICIT)
    for resource in random.sample(resources, random.choice([1, 1, 2])):
        amount = random.choice(["0", "1", "1", "2"])
        request(scenario.pod["spec"]["containers"][0], {resource: amount})
        scenario.tag(f"asks-{resource.rsplit('/', 1)[1]}")
    if scenario.chance(0.2):
        container = scenario.container({}, "i0")
        container["resources"] = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
        scenario.pod["spec"]["initContainers"] = [container]


def _add_devices(scenario: Scenario, node: JSON) -> None:
    """Give the node extended resources, of which running pods have some, or a slice."""
    random, name = scenario.random, node["metadata"]["name"]
    for resource in (GPU, FPGA):
        if scenario.chance(0.5):
            give(node, resource, random.choice([0, 1, 2, 4]))
    if scenario.chance(0.05):
        give(node, IMPLICIT, 1)
    if scenario.chance(0.3):
        _add_slice(scenario, name, [{"name": f"d{number}"} for number in range(random.randint(1, 3))])
    left = {key: count(node["status"]["allocatable"].get(key, "0")) for key in (GPU, FPGA)}
    for pod in scenario.running_on(name):
        container = pod["spec"]["containers"][0]
        for resource in (GPU, FPGA):
            if scenario.chance(0.35) and left[resource] > 0:
                request(container, {resource: "1"})
                left[resource] -= 1
        if scenario.chance(0.05):  # more than there is: a device plugin went away, or a class served it
            container["resources"].setdefault("requests", {})[GPU] = "1"


# --- claims -----------------------------------------------------------------------------------------------------------


def add_claims(scenario: Scenario) -> None:
    """Add slices, claims of running pods and one or two of the incoming pod."""
    random = scenario.random
    add_device_class(scenario, "gpu", DRIVER)
    add_device_class(scenario, "any")
    pools: dict[str, list[JSON]] = {}
    for name in scenario.node_names():
        if scenario.chance(0.8):
            pools[name] = [_device(scenario, number) for number in range(random.randint(1, 4))]
            _add_slice(scenario, name, pools[name])
    for name, devices in pools.items():
        _allocate_to_running_pods(scenario, name, devices)
    references = [_incoming_claim(scenario, number, pools) for number in range(random.choice([1, 1, 2]))]
    scenario.pod["spec"]["resourceClaims"] = references
    claims = [{"name": reference["name"]} for reference in references]
    scenario.pod["spec"]["containers"][0]["resources"]["claims"] = claims


def _device(scenario: Scenario, number: int) -> JSON:
    random = scenario.random
    model = random.choice(["a100", "h100"])
    device: JSON = {
        "name": f"d{number}",
        "attributes": {"model": {"string": model}, "index": {"int": number}},
        "capacity": {"memory": {"value": f"{random.choice([20, 40, 80])}Gi"}},
    }
    if scenario.chance(0.1):
        effect = random.choice(["NoSchedule", "NoExecute", "None"])
        device["taints"] = [{"key": "bad", "value": "x", "effect": effect, "timeAdded": CREATED}]
        scenario.tag("device-taint")
    return device


def _request(scenario: Scenario, name: str) -> JSON:
    random = scenario.random
    exactly: JSON = {
        "deviceClassName": random.choice(["gpu", "gpu", "any", "nosuch"] if scenario.chance(0.2) else ["gpu"])
    }
    if random.random() < 0.7:
        exactly |= {"allocationMode": "ExactCount", "count": random.choice([1, 1, 1, 2, 3])}
    else:
        exactly |= {"allocationMode": "All"}
    if scenario.chance(0.35):
        exactly["selectors"] = [cel(random.choice(SELECTORS))]
        scenario.tag("cel")
    if scenario.chance(0.1):
        exactly["tolerations"] = [{"key": "bad", "operator": "Exists", "effect": "NoSchedule"}]
    if scenario.chance(0.08):
        exactly["adminAccess"] = True
        scenario.tag("admin")
    return {"name": name, "exactly": exactly}


def _add_claim(
    scenario: Scenario, name: str, namespace: str, allocated: tuple[str, JSON] | None = None, users: Any = ()
) -> JSON:
    """Add a claim; `allocated`: the node and the device that it has, `users`: the pods that use it."""
    requests = [_request(scenario, f"r{number}") for number in range(scenario.random.choice([1, 1, 2]))]
    spec = {"devices": {"requests": requests}}
    status: JSON = {}
    claim = scenario.add(API, "ResourceClaim", name, namespace, spec=spec, status=status)
    if allocated:
        node, device = allocated
        result = {"request": requests[0]["name"], "driver": DRIVER, "pool": node, "device": device["name"]}
        status["allocation"] = {"devices": {"results": [result]}, "nodeSelector": selected_by_name(node)}
        claim["metadata"]["finalizers"] = [FINALIZER]
    if users:
        status["reservedFor"] = users_of(users)
    return claim


def _allocate_to_running_pods(scenario: Scenario, node: str, devices: list[JSON]) -> None:
    free = list(devices)
    scenario.random.shuffle(free)
    for pod in scenario.running_on(node):
        if free and scenario.chance(0.4):
            name = f"claim-{pod['metadata']['name']}"
            _add_claim(scenario, name, pod["metadata"]["namespace"], (node, free.pop()), [pod])
            pod["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": name}]
            pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "g"}]


def _incoming_claim(scenario: Scenario, number: int, pools: dict[str, list[JSON]]) -> JSON:
    """Return the incoming pod's reference to a claim that is new, allocated, made from a template or absent."""
    random, namespace = scenario.random, scenario.incoming_namespace
    name = f"g{number}"
    kind = random.random()
    scenario.tag("claim")
    if kind < 0.45:
        _add_claim(scenario, f"mine-{number}", namespace)
        return {"name": name, "resourceClaimName": f"mine-{number}"}
    if kind < 0.6 and pools:
        node = random.choice(sorted(pools))
        claim = _add_claim(scenario, f"mine-{number}", namespace, (node, random.choice(pools[node])))
        if scenario.chance(0.4):
            count = 256 if scenario.chance(0.2) else 1
            claim["status"]["reservedFor"] = [
                {"resource": "pods", "name": f"x{nth}", "uid": scenario.uid()} for nth in range(count)
            ]
        scenario.tag("allocated")
        return {"name": name, "resourceClaimName": f"mine-{number}"}
    if kind < 0.85:
        _add_claim_of_template(scenario, number)
        return {"name": name, "resourceClaimTemplateName": "tpl"}
    scenario.tag("absent")
    return {"name": name, "resourceClaimName": "absent"}


def _add_claim_of_template(scenario: Scenario, number: int) -> None:
    pod = scenario.pod
    claim = _add_claim(scenario, f"tpl-{number}", scenario.incoming_namespace)
    uid = pod["metadata"]["uid"] if scenario.chance(0.9) else scenario.uid()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid, "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]
    if scenario.chance(0.85):
        status = {"name": f"g{number}", "resourceClaimName": f"tpl-{number}"}
        pod["status"].setdefault("resourceClaimStatuses", []).append(status)
    scenario.tag("template")
