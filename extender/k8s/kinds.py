"""Every kind of object that decisions read, and all objects of a cluster by kind."""

from dataclasses import dataclass

import msgspec

from extender.k8s.objects import (
    DeviceClass,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    Value,
)
from extender.k8s.storage_objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class ClusterObjects(msgspec.Struct, frozen=True):
    """Everything that a snapshot is made of, each kind in listing order.

    The order of a node's pods is the order of `pods`: it breaks ties of importance, as it does upstream.
    """

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


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of object is read."""

    field: str
    """Of ClusterObjects."""
    type: type[Value]
    group: str = ""
    """API group; a `Node` of any other group is another thing."""
    namespaced: bool = False


KINDS: dict[str, Kind] = {
    "Node": Kind("nodes", Node),
    "Pod": Kind("pods", Pod, namespaced=True),
    "PodDisruptionBudget": Kind("budgets", PodDisruptionBudget, "policy", namespaced=True),
    "Namespace": Kind("namespaces", Namespace),
    "PriorityClass": Kind("priority_classes", PriorityClass, "scheduling.k8s.io"),
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
    "DeviceClass": Kind("device_classes", DeviceClass, "resource.k8s.io"),
}
"""Every kind that decisions read. Others in a cluster file are counted and left out."""
