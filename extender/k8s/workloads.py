"""What a pod belongs to: the workload that runs it, and the quality of service that it was promised.

Rule: facts about one pod, from the pod alone.
"""

from collections.abc import Iterable
from typing import Final

from extender.k8s import quantity
from extender.k8s.objects import Container, Pod, QuantityText, ResourceList, ResourceRequirements

TEMPLATE_HASH: Final = "pod-template-hash"
"""Label by which a Deployment tells the pods of its ReplicaSets apart; the ReplicaSet's name ends with it."""

BEST_EFFORT, BURSTABLE, GUARANTEED = "BestEffort", "Burstable", "Guaranteed"

QOS_CLASSES: Final = (BEST_EFFORT, BURSTABLE, GUARANTEED)
"""From the least to the best."""

_QOS_RESOURCES = ("cpu", "memory")

Workload = tuple[str, str, str]
"""(namespace, kind, name)."""


def workload_of(pod: Pod) -> Workload:
    """Its controller; the Deployment where that is a Deployment's ReplicaSet; the pod itself if nothing controls it."""
    namespace, owner = pod.metadata.namespace, pod.metadata.controller
    if owner is None:
        return namespace, "Pod", pod.metadata.name
    template_hash = (pod.metadata.labels or {}).get(TEMPLATE_HASH)
    deployment = owner.name.removesuffix(f"-{template_hash}")
    if owner.kind == "ReplicaSet" and template_hash and deployment not in ("", owner.name):
        return namespace, "Deployment", deployment
    return namespace, owner.kind, owner.name


def qos_class(pod: Pod) -> str:
    """What the API server says, or else what it would say (core/v1/helper/qos.ComputePodQOS, v1.36)."""
    if pod.status.qos_class in QOS_CLASSES:
        return pod.status.qos_class
    if pod.spec.resources is not None:
        return _qos([pod.spec.resources])
    containers: Iterable[Container] = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    return _qos([one.resources or ResourceRequirements() for one in containers])


def _qos(given: list[ResourceRequirements]) -> str:
    limits = [_amounts(one.limits) for one in given]
    requests = [_amounts({**(one.limits or {}), **(one.requests or {})}) for one in given]  # the limit, without one
    if not any((*requests, *limits)):
        return BEST_EFFORT
    return GUARANTEED if requests == limits and all(len(one) == len(_QOS_RESOURCES) for one in limits) else BURSTABLE


def _amounts(resources: ResourceList | None) -> dict[str, int]:
    """What is more than nothing of cpu and memory."""
    return {name: amount for name in _QOS_RESOURCES if (amount := _amount((resources or {}).get(name))) > 0}


def _amount(text: QuantityText) -> int:
    """What cannot be read counts as nothing: no API server has promised anything for it."""
    try:
        return quantity.parse(text)
    except quantity.QuantityError:
        return 0
