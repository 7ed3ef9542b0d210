"""Extended resources that a DeviceClass backs: DynamicResources decides about them on nodes without a device plugin.

Rule: the NodeResourcesFit side of feature DRAExtendedResource; devices themselves are not modelled.
"""

from extender.core.snapshot.arrays import BoolArray
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.requests import is_extended

_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that requests a DeviceClass by its name."""


def delegated_to_dra(snapshot: Snapshot, resource: str) -> BoolArray | None:
    """Return [node]: whether DynamicResources decides about the resource there; None: on no node.

    Mirrors noderesources.shouldDelegateResourceToDRA (v1.36, feature DRAExtendedResource). Where
    DeviceClasses may not be read, any extended resource may be backed by one.
    """
    if not snapshot.features.dra_extended_resource or not (
        is_extended(resource)
        if "device_classes" in snapshot.unreadable_tables
        else resource in device_class_resources(snapshot)
    ):
        return None
    return snapshot.scalar_allocatable(resource) <= 0


@derived("device_classes")
def device_class_resources(snapshot: Snapshot) -> frozenset[str]:
    """Return the resource names with which pods can request a DeviceClass."""
    classes = snapshot.objects.device_classes.values()
    named = {one.spec.extended_resource_name for one in classes if one.spec.extended_resource_name}
    return frozenset(named | {_CLASS_PREFIX + one.metadata.name for one in classes})
