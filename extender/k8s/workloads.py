"""Workloads: the controller of a pod, its QoS class, and the types of PodGroups, Services and controllers.

Rule: facts about one pod, from the pod alone; objects have only the fields that are read.
"""

import contextlib
from typing import Any, Final

from extender.k8s import quantity
from extender.k8s.objects import Int32, Labels, LabelSelector, Object, Pod, ResourceList, Value
from extender.k8s.well_known import MIRROR

# Label that a Deployment sets on its ReplicaSets and their pods; a ReplicaSet's name ends with its value.
TEMPLATE_HASH: Final = "pod-template-hash"

BEST_EFFORT, BURSTABLE, GUARANTEED = "BestEffort", "Burstable", "Guaranteed"

QOS_CLASSES: Final = (BEST_EFFORT, BURSTABLE, GUARANTEED)
"""QoS classes, lowest first."""

_QOS_RESOURCES = ("cpu", "memory")

Workload = tuple[str, str, str]
"""(namespace, kind, name) of the controller that a pod belongs to."""


def workload_of(pod: Pod) -> Workload:
    """Return the pod's controller (for a ReplicaSet its Deployment), or the pod itself if it has no controller."""
    namespace, owner = pod.metadata.namespace, pod.metadata.controller
    if owner is None:
        return namespace, "Pod", pod.metadata.name
    # Pods name their ReplicaSet only; its Deployment follows from the name, so no ReplicaSet has to be cached.
    template_hash = (pod.metadata.labels or {}).get(TEMPLATE_HASH)
    deployment = owner.name.removesuffix(f"-{template_hash}")
    if owner.kind == "ReplicaSet" and template_hash and deployment not in ("", owner.name):
        return namespace, "Deployment", deployment
    return namespace, owner.kind, owner.name


def is_mirror(pod: Pod) -> bool:
    """Return whether the pod is the mirror pod of a static pod."""
    # The cache may drop annotations; a mirror pod's owner is its node.
    owner = pod.metadata.controller
    return MIRROR in (pod.metadata.annotations or {}) or (owner is not None and owner.kind == "Node")


def is_recreated(pod: Pod) -> bool:
    """Return whether a controller replaces the pod once it is evicted."""
    return pod.metadata.controller is not None and not is_mirror(pod)


def qos_class(pod: Pod) -> str:
    """Return status.qosClass, or compute it as the API server does (core/v1/helper/qos.ComputePodQOS, v1.36)."""
    if pod.status.qos_class in QOS_CLASSES:
        return pod.status.qos_class
    # If pod-level resources are set, only they count.
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
    """Return the positive amounts of cpu and memory."""
    amounts = {}
    for name in _QOS_RESOURCES:
        with contextlib.suppress(quantity.QuantityError):  # no API server would accept it: it counts as 0
            amounts[name] = quantity.parse((resources or {}).get(name))
    return {name: amount for name, amount in amounts.items() if amount > 0}


# --- pod groups -----------------------------------------------------------------------------------------------------


class GangPolicy(Value, frozen=True):
    min_count: Int32 = 0


class GroupSchedulingPolicy(Value, frozen=True):
    gang: GangPolicy | None = None


class PodGroupSpec(Value, frozen=True):
    scheduling_policy: GroupSchedulingPolicy | None = None
    """Field of scheduling.k8s.io."""
    disruption_mode: Any = None
    """Field of scheduling.k8s.io: `{"all": {}}` or `{"single": {}}`, in v1alpha2 a text."""
    parent_composite_pod_group_name: str | None = None
    """Field of scheduling.k8s.io from v1alpha3 on."""
    min_member: Int32 = 0
    """Field of scheduling.x-k8s.io/v1alpha1."""


class PodGroup(Object, frozen=True):
    """A PodGroup of either API group; each has the spec fields of its own group only."""

    spec: PodGroupSpec = PodGroupSpec()

    @property
    def minimum(self) -> int | None:
        """Return the number of pods that must run together (gang scheduling); None without a minimum."""
        policy = self.spec.scheduling_policy
        gang = policy.gang if policy is not None else None
        return (gang.min_count if gang is not None else self.spec.min_member) or None

    @property
    def may_go_together_only(self) -> bool:
        """Return whether the group's pods, or those of its parent group, may only be evicted together (v1.37)."""
        mode = self.spec.disruption_mode
        has_mode_all = isinstance(mode, dict) and mode.get("all") is not None
        return has_mode_all or self.spec.parent_composite_pod_group_name is not None


# --- services and controllers, for the default selector of a pod --------------------------------------------------


class ServiceSpec(Value, frozen=True):
    """Spec of a Service or ReplicationController, whose selector is a set of labels."""

    selector: Labels | None = None


class Service(Object, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ReplicationController(Object, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class WorkloadSpec(Value, frozen=True):
    selector: LabelSelector | None = None


class ReplicaSet(Object, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(Object, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()
