"""Determine the lists that a decision about one pod needs: objects that can change a verdict, a score or a victim.

Node, Pod, PodDisruptionBudget, Namespace
    always: terms of running pods may select namespaces
Service, and the pod's controller if it is a ReplicationController, ReplicaSet or StatefulSet
    for default topology spread constraints, where the pod has none of its own; only in its namespace
PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, VolumeAttachment
    the pod has claims, or inline volumes of a plugin that has migrated to CSI; of all namespaces, because the volumes
    of other pods count towards the limits of a node
CSIDriver, CSIStorageCapacity
    the pod has claims
ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule
    the pod has resource claims, or extended resources that a DeviceClass may back; also if a nominated pod has
    resource claims, since it counts only once its claims exist
ResourceClaimTemplate
    the pod has resource claims; only in its namespace, for explanations
PriorityClass
    the pod has no priority, so that its class or the default class decides, or the policy reads preemption tolerations
PodGroup
    the policy counts pod groups

A pod that is yet to be admitted (extender.admission) needs in addition:

PriorityClass
    always: a class sets the priority, and refuses another one
LimitRange, ResourceQuota
    always, of the pod's namespace: they set requests, and refuse pods
RuntimeClass
    the class that the pod names, which sets its overhead, node selector and tolerations
the kinds of devices
    limits or LimitRanges set requests for extended resources
StorageClass
    nothing more: a pod whose claims need a class reads all classes already

Rule: plugins declare what they read (`core.framework.plugins.REQUIRED_TABLES`); this module requests it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from extender.cluster.watch.list_watch import CORE_KINDS, POD_GROUP_RESOURCES, RESOURCES, Resource
from extender.core.framework.filter import scheduling_context
from extender.core.framework.plugins import tables_read_for
from extender.core.framework.plugins.dynamic_resources import tables as device_tables
from extender.core.profile import KubeScheduler, PreemptionPolicy
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import KINDS
from extender.k8s.objects import Pod
from extender.k8s.quotas import LimitRange
from extender.k8s.requests import is_extended

# Controllers whose selectors spread their pods by default, by (apiVersion, kind).
_CONTROLLERS = {
    ("v1", "ReplicationController"): "ReplicationController",
    ("apps/v1", "ReplicaSet"): "ReplicaSet",
    ("apps/v1", "StatefulSet"): "StatefulSet",
}


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A list of one kind: all objects, or only those in a namespace or matching selectors."""

    resource: Resource
    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def params(self) -> dict[str, str]:
        """Query parameters of the selectors."""
        named = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {name: value for name, value in named.items() if value}

    def path_in(self, path: str) -> str:
        """Return the path of this request, given the path that lists all namespaces."""
        if not self.namespace:
            return path
        root, _, plural = path.rpartition("/")
        return f"{root}/namespaces/{quote(self.namespace, safe='')}/{plural}"


_BY_FIELD: Mapping[str, Resource] = {
    KINDS[resource.kind].field: resource for resource in (*RESOURCES, *POD_GROUP_RESOURCES)
}


def pods_of(namespace: str, *, name: str = "", label_selector: str = "") -> ListRequest:
    """Return the request for one pod, or for the pods with a label."""
    return ListRequest(_BY_FIELD["pods"], namespace, field_is("metadata.name", name) if name else "", label_selector)


def field_is(field: str, value: str) -> str:
    """Return a field selector; the value is escaped as fields.EscapeValue does (apimachinery)."""
    escaped = re.sub(r"([,=\\])", r"\\\1", value)
    return f"{field}={escaped}"


def all_requests(policy: PreemptionPolicy) -> tuple[ListRequest, ...]:
    """Return requests for every kind that decisions under the policy read."""
    return tuple(map(ListRequest, (*RESOURCES, *POD_GROUP_RESOURCES) if policy.reads_pod_groups else RESOURCES))


