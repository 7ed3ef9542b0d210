"""Slices of GPUs and claims of pods as an API server sends them, with the fields that no decision reads."""

from collections.abc import Iterator

import msgspec

from benchmarks import devices
from benchmarks.generate import JSON, Plan, node_name


def slices(plan: Plan) -> Iterator[JSON]:
    """Yield the slice of each node."""
    for row, one in enumerate(devices.slices(plan)):
        owner = {"apiVersion": "v1", "kind": "Node", "name": node_name(row), "uid": _uid(row, 2), "controller": True}
        metadata = _metadata(one.metadata.name, _uid(row, 1)) | {"ownerReferences": [owner]}
        yield msgspec.to_builtins(one) | {"metadata": metadata}


def claims(plan: Plan) -> Iterator[JSON]:
    """Yield the claims of pods that use one GPU each: three quarters of all GPUs."""
    for number in range(plan.nodes * devices.PER_NODE * 3 // 4):
        yield _claim(number)


def _claim(number: int) -> JSON:
    row, device = divmod(number, devices.PER_NODE)
    pod, pod_uid, second = f"train-{number // 64:05}-worker-{number % 64}", _uid(number, 4), number % 60
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod_uid, "controller": True}
    metadata = _metadata(f"{pod}-gpu-{number % 9973:05}", _uid(number, 3)) | {
        "namespace": f"team-{number % 30}",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "ownerReferences": [owner],
    }
    exactly = {"deviceClassName": devices.DRIVER, "allocationMode": "ExactCount", "count": 1}
    fields = [{"key": "metadata.name", "operator": "In", "values": [node_name(row)]}]
    result = {"request": "gpu", "driver": devices.DRIVER, "pool": node_name(row), "device": f"gpu-{device}"}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        "allocationTimestamp": f"2026-02-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{second:02}Z",
    }
    return {
        "metadata": metadata,
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": pod, "uid": pod_uid}]},
    }


def _metadata(name: str, uid: str) -> JSON:
    fields: JSON = {"f:spec": {"f:devices": {}, "f:driver": {}, "f:nodeName": {}, "f:pool": {}}}
    manager = {"manager": "driver", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}
    created = "2026-01-01T00:00:00Z"
    return {"name": name, "uid": uid, "creationTimestamp": created, "managedFields": [manager | {"time": created}]}


def _uid(number: int, kind: int) -> str:
    return f"{number:08x}-{kind:04x}-4000-8000-{number:012x}"
