"""Workload that a pod belongs to, whether it is recreated, and its QoS class.

Rule: facts about one pod, from the pod alone.
"""

from typing import Final

from extender.k8s import quantity
from extender.k8s.annotations import MIRROR
from extender.k8s.objects import Pod, QuantityText, ResourceList

TEMPLATE_HASH: Final = "pod-template-hash"
"""Label that a Deployment sets on its ReplicaSets and their pods; the ReplicaSet's name ends with its value."""

BEST_EFFORT, BURSTABLE, GUARANTEED = "BestEffort", "Burstable", "Guaranteed"

QOS_CLASSES: Final = (BEST_EFFORT, BURSTABLE, GUARANTEED)
"""QoS classes from the lowest to the highest."""

_QOS_RESOURCES = ("cpu", "memory")

Workload = tuple[str, str, str]
"""(namespace, kind, name) of the controller that a pod belongs to."""


def workload_of(pod: Pod) -> Workload:
    """Return the pod's controller; for a Deployment's ReplicaSet the Deployment, without controller the pod itself."""
    namespace, owner = pod.metadata.namespace, pod.metadata.controller
    if owner is None:
        return namespace, "Pod", pod.metadata.name
    template_hash = (pod.metadata.labels or {}).get(TEMPLATE_HASH)
    deployment = owner.name.removesuffix(f"-{template_hash}")
    if owner.kind == "ReplicaSet" and template_hash and deployment not in ("", owner.name):
        return namespace, "Deployment", deployment
    return namespace, owner.kind, owner.name


def is_mirror(pod: Pod) -> bool:
    """Return whether the kubelet made the pod for a static pod; one that was read without annotations has its owner."""
    owner = pod.metadata.controller
    return MIRROR in (pod.metadata.annotations or {}) or (owner is not None and owner.kind == "Node")


def is_recreated(pod: Pod) -> bool:
    """Return whether a controller creates another pod once this one is evicted."""
    return pod.metadata.controller is not None and not is_mirror(pod)


def qos_class(pod: Pod) -> str:
    """Return status.qosClass, or else compute it as the API server does (core/v1/helper/qos.ComputePodQOS, v1.36)."""
    if pod.status.qos_class in QOS_CLASSES:
        return pod.status.qos_class
    given = [pod.spec.resources]
    if pod.spec.resources is None:
        given = [one.resources for one in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))]
    limits = [_amounts(one.limits if one else None) for one in given]
    # A limit without a request is also the request, as the API server defaults it.
    requests = [_amounts({**(one.limits or {}), **(one.requests or {})} if one else None) for one in given]
    if not any((*requests, *limits)):
        return BEST_EFFORT
    return GUARANTEED if requests == limits and all(len(one) == len(_QOS_RESOURCES) for one in limits) else BURSTABLE


def _amounts(resources: ResourceList | None) -> dict[str, int]:
    """Return the amounts of cpu and memory that are greater than 0."""
    return {name: amount for name in _QOS_RESOURCES if (amount := _amount((resources or {}).get(name))) > 0}


def _amount(text: QuantityText) -> int:
    """Parse an amount; text that does not parse counts as 0, because no API server has accepted it."""
    try:
        return quantity.parse(text)
    except quantity.QuantityError:
        return 0
