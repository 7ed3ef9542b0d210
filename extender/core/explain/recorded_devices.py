"""Record what an explanation of the devices of a pod reads: its claims, and slices, claims and classes as they were.

Records share these tuples until an object of the kind changes. Objects are immutable, so a tuple of them is a copy.

Rule: a record refers to nothing that changes; reasons are worked out when asked for (`core.explain.devices`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from extender.core.devices.claims import claim_of
from extender.core.framework.constraint import SchedulingContext
from extender.core.framework.plugins import dynamic_resources
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from extender.k8s.objects import Labels, Pod, PodResourceClaim, ResourceList


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """An entry of the pod's spec.resourceClaims."""

    name: str
    """Its name in the pod."""
    claim: ResourceClaim | None
    problem: str
    """Why it cannot be used; empty: it can, or none is needed."""


@dataclass(frozen=True, slots=True)
class RecordedDevices:
    """The claims of a pod, and the devices of the cluster."""

    claims: tuple[RecordedClaim, ...]
    """In the order of the pod's spec."""
    node_names: tuple[str, ...]
    node_labels: tuple[Labels | None, ...]
    node_allocatable: tuple[ResourceList | None, ...]
    """[node of the cluster]."""
    slices: tuple[ResourceSlice, ...]
    all_claims: tuple[ResourceClaim, ...]
    classes: tuple[DeviceClass, ...]
    taint_rules: tuple[DeviceTaintRule, ...]

    @property
    def shared(self) -> tuple[object, ...]:
        """What the record shares with others."""
        columns = self.node_names, self.node_labels, self.node_allocatable
        return *columns, self.slices, self.all_claims, self.classes, self.taint_rules

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        return 300 + sum(200 + len(one.problem) for one in self.claims)


def record_devices(context: SchedulingContext) -> RecordedDevices | None:
    """Record what decides about the pod's devices; None: it asks for none, or the plugin is not evaluated."""
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
        all_claims=_claims(snapshot),
        classes=_classes(snapshot),
        taint_rules=_taint_rules(snapshot),
    )


def _recorded_claims(snapshot: Snapshot, pod: Pod) -> Iterator[RecordedClaim]:
    for named in pod.spec.resource_claims or ():
        found = claim_of(snapshot, pod, named)
        if isinstance(found, str):
            yield RecordedClaim(named.name, None, found + _about_template(snapshot, pod, named))
        else:
            yield RecordedClaim(named.name, found, "")


def _about_template(snapshot: Snapshot, pod: Pod, named: PodResourceClaim) -> str:
    """Return what to look at where a claim was not created: its template."""
    template, created = named.resource_claim_template_name, pod.status.resource_claim_statuses or ()
    if template is None or named.resource_claim_name is not None or any(one.name == named.name for one in created):
        return ""
    key = pod.metadata.namespace, template
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


@derived("resource_claims")
def _claims(snapshot: Snapshot) -> tuple[ResourceClaim, ...]:
    return tuple(snapshot.objects.resource_claims.values())


@derived("device_classes")
def _classes(snapshot: Snapshot) -> tuple[DeviceClass, ...]:
    return tuple(snapshot.objects.device_classes.values())


@derived("device_taint_rules")
def _taint_rules(snapshot: Snapshot) -> tuple[DeviceTaintRule, ...]:
    return tuple(snapshot.objects.device_taint_rules.values())
