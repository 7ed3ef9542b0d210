"""What several admission plugins ask about a request, its object and its cluster."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from extender.admission.cluster import AdmissionCluster
from extender.admission.request import Manifest, Request
from extender.k8s.kinds import KINDS, Key
from extender.k8s.objects import Object, Pod
from extender.k8s.requests import Nano, pod_limits, pod_requests
from extender.k8s.version.features import Features

T = TypeVar("T", bound=Object)


def spec_of(request: Request) -> Manifest:
    spec: Manifest = request.object.setdefault("spec", {})
    return spec


def containers_of(request: Request) -> list[Manifest]:
    """Return the containers and init containers of a pod, in the order in which plugins visit them."""
    spec = spec_of(request)
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def in_namespace(table: Mapping[Key, T], request: Request) -> list[T]:
    """Return the objects in the request's namespace by name, whereas upstream's order is random."""
    namespace = request.object["metadata"]["namespace"]
    return [table[key] for key in sorted([key for key in table if key[0] == namespace])]


def is_given(cluster: AdmissionCluster, table: str) -> bool:
    """Return whether a kind without objects was read as such, rather than left out.

    Every API server creates PriorityClasses of its own, so that a cluster without any is a hand-written part of one.
    """
    return table not in cluster.unreadable and bool(getattr(cluster.objects, table) or cluster.objects.priority_classes)


def was_admitted(request: Request) -> bool:
    """Return whether the object was admitted earlier, under what the cluster had then: a pod on a node, a bound claim.

    Plugins then fill in what is missing and refuse nothing.
    """
    spec = spec_of(request)
    return request.is_state and bool(spec.get("nodeName") or spec.get("volumeName"))


def decoded(request: Request) -> Object | None:
    """Return the object with the fields that decisions read.

    None if its kind is not read, or if it lacks a required field, for which it is refused anyway.
    """
    try:
        return msgspec.convert(request.object, KINDS[request.kind].type) if request.kind in KINDS else None
    except msgspec.ValidationError:
        return None


def requests_and_limits(pod: Pod, features: Features) -> tuple[Nano, Nano]:
    """Return what the pod asks for in all, without the overhead of its RuntimeClass."""
    bare = replace(pod, spec=replace(pod.spec, overhead=None))
    return pod_requests(bare, features, is_incoming=True), pod_limits(bare, features)
