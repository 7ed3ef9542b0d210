"""Claims of a pod, and the references between claims, volumes and storage classes.

Mirrors component-helpers/storage/{volume,ephemeral} (v1.36).

Rule: facts about one or two objects; the search for a volume is in the VolumeBinding plugin.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

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
    """A volume of a pod that refers to a claim in the pod's namespace."""

    name: str
    """Name of the claim."""
    is_ephemeral: bool
    """Whether the claim is created from a template in the pod's spec (generic ephemeral volume)."""


def claim_uses(pod: Pod) -> Iterator[ClaimUse]:
    """Yield the pod's claims in the order of its volumes."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name, is_ephemeral=False)
        elif volume.ephemeral is not None:
            # The ephemeral volume controller names its claim after the pod and the volume (ephemeral.VolumeClaimName).
            yield ClaimUse(f"{pod.metadata.name}-{volume.name}", is_ephemeral=True)


def named_claims(pod: Pod) -> list[str]:
    """Return the names of the pod's claims, except those of ephemeral volumes."""
    return [use.name for use in claim_uses(pod) if not use.is_ephemeral] if pod.spec.volumes else []


def is_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Return whether the claim was created for the pod's ephemeral volume (ephemeral.VolumeIsForPod)."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def not_for_pod_message(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Return kube-scheduler's message about an ephemeral volume's claim that the pod does not own."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume controller has completed the binding."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the name of the claim's StorageClass, or ""."""
    # The beta annotation still takes precedence (GetPersistentVolumeClaimClass).
    return (claim.metadata.annotations or {}).get(BETA_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """Return the name of the volume's StorageClass, or ""."""
    return (volume.metadata.annotations or {}).get(BETA_CLASS, volume.spec.storage_class_name)


def has_storage_request(claim: PersistentVolumeClaim) -> bool:
    return "storage" in _requests(claim)


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """Return the requested size in nano-bytes, the unit in which quantities are compared."""
    return quantity.parse(_requests(claim).get("storage"))


def requested_text(claim: PersistentVolumeClaim) -> str:
    """Return the requested size as a quantity."""
    return str(_requests(claim).get("storage", 0))


def _requests(claim: PersistentVolumeClaim) -> ResourceList:
    return (claim.spec.resources.requests if claim.spec.resources else None) or {}


def storage_capacity(volume: PersistentVolume) -> int:
    """Return the volume's capacity in nano-bytes."""
    return quantity.parse((volume.spec.capacity or {}).get("storage"))


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume's claimRef names this claim (volume.IsVolumeBoundToClaim)."""
    reference, metadata = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.name, reference.namespace) != (metadata.name, metadata.namespace):
        return False
    # A claimRef without a UID: an administrator has reserved the volume for a claim of that name.
    return not reference.uid or reference.uid == metadata.uid


def selected_node(claim: PersistentVolumeClaim) -> str | None:
    """Return the node that kube-scheduler selected for provisioning the claim's volume; None if it has not."""
    return (claim.metadata.annotations or {}).get(SELECTED_NODE)


Incompatibility = Literal["VolumeMode", "AttributesClass", "Deleted"]


def incompatibilities(
    volume: PersistentVolume, claim: PersistentVolumeClaim, *, compares_classes: bool
) -> Iterator[Incompatibility]:
    """Yield what keeps the claim from the volume: its mode, its attributes class, its deletion; ignores the size.

    `compares_classes`: False up to v1.30, which does not read attributes classes.
    """
    if (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
        yield "VolumeMode"
    given, wanted = volume.spec.volume_attributes_class_name, claim.spec.volume_attributes_class_name
    if compares_classes and (given or "") != (wanted or ""):
        yield "AttributesClass"
    if volume.metadata.deletion_timestamp is not None:
        yield "Deleted"
