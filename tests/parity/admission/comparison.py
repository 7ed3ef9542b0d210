"""Compare two objects by what kube-scheduler reads of them.

Not compared: names and UIDs, limits (only the requests that they become), status but that of a new pod and a node's
allocatable, taints that the API server or a controller sets for the state of a node. Quantities are compared as
numbers, pod-level requests as what they come to; absent and default values are equal, and so are lists that are sets
in any order.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from extender.k8s import quantity
from extender.k8s.objects import Object, Pod
from extender.k8s.requests import pod_requests
from extender.k8s.version.features import Features

Pair = dict[str, Any]

DEFAULTS = {
    ("protocol", "TCP"),
    ("operator", "Equal"),
    ("preemptionPolicy", "PreemptLowerPriority"),
    ("volumeMode", "Filesystem"),
    ("schedulerName", "default-scheduler"),
    ("phase", "Pending"),
    ("volumeBindingMode", "Immediate"),
    ("pool", "rbd"),
}
"""(field, value) that means the same as leaving the field out."""

RESOURCE_LISTS = {"requests", "overhead", "allocatable", "capacity", "counters", "maximumVolumeSize", "hard"}
SETS = {"tolerations", "taints", "matchExpressions", "values", "ports", "volumes"}
MAPS_OF_TEXTS = {"labels", "nodeSelector", "matchLabels"}
NODE_STATE_TAINTS = {f"node.kubernetes.io/{one}" for one in ("not-ready", "unreachable", "unschedulable")}
STATUS_READ = {"Pod": ("phase", "nominatedNodeName", "startTime"), "Node": ("allocatable",)}
CLAIMS = {"PersistentVolumeClaim", "ResourceClaim"}
GENERATED_LABELS = ("controller-uid", "controller-revision-hash")
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def different_facts(at: str, kind: str, ours: Object, theirs: Object) -> list[str]:
    """The fields that differ, each as `field: ours …, API server …`."""
    a, b = dict(_leaves(_facts(kind, ours))), dict(_leaves(_facts(kind, theirs)))
    return [
        f"{at}{path}: ours {a.get(path)}, API server {b.get(path)}"
        for path in sorted(a.keys() | b.keys())
        if a.get(path) != b.get(path)
    ]


def _facts(kind: str, one: Object) -> Any:
    """What kube-scheduler reads of an object."""
    everything = msgspec.to_builtins(one)
    metadata, spec, status = (everything.pop(part, {}) for part in ("metadata", "spec", "status"))
    # The hash of a pod template is whatever its controller makes of it, wherever it stands.
    if template_hash := (metadata.get("labels") or {}).get("pod-template-hash"):
        text = json.dumps([metadata, spec]).replace(f'"{template_hash}"', '"HASH"')
        metadata, spec = json.loads(text)
    labels = metadata.get("labels") or {}
    if isinstance(one, Pod):
        _merge_label_keys(spec, labels)
        spec["all requests"] = {
            name: nano for name, nano in pod_requests(one, Features.of(37), is_incoming=True).items() if nano
        }
        for field in ("resources", "terminationGracePeriodSeconds"):
            spec.pop(field, None)
    if taints := spec.get("taints"):
        spec["taints"] = [taint for taint in taints if taint["key"] not in NODE_STATE_TAINTS]
    given = [metadata.get(f"{event}Timestamp") or "" for event in ("deletion", "creation")]
    return _plain(
        {
            **everything,
            "labels": {}
            if kind in CLAIMS
            else {k: "" if k.endswith(GENERATED_LABELS) else v for k, v in labels.items()},
            "spec": spec,
            "status": {field: status.get(field) for field in STATUS_READ.get(kind, ())},
            # Times of the recording aside, only those that a manifest gives are compared.
            "times given": [time for time in given if time.startswith("2020-")],
            "beta class": (metadata.get("annotations") or {}).get(BETA_CLASS),
        }
    )


def _merge_label_keys(spec: dict[str, Any], labels: dict[str, str]) -> None:
    """Merge matchLabelKeys into the selectors of spread constraints, as PodTopologySpread does when it reads them."""
    for constraint in spec.get("topologySpreadConstraints") or ():
        if constraint.get("labelSelector") is not None:
            merged = constraint["labelSelector"].setdefault("matchExpressions", [])
            for key in constraint.get("matchLabelKeys") or ():
                expression = {"key": key, "operator": "In", "values": [labels.get(key)]}
                if key in labels and expression not in merged:
                    merged.append(expression)


def _plain(one: Any, field: str = "") -> Any:
    """JSON values without defaults, amounts as numbers, sets in order."""
    if isinstance(one, dict):
        if field in MAPS_OF_TEXTS:
            return one
        if field in RESOURCE_LISTS:
            return {name: _amount(value) for name, value in one.items() if _amount(value)}
        found = {
            k: _plain(v, k) for k, v in one.items() if k != "limits" and (not _is_hashable(v) or (k, v) not in DEFAULTS)
        }
        # An empty selector selects everything, a missing one nothing; of nodes, both do everything.
        return {
            k: v
            for k, v in found.items()
            if v not in (None, "", 0, [], {}) or (v == {} and k.lower().endswith("selector") and k != "nodeSelector")
        }
    if isinstance(one, list):
        items = [
            _plain(v)
            for v in one
            if not (field == "ports" and not v.get("hostPort"))
            and not (field == "volumes" and set(v) <= {"name"})
            and not (field == "volumeMounts" and not v)
        ]
        return sorted(items, key=repr) if field in SETS else items
    return _amount(one) if field in RESOURCE_LISTS else one


def _amount(value: Any) -> int:
    # A counter or capacity of a device has its amount in `value`.
    return quantity.parse(value.get("value") if isinstance(value, dict) else value)


def _is_hashable(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _leaves(one: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path -> JSON for each value; a list of plain values is one."""
    if isinstance(one, dict) and one:
        for field, value in one.items():
            yield from _leaves(value, f"{path}.{field}".lstrip("."))
    elif isinstance(one, list) and one and isinstance(one[0], dict):
        for index, value in enumerate(one):
            yield from _leaves(value, f"{path}[{index}]")
    elif path:
        yield path, json.dumps(one)
