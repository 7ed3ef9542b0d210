"""Look up claims, volumes and storage classes, and the CSI volumes that a pod attaches.

Counterpart of the volume binder's PV and PVC assume caches (volumebinding/assume_cache.go, v1.36).

Rule: objects are found by name or group, never by a scan over all volumes.
"""

import numpy as np

from extender.core.snapshot.arrays import BoolArray
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod
from extender.k8s.storage.csi_migration import MIGRATED_PLUGINS, driver_of, migrated_volume
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from extender.k8s.storage.volumes import ClaimUse, claim_class, claim_uses, is_for_pod, volume_class
from extender.utilities.groups import remove_member

VolumeID = tuple[str, str]
"""Identity of a CSI volume: (driver, volume handle)."""


def not_found(resource: str, name: str) -> str:
    """Return the API machinery's message for an unknown object (apierrors.NewNotFound)."""
    return f'{resource} "{name}" not found'


class VolumeIndex(Index):
    """Storage objects, as the volume plugins look them up."""

    reads = ("volumes",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.by_number: dict[int, PersistentVolume] = {}
        """Volume number -> volume; volume numbers follow listing order and stay the same while the volume exists."""
        self._numbers: dict[str, int] = {}
        self._next_number = 0
        self._groups: dict[tuple[str, ...], set[int]] = {}
        """(storage class) or (claim's namespace, claim's name) -> volume numbers."""

    def object_changed(self, _field: str, before: PersistentVolume | None, after: PersistentVolume | None) -> None:
        if before is not None:
            remove_member(self._groups, _group_key(before), self._numbers[before.metadata.name])
        if after is not None:
            number = self._numbers.get(after.metadata.name)
            if number is None:
                number = self._numbers[after.metadata.name] = self._next_number
                self._next_number += 1
            self.by_number[number] = after
            self._groups.setdefault(_group_key(after), set()).add(number)
        elif before is not None:
            del self.by_number[self._numbers.pop(before.metadata.name)]

    def free_volumes(self, storage_class: str) -> list[int]:
        """Return the volume numbers of the class's volumes without a claimRef."""
        return sorted(self._groups.get((storage_class,), ()))

    def reserved_volumes(self, namespace: str, claim: str) -> list[int]:
        """Return the volume numbers of the volumes, of any class, whose claimRef names the claim."""
        return sorted(self._groups.get((namespace, claim), ()))

    def volume(self, name: str) -> PersistentVolume | None:
        return self.snapshot.objects.volumes.get(("", name))

    def storage_class(self, name: str) -> StorageClass | None:
        return self.snapshot.objects.storage_classes.get(("", name))

    def claim(self, pod: Pod, name: str) -> PersistentVolumeClaim | None:
        return self.snapshot.objects.claims.get((pod.metadata.namespace, name))

    def csi_volumes(self, pod: Pod) -> frozenset[VolumeID]:
        """Return the CSI volumes that the pod's node attaches; none for a claim that is missing or another pod's.

        An unbound claim counts for the driver of its class's provisioner (nodevolumelimits.getCSIDriverInfo, v1.36).
        """
        found = {*migrated_inline(pod), *(self.csi_volume(pod, use) for use in claim_uses(pod))}
        return frozenset(volume for volume in found if volume is not None)

    def csi_volume(self, pod: Pod, use: ClaimUse) -> VolumeID | None:
        """Return the CSI volume for one use of a claim by the pod; see `csi_volumes`."""
        found = self._csi_volume(pod, use)
        return found and found[0]

    def _csi_volume(self, pod: Pod, use: ClaimUse) -> tuple[VolumeID, bool] | None:
        """Return the CSI volume of a claim, and whether it was migrated from an in-tree plugin."""
        claim = self.claim(pod, use.name)
        if claim is None or (use.is_ephemeral and not is_for_pod(claim, pod)):
            return None
        volume = self.volume(claim.spec.volume_name)
        if volume is not None and volume.spec.csi is not None:
            csi = volume.spec.csi
            return ((csi.driver, csi.volume_handle), False) if csi.driver and csi.volume_handle else None
        if volume is not None:
            migrated = migrated_volume(volume.spec, volume.metadata.labels)
            return (migrated, True) if migrated is not None else None
        storage_class = self.storage_class(claim_class(claim))
        driver = driver_of(storage_class.provisioner) if storage_class else None
        if storage_class is None or not driver:
            return None
        # The line break keeps these handles apart from those of real volumes, which never contain one.
        handle = f"unbound\n{claim.key}"
        return (driver, handle), driver != storage_class.provisioner

    def native_drivers(self, pod: Pod) -> frozenset[str]:
        """Return the drivers of the pod's CSI volumes that were not migrated from an in-tree plugin."""
        found = (self._csi_volume(pod, use) for use in claim_uses(pod))
        return frozenset(one[0][0] for one in found if one is not None and not one[1])

    def in_tree_volumes(self, pod: Pod, plugin: str) -> frozenset[VolumeID]:
        """Return the volumes of an in-tree plugin, such as kubernetes.io/aws-ebs, that the pod's node attaches."""
        found = (self._csi_volume(pod, use) for use in claim_uses(pod))
        volumes = {*migrated_inline(pod), *(one[0] for one in found if one is not None and one[1])}
        return frozenset(volume for volume in volumes if volume[0] == driver_of(plugin))


def migrated_inline(pod: Pod) -> list[VolumeID]:
    """Return the CSI volumes to which the pod's in-tree volumes without a claim are migrated."""
    inline = (volume for volume in pod.spec.volumes or () if volume.persistent_volume_claim is None)
    return [found for found in map(migrated_volume, inline) if found is not None]


def _group_key(volume: PersistentVolume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    return (volume_class(volume),) if reference is None else (reference.namespace, reference.name)


def storage(snapshot: Snapshot) -> VolumeIndex:
    """Return the snapshot's index of storage objects."""
    return snapshot.index(VolumeIndex)


@derived_by("nodes", "csi_nodes")
def is_migrated(snapshot: Snapshot, plugin: str) -> BoolArray:
    """Return [node]: whether its CSINode lists the in-tree plugin as migrated to CSI."""
    found = np.zeros(len(snapshot.nodes), np.bool_)
    for (_, name), csi_node in snapshot.objects.csi_nodes.items():
        plugins = (csi_node.metadata.annotations or {}).get(MIGRATED_PLUGINS, "").split(",")
        if name in snapshot.node_row and plugin in plugins:
            found[snapshot.node_row[name]] = True
    return found
