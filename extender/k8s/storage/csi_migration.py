"""Volumes of the plugins that were built into Kubernetes, as the CSI drivers that took them over know them.

Mirrors csi-translation-lib and nodevolumelimits.isCSIMigrationOn (v1.36): plugins whose migration the scheduler does
not take into account (Azure File, vSphere) are left out; the volumes of those count nowhere.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from extender.k8s.labels import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from extender.k8s.objects import InTreeDisk, Labels, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from extender.k8s.storage.objects import PersistentVolume, VolumeNodeAffinity

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: names of the plugins that its kubelet leaves to CSI drivers."""

NOT_COUNTED: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""Provisioners that have been taken over, but whose volumes the scheduler does not count."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One plugin and its successor."""

    plugin: str
    driver: str
    handle: Callable[[InTreeDisk, Labels], str | None]
    """The volume's name for the driver, given the labels of the PersistentVolume; None if it has another source."""
    topology_key: str = ""
    """The node label that the driver uses for zones; empty if node affinity stays as it is."""


def _gce(disk: InTreeDisk, labels: Labels) -> str | None:
    if disk.gce_persistent_disk is None:
        return None
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or "UNSPECIFIED").split(ZONE_DELIMITER)
    if len(zones) == 1:
        where = f"zones/{zones[0]}"
    else:
        where = f"regions/{zones[0].rpartition('-')[0]}"
    return f"projects/UNSPECIFIED/{where}/disks/{disk.gce_persistent_disk.pd_name}"


def _aws(disk: InTreeDisk, _labels: Labels) -> str | None:
    """`aws://zone/vol-1`, `aws:///vol-1` and `vol-1` are the same."""
    if disk.aws_elastic_block_store is None:
        return None
    volume = disk.aws_elastic_block_store.volume_id
    return volume.removeprefix("aws://").partition("/")[2].strip("/") if volume.startswith("aws://") else volume


def _azure(disk: InTreeDisk, _labels: Labels) -> str | None:
    return disk.azure_disk.disk_uri if disk.azure_disk else None


def _cinder(disk: InTreeDisk, _labels: Labels) -> str | None:
    return disk.cinder.volume_id if disk.cinder else None


def _portworx(disk: InTreeDisk, _labels: Labels) -> str | None:
    return disk.portworx_volume.volume_id if disk.portworx_volume else None


MIGRATIONS: Final = (
    Migration("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", _gce, "topology.gke.io/zone"),
    Migration("kubernetes.io/aws-ebs", "ebs.csi.aws.com", _aws, "topology.ebs.csi.aws.com/zone"),
    Migration("kubernetes.io/azure-disk", "disk.csi.azure.com", _azure),
    Migration("kubernetes.io/cinder", "cinder.csi.openstack.org", _cinder, "topology.cinder.csi.openstack.org/zone"),
    Migration("kubernetes.io/portworx-volume", "pxd.portworx.com", _portworx),
)

_DRIVERS: Final = {one.plugin: one.driver for one in MIGRATIONS}


def driver_of(provisioner: str) -> str | None:
    """The CSI driver whose volumes a StorageClass's provisioner makes; None if they do not count."""
    return None if provisioner in NOT_COUNTED else _DRIVERS.get(provisioner, provisioner)


def migrated_volume(disk: InTreeDisk, labels: Labels | None = None) -> tuple[str, str] | None:
    """(CSI driver, handle) of a volume of a taken-over plugin; None for any other."""
    for one in MIGRATIONS:
        handle = one.handle(disk, labels or {})
        if handle:
            return one.driver, handle
    return None


def migration_of(volume: PersistentVolume) -> Migration | None:
    return next((one for one in MIGRATIONS if one.handle(volume.spec, {}) is not None), None)


def migrated_affinity(volume: PersistentVolume, topology_key: str) -> VolumeNodeAffinity | None:
    """The volume's node affinity, or the zones of its labels, in terms of the driver's own topology key.

    Mirrors plugins.translateTopologyFromInTreeToCSI.
    """
    affinity, labels = volume.spec.node_affinity, volume.metadata.labels or {}
    terms = (affinity.required.node_selector_terms if affinity and affinity.required else None) or []
    zone, region = _labels_in_use(terms, labels)
    if _has_values(terms, zone):
        terms = [_renamed(term, zone, topology_key) for term in terms]
    elif zone in labels:
        zones = sorted({name.strip() for name in labels[zone].split(ZONE_DELIMITER)} - {""})
        added = NodeSelectorRequirement(topology_key, "In", zones)
        if zones:
            terms = [_with(term, added) for term in terms or [NodeSelectorTerm()]]
    if region == BETA_REGION and _has_values(terms, region):
        terms = [_renamed(term, region, REGION) for term in terms]
    return VolumeNodeAffinity(NodeSelector(terms)) if terms else affinity


def _labels_in_use(terms: Iterable[NodeSelectorTerm], labels: Labels) -> tuple[str, str]:
    """The zone and region labels, today's or those of old: node affinity decides before the volume's labels."""
    keys = {one.key for term in terms for one in term.match_expressions or ()}
    for held in (keys, labels):
        if ZONE in held:
            return ZONE, REGION
        if BETA_ZONE in held:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_values(terms: Iterable[NodeSelectorTerm], key: str) -> bool:
    return any(one.key == key and one.values for term in terms for one in term.match_expressions or ())


def _renamed(term: NodeSelectorTerm, old: str, new: str) -> NodeSelectorTerm:
    found = [msgspec.structs.replace(one, key=new) if one.key == old else one for one in term.match_expressions or ()]
    return msgspec.structs.replace(term, match_expressions=found)


def _with(term: NodeSelectorTerm, added: NodeSelectorRequirement) -> NodeSelectorTerm:
    return msgspec.structs.replace(term, match_expressions=[*(term.match_expressions or ()), added])
