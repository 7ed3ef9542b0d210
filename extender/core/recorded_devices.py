"""Record the objects that explain a pod's devices: the pod's claims, and the cluster's slices, claims and classes.

Records share these tuples until an object of the kind changes. Objects are immutable, so a tuple of them is a copy.

Rule: a record refers to nothing that changes; reasons are computed on demand (`report.devices`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from extender.core.devices.claims import NOT_CREATED, ResourceClaimParts, each_claim
from extender.core.framework.plugins import dynamic_resources
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from extender.k8s.objects import Labels, Pod, PodResourceClaim, ResourceList


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """An entry of the pod's spec.resourceClaims."""

    name: str
    """Name of the entry."""
    claim: ResourceClaim | None
    problem: str
    """Why the claim cannot be used; "" if it can, or if no claim is needed."""


@dataclass(frozen=True, slots=True)
class RecordedDevices:
    """The claims of a pod, and the devices of the cluster."""

    claims: tuple[RecordedClaim, ...]
    """Claims in the order of the pod's spec."""
    node_names: tuple[str, ...]
    node_labels: tuple[Labels | None, ...]
    node_allocatable: tuple[ResourceList | None, ...]
    """[node], like names and labels: status.allocatable of all nodes of the cluster."""
    slices: tuple[ResourceSlice, ...]
    claim_parts: tuple[tuple[ResourceClaim, ...], ...]
    """All claims of the cluster, in parts."""
    classes: tuple[DeviceClass, ...]
    taint_rules: tuple[DeviceTaintRule, ...]

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        return 300 + 8 * len(self.claim_parts) + sum(200 + len(one.problem) for one in self.claims)


def record_devices(context: SchedulingContext) -> RecordedDevices | None:
    """Record the objects that the verdict on the pod's devices depends on; None if no devices are evaluated for it."""
    snapshot, pod, features = context.snapshot, context.pod, context.features
    if not (features.dynamic_resource_allocation and features.device_claims_are_evaluated):
        return None
    if not (pod.spec.resource_claims or snapshot.objects.device_classes) or not dynamic_resources.reads_tables(context):
        return None
    if not snapshot.unreadable_tables.isdisjoint(dynamic_resources.tables(features)):
        return None
    return RecordedDevices(
        claims=tuple(_recorded_claims(snapshot, pod)),
        node_names=snapshot.frozen_node_names,
        node_labels=_labels(snapshot),
        node_allocatable=snapshot.frozen_allocatable,
        slices=_slices(snapshot),
        claim_parts=snapshot.index(ResourceClaimParts).frozen(),
        classes=_classes(snapshot),
        taint_rules=_taint_rules(snapshot),
    )


def _recorded_claims(snapshot: Snapshot, pod: Pod) -> Iterator[RecordedClaim]:
    for named, found in each_claim(snapshot, pod):
        if isinstance(found, str):
            about = _about_template(snapshot, pod, named) if found.endswith(NOT_CREATED) else ""
            yield RecordedClaim(named.name, None, found + about)
        else:
            yield RecordedClaim(named.name, found, "")


def _about_template(snapshot: Snapshot, pod: Pod, named: PodResourceClaim) -> str:
    """Describe the ResourceClaimTemplate of a claim that was not created."""
    key = pod.metadata.namespace, named.resource_claim_template_name or ""
    if "resource_claim_templates" in snapshot.unreadable_tables:
        return f"; ResourceClaimTemplate {'/'.join(key)} (no permission to list ResourceClaimTemplates)"
    exists = key in snapshot.objects.resource_claim_templates
    whose = "the resource claim controller has not used it yet" if exists else "it does not exist"
    return f"; ResourceClaimTemplate {'/'.join(key)}: {whose}"


@derived("nodes")
def _labels(snapshot: Snapshot) -> tuple[Labels | None, ...]:
    return tuple(node.metadata.labels for node in snapshot.nodes)


@derived("resource_slices")
def _slices(snapshot: Snapshot) -> tuple[ResourceSlice, ...]:
    return tuple(snapshot.objects.resource_slices.values())


@derived("device_classes")
def _classes(snapshot: Snapshot) -> tuple[DeviceClass, ...]:
    return tuple(snapshot.objects.device_classes.values())


@derived("device_taint_rules")
def _taint_rules(snapshot: Snapshot) -> tuple[DeviceTaintRule, ...]:
    return tuple(snapshot.objects.device_taint_rules.values())
