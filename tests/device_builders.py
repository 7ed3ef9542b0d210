"""Devices, classes and claims in one expression, as raw JSON objects for `others=` of `builders.cluster`.

    resource_slice("a", "n1", [device("gpu-0", model="A100", memory=80)])
    device_class("gpu", 'device.driver == "gpu.example.com"')
    claim("mine", request("gpu", count=2)), claim("theirs", request("gpu"), allocated=[("a", "gpu-0")])
    incoming(**using_claims("mine"))

Rule: what is left out is left out of the object too, or is what a driver for GPUs would publish.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.builders import JSON, thing

DRIVER = "gpu.example.com"


def device(
    name: str,
    *,
    attributes: Mapping[str, Any] | None = None,
    capacity: Mapping[str, Any] | None = None,
    taints: Iterable[JSON] = (),
    **rest: Any,
) -> JSON:
    """A device; attributes as plain values (a version is `{"version": "1.2.3"}`), capacity as quantities or raw JSON;
    `rest` are further fields (`allNodes=True`, `consumesCounters=[…]`)."""
    found: JSON = {"name": name} | rest
    if attributes:
        found["attributes"] = {key: _attribute(value) for key, value in attributes.items()}
    if capacity:
        found["capacity"] = {
            key: value if isinstance(value, dict) else {"value": value} for key, value in capacity.items()
        }
    if taints:
        found["taints"] = list(taints)
    return found


def devices(count: int, **fields: Any) -> list[JSON]:
    """Equal devices `gpu-0`, `gpu-1`, …; `fields` as for `device`."""
    return [device(f"gpu-{number}", **fields) for number in range(count)]


def resource_slice(
    name: str,
    node: str | None,
    devices: Sequence[JSON],
    *,
    driver: str = DRIVER,
    pool: str | None = None,
    generation: int = 1,
    slices: int = 1,
    **spec: Any,
) -> JSON:
    """A ResourceSlice of a node's pool (named as the node, else as the slice); None: of no node, which `spec` selects
    (`allNodes=True`, `nodeSelector={…}`, `perDeviceNodeSelection=True`, `sharedCounters=[…]`)."""
    about = {"name": pool or node or name, "generation": generation, "resourceSliceCount": slices}
    where = {"nodeName": node} if node else {}
    return thing("ResourceSlice", name, spec={"driver": driver, "pool": about, "devices": list(devices)} | where | spec)


def device_class(name: str = "gpu", *expressions: str, extended_resource: str | None = None) -> JSON:
    """A DeviceClass; without expressions it selects every device."""
    spec: JSON = {"selectors": selectors(*expressions)} if expressions else {}
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    return thing("DeviceClass", name, spec=spec)


def selectors(*expressions: str) -> list[JSON]:
    return [{"cel": {"expression": one}} for one in expressions]


def request(device_class: str = "gpu", *expressions: str, name: str = "r", **fields: Any) -> JSON:
    """A request of one kind (`exactly`); `fields` are further ones of it (`count=2`, `allocationMode="All"`,
    `adminAccess=True`, `tolerations=[…]`, `capacity={"requests": {…}}`)."""
    return {"name": name, "exactly": alternative(device_class, *expressions, **fields)}


def first_available(*alternatives: JSON, name: str = "r") -> JSON:
    """A request with a prioritized list: `first_available(alternative("big"), alternative("small", count=2))`."""
    return {"name": name, "firstAvailable": [{"name": f"s{at}"} | one for at, one in enumerate(alternatives)]}


def alternative(device_class: str = "gpu", *expressions: str, **fields: Any) -> JSON:
    """What a request asks for, with the API server's defaults (ExactCount, 1)."""
    asked: JSON = {"deviceClassName": device_class}
    if fields.get("allocationMode") != "All":
        asked |= {"allocationMode": "ExactCount", "count": 1}
    if expressions:
        asked["selectors"] = selectors(*expressions)
    return asked | fields


def claim(
    name: str,
    *requests: JSON,
    constraints: Iterable[JSON] = (),
    allocated: Iterable[Sequence[str] | JSON] | None = None,
    node: str | None = None,
    reserved_for: Iterable[str] = (),
    namespace: str = "default",
    owner: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    **status: Any,
) -> JSON:
    """A ResourceClaim. `allocated`: the devices that it has, as (pool, device), (pool, device, request) or raw JSON, on
    `node`, if given; `reserved_for` and `owner`: names of pods; `status` are further fields (`devices=[…]`)."""
    spec: JSON = {"devices": {"requests": list(requests)}}
    if constraints:
        spec["devices"]["constraints"] = list(constraints)
    if allocated is not None:
        allocation: JSON = {"devices": {"results": [_result(one) for one in allocated]}}
        status["allocation"] = allocation | ({"nodeSelector": _only(node)} if node else {})
    if reserved_for:
        status["reservedFor"] = [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in reserved_for]
    about: JSON = dict(metadata or {})
    if owner:
        controller = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
        about["ownerReferences"] = [controller]
    found = thing("ResourceClaim", name, namespace=namespace, metadata=about, spec=spec)
    return found | ({"status": status} if status else {})


def undecided_claim(name: str = "gpu", namespace: str = "default") -> list[JSON]:
    """A claim, and a device for all nodes, of which only kube-scheduler knows whether they suit each other."""
    expression = r'device.driver.matches("\\C")'  # a part of RE2 that is not followed
    return [
        device_class("undecided"),
        resource_slice("undecided", None, devices(1), driver="undecided.example.com", allNodes=True),
        claim(name, request("undecided", expression), namespace=namespace),
    ]


def match_attribute(attribute: str, *requests: str) -> JSON:
    """A constraint of a claim: all devices, or those of these requests, have the same value."""
    return {"matchAttribute": attribute} | ({"requests": list(requests)} if requests else {})


def using_claims(*names: str) -> JSON:
    """Fields of a pod that uses these claims: `incoming(**using_claims("mine"))`."""
    return {"resourceClaims": [{"name": f"c{at}", "resourceClaimName": name} for at, name in enumerate(names)]}


def _attribute(value: Any) -> JSON:
    if isinstance(value, dict):
        return value
    return {"bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string": value}


def _result(device: Sequence[str] | JSON) -> JSON:
    if isinstance(device, dict):
        return {"request": "r", "driver": DRIVER} | device
    pool, name, *request = device
    return {"request": request[0] if request else "r", "driver": DRIVER, "pool": pool, "device": name}


def _only(node: str) -> JSON:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {"nodeSelectorTerms": [{"matchFields": fields}]}
