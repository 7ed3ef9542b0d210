"""Kinds of objects that decisions and admission read, and the objects of a cluster by kind.

Rule: KINDS is the only list of kinds; watches, files, dumps and RBAC follow it.
"""

from dataclasses import dataclass, field, fields

import msgspec

from extender.k8s.devices.objects import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from extender.k8s.objects import (
    COSCHEDULING,
    SCHEDULING,
    Namespace,
    Node,
    Object,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
)
from extender.k8s.quotas import LimitRange, ResourceQuota, RuntimeClass
from extender.k8s.storage.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from extender.k8s.workloads import PodGroup, ReplicaSet, ReplicationController, Service, StatefulSet
from extender.utilities.source_file import SourceFile


class ClusterObjects(msgspec.Struct, frozen=True):
    """All objects of a snapshot; each kind is in listing order, which breaks ties between equally important pods."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    services: tuple[Service, ...] = ()
    replication_controllers: tuple[ReplicationController, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    stateful_sets: tuple[StatefulSet, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    csi_drivers: tuple[CSIDriver, ...] = ()
    csi_storage_capacities: tuple[CSIStorageCapacity, ...] = ()
    volume_attachments: tuple[VolumeAttachment, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    resource_claim_templates: tuple[ResourceClaimTemplate, ...] = ()
    device_taint_rules: tuple[DeviceTaintRule, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    resource_quotas: tuple[ResourceQuota, ...] = ()
    runtime_classes: tuple[RuntimeClass, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()
    """PodGroups of scheduling.k8s.io."""
    coscheduling_groups: tuple[PodGroup, ...] = ()
    """PodGroups of scheduling.x-k8s.io (scheduler-plugins)."""
    unreadable_tables: tuple[str, ...] = ()
    """Fields for kinds that the service may not read (RBAC)."""
    files: tuple[SourceFile, ...] = ()
    """Files and folders that they were read from."""

    def __eq__(self, other: object) -> bool:
        """Compare the objects, whatever files they were read from."""
        if not isinstance(other, ClusterObjects):
            return NotImplemented
        compared = (field for field in self.__struct_fields__ if field != "files")
        return all(getattr(self, field) == getattr(other, field) for field in compared)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object that decisions read."""

    field: str
    """Field of ClusterObjects and ObjectTables."""
    type: type[Object]
    group: str = ""
    """API group; a kind of the same name in a different group is ignored."""
    namespaced: bool = False
    version: str = "v1"
    """Version that is read, and written to dumps."""
    older_versions: tuple[str, ...] = ()
    """Versions with the same fields that an older API server serves instead, newest first."""
    has_unlike_versions: bool = False
    """Whether the group has versions with different fields, which are not read."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def versions(self) -> tuple[str, ...]:
        """Every version that is read, newest first."""
        return (self.version, *self.older_versions)


def _device_kind(
    field: str, kind: type[Object], older: tuple[str, ...] = ("v1beta2",), *, namespaced: bool = False
) -> Kind:
    """Return a kind of resource.k8s.io: v1 since v1.34 (DeviceTaintRule: v1.37), earlier versions where enabled."""
    return Kind(field, kind, "resource.k8s.io", namespaced, older_versions=older, has_unlike_versions=True)


KINDS: dict[str, Kind] = {
    "Node": Kind("nodes", Node),
    "Pod": Kind("pods", Pod, namespaced=True),
    "PodDisruptionBudget": Kind("budgets", PodDisruptionBudget, "policy", namespaced=True),
    "Namespace": Kind("namespaces", Namespace),
    "PriorityClass": Kind("priority_classes", PriorityClass, SCHEDULING),
    "Service": Kind("services", Service, namespaced=True),
    "ReplicationController": Kind("replication_controllers", ReplicationController, namespaced=True),
    "ReplicaSet": Kind("replica_sets", ReplicaSet, "apps", namespaced=True),
    "StatefulSet": Kind("stateful_sets", StatefulSet, "apps", namespaced=True),
    "PersistentVolumeClaim": Kind("claims", PersistentVolumeClaim, namespaced=True),
    "PersistentVolume": Kind("volumes", PersistentVolume),
    "StorageClass": Kind("storage_classes", StorageClass, "storage.k8s.io"),
    "CSINode": Kind("csi_nodes", CSINode, "storage.k8s.io"),
    "CSIDriver": Kind("csi_drivers", CSIDriver, "storage.k8s.io"),
    "CSIStorageCapacity": Kind("csi_storage_capacities", CSIStorageCapacity, "storage.k8s.io", namespaced=True),
    "VolumeAttachment": Kind("volume_attachments", VolumeAttachment, "storage.k8s.io"),
    "DeviceClass": _device_kind("device_classes", DeviceClass),
    "ResourceSlice": _device_kind("resource_slices", ResourceSlice),
    "ResourceClaim": _device_kind("resource_claims", ResourceClaim, namespaced=True),
    "ResourceClaimTemplate": _device_kind("resource_claim_templates", ResourceClaimTemplate, namespaced=True),
    "DeviceTaintRule": _device_kind("device_taint_rules", DeviceTaintRule, ("v1beta2", "v1alpha3")),
    # ADMISSION_KINDS: what an API server would make of a manifest.
    "LimitRange": Kind("limit_ranges", LimitRange, namespaced=True),
    "ResourceQuota": Kind("resource_quotas", ResourceQuota, namespaced=True),
    "RuntimeClass": Kind("runtime_classes", RuntimeClass, "node.k8s.io"),
    # Kubernetes' own PodGroups, then the PodGroups of scheduler-plugins.
    "PodGroup": Kind(
        "pod_groups",
        PodGroup,
        SCHEDULING,
        namespaced=True,
        version="v1beta1",
        older_versions=("v1alpha3", "v1alpha2"),
    ),
    "PodGroup.scheduling.x-k8s.io": Kind(
        "coscheduling_groups", PodGroup, COSCHEDULING, namespaced=True, version="v1alpha1"
    ),
}
"""Every kind that decisions or admission read. Other kinds in a cluster file are counted and skipped.

