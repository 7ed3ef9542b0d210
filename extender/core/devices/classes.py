"""Which DeviceClass backs an extended resource: devices of the class then provide it on nodes without a device plugin.

Mirrors extendedresourcecache (k8s.io/dynamic-resource-allocation/deviceclass, v1.36; feature DRAExtendedResource).

Rule: reads DeviceClasses and what nodes have allocatable; which devices there are is decided elsewhere.
"""

from collections.abc import Mapping

from extender.core.snapshot.arrays import BoolArray
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import DeviceClass
from extender.k8s.requests import is_extended
from extender.k8s.time import parse_time

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that requests a DeviceClass by its name."""


def delegated_to_dra(snapshot: Snapshot, resource: str) -> BoolArray | None:
    """Return [node]: whether DynamicResources decides about the resource there; None: on no node.

    Mirrors noderesources.shouldDelegateResourceToDRA (v1.36). Where DeviceClasses may not be read, any extended
    resource may be backed by one.
    """
    if not snapshot.features.dra_extended_resource or not (
        (is_extended(resource) or resource.startswith(CLASS_PREFIX))
        if "device_classes" in snapshot.unreadable_tables
        else resource in classes_by_resource(snapshot)
    ):
        return None
    return snapshot.scalar_allocatable(resource) <= 0


@derived("device_classes")
def classes_by_resource(snapshot: Snapshot) -> Mapping[str, DeviceClass]:
    """Return extended resource -> the DeviceClass that backs it.

    Of two classes that name the same resource, the newer one backs it, or the first by name; the other one, if it comes
    later, cannot be requested by its own name either. They come by name here, as in the first list of kube-scheduler;
    classes created since then come in the order of their creation there.
    """
    found: dict[str, DeviceClass] = {}
    for one in sorted(snapshot.objects.device_classes.values(), key=lambda of: of.metadata.name):
        named = one.spec.extended_resource_name
        if named is not None and named in found and not _created(found[named]) < _created(one):
            continue
        if named is not None:
            found[named] = one
        found[CLASS_PREFIX + one.metadata.name] = one
    return found


def _created(device_class: DeviceClass) -> int:
    created = device_class.metadata.creation_timestamp
    return parse_time(created) if created else 0
