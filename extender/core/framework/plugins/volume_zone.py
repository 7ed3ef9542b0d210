"""VolumeZone: a volume with zone or region labels is used from nodes of that zone or region only.

Mirrors pkg/scheduler/framework/plugins/volumezone (v1.36).
"""

import numpy as np

from extender.core.framework.constraint import SchedulingContext, StaticCheck
from extender.core.framework.plugins.prefilter import PreFilterResult
from extender.core.snapshot.arrays import BoolArray
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import not_found, storage
from extender.k8s.labels import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim
from extender.k8s.storage.volumes import WAIT_FOR_FIRST_CONSUMER, claim_class, named_claims

NAME = "VolumeZone"
REASON = "node(s) had no available volume zone"

_NEWER = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""Label of a volume -> the one that counts on a node that does not have the same."""


def _volume(context: SchedulingContext, claim: PersistentVolumeClaim) -> PersistentVolume | str | None:
    """The claim's volume; a text why there is none; None if the volume is still to be chosen."""
    found = storage(context.snapshot)
    if claim.spec.volume_name:
        volume = found.volume(claim.spec.volume_name)
        return volume or not_found("persistentvolume", claim.spec.volume_name)
    name = claim_class(claim)
    if not name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = found.storage_class(name)
    if storage_class is None:
        return not_found("storageclass.storage.k8s.io", name)
    return None if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"


def _volumes(context: SchedulingContext) -> list[PersistentVolume] | str:
    """Those of the pod's claims; or a text why one has none."""
    volumes = []
    for name in named_claims(context.pod):
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = storage(context.snapshot).claim(context.pod, name)
        if claim is None:
            return not_found("persistentvolumeclaim", name)
        volume = _volume(context, claim)
        if isinstance(volume, str):
            return volume
        if volume is not None:
            volumes.append(volume)
    return volumes


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """A rejection if a claim has no volume and waits for none."""
    volumes = _volumes(context)
    if isinstance(volumes, str):
        return PreFilterResult.rejecting(NAME, volumes)
    return PreFilterResult()


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """One check, or none if no volume has a zone; nodes without any of the labels take all volumes."""
    volumes, snapshot = _volumes(context), context.snapshot
    topologies = [
        (key, zones)
        for volume in volumes
        if isinstance(volume, PersistentVolume)
        for key in _NEWER
        if (zones := _zones((volume.metadata.labels or {}).get(key)))
    ]
    if not topologies:
        return ()
    rejected = np.zeros(len(snapshot.nodes), np.bool_)
    for key, zones in topologies:
        rejected |= ~_in_zone(snapshot, key, zones)
    has_any = np.logical_or.reduce([snapshot.label(key).present for key in _NEWER])
    return (StaticCheck(NAME, rejected & has_any, (REASON,)),)


def _zones(label: str | None) -> frozenset[str]:
    """The zones that a label names, `a__b` being two; none if one of them is empty, as upstream ignores it then."""
    zones = frozenset(zone.strip() for zone in label.split(ZONE_DELIMITER)) if label is not None else frozenset()
    return frozenset() if "" in zones else zones


def _in_zone(snapshot: Snapshot, key: str, zones: frozenset[str]) -> BoolArray:
    """[node]."""
    own, newer = snapshot.label(key), snapshot.label(_NEWER[key])
    return np.where(own.present, own.map_bool(zones.__contains__), newer.map_bool(zones.__contains__))