def requests_for(
    pod: Pod | None, scheduler: KubeScheduler, manifest: Mapping[str, Any] | None = None
) -> tuple[ListRequest, ...]:
    """Return the requests that a decision about the pod needs; if the pod is gone, those to find its preemptor.

    `manifest`: that of the pod, if the pod is yet to be admitted.
    """
    if pod is None:
        return tuple(ListRequest(_BY_FIELD[field]) for field in ("pods", "nodes"))
    core = tuple(ListRequest(_BY_FIELD[KINDS[kind].field]) for kind in CORE_KINDS)
    fields = _optional_fields(pod, scheduler)
    if manifest is None or scheduler.profile_of(pod) is None:
        return *core, *_optional_requests(pod, sorted(fields))
    if any(map(is_extended, _limits_of(pod))):
        fields |= device_tables(scheduler.features)
    return *core, *_optional_requests(pod, sorted(fields | {"priority_classes"})), *_admission_requests(pod, manifest)


def late_requests_for(
    pods: Iterable[Pod],
    scheduler: KubeScheduler,
    had: Iterable[ListRequest],
    limit_ranges: Iterable[LimitRange] = (),
) -> list[ListRequest]:
    """Return additional requests for nominated pods, which count only if their claims exist, and for LimitRanges."""
    waits = any(pod.spec.resource_claims and pod.status.nominated_node_name and not pod.spec.node_name for pod in pods)
    defaults = {
        name
        for one in limit_ranges
        for item in one.spec.limits or ()
        for name in (*(item.default or ()), *(item.default_request or ()))
    }
    known = {one.kind for one in had}
    fields = sorted(device_tables(scheduler.features)) if waits or any(map(is_extended, defaults)) else []
    return [ListRequest(_BY_FIELD[field]) for field in fields if _BY_FIELD[field].kind not in known]


def _optional_fields(pod: Pod, scheduler: KubeScheduler) -> set[str]:
    """Return the fields of ObjectTables, besides those of CORE_KINDS, that a decision about the pod reads."""
    profile, policy = scheduler.profile_of(pod), scheduler.preemption
    if profile is None:  # the pod is for another scheduler
        return set()
    blank = Snapshot(scheduler.features)
    blank.unreadable_tables = frozenset(_BY_FIELD)
    fields = set(tables_read_for(scheduling_context(blank, pod, profile)))
    if pod.spec.resource_claims:
        fields.add("resource_claim_templates")
    if policy.preemption_toleration or pod.spec.priority is None:
        fields.add("priority_classes")
    if policy.reads_pod_groups or pod.pod_group is not None:
        fields |= {KINDS[one.kind].field for one in POD_GROUP_RESOURCES}
    return fields


def _optional_requests(pod: Pod, fields: Iterable[str]) -> Iterator[ListRequest]:
    namespace, owner = pod.metadata.namespace, pod.metadata.controller
    controller = _CONTROLLERS.get((owner.api_version, owner.kind)) if owner else None
    for field in fields:
        resource = _BY_FIELD[field]
        if resource.kind in _CONTROLLERS.values():
            if owner is not None and resource.kind == controller:
                yield ListRequest(resource, namespace, field_is("metadata.name", owner.name))
        elif field in ("services", "resource_claim_templates"):
            yield ListRequest(resource, namespace)
        else:
            yield ListRequest(resource)


def _admission_requests(pod: Pod, manifest: Mapping[str, Any]) -> Iterator[ListRequest]:
    for field in ("limit_ranges", "resource_quotas"):
        yield ListRequest(_BY_FIELD[field], pod.metadata.namespace)
    spec = manifest.get("spec")
    runtime_class = spec.get("runtimeClassName") if isinstance(spec, Mapping) else None
    if isinstance(runtime_class, str) and runtime_class:
        yield ListRequest(_BY_FIELD["runtime_classes"], field_selector=field_is("metadata.name", runtime_class))


def _limits_of(pod: Pod) -> Iterator[str]:
    """Yield the resources of which containers of the pod have limits, which become requests."""
    for one in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        yield from (one.resources and one.resources.limits) or ()
