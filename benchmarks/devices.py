"""Generate devices for the nodes of the generated cluster, as a driver for GPUs publishes them, and claims.

Rule: as in `generate`, an object depends on the seed and its own number only.
"""

from collections.abc import Iterator

import msgspec

from benchmarks.generate import JSON, Plan, node_name
from benchmarks.renamed import DeviceInterning
from extender.k8s.devices.objects import DeviceClass, ResourceClaim, ResourceSlice

DRIVER = "gpu.example.com"
PER_NODE = 8
CLAIM = "one-device"

MODELS = (
    ("Example A40", "Ampere", "40Gi"),
    ("Example H80", "Hopper", "80Gi"),
    ("Example L24", "Ada", "24Gi"),
)
"""(product name, architecture, memory); the devices of a node are of one model."""

IN_USE = 0.3
"""Share of the devices that claims have."""


def device_class() -> DeviceClass:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return msgspec.convert({"metadata": {"name": DRIVER}, "spec": {"selectors": selectors}}, DeviceClass)


def slices(plan: Plan) -> Iterator[ResourceSlice]:
    """Yield the slice of each node, with equal parts shared as a live cluster cache has them."""
    interned = DeviceInterning()
    for row in range(plan.nodes):
        pool = {"name": node_name(row), "generation": 1, "resourceSliceCount": 1}
        devices = [_device(plan, row, number) for number in range(PER_NODE)]
        spec = {"driver": DRIVER, "nodeName": node_name(row), "pool": pool, "devices": devices}
        found = msgspec.convert({"metadata": {"name": f"{node_name(row)}-gpu"}, "spec": spec}, ResourceSlice)
        yield interned.slice(found)


def claims(plan: Plan) -> Iterator[ResourceClaim]:
    """Yield the claim of the incoming pod, and one for the devices in use of each node."""
    attributes, capacity = (f'device.{of}["{DRIVER}"]' for of in ("attributes", "capacity"))
    wanted = f'{attributes}.productName == "{MODELS[1][0]}" && {capacity}.memory.compareTo(quantity("40Gi")) >= 0'
    exactly = {
        "deviceClassName": DRIVER,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": wanted}}],
    }
    yield _claim(CLAIM, {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}})
    for row in range(plan.nodes):
        chance = plan.chance("devices in use", row)
        yield allocated(row, [number for number in range(PER_NODE) if chance.random() < IN_USE])


def allocated(row: int, numbers: list[int], name: str = "") -> ResourceClaim:
    """Return a claim that has these devices of a node."""
    node = node_name(row)
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": f"gpu-{number}"} for number in numbers]
    return _claim(name or f"on-{node}", {"status": {"allocation": {"devices": {"results": results}}}})


def _claim(name: str, rest: JSON) -> ResourceClaim:
    return msgspec.convert({"metadata": {"name": name, "namespace": "default", "uid": name}} | rest, ResourceClaim)


def _device(plan: Plan, row: int, number: int) -> JSON:
    product, architecture, memory = MODELS[row % len(MODELS)]
    texts = {
        "uuid": f"GPU-{plan.chance('device', PER_NODE * row + number).getrandbits(128):032x}",
        "type": "gpu",
        "brand": "Example",
        "productName": product,
        "architecture": architecture,
        "resource.kubernetes.io/pcieRoot": f"pci0000:{number:02x}",
    }
    versions = {"driverVersion": "550.54.15", "cudaDriverVersion": "12.4.0", "cudaComputeCapability": "9.0.0"}
    attributes: JSON = {name: {"string": text} for name, text in texts.items()}
    attributes |= {name: {"version": version} for name, version in versions.items()}
    attributes |= {name: {"int": number} for name in ("minor", "index")}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": memory}}}
