"""VolumeZone: a pod whose volumes have zone or region labels fits only on nodes of that zone and region.

Mirrors pkg/scheduler/framework/plugins/volumezone (v1.36).
"""

import numpy as np

from extender.core.framework.constraint import SchedulingContext, StaticCheck
from extender.core.framework.status import PreFilterResult
from extender.core.snapshot.volume_index import not_found, storage
from extender.k8s.storage.objects import PersistentVolume
from extender.k8s.storage.volumes import WAIT_FOR_FIRST_CONSUMER, claim_class, named_claims
from extender.k8s.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER

NAME = "VolumeZone"
REASON = "node(s) had no available volume zone"

_GA_LABEL = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""Topology label of a volume -> GA label to compare on nodes that lack the volume's own (beta) label."""


def _pod_volumes(context: SchedulingContext) -> list[PersistentVolume] | str:
    """Return the volumes of the pod's claims, or a message why a claim has none."""
    found, volumes = storage(context.snapshot), []
    for name in named_claims(context.pod):
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = found.claim(context.pod, name)
        if claim is None:
            return not_found("persistentvolumeclaim", name)
        if claim.spec.volume_name:
            volume = found.volume(claim.spec.volume_name)
            if volume is None:
                return not_found("persistentvolume", claim.spec.volume_name)
            volumes.append(volume)
            continue
        class_name = claim_class(claim)
        if not class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = found.storage_class(class_name)
        if storage_class is None:
            return not_found("storageclass.storage.k8s.io", class_name)
        if storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
            return "PersistentVolume had no name"
    return volumes


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if a claim has no volume and does not wait for its first consumer."""
    volumes = _pod_volumes(context)
    return PreFilterResult.rejecting(NAME, volumes) if isinstance(volumes, str) else PreFilterResult()


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return one check, or none if no volume has a zone or region label.

    A node without any of the labels accepts all volumes: the cluster is then taken as having a single zone. A claim
    without a volume rejects every node, unless PreFilter, where it is enabled, has rejected the pod.
    """
    volumes, snapshot = _pod_volumes(context), context.snapshot
    if isinstance(volumes, str):
        return (StaticCheck(NAME, np.ones(len(snapshot.nodes), np.bool_), (volumes,)),)
    topologies = [
        (key, zones)
        for volume in volumes
        for key in _GA_LABEL
        if (zones := _parse_zones((volume.metadata.labels or {}).get(key)))
    ]
    if not topologies:
        return ()
    rejected = np.zeros(len(snapshot.nodes), np.bool_)
    for key, zones in topologies:
        own, ga = snapshot.label(key), snapshot.label(_GA_LABEL[key])
        rejected |= ~np.where(own.present, own.map_bool(zones.__contains__), ga.map_bool(zones.__contains__))
    has_any = np.logical_or.reduce([snapshot.label(key).present for key in _GA_LABEL])
    return (StaticCheck(NAME, rejected & has_any, (REASON,)),)


def _parse_zones(label: str | None) -> frozenset[str]:
    """Return the zones of a label value, two for `a__b`; none if one is empty: upstream then ignores the label."""
    zones = frozenset(zone.strip() for zone in label.split(ZONE_DELIMITER)) if label is not None else frozenset()
    return frozenset() if "" in zones else zones
