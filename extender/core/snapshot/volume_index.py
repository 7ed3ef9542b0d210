"""Claims, volumes and their classes, found by name; the CSI volumes that a pod attaches."""

from extender.core.snapshot.index import Index
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.storage.csi_migration import driver_of, migrated_volume
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from extender.k8s.storage.volumes import claim_class, claim_uses, is_for_pod, volume_class

VolumeID = tuple[str, str]
"""CSI driver, and the handle that it knows the volume by."""


def not_found(resource: str, name: str) -> str:
    """What the API machinery says of an object that is not there."""
    return f'{resource} "{name}" not found'


class VolumeIndex(Index):
    """Everything about storage that plugins look up."""

    reads = ("volumes",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.by_number: dict[int, PersistentVolume] = {}
        """Number -> volume: in listing order, a volume's own for as long as it is there."""
        self._numbers: dict[str, int] = {}
        self._came = 0
        self._shelves: dict[tuple[str, ...], set[int]] = {}

    def object_changed(self, _field: str, before: PersistentVolume | None, after: PersistentVolume | None) -> None:
        if before is not None:
            self._take_off(before)
        if after is not None:
            number = self._numbers.get(after.metadata.name)
            if number is None:
                number = self._numbers[after.metadata.name] = self._came
                self._came += 1
            self.by_number[number] = after
            self._shelves.setdefault(_shelf(after), set()).add(number)
        elif before is not None:
            del self.by_number[self._numbers.pop(before.metadata.name)]

    def _take_off(self, volume: PersistentVolume) -> None:
        shelf = self._shelves[_shelf(volume)]
        shelf.discard(self._numbers[volume.metadata.name])
        if not shelf:
            del self._shelves[_shelf(volume)]

    def free_volumes(self, storage_class: str) -> list[int]:
        """Numbers of the class's volumes that are reserved for no claim."""
        return sorted(self._shelves.get((storage_class,), ()))

    def reserved_volumes(self, namespace: str, claim: str) -> list[int]:
        """Numbers of the volumes that name the claim, whatever their class."""
        return sorted(self._shelves.get((namespace, claim), ()))

    def volume(self, name: str) -> PersistentVolume | None:
        return self.snapshot.objects.volumes.get(("", name))

    def storage_class(self, name: str) -> StorageClass | None:
        return self.snapshot.objects.storage_classes.get(("", name))

    def claim(self, pod: Pod, name: str) -> PersistentVolumeClaim | None:
        return self.snapshot.objects.claims.get((pod.metadata.namespace, name))

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
        volume = self.volume(claim.spec.volume_name)
        if volume is not None and volume.spec.csi is not None:
            csi = volume.spec.csi
            return (csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None
        if volume is not None:
            return migrated_volume(volume.spec, volume.metadata.labels)
        storage_class = self.storage_class(claim_class(claim))
        driver = driver_of(storage_class.provisioner) if storage_class else None
        # No handle of a real volume holds a line break.
        return (driver, f"unbound\n{claim.metadata.namespace}/{claim.metadata.name}") if driver else None


def _shelf(volume: PersistentVolume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    return (volume_class(volume),) if reference is None else (reference.namespace, reference.name)


def storage(snapshot: Snapshot) -> VolumeIndex:
    return snapshot.index(VolumeIndex)
