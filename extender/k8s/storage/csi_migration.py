"""Translate in-tree volumes to the CSI drivers that they migrated to.

Mirrors csi-translation-lib and nodevolumelimits.isCSIMigrationOn (v1.36). Azure File and vSphere are missing, because
kube-scheduler ignores their migration: their volumes count towards no limit.

Rule: MIGRATIONS is the only list of migrated plugins.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from extender.k8s.objects import InTreeDisk, Labels, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from extender.k8s.storage.objects import PersistentVolume, VolumeNodeAffinity
from extender.k8s.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode that lists the in-tree plugins for which its kubelet uses CSI drivers."""

# Migrated provisioners whose volumes kube-scheduler does not count.
NOT_COUNTED: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})


@dataclass(frozen=True, slots=True)
class Migration:
    """One in-tree plugin and the CSI driver that replaces it."""

    plugin: str
    driver: str
    handle: Callable[[InTreeDisk, Labels], str | None]
    """(volume source, labels of the PersistentVolume) -> CSI volume handle; None for another plugin's volume."""
    topology_key: str = ""
    """Node label with which the driver names zones; "" if node affinity is not translated."""


def _gce(disk: InTreeDisk, labels: Labels) -> str | None:
    if disk.gce_persistent_disk is None:
        return None
    # csi-translation-lib does not know the project, nor the zone without labels, and writes UNSPECIFIED for them.
    zones = _zones(labels) or ["UNSPECIFIED"]
    if _region_error(zones) is not None:
        return None
    where = f"zones/{zones[0]}" if len(zones) == 1 else f"regions/{zones[0].rpartition('-')[0]}"
    return f"projects/UNSPECIFIED/{where}/disks/{disk.gce_persistent_disk.pd_name}"


def _zones(labels: Labels) -> list[str]:
    zones = labels.get(BETA_ZONE) or labels.get(ZONE)
    return zones.split(ZONE_DELIMITER) if zones else []


def _region_error(zones: Sequence[str]) -> str | None:
    """Return the reason why several zones have no common region; None if they have one (gceGetRegionFromZones)."""
    if len(zones) < 2:
        return None
    malformed = next((zone for zone in zones if zone.count("-") != 2), None)
    if malformed is not None:
        return f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {malformed}"
    regions = sorted({zone.rpartition("-")[0] for zone in zones})
    listed = " ".join(f"{region}:{{}}" for region in regions)
    return f"multiple or no regions gotten from zones, got: map[{listed}]" if len(regions) > 1 else None


def translation_error(volume: PersistentVolume) -> str | None:
    """Return the reason why the volume cannot be translated to CSI; None if it can or need not be.

    Mirrors TranslateInTreePVToCSI of csi-translation-lib (v1.36), which fails for GCE only.
    """
    if volume.spec.gce_persistent_disk is None:
        return None
    error = _region_error(_zones(volume.metadata.labels or {}))
    return None if error is None else f"failed to get region from zones: {error}"


def _aws(disk: InTreeDisk, _labels: Labels) -> str | None:
    """Return `vol-1` for each of `aws://zone/vol-1`, `aws:///vol-1` and `vol-1`."""
    if disk.aws_elastic_block_store is None:
        return None
    volume = disk.aws_elastic_block_store.volume_id
    return volume.removeprefix("aws://").partition("/")[2].strip("/") if volume.startswith("aws://") else volume


PORTWORX_PLUGIN: Final = "kubernetes.io/portworx-volume"
PORTWORX_DRIVER: Final = "pxd.portworx.com"

MIGRATIONS: Final = (
    Migration("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", _gce, "topology.gke.io/zone"),
    Migration("kubernetes.io/aws-ebs", "ebs.csi.aws.com", _aws, "topology.ebs.csi.aws.com/zone"),
    Migration(
        "kubernetes.io/azure-disk",
        "disk.csi.azure.com",
        lambda disk, _: disk.azure_disk.disk_uri if disk.azure_disk else None,
    ),
    Migration(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        lambda disk, _: disk.cinder.volume_id if disk.cinder else None,
        "topology.cinder.csi.openstack.org/zone",
    ),
    Migration(
        PORTWORX_PLUGIN,
        PORTWORX_DRIVER,
        lambda disk, _: disk.portworx_volume.volume_id if disk.portworx_volume else None,
    ),
)

_DRIVERS: Final = {one.plugin: one.driver for one in MIGRATIONS}


def driver_of(provisioner: str) -> str | None:
    """Return the CSI driver of a StorageClass's provisioner; None if kube-scheduler does not count its volumes."""
    return None if provisioner in NOT_COUNTED else _DRIVERS.get(provisioner, provisioner)


def migrated_volume(disk: InTreeDisk, labels: Labels | None = None) -> tuple[str, str] | None:
    """Return (CSI driver, handle) of a volume of a migrated plugin; None for any other volume."""
    for one in MIGRATIONS:
        handle = one.handle(disk, labels or {})
        if handle:
            return one.driver, handle
    return None


def migration_of(volume: PersistentVolume) -> Migration | None:
    """Return the migration of the volume's in-tree plugin; None for any other volume."""
    return next((one for one in MIGRATIONS if one.handle(volume.spec, {}) is not None), None)


def migrated_affinity(volume: PersistentVolume, topology_key: str) -> VolumeNodeAffinity | None:
    """Return the volume's node affinity, or an affinity from its zone labels, with the driver's topology key.

    Mirrors plugins.translateTopologyFromInTreeToCSI.
    """
    affinity, labels = volume.spec.node_affinity, volume.metadata.labels or {}
    terms = (affinity.required.node_selector_terms if affinity and affinity.required else None) or []
    zone, region = _labels_in_use(terms, labels)
    # 1. Zones: from the affinity, else from the label, which is added to every term.
    if _has_values(terms, zone):
        terms = [_renamed(term, zone, topology_key) for term in terms]
    elif zone in labels:
        zones = sorted({name.strip() for name in labels[zone].split(ZONE_DELIMITER)} - {""})
        added = NodeSelectorRequirement(topology_key, "In", zones)
        if zones:
            found = terms or [NodeSelectorTerm()]
            terms = [replace(one, match_expressions=[*(one.match_expressions or ()), added]) for one in found]
    # 2. Regions keep their label, but the beta label is replaced by the GA label.
    if region == BETA_REGION and _has_values(terms, region):
        terms = [_renamed(term, region, REGION) for term in terms]
    return VolumeNodeAffinity(NodeSelector(terms)) if terms else affinity


def _labels_in_use(terms: Iterable[NodeSelectorTerm], labels: Labels) -> tuple[str, str]:
    """Return the zone and region keys, GA or beta, of the node affinity, else of the volume's labels."""
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
    found = [replace(one, key=new) if one.key == old else one for one in term.match_expressions or ()]
    return replace(term, match_expressions=found)
