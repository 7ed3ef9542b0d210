"""L3: what is gone from the cluster is gone from the cache, with all that was made of it.

Objects of every kind come under names that were never there before, decisions are made on them, and they go. Whatever
the cache and the decoders then hold more than some rounds before would grow for as long as the service runs.
"""

import gc
import types
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from extender.cluster.cache import cache as cache_module
from extender.cluster.cache import recent_deletions
from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.watch import interning
from extender.cluster.watch.decode import Decoder
from extender.core import engine
from extender.core.devices import device_index
from extender.core.profile import (
    DEFAULT_IMPORTANCE,
    DEFAULT_RANKING,
    EXTRA_IMPORTANCE,
    EXTRA_RANKING,
    KubeScheduler,
    Limits,
    PreemptionPolicy,
    Profile,
    Protection,
)
from extender.core.snapshot import pod_table
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import KINDS, ClusterObjects
from extender.k8s.objects import COSCHEDULING_LABEL, Pod
from extender.k8s.well_known import MINIMUM_PREEMPTABLE_PRIORITY, TOLERATION_SECONDS
from tests.builders import JSON

ROUNDS = 140
"""More than a snapshot remembers results of one function."""
FEW = 5
"""What is remembered of late on purpose, so that it is full soon."""
MORE_ROUNDS = 60
"""What a round leaves behind shows after these: as many as all that is full from time to time takes to be so again."""

EVERYTHING = PreemptionPolicy(
    disruption_budgets="Strict",
    budget_accounting="Live",
    candidates="AllNodes",
    importance=(*DEFAULT_IMPORTANCE, *EXTRA_IMPORTANCE),
    ranking=(*DEFAULT_RANKING, *EXTRA_RANKING),
    preemption_toleration=True,
    tenant_label="team",
    protections=(Protection("system", namespaces=frozenset({"kube-system"})),),
    limits=Limits(workload_cooldown=1),
)

Objects = Sequence[tuple[str, Any]]
"""(kind, object)."""


POLICIES = {"with every policy": EVERYTHING, "as kube-scheduler does": PreemptionPolicy()}


@pytest.mark.parametrize("policy", POLICIES)
def test_L3_nothing_is_left_of_objects_that_came_and_went(policy, monkeypatch):
    monkeypatch.setattr(cache_module, "MAX_REMEMBERED_DELETIONS", FEW)
    monkeypatch.setattr(recent_deletions, "MAX_RECENT_DELETIONS", FEW)
    monkeypatch.setattr(interning, "MAX_INTERNED_VALUES", FEW)
    monkeypatch.setattr(pod_table, "_MAX_CACHED_TEMPLATES", FEW)
    monkeypatch.setattr(device_index, "_MAX_CHANGES", FEW)
    decoders = {kind: Decoder(kind) for kind in KINDS}
    profile, cache = Profile(preemption=POLICIES[policy]), ClusterCache()
    cache.prepare_for(KubeScheduler((profile,)))
    cache.replace(ClusterObjects(nodes=tuple(_decoded(decoders, "Node", _node(name)) for name in ("n1", "n2"))))
    seen = []
    for number in range(ROUNDS + MORE_ROUNDS):
        objects = [(kind, _decoded(decoders, kind, raw)) for kind, raw in _objects(number)]
        _come_and_go(cache, profile, objects, _decoded(decoders, "Pod", _waiting(number)), number)
        if number + 1 in (ROUNDS, ROUNDS + MORE_ROUNDS):
            seen.append(_sizes(cache, decoders))
    before, after = seen
    assert {path: (before.get(path, 0), size) for path, size in after.items() if size > before.get(path, 0) + FEW} == {}


def _come_and_go(cache: ClusterCache, profile: Profile, objects: Objects, waiting: Pod, number: int) -> None:
    """In this order or the other way round."""
    for kind, one in objects[:: 1 if number % 2 else -1]:
        cache.apply(Change(kind, one))
    _decide(cache, profile, waiting)
    running_one = next(one for kind, one in objects if kind == "Pod")
    metadata = msgspec.structs.replace(running_one.metadata, resource_version="2", labels={"other": str(number)})
    cache.apply(Change("Pod", msgspec.structs.replace(running_one, metadata=metadata)))
    cache.snapshot()
    for kind, one in (*objects[:: 1 if number % 3 else -1], ("Pod", waiting)):
        cache.apply(Change(kind, one, deleted=True))
    assert not cache.assumed
    cache.snapshot()


