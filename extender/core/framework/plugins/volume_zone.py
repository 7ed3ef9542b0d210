"""VolumeZone: a pod whose volumes have zone or region labels fits only on nodes of that zone and region.

Mirrors pkg/scheduler/framework/plugins/volumezone (v1.36).
"""

from collections.abc import Iterator

import numpy as np

from extender.core.framework.filter_checks import StaticCheck
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code, PreFilterResult, Status
from extender.core.snapshot.arrays import BoolArray
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import not_found, storage
from extender.k8s.storage.objects import PersistentVolume
from extender.k8s.storage.volumes import WAIT_FOR_FIRST_CONSUMER, claim_class, named_claims
from extender.k8s.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER

NAME = "VolumeZone"
REASON = "node(s) had no available volume zone"

GA_LABEL = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""Topology label of a volume -> GA label to compare on nodes that lack the volume's own (beta) label."""


def _pod_volumes(context: SchedulingContext) -> list[PersistentVolume] | str:
    """Return the volumes of the pod's claims, or the reason why a claim has none."""
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
    """Return one check, or none if no volume has a zone or region label."""
    volumes, snapshot = _pod_volumes(context), context.snapshot
    if isinstance(volumes, str):  # reached only if PreFilter is not enabled
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NAME, (volumes,))
        return (StaticCheck.on_all_nodes(context, status),)
    topologies = [one for volume in volumes for one in volume_topologies(volume)]
    if not topologies:
        return ()
    rejected = np.zeros(len(snapshot.nodes), np.bool_)
    for key, zones in topologies:
        rejected |= elsewhere(snapshot, key, zones)
    return (StaticCheck(NAME, rejected, (REASON,)),)


def volume_topologies(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the zone and region labels of a volume with the zones that they name."""
    for key in GA_LABEL:
        label = (volume.metadata.labels or {}).get(key)
        # `a__b` names two zones; upstream ignores the label if one of them is empty.
        zones = (
            frozenset(zone.strip() for zone in label.split(ZONE_DELIMITER)) if label is not None else frozenset({""})
        )
        if "" not in zones:
            yield key, zones


def elsewhere(snapshot: Snapshot, key: str, zones: frozenset[str]) -> BoolArray:
    """Return [node]: whether it is in none of the zones that a volume's label `key` names."""
    own, ga = snapshot.label(key), snapshot.label(GA_LABEL[key])
    # A node without any of the labels accepts all volumes: upstream then assumes that the cluster has a single zone.
    has_any = np.logical_or.reduce([snapshot.label(key).present for key in GA_LABEL])
    found: BoolArray = has_any & ~np.where(
        own.present, own.map_bool(zones.__contains__), ga.map_bool(zones.__contains__)
    )
    return found
