"""Which claims a pod uses, and what ties claims, volumes and storage classes together.

Mirrors component-helpers/storage/{volume,ephemeral} (v1.36).
"""

from collections.abc import Iterator
from typing import NamedTuple

from extender.k8s import quantity
from extender.k8s.objects import Pod, ResourceList
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class ClaimUse(NamedTuple):
    """A volume of a pod that stands for a claim in the pod's namespace."""

    name: str
    """Of the claim."""
    is_ephemeral: bool
    """Made for this pod, from a template in its spec."""


def claim_uses(pod: Pod) -> Iterator[ClaimUse]:
    """In the order of the pod's volumes."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name, is_ephemeral=False)
        elif volume.ephemeral is not None:
            yield ClaimUse(f"{pod.metadata.name}-{volume.name}", is_ephemeral=True)


def named_claims(pod: Pod) -> list[str]:
    """The claims that the pod names itself, ephemeral ones left out."""
    return [use.name for use in claim_uses(pod) if not use.is_ephemeral]


def is_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Was this claim made for the pod's ephemeral volume? Mirrors ephemeral.VolumeIsForPod."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def not_for_pod_message(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """What kube-scheduler says if it was not."""
    named = f"{claim.metadata.namespace}/{claim.metadata.name}"
    return f"PVC {named} was not created for pod {pod.key} (pod is not owner)"


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Has the volume controller bound it for good?"""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Name of the StorageClass; empty if it asks for none."""
    return (claim.metadata.annotations or {}).get(BETA_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    return (volume.metadata.annotations or {}).get(BETA_CLASS, volume.spec.storage_class_name)


def has_storage_request(claim: PersistentVolumeClaim) -> bool:
    """Does it say at all how large a volume it wants?"""
    return "storage" in _requests(claim)


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """In nano-bytes, as quantities are compared."""
    return quantity.parse(_requests(claim).get("storage"))


def _requests(claim: PersistentVolumeClaim) -> ResourceList:
    return (claim.spec.resources.requests if claim.spec.resources else None) or {}


def storage_capacity(volume: PersistentVolume) -> int:
    return quantity.parse((volume.spec.capacity or {}).get("storage"))


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Does the volume name this claim? Mirrors volume.IsVolumeBoundToClaim."""
    reference, metadata = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.name, reference.namespace) != (metadata.name, metadata.namespace):
        return False
    return not reference.uid or reference.uid == metadata.uid


def can_hold(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Is it large enough and alike? All that volume.FindMatchingVolume asks of a reserved one, but for its reach."""
    return storage_capacity(volume) >= requested_storage(claim) and is_compatible(volume, claim)


def is_compatible(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Is it what the claim wants, but for its size, and not being deleted?"""
    return (
        (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and (volume.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )
