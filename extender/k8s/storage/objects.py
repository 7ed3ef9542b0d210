"""Storage objects that decisions read: claims, volumes, storage classes, CSI drivers and attachments.

One Struct per API type, named as in k8s.io/api (core/v1, storage/v1), with only the fields that are read.

Rule: immutable values without any decisions.
"""

from extender.k8s.objects import (
    Int32,
    InTreeDisk,
    LabelSelector,
    NamespacedObject,
    NodeSelector,
    Object,
    QuantityText,
    ResourceList,
    ResourceRequirements,
    Value,
)


class ObjectReference(Value, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeClaimSpec(Value, frozen=True):
    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PhaseStatus(Value, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(NamespacedObject, frozen=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PhaseStatus = PhaseStatus()


class CSIVolume(Value, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Value, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(InTreeDisk, frozen=True):
    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolume | None = None


class PersistentVolume(Object, frozen=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PhaseStatus = PhaseStatus()


class TopologyRequirement(Value, frozen=True):
    key: str
    values: list[str] | None = None


class TopologyTerm(Value, frozen=True):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Object, frozen=True):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"  # the API server's default
    allowed_topologies: list[TopologyTerm] | None = None


class VolumeNodeResources(Value, frozen=True):
    count: Int32 | None = None


class CSINodeDriver(Value, frozen=True):
    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Value, frozen=True):
    drivers: list[CSINodeDriver] | None = None


class CSINode(Object, frozen=True):
    spec: CSINodeSpec = CSINodeSpec()


class VolumeAttachmentSource(Value, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Value, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Object, frozen=True):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class CSIDriverSpec(Value, frozen=True):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, frozen=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True):
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: QuantityText = None
    maximum_volume_size: QuantityText = None
