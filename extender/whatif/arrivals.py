"""Admit the pods that a simulation schedules and their resource claims, and sort the pending pods.

Both come as manifests. Fields that the API server would default and the scheduler reads are filled in: the
priority of the pod's class (Priority admission plugin), requests where only limits are set (SetDefaults_Pod), and the
number of devices of a request (SetDefaults_ExactDeviceRequest, SetDefaults_DeviceSubRequest).

Rule: an object that is not admitted fails the whole simulation with an error that names it.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from extender.core.snapshot.pod_table import identity, is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.devices.objects import (
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimStatus,
)
from extender.k8s.kinds import Key, key_of
from extender.k8s.objects import Container, Pod, PriorityClass
from extender.k8s.priority import SYSTEM_PRIORITY_CLASSES
from extender.k8s.time import parse_time

R = TypeVar("R", ExactDeviceRequest, DeviceSubRequest)


def pending_pods(snapshot: Snapshot) -> list[Pod]:
    """List the pods without a node in the order of kube-scheduler's queue (PrioritySort.Less)."""
    pending = (
        pod
        for pod in snapshot.pods_without_row()
        if not pod.spec.node_name and not is_finished(pod) and pod.metadata.deletion_timestamp is None
    )

    def queue_order(pod: Pod) -> tuple[int, int, str, str]:
        created = pod.metadata.creation_timestamp
        return -pod.priority, parse_time(created) if created else 0, pod.metadata.namespace, pod.metadata.name

    return sorted(pending, key=queue_order)


def add_arrivals(snapshot: Snapshot, pods: Sequence[Pod]) -> list[Pod]:
    """Admit the pods and put them into the snapshot; return them as admitted.

    A pending pod of the same name is replaced. Raises RequestError for a pod that cannot be admitted.
    """
    admitted: dict[str, Pod] = {}
    for given in pods:
        namespace = given.metadata.namespace or "default"
        # Reports tell pods apart by their UID, which a manifest lacks.
        uid = given.metadata.uid or f"{namespace}/{given.metadata.name}"
        pod = replace(given, metadata=replace(given.metadata, namespace=namespace, uid=uid))
        if pod.key in admitted:
            raise RequestError(f"duplicate pod {pod.key!r}")
        admitted[pod.key] = _put_pod(snapshot, admit_pod(snapshot, pod))
    snapshot.refresh_layout()
    return list(admitted.values())


def add_claims(snapshot: Snapshot, claims: Iterable[ResourceClaim]) -> None:
    """Create the given resource claims, all of them unallocated.

    An existing claim of the same name is replaced. Raises RequestError if the existing claim is allocated, and for a
    duplicate name.
    """
    created = set[Key]()
    for given in claims:
        namespace = given.metadata.namespace or "default"
        name = f"{namespace}/{given.metadata.name}"
        metadata = replace(given.metadata, namespace=namespace, uid=given.metadata.uid or name)
        requests = [_with_counts(one) for one in given.spec.devices.requests or ()]
        spec = replace(given.spec, devices=replace(given.spec.devices, requests=requests))
        claim = ResourceClaim(metadata, spec, ResourceClaimStatus())
        key = key_of("ResourceClaim", claim)
        if key in created:
            raise RequestError(f"duplicate resource claim {name!r}")
        created.add(key)
        before = snapshot.objects.resource_claims.get(key)
        if before is not None and before.status.allocation is not None:
            raise RequestError(f"resource claim {name!r} already exists and is allocated: choose another name")
        snapshot.put("ResourceClaim", claim)


def _with_counts(request: DeviceRequest) -> DeviceRequest:
    exactly, alternatives = request.exactly, request.first_available
    return replace(
        request,
        exactly=exactly and _with_count(exactly),
        first_available=alternatives and [_with_count(one) for one in alternatives],
    )


def _with_count(asks: R) -> R:
    """Default to exactly one device."""
    mode = asks.allocation_mode or "ExactCount"
    return replace(asks, allocation_mode=mode, count=asks.count or (1 if mode == "ExactCount" else 0))


def _put_pod(snapshot: Snapshot, pod: Pod) -> Pod:
    before = snapshot.objects.pods.get(key_of("Pod", pod))
    if before is not None and before.spec.node_name:
        if identity(before) != identity(pod) and not pod.spec.node_name:
            raise RequestError(f"pod {pod.key!r} already exists on node {before.spec.node_name!r}: choose another name")
        return before
    if not pod.spec.node_name:
        try:
            snapshot.put("Pod", pod)
        except ValueError as error:
            raise RequestError(f"pod {pod.key!r}: {error}") from error
    return pod


def admit_pod(snapshot: Snapshot, pod: Pod) -> Pod:
    """Return the pod as the API server would store it, as far as the scheduler reads it.

    Raises RequestError if the API server would refuse it.
    """
    spec = pod.spec
    if spec.priority is None:
        priority_class = _priority_class(snapshot, pod)
        if priority_class is not None:
            policy, name = spec.preemption_policy or priority_class.preemption_policy, priority_class.metadata.name
            spec = replace(spec, priority=priority_class.value, priority_class_name=name, preemption_policy=policy)
    containers, init_containers = map(_with_requests, (spec.containers, spec.init_containers))
    return replace(pod, spec=replace(spec, containers=containers, init_containers=init_containers))


def _priority_class(snapshot: Snapshot, pod: Pod) -> PriorityClass | None:
    """Return the PriorityClass that the pod names, or else the default; None if no default exists."""
    name, classes = pod.spec.priority_class_name, snapshot.objects.priority_classes
    if not name:
        # Of several defaults, the one with the lowest value applies (plugin/pkg/admission/priority, v1.36).
        defaults = (one for one in classes.values() if one.global_default)
        return min(defaults, key=lambda one: one.value, default=None)
    found = classes.get(("", name))
    if found is not None:
        return found
    if name in SYSTEM_PRIORITY_CLASSES:
        return PriorityClass(replace(pod.metadata, name=name), SYSTEM_PRIORITY_CLASSES[name])
    if "priority_classes" in snapshot.unreadable_tables:
        raise RequestError(f"pod {pod.key!r}: no permission to list PriorityClasses, so spec.priority must be set")
    raise RequestError(f"pod {pod.key!r}: no PriorityClass with name {name!r} was found")


def _with_requests(containers: Iterable[Container] | None) -> list[Container] | None:
    """Default each missing request to its limit (SetDefaults_Pod, v1.36)."""
    if containers is None:
        return None
    defaulted = []
    for one in containers:
        given = one.resources
        if given is not None and given.limits:
            one = replace(one, resources=replace(given, requests={**given.limits, **(given.requests or {})}))
        defaulted.append(one)
    return defaulted
