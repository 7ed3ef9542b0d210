"""Claims, volumes and their classes of one snapshot, found by name; the volumes that running pods attach."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender.core.snapshot import Snapshot
from extender.k8s.csi_migration import driver_of, migrated_volume
from extender.k8s.objects import Pod
from extender.k8s.storage_objects import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from extender.k8s.volumes import claim_class, claim_uses, is_for_pod, volume_class

VolumeID = tuple[str, str]
"""CSI driver, and the handle that it knows the volume by."""


def not_found(resource: str, name: str) -> str:
    """What the API machinery says of an object that is not there."""
    return f'{resource} "{name}" not found'


@dataclass(frozen=True, slots=True)
class Storage:
    """Everything about storage that plugins look up."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim]
    """(namespace, name)."""
    volumes: Mapping[str, PersistentVolume]
    free_volumes: Mapping[str, Sequence[int]]
    """StorageClass -> rows in `ClusterObjects.volumes` of those that are reserved for no claim."""
    reserved_volumes: Mapping[tuple[str, str], Sequence[int]]
    """(namespace, name) of a claim -> rows of the volumes that name it, whatever their class."""
    classes: Mapping[str, StorageClass]
    csi_nodes: Mapping[str, CSINode]
    csi_drivers: Mapping[str, CSIDriver]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Storage":
        """Take it from `storage(snapshot)`, which builds it once."""
        objects = snapshot.objects
        free: dict[str, list[int]] = defaultdict(list)
        reserved: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row, volume in enumerate(objects.volumes):
            reference = volume.spec.claim_ref
            if reference is None:
                free[volume_class(volume)].append(row)
            else:
                reserved[reference.namespace, reference.name].append(row)
        return cls(
            {(claim.metadata.namespace, claim.metadata.name): claim for claim in objects.claims},
            {volume.metadata.name: volume for volume in objects.volumes},
            free,
            reserved,
            {one.metadata.name: one for one in objects.storage_classes},
            {one.metadata.name: one for one in objects.csi_nodes},
            {one.metadata.name: one for one in objects.csi_drivers},
        )

    def claim(self, pod: Pod, name: str) -> PersistentVolumeClaim | None:
        return self.claims.get((pod.metadata.namespace, name))

    def csi_volumes(self, pod: Pod) -> frozenset[VolumeID]:
        """What the pod has its node attach; claims that are missing, or another pod's, attach nothing.

        A claim without a volume counts as one of its class's provisioner (nodevolumelimits.getCSIDriverInfo, v1.36).
        """
        inline = (volume for volume in pod.spec.volumes or () if volume.persistent_volume_claim is None)
        found = {migrated_volume(volume) for volume in inline}
        for use in claim_uses(pod):
            claim = self.claim(pod, use.name)
            if claim is not None and (not use.is_ephemeral or is_for_pod(claim, pod)):
                found.add(self._csi_volume(claim))
        return frozenset(volume for volume in found if volume is not None)

    def _csi_volume(self, claim: PersistentVolumeClaim) -> VolumeID | None:
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is not None and volume.spec.csi is not None:
            csi = volume.spec.csi
            return (csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None
        if volume is not None:
            return migrated_volume(volume.spec, volume.metadata.labels)
        storage_class = self.classes.get(claim_class(claim))
        driver = driver_of(storage_class.provisioner) if storage_class else None
        # No handle of a real volume holds a line break.
        return (driver, f"unbound\n{claim.metadata.namespace}/{claim.metadata.name}") if driver else None


def storage(snapshot: Snapshot) -> Storage:
    return snapshot.memo(Storage.of)