If two API groups have a kind of the same name, the key of the second has its group as a suffix.
"""

ADMISSION_KINDS = ("LimitRange", "ResourceQuota", "RuntimeClass")
"""Kinds that admission reads and no decision does."""

_LAST = ("PersistentVolumeClaim", "Pod")
# Order in which the objects of a whole cluster are added: pods last, because they refer to everything else, after
# claims, whose admission reads LimitRanges and StorageClasses.
KIND_LOAD_ORDER = (*(kind for kind in KINDS if kind not in _LAST), *_LAST)


def kind_without_group(kind: str) -> str:
    """Return the `kind` of a key of KINDS: `PodGroup` for both groups."""
    return kind.partition(".")[0]


def plural_of(kind: str) -> str:
    """Return the resource of a key of KINDS, or of any kind, as meta.UnsafeGuessKindToResource does (apimachinery)."""
    name = kind_without_group(kind).lower()
    return f"{name}es" if name.endswith("s") else f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


Key = tuple[str, str]
"""(namespace, name); the namespace of cluster-scoped kinds is empty."""


@dataclass(slots=True)
class ObjectTables:
    """The objects of a cluster as mutable tables, by kind and key, in the order in which they were added."""

    nodes: dict[Key, Node] = field(default_factory=dict)
    pods: dict[Key, Pod] = field(default_factory=dict)
    budgets: dict[Key, PodDisruptionBudget] = field(default_factory=dict)
    namespaces: dict[Key, Namespace] = field(default_factory=dict)
    priority_classes: dict[Key, PriorityClass] = field(default_factory=dict)
    services: dict[Key, Service] = field(default_factory=dict)
    replication_controllers: dict[Key, ReplicationController] = field(default_factory=dict)
    replica_sets: dict[Key, ReplicaSet] = field(default_factory=dict)
    stateful_sets: dict[Key, StatefulSet] = field(default_factory=dict)
    claims: dict[Key, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[Key, PersistentVolume] = field(default_factory=dict)
    storage_classes: dict[Key, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[Key, CSINode] = field(default_factory=dict)
    csi_drivers: dict[Key, CSIDriver] = field(default_factory=dict)
    csi_storage_capacities: dict[Key, CSIStorageCapacity] = field(default_factory=dict)
    volume_attachments: dict[Key, VolumeAttachment] = field(default_factory=dict)
    device_classes: dict[Key, DeviceClass] = field(default_factory=dict)
    resource_slices: dict[Key, ResourceSlice] = field(default_factory=dict)
    resource_claims: dict[Key, ResourceClaim] = field(default_factory=dict)
    resource_claim_templates: dict[Key, ResourceClaimTemplate] = field(default_factory=dict)
    device_taint_rules: dict[Key, DeviceTaintRule] = field(default_factory=dict)
    limit_ranges: dict[Key, LimitRange] = field(default_factory=dict)
    resource_quotas: dict[Key, ResourceQuota] = field(default_factory=dict)
    runtime_classes: dict[Key, RuntimeClass] = field(default_factory=dict)
    pod_groups: dict[Key, PodGroup] = field(default_factory=dict)
    coscheduling_groups: dict[Key, PodGroup] = field(default_factory=dict)

    def of(self, kind: str) -> dict[Key, Object]:
        """Return the table for a key of KINDS."""
        table: dict[Key, Object] = getattr(self, KINDS[kind].field)
        return table

    def frozen(self) -> ClusterObjects:
        """Return an immutable copy."""
        return ClusterObjects(**{one.name: tuple(getattr(self, one.name).values()) for one in fields(self)})


def key_of(kind: str, one: Object) -> Key:
    """Return the object's key in the table of its kind."""
    return (one.metadata.namespace if KINDS[kind].namespaced else "", one.metadata.name)
