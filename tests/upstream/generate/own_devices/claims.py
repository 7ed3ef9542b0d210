"""Classes and claims: requests, constraints and what has been allocated."""

from collections.abc import Sequence
from typing import Any

from tests.upstream.generate.own_devices.cluster import Cluster, FreeDevice
from tests.upstream.generate.own_devices.words import FAILING_SELECTORS, RARELY, SELECTORS
from tests.upstream.generate.words import JSON


def add_device_classes(cluster: Cluster) -> None:
    for driver in cluster.drivers:
        stem = driver.partition(".")[0]
        spec: JSON = {"selectors": _selector(f'device.driver == "{driver}"')}
        if cluster.often("failing", 0.3):
            spec["selectors"] += _selector(cluster.one_of(FAILING_SELECTORS).format(driver=driver))
        elif cluster.often("selectors", 0.4):
            spec["selectors"] += _selector(cluster.one_of(SELECTORS).format(driver=driver))
        if cluster.about("extended resources"):
            spec["extendedResourceName"] = f"example.com/{stem}"
            cluster.extended += [f"example.com/{stem}"] * 2 + [f"deviceclass.resource.kubernetes.io/{stem}"]
        cluster.add("resource.k8s.io/v1", "DeviceClass", stem, spec=spec)
    cluster.add("resource.k8s.io/v1", "DeviceClass", "any", spec={})
    if cluster.often("extended resources", 0.2):
        name = f"example.com/{cluster.drivers[0].partition('.')[0]}"  # the newer one of two classes gives it
        spec = {"extendedResourceName": name, "selectors": _selector("device.driver != ''")}
        later = {"creationTimestamp": "2025-02-01T00:00:00Z"}
        cluster.add("resource.k8s.io/v1", "DeviceClass", "newer", metadata=later, spec=spec)


def _selector(expression: str) -> list[JSON]:
    return [{"cel": {"expression": expression}}]


# --- claims -----------------------------------------------------------------------------------------------------------


def add_claim(cluster: Cluster, name: str, namespace: str = "default", requests: int = 0, **rest: Any) -> JSON:
    """Add a claim with random requests and constraints."""
    count = requests or cluster.one_of((1, 2, 2, 3) if cluster.about("constraints") else (1, 1, 1, 2))
    driver = cluster.one_of(cluster.drivers)
    wanted = [
        _request(cluster, f"r{n}", driver if cluster.chance(0.8) else cluster.one_of(cluster.drivers))
        for n in range(count)
    ]
    devices: JSON = {"requests": wanted}
    if cluster.often("constraints", 0.85, RARELY):
        devices["constraints"] = [_constraint(cluster, driver, wanted) for _ in range(cluster.one_of((1, 1, 1, 2)))]
    return cluster.add("resource.k8s.io/v1", "ResourceClaim", name, namespace, spec={"devices": devices}, **rest)


def _constraint(cluster: Cluster, driver: str, wanted: Sequence[JSON]) -> JSON:
    domain = driver if cluster.chance(0.7) else cluster.one_of((*cluster.drivers, "site.example.com"))
    attribute = "rack" if domain == "site.example.com" else cluster.one_of(("model", "index", "ok", "link", "version"))
    constraint: JSON = {
        cluster.one_of(("matchAttribute", "matchAttribute", "distinctAttribute")): f"{domain}/{attribute}"
    }
    names = [one["name"] for one in wanted]
    names += [f"{one['name']}/{sub['name']}" for one in wanted for sub in one.get("firstAvailable", ())]
    if cluster.chance(0.4):
        constraint["requests"] = cluster.random.sample(names, cluster.random.randint(1, min(2, len(names))))
    if cluster.often("failing", 0.2):
        return {}
    return constraint