def _decide(cache: ClusterCache, profile: Profile, pod: Pod) -> None:
    snapshot = cache.snapshot()
    names = list(snapshot.node_names)
    engine.filter(snapshot, pod, names, profile)  # with a claim that one node can satisfy
    engine.prioritize(snapshot, pod, names, profile)
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=None))
    found = engine.preempt(snapshot, pod, dict.fromkeys(names, SentCandidate(())), profile)
    assert found.kept
    cache.assumed.assume_preempted(pod, found.kept[0].node, found.kept[0].victims)


# --- what comes and goes ----------------------------------------------------------------------------------------------


def _decoded(decoders: dict[str, Decoder], kind: str, raw: JSON) -> Any:
    return decoders[kind].decode(msgspec.json.encode(raw))


def _node(name: str, **labels: str) -> JSON:
    return {
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, "zone": "z"} | labels},
        "status": {"allocatable": {"cpu": "4", "pods": "110"}},
    }


def _thing(name: str, number: int, *, everywhere: bool = False, annotations: JSON | None = None, **rest: Any) -> JSON:
    metadata: JSON = {"name": f"{name}-{number}", "uid": f"{name}-{number}", "annotations": annotations or {}}
    return {"metadata": metadata if everywhere else metadata | {"namespace": f"ns-{number}"}, **rest}


def _objects(number: int) -> Iterator[tuple[str, JSON]]:
    selector = {"matchLabels": {"app": f"app-{number}"}}
    tolerating = {MINIMUM_PREEMPTABLE_PRIORITY[0]: "10", TOLERATION_SECONDS[0]: "10"}
    node = _node(f"node-{number}", **{f"key-{number}": "x"})
    node["status"] |= {"images": [{"names": [f"image-{number}"], "sizeBytes": 10**8}]}
    node["status"]["allocatable"][f"example.com/{number}"] = "8"
    claim = {"storageClassName": f"class-{number}"}
    volume: JSON = {"csi": {"driver": "csi", "volumeHandle": f"handle-{number}"}, **claim}
    volume["claimRef"] = {"namespace": f"ns-{number}", "name": f"claim-{number}"}
    attached = {"attacher": "csi", "nodeName": f"node-{number}", "source": {"persistentVolumeName": f"volume-{number}"}}
    limits = [{"name": "csi", "nodeID": "x", "allocatable": {"count": 5}}]
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    devices = [{"name": f"gpu-{at}-{number}", "attributes": {f"id-{number}": {"int": at}}} for at in (0, 1)]
    pool = {"name": f"pool-{number}", "generation": 1, "resourceSliceCount": 1}
    published = {"driver": f"driver-{number}", "pool": pool, "nodeName": f"node-{number}", "devices": devices}
    result = {"request": "r", "driver": f"driver-{number}", "pool": f"pool-{number}", "device": f"gpu-0-{number}"}
    asked = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": f"devices-{number}", "count": 1}}]}}
    selectors = [{"cel": {"expression": f'device.driver == "driver-{number}"'}}]
    budget = {"disruptionsAllowed": 1, "disruptedPods": {f"pod-0-{number}": "2026-01-01T00:00:00Z"}}
    tenant = {"name": f"ns-{number}", "uid": f"ns-{number}", "labels": {"team": f"team-{number}"}}
    yield "Namespace", {"metadata": tenant}
    yield "PriorityClass", _thing("priority", number, everywhere=True, annotations=tolerating, value=1)
    yield "Node", node
    yield "CSINode", {"metadata": {"name": f"node-{number}", "uid": f"csi-{number}"}, "spec": {"drivers": limits}}
    yield "StorageClass", _thing("class", number, everywhere=True, provisioner="csi")
    yield "PersistentVolume", _thing("volume", number, everywhere=True, spec=volume)
    yield "PersistentVolumeClaim", _thing("claim", number, spec=claim | {"volumeName": f"volume-{number}"})
    yield "PersistentVolumeClaim", _thing("loose", number, spec=claim)
    yield "VolumeAttachment", _thing("attachment", number, everywhere=True, spec=attached)
    yield "DeviceClass", _thing("devices", number, everywhere=True, spec={"selectors": selectors})
    yield "ResourceSlice", _thing("slice", number, everywhere=True, spec=published)
    yield "ResourceClaim", _thing("gpu", number, spec=asked)
    yield (
        "ResourceClaim",
        _thing("taken", number, spec=asked, status={"allocation": {"devices": {"results": [result]}}}),
    )
    yield "ResourceClaimTemplate", _thing("template", number)
    yield "DeviceTaintRule", _thing("rule", number, everywhere=True, spec={"taint": {"key": "k", "effect": "None"}})
    used = {"hard": {"pods": "10"}, "used": {"pods": str(number)}}
    yield (
        "LimitRange",
        _thing("range", number, spec={"limits": [{"type": "Container", "default": {"cpu": f"{number}"}}]}),
    )
    yield "ResourceQuota", _thing("quota", number, spec={"hard": {"pods": "10"}}, status=used)
    yield "RuntimeClass", _thing("runtime", number, everywhere=True, handler="h", overhead={"podFixed": {"cpu": "1"}})
    yield "Service", _thing("service", number, spec={"selector": selector["matchLabels"]})
    yield "ReplicaSet", _thing("set", number, spec={"selector": selector})
    yield "PodDisruptionBudget", _thing("budget", number, spec={"selector": selector}, status=budget)
    yield "PodDisruptionBudget", _thing("all", number, spec={"selector": {}}, status={"disruptionsAllowed": 1})
    yield "PodGroup", _thing("gang", number, apiVersion="scheduling.k8s.io/v1alpha2", spec=gang)
    for place, name in enumerate(("n1", "n2", f"node-{number}", f"node-{number}")):
        yield "Pod", _pod(f"pod-{place}", number, name)


