"""Claims of the incoming pod that meet one feature of dynamic resource allocation each."""

from typing import Any, Final

from tests.upstream.generate.cluster import add_incoming_pod, random_cluster
from tests.upstream.generate.scenario import Scenario, request
from tests.upstream.generate.v137.device_objects import (
    NETWORK_DRIVER,
    Devices,
    allocation,
    device_cluster,
    device_request,
    device_result,
    selectors,
    use,
)
from tests.upstream.generate.wide.devices import API, DRIVER, add_extended_resources
from tests.upstream.generate.words import CREATED, GPU, JSON

EFFECTS: Final = ("NoSchedule", "NoExecute", "None")
RULE_VERSIONS: Final = ("v1", "v1", "v1", "v1beta2")
"""API version of DeviceTaintRule: 1.37 has v1, earlier minors have v1beta2."""
TOLERATIONS: Final = (
    {"key": "bad", "operator": "Exists"},
    {"key": "bad", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "bad", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
    {"operator": "Exists"},
    {"key": "worn", "operator": "Exists"},
)
ATTRIBUTES: Final[dict[str, list[Any]]] = {
    "string": ["A", "B", "C"],
    "int": [1, 2, 3],
    "bool": [True, False],
    "version": ["1.0.0", "1.1.0", "2.0.0"],
}
NUMA_SELECTORS: Final = (
    f'"numa" in device.attributes["{DRIVER}"] && device.attributes["{DRIVER}"].numa == 0',
    f'device.attributes["{DRIVER}"].numa == 1',
    f'device.attributes["{DRIVER}"].?numa.orValue(1) == 1',
)
SHARED_SELECTORS: Final = (
    "device.allowMultipleAllocations == true",
    f'device.attributes["{DRIVER}"].model == "a"',
)
RANGES: Final = (("1Gi", "8Gi", "1Gi"), ("2Gi", "10Gi", "4Gi"), ("1Gi", "40Gi", "512Mi"))
"""Least, most and step of the capacity that a request of a shared device consumes."""


# --- device taints ----------------------------------------------------------------------------------------------------


def add_taint_rules(scenario: Scenario) -> None:
    """Taint devices by their slices and by DeviceTaintRules."""
    random = scenario.random
    devices = device_cluster(scenario)
    drivers = [DRIVER] if scenario.chance(0.6) else [DRIVER, NETWORK_DRIVER]
    for node in scenario.node_names():
        for driver in drivers:
            if scenario.chance(0.85):
                devices.add_slice(node, _tainted_devices(scenario), driver)
    devices.hold_some(0.3)
    for number in range(random.choice([1, 1, 1, 2])):
        _add_taint_rule(scenario, number, drivers)
    names = []
    for number in range(random.choice([1, 1, 1, 2])):
        claim = devices.add_claim(f"mine-{number}", "default", [_tolerating_request(scenario)])
        if scenario.chance(0.15) and devices.pools:
            (driver, pool), (node, of_pool) = random.choice(sorted(devices.pools.items()))
            claim["status"] |= allocation(node, device_result(of_pool[0]["name"], pool, driver))
            scenario.tag("allocated")
        names.append(f"mine-{number}")
    use(scenario.pod, *names)


def _tainted_devices(scenario: Scenario) -> list[JSON]:
    random = scenario.random
    devices: list[JSON] = [
        {"name": f"d{number}", "attributes": {"model": {"string": random.choice(["a", "b"])}}}
        for number in range(random.randint(1, 3))
    ]
    for device in devices:
        if scenario.chance(0.1):
            taint = {"key": random.choice(["bad", "worn"]), "value": "x", "effect": random.choice(EFFECTS)}
            device["taints"] = [taint | {"timeAdded": CREATED}]
    return devices


def _add_taint_rule(scenario: Scenario, number: int, drivers: list[str]) -> None:
    random = scenario.random
    selector = {}
    if scenario.chance(0.6):
        selector["driver"] = random.choice([*drivers, "other.example.com"])
    if scenario.chance(0.5):
        selector["pool"] = random.choice(scenario.node_names())
    if scenario.chance(0.4):
        selector["device"] = random.choice(["d0", "d1"])
    taint = {"key": random.choice(["bad", "bad", "worn"]), "value": random.choice(["x", "y"])}
    taint |= {"effect": random.choice(["NoSchedule", *EFFECTS]), "timeAdded": CREATED}
    spec: JSON = {"taint": taint}
    kind = random.random()
    if kind < 0.9:
        spec["deviceSelector"] = selector if kind < 0.8 else {}
    else:
        scenario.tag("no-selector")
    version = random.choice(RULE_VERSIONS)
    scenario.add(f"resource.k8s.io/{version}", "DeviceTaintRule", f"rule-{number}", spec=spec)


def _tolerating_request(scenario: Scenario) -> JSON:
    random = scenario.random
    further: JSON = {}
    if scenario.chance(0.45):
        further["tolerations"] = [dict(random.choice(TOLERATIONS))]
        scenario.tag("tolerates")
    of_class, count = random.choice(["gpu", "gpu", "any"]), random.choice([1, 1, 1, 2])
    wanted = device_request("r0", count, of_class, _exact_or_all(scenario, 4), **further)
    if scenario.chance(0.15):
        first = _subrequest("s0", 1)
        second = {**first, "name": "s1", "tolerations": [{"operator": "Exists"}]}
        wanted = {"name": "r0", "firstAvailable": [first, second]}
    return wanted


def _exact_or_all(scenario: Scenario, exact: int) -> str:
    """Return an allocation mode: `exact` times as often ExactCount as All."""
    return str(scenario.random.choice(["ExactCount"] * exact + ["All"]))


def _subrequest(name: str, count: int) -> JSON:
    return {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}


# --- consumable capacity ----------------------------------------------------------------------------------------------


def add_shared_devices(scenario: Scenario) -> None:
    """Let several claims share devices, each consuming some of their capacity by rules of its own."""
    random = scenario.random
    devices = device_cluster(scenario)
    fractional = scenario.chance(0.35)
    for node in scenario.node_names():
        if scenario.chance(0.9):
            shared = [_shared_device(scenario, number, fractional) for number in range(random.randint(1, 3))]
            devices.add_slice(node, shared)
            for pod in scenario.running_on(node):
                if scenario.chance(0.4):
                    _consume(devices, pod, node, random.choice(shared), fractional)
    names = []
    for number in range(random.choice([1, 1, 2])):
        requests = [_capacity_request(scenario, f"r{nth}", fractional) for nth in range(random.choice([1, 1, 1, 2]))]
        constraints = []
        if len(requests) > 1 and scenario.chance(0.4):
            kind = random.choice(["distinctAttribute", "matchAttribute"])
            constraints.append({kind: f"{DRIVER}/model"})
        devices.add_claim(f"mine-{number}", "default", requests, constraints)
        names.append(f"mine-{number}")
    use(scenario.pod, *names)


def _shared_device(scenario: Scenario, number: int, fractional: bool) -> JSON:
    random = scenario.random
    memory: JSON = {"value": random.choice(["1", "2"]) if fractional else random.choice(["10Gi", "20Gi", "40Gi"])}
    kind = random.random()
    if kind < 0.55:
        memory["requestPolicy"] = _range_policy(scenario, fractional)
    elif kind < 0.75:
        values = ["250m", "500m", "1"] if fractional else ["1Gi", "4Gi", "10Gi"]
        memory["requestPolicy"] = {"default": random.choice(values), "validValues": values}
    capacity = {random.choice(["memory"] * 9 + [f"{DRIVER}/memory"]): memory}
    attributes = {"model": {"string": random.choice(["a", "b"])}}
    device: JSON = {"name": f"d{number}", "capacity": capacity, "attributes": attributes}
    if scenario.chance(0.25):
        capacity["bandwidth"] = {"value": random.choice(["10", "100"])}
    if scenario.chance(0.9):
        device["allowMultipleAllocations"] = True
    return device


def _range_policy(scenario: Scenario, fractional: bool) -> JSON:
    if not fractional:
        least, most, step = scenario.random.choice(RANGES)
    elif scenario.chance(0.7):
        least, most, step = ("200m", "1", "100m")
    else:
        least, most, step = ("250m", "2", "250m")
    valid = {"min": least}
    if scenario.chance(0.7):
        valid["max"] = most
    if scenario.chance(0.75):
        valid["step"] = step
    return {"default": least, "validRange": valid}


def _consume(devices: Devices, pod: JSON, node: str, device: JSON, fractional: bool) -> None:
    """Let a running pod have the device, or a part of it."""
    random = devices.scenario.random
    (key,) = (key for key in device["capacity"] if key.endswith("memory"))
    amount = random.choice(["300m", "500m", "1"] if fractional else ["1Gi", "4Gi", "8Gi", "10Gi"])
    share: JSON = {}
    if device.get("allowMultipleAllocations"):
        share = {"shareID": devices.scenario.uid(), "consumedCapacity": {key: amount}}
    requested = device_request(capacity={"requests": {key: amount}})
    devices.hold(pod, node, device_result(device["name"], node, **share), requested)


def _capacity_request(scenario: Scenario, name: str, fractional: bool) -> JSON:
    random = scenario.random
    further: JSON = {}
    if scenario.chance(0.85):
        keys = ["memory"] * 16 + [f"{DRIVER}/memory"] * 2 + ["other.example.com/memory", "nosuch"]
        key = random.choice(keys)
        fractions = ["100m", "250m", "250m", "500m", "600m", "1"]
        amounts = fractions if fractional else ["512Mi", "1Gi", "1500Mi", "2Gi", "3Gi", "4Gi", "9Gi"]
        further["capacity"] = {"requests": {key: random.choice(amounts)}}
        if scenario.chance(0.1):
            further["capacity"]["requests"]["bandwidth"] = "20"
    if scenario.chance(0.15):
        further["selectors"] = selectors(random.choice(SHARED_SELECTORS))
    count = random.choice([1, 1, 1, 2])
    return device_request(name, count, mode=_exact_or_all(scenario, 5), **further)


# --- constraints ------------------------------------------------------------------------------------------------------


def add_constraints(scenario: Scenario) -> None:
    """Let claims want devices that are alike or differ in an attribute, of each type that attributes have."""
    random = scenario.random
    devices = device_cluster(scenario)
    kind = random.choice([*ATTRIBUTES])
    for node in scenario.node_names():
        if scenario.chance(0.9):
            count = random.randint(3, 6)
            devices.add_slice(node, [_grouped_device(scenario, number, kind) for number in range(count)])
    devices.hold_some(0.2)
    names = []
    for number in range(random.choice([1, 1, 1, 2])):
        requests = [_grouped_request(scenario, f"r{nth}") for nth in range(random.choice([1, 1, 1, 2]))]
        constraints = [_constraint(scenario, requests) for _ in range(random.choice([0, 1, 1, 2]))]
        devices.add_claim(f"mine-{number}", "default", requests, constraints)
        names.append(f"mine-{number}")
    use(scenario.pod, *names)


def _grouped_device(scenario: Scenario, number: int, kind: str) -> JSON:
    random = scenario.random
    attributes: JSON = {"group": {kind: random.choice(ATTRIBUTES[kind])}} if scenario.chance(0.93) else {}
    if scenario.chance(0.75):
        attributes["numa"] = {"int": random.choice([0, 1])}
    if scenario.chance(0.05):
        attributes["group"] = {"string": "odd"}
    device: JSON = {"name": f"d{number}", "attributes": attributes}
    if scenario.chance(0.25):
        device |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    return device


def _grouped_request(scenario: Scenario, name: str) -> JSON:
    random = scenario.random
    further: JSON = {}
    if scenario.chance(0.15):
        further["selectors"] = selectors(random.choice(NUMA_SELECTORS))
    if scenario.chance(0.2):
        first = _subrequest("s0", random.choice([2, 3]))
        return {"name": name, "firstAvailable": [first, _subrequest("s1", 1)]}
    count = random.choice([1, 1, 2, 3])
    return device_request(name, count, mode=_exact_or_all(scenario, 6), **further)


def _constraint(scenario: Scenario, requests: list[JSON]) -> JSON:
    random = scenario.random
    kind = random.choice(["distinctAttribute", "distinctAttribute", "matchAttribute"])
    constraint: JSON = {kind: f"{DRIVER}/{random.choice(['group', 'group', 'numa'])}"}
    if scenario.chance(0.5):
        names = []
        for one in requests:
            if scenario.chance(0.7):
                of_subrequest = "firstAvailable" in one and scenario.chance(0.3)
                names.append(f"{one['name']}/s0" if of_subrequest else one["name"])
        constraint["requests"] = names or [requests[0]["name"]]
    scenario.tag(kind)
    return constraint


# --- counters ---------------------------------------------------------------------------------------------------------


def add_partitionable_devices(scenario: Scenario) -> None:
    """Add pools of a slice with counters and a slice with devices that consume them, of one driver or two."""
    random = scenario.random
    devices = device_cluster(scenario)
    drivers = [DRIVER] if scenario.chance(0.4) else [DRIVER, NETWORK_DRIVER]
    for node in scenario.node_names():
        for driver in drivers:
            if scenario.chance(0.85):
                sets = [_counter_set(scenario, number) for number in range(random.choice([1, 1, 2]))]
                partitions = [_partition(scenario, number, sets) for number in range(random.randint(2, 5))]
                slices = 2 if scenario.chance(0.97) else 3  # of which one is missing
                devices.add_slice(node, [], driver, slices, sharedCounters=sets)
                devices.add_slice(node, partitions, driver, slices)
    devices.hold_some(0.3)
    names = []
    for number in range(random.choice([1, 1, 1, 2])):
        requests = [_partition_request(scenario, f"r{nth}") for nth in range(random.choice([1, 1, 1, 2]))]
        devices.add_claim(f"mine-{number}", "default", requests)
        names.append(f"mine-{number}")
    use(scenario.pod, *names)


def _counter_set(scenario: Scenario, number: int) -> JSON:
    random = scenario.random
    memory = random.choice(["20Gi", "40Gi", "40Gi"])
    counters = {"memory": {"value": memory}, "slices": {"value": str(random.choice([2, 4]))}}
    return {"name": f"set-{number}", "counters": counters}


def _partition(scenario: Scenario, number: int, sets: list[JSON]) -> JSON:
    random = scenario.random
    counter_set = random.choice(sets)["name"]
    profile = random.choice(["small", "big"])
    device: JSON = {"name": f"d{number}", "attributes": {"profile": {"string": profile}}}
    if scenario.chance(0.9):
        consumed = {"memory": {"value": random.choice(["5Gi", "10Gi", "20Gi", "30Gi"])}}
        if scenario.chance(0.6):
            consumed["slices"] = {"value": str(random.choice([1, 2, 3]))}
        device["consumesCounters"] = [{"counterSet": counter_set, "counters": consumed}]
    if scenario.chance(0.1):
        device["allowMultipleAllocations"] = True
    return device


def _partition_request(scenario: Scenario, name: str) -> JSON:
    random = scenario.random
    further: JSON = {}
    if scenario.chance(0.2):
        profile = random.choice(["small", "big"])
        further["selectors"] = selectors(f'device.attributes["{DRIVER}"].profile == "{profile}"')
    count = random.choice([1, 1, 1, 2])
    of_class = "gpu" if further or scenario.chance(0.7) else "any"
    return device_request(name, count, of_class, _exact_or_all(scenario, 7), **further)


# --- extended resources -----------------------------------------------------------------------------------------------


def add_extended_resources_of_both_kinds(scenario: Scenario) -> None:
    """Let device plugins and DeviceClasses serve extended resources on one cluster."""
    random = scenario.random
    tight = scenario.chance(0.3)
    random_cluster(scenario, tight=tight, roomy=0.7, nodes=random.choice([2, 3, 4, 5]))
    add_incoming_pod(scenario, share=random.choice([0.05, 0.1, 0.25]))
    scenario.random_budgets(0, 2, 0.8)
    add_extended_resources(scenario)
    devices = Devices(scenario)
    for spec in [item["spec"] for item in scenario.others if item["kind"] == "ResourceSlice"]:
        for device in spec["devices"]:
            if scenario.chance(0.15):
                taint = {"key": "bad", "value": "x", "effect": "NoSchedule", "timeAdded": CREATED}
                device["taints"] = [taint]
            if scenario.chance(0.15):
                device |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
        devices.pools[spec["driver"], spec["pool"]["name"]] = (spec["nodeName"], spec["devices"])
    devices.hold_some(0.25)
    if scenario.chance(0.25):
        container = scenario.container({}, "c1")
        request(container, {GPU: "1"})
        scenario.pod["spec"]["containers"].append(container)
    classes = [item["metadata"]["name"] for item in scenario.others if item["kind"] == "DeviceClass"]
    if scenario.chance(0.15) and classes:
        devices.add_claim("mine-0", "default", [device_request(of_class=classes[0])])
        use(scenario.pod, "mine-0")
    if scenario.chance(0.2):
        taint = {"key": "bad", "effect": "NoSchedule", "timeAdded": CREATED}
        spec = {"deviceSelector": {"driver": DRIVER, "device": "d0"}, "taint": taint}
        scenario.add(API, "DeviceTaintRule", "rule", spec=spec)
