"""Slices, classes and claims of one scenario of dynamic resource allocation."""

from collections.abc import Sequence
from typing import Any, Final

from tests.upstream.generate.cluster import add_incoming_pod, random_cluster
from tests.upstream.generate.scenario import Scenario, selected_by_name
from tests.upstream.generate.wide.devices import API, DRIVER, FINALIZER, add_device_class, cel, users_of
from tests.upstream.generate.words import JSON

NETWORK_DRIVER: Final = "nic.example.com"


class Devices:
    """Adds slices and claims to a scenario, and knows which devices there are."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.slices = 0
        self.pools: dict[tuple[str, str], tuple[str, list[JSON]]] = {}
        """Driver and pool -> its node and its devices."""

    def add_slice(self, node: str, devices: list[JSON], driver: str = DRIVER, slices: int = 1, **further: Any) -> None:
        """Add a slice of the node's pool, which has so many; `further`: fields of its spec."""
        self.pools.setdefault((driver, node), (node, []))[1].extend(devices)
        self.slices += 1
        spec: JSON = {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": slices},
        }
        if devices:
            spec["devices"] = devices
        name = f"{node}-{driver.split('.')[0]}-{self.slices}"
        self.scenario.add(API, "ResourceSlice", name, spec=spec | further)

    def add_claim(
        self,
        name: str,
        namespace: str,
        requests: list[JSON],
        constraints: list[JSON] | None = None,
    ) -> JSON:
        devices: JSON = {"requests": requests}
        if constraints:
            devices["constraints"] = constraints
        spec = {"devices": devices}
        return self.scenario.add(API, "ResourceClaim", name, namespace, spec=spec, status={})

    def hold(self, pod: JSON, node: str, result: JSON, requested: JSON | None = None) -> None:
        """Let a running pod have a device by a claim of its own."""
        name = f"held-{pod['metadata']['name']}"
        claim = self.add_claim(name, pod["metadata"]["namespace"], [requested or device_request()])
        claim["status"] = {**allocation(node, result), "reservedFor": users_of([pod])}
        claim["metadata"]["finalizers"] = [FINALIZER]
        use(pod, name)

    def hold_some(self, probability: float) -> None:
        """Let running pods have some of the devices of their nodes."""
        for (driver, pool), (node, devices) in sorted(self.pools.items()):
            free = [device["name"] for device in devices]
            self.scenario.random.shuffle(free)
            for pod in self.scenario.running_on(node):
                if free and self.scenario.chance(probability) and "resourceClaims" not in pod["spec"]:
                    self.hold(pod, node, device_result(free.pop(), pool, driver))


def device_cluster(scenario: Scenario) -> Devices:
    """Add a cluster in which resources mostly suffice, an incoming pod, and two classes of devices."""
    random = scenario.random
    tight = scenario.chance(0.3)
    random_cluster(scenario, tight=tight, roomy=0.6, nodes=random.choice([1, 2, 3, 3, 4, 5]))
    add_incoming_pod(scenario, share=random.choice((0.05, 0.1, 0.3)))
    scenario.random_budgets(0, 2, 0.8)
    add_device_class(scenario, "gpu", DRIVER)
    add_device_class(scenario, "any")
    return Devices(scenario)


def device_request(name: str = "r0", count: int = 1, of_class: str = "gpu", mode: str = "", **further: Any) -> JSON:
    """Return a request of a claim; `mode` is ExactCount unless given, `further` are fields of its device request."""
    exactly: JSON = {"deviceClassName": of_class, "allocationMode": mode or "ExactCount"}
    if exactly["allocationMode"] == "ExactCount":
        exactly["count"] = count
    return {"name": name, "exactly": exactly | further}


def device_result(device: str, pool: str, driver: str = DRIVER, **further: Any) -> JSON:
    return {"request": "r0", "driver": driver, "pool": pool, "device": device, **further}


def allocation(node: str, result: JSON) -> JSON:
    """Return the status of a claim that has a device of the node."""
    return {"allocation": {"devices": {"results": [result]}, "nodeSelector": selected_by_name(node)}}


def selectors(*expressions: str) -> list[JSON]:
    return [cel(expression) for expression in expressions]


def use(pod: JSON, *claims: str) -> None:
    """Let the first container of the pod use the claims."""
    references: Sequence[JSON] = [
        {"name": f"g{number}", "resourceClaimName": claim} for number, claim in enumerate(claims)
    ]
    pod["spec"]["resourceClaims"] = references
    resources = pod["spec"]["containers"][0]["resources"]
    resources["claims"] = [{"name": reference["name"]} for reference in references]