def _pod(name: str, number: int, node: str) -> JSON:
    selector = {"matchLabels": {"app": f"app-{number}"}}
    near = {"topologyKey": "zone", "labelSelector": selector, "namespaces": [f"ns-{number}", f"other-{number}"]}
    far: JSON = {"topologyKey": f"key-{number}", "labelSelector": {"matchLabels": {"unused": "value"}}}
    if number % 2:
        far["namespaceSelector"] = {}
    claims = [{"name": one, "persistentVolumeClaim": {"claimName": f"{one}-{number}"}} for one in ("claim", "loose")]
    disk = {"name": "disk", "iscsi": {"targetPortal": "x", "iqn": f"disk-{number}", "lun": 0, "readOnly": True}}
    requests = {"cpu": f"{number + 1}m", f"example.com/{number}": "1"}
    ports = [{"hostPort": 1000 + number, "containerPort": 1}] if name == "pod-0" else []
    found = _thing(name, number)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"set-{number}", "uid": "x", "controller": True}
    found["metadata"] |= {
        "labels": {"app": f"app-{number}", COSCHEDULING_LABEL: f"gang-{number}"},
        "ownerReferences": [owner],
    }
    found["spec"] = {
        "nodeName": node,
        "priority": -number,
        "priorityClassName": f"priority-{number}",
        "affinity": {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": near}]
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [far]},
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        ],
        "volumes": [*claims, disk],
        "containers": [{"name": "c", "image": f"image-{number}", "ports": ports, "resources": {"requests": requests}}],
    }
    started = f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z"
    ready = [{"type": "Ready", "status": "True"}]
    return found | {"status": {"phase": "Running", "startTime": started, "conditions": ready}}


def _waiting(number: int) -> JSON:
    """It fits only where others go."""
    found = _pod("waiting", number, "")
    found["spec"] |= {"priority": 10**6, "volumes": None, "affinity": None}
    found["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"gpu-{number}"}]
    found["metadata"]["labels"] = {"app": f"app-{number}"}
    found["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    return found | {"status": {"phase": "Pending"}}


# --- how much is held -------------------------------------------------------------------------------------------------

_NOT_LOOKED_INTO = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_DEEPEST = 150
"""Characters of a path."""


def _sizes(*roots: object) -> dict[str, int]:
    """Path of containers -> how many elements these have together."""
    gc.collect()
    sizes: dict[str, int] = {}
    seen: set[int] = set()
    found = [(root, type(root).__name__) for root in roots]
    while found:
        one, path = found.pop()
        if isinstance(one, _NOT_LOOKED_INTO) or id(one) in seen or len(path) > _DEEPEST:
            continue
        seen.add(id(one))
        if isinstance(one, (dict, list, set, frozenset, tuple, np.ndarray)):
            sizes[path] = sizes.get(path, 0) + len(one)
        found += _parts(one, path)
    return sizes


def _parts(one: Any, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(one, dict):
        yield from ((value, f"{path}[]") for value in one.values())
        yield from ((key, f"{path}.key") for key in one)
    elif isinstance(one, (list, set, frozenset, tuple)):
        yield from ((value, f"{path}[]") for value in one)
    elif not isinstance(one, (str, bytes, int, float, np.ndarray)):
        names = [*getattr(one, "__dict__", ()), *getattr(one, "__slots__", ()), *getattr(one, "__struct_fields__", ())]
        yield from ((getattr(one, name), f"{path}.{name}") for name in names if hasattr(one, name))