def _request(cluster: Cluster, name: str, driver: str) -> JSON:
    if cluster.often("first available", 0.8, 0.04):
        names = [f"s{n}" for n in range(cluster.one_of((2, 2, 3)))]
        return {"name": name, "firstAvailable": [_device_request(cluster, {"name": one}, driver) for one in names]}
    if cluster.often("failing", 0.05):
        return {"name": name}
    exactly = _device_request(cluster, {}, driver)
    if cluster.often("admin access", 0.7):
        exactly["adminAccess"] = cluster.chance(0.85)
    return {"name": name, "exactly": exactly}


def _device_request(cluster: Cluster, request: JSON, driver: str) -> JSON:
    """Fill in which devices a request or subrequest wants, and how many; first subrequests want much."""
    first = request.get("name") == "s0"
    request["deviceClassName"] = cluster.one_of((driver.partition(".")[0],) * 6 + ("any",))
    if cluster.often("failing", 0.08):
        request["deviceClassName"] = cluster.one_of(("", "absent", "absent"))
    if cluster.chance(0.82) or cluster.about("limits"):
        counts = (1, 2, 2, 3) if first else (1, 1, 1, 1, 1, 2, 2, 3)
        request |= {"allocationMode": "ExactCount", "count": cluster.one_of(counts)}
    else:
        request |= {"allocationMode": "All"}
    if cluster.often("limits", 0.6):
        request |= {"count": cluster.one_of((31, 32, 33))} if cluster.chance(0.5) else {"allocationMode": "All"}
    if cluster.often("selectors", 0.8, 0.4 if first else 0.12):
        expressions = cluster.random.sample(SELECTORS, cluster.one_of((1, 1, 2)))
        request["selectors"] = [one for text in expressions for one in _selector(text.format(driver=driver))]
    if cluster.often("failing", 0.25):
        request["selectors"] = _selector(cluster.one_of(FAILING_SELECTORS).format(driver=driver))
    if cluster.often("taints", 0.5):
        request["tolerations"] = [_toleration(cluster)]
    if cluster.often("capacity", 0.7):
        amounts = ("1Gi", "5Gi", "8Gi", "10Gi", "12Gi", "20Gi", "40Gi", "64Gi", "10G", "10000M")
        request["capacity"] = {"requests": {"memory": cluster.one_of(amounts)}}
        if cluster.chance(0.3):
            request["capacity"]["requests"]["slots" if cluster.chance(0.8) else "none"] = cluster.one_of(
                ("1", "2", "3")
            )
    return request


def _toleration(cluster: Cluster) -> JSON:
    toleration = {"operator": cluster.one_of(("Exists", "Equal"))}
    if cluster.chance(0.9) or toleration["operator"] == "Equal":
        toleration["key"] = cluster.one_of(("bad", "busy"))
    if toleration["operator"] == "Equal" and cluster.chance(0.6):
        toleration["value"] = "x"
    if cluster.chance(0.6):
        toleration["effect"] = cluster.one_of(("NoSchedule", "NoExecute"))
    return toleration


def allocate(cluster: Cluster, claim: JSON, node: str | None, devices: Sequence[FreeDevice]) -> None:
    """Give the claim these devices; with a node, the allocation is for it alone."""
    request = claim["spec"]["devices"]["requests"][0]
    name = "/".join([request["name"], *(one["name"] for one in request.get("firstAvailable", ())[:1])])
    results: list[JSON] = []
    for driver, pool, _, device in devices:
        result: JSON = {"request": name, "driver": driver, "pool": pool, "device": device["name"]}
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"00000000-0000-0000-0000-{len(cluster.items):012}"
            result["consumedCapacity"] = {"memory": cluster.one_of(("10Gi", "20Gi", "40Gi"))}
        if device.get("bindingConditions"):
            result |= {key: device[key] for key in ("bindingConditions", "bindingFailureConditions")}
        if request.get("exactly", {}).get("adminAccess"):
            result["adminAccess"] = True
        results.append(result)
    status: JSON = {"allocation": {"devices": {"results": results}}}
    if node:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    claim["status"] = status
