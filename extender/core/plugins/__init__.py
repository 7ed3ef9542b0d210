"""The plugins of kube-scheduler's default profile that are modelled, each found by its Kubernetes name.

One literal table per extension point, in the order in which kube-scheduler asks. NOT_MODELLED says when one of
the others would have a say, so that nobody takes silence for a verdict.
"""

from collections.abc import Callable, Sequence

from extender.core.checks import Check, Incoming, Rows
from extender.core.plugins import (
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources,
    node_unschedulable,
    taint_toleration,
)
from extender.core.plugins.prefilter import PreFilter
from extender.core.snapshot import IntArray
from extender.k8s.objects import PodSpec

PREFILTERS: dict[str, Callable[[Incoming], PreFilter]] = {
    node_affinity.NAME: node_affinity.prefilter,
    inter_pod_affinity.NAME: inter_pod_affinity.prefilter,
}

FILTERS: dict[str, Callable[[Incoming], Sequence[Check]]] = {
    node_unschedulable.NAME: node_unschedulable.filter,
    node_name.NAME: node_name.filter,
    taint_toleration.NAME: taint_toleration.filter,
    node_affinity.NAME: node_affinity.filter,
    node_ports.NAME: node_ports.filter,
    node_resources.FIT: node_resources.filter,
    inter_pod_affinity.NAME: inter_pod_affinity.filter,
    node_declared_features.NAME: node_declared_features.filter,
}

SCORES: dict[str, Callable[[Incoming, Rows], IntArray | None]] = {
    taint_toleration.NAME: taint_toleration.score,
    node_affinity.NAME: node_affinity.score,
    node_resources.FIT: node_resources.fit_score,
    node_resources.BALANCED: node_resources.balanced_score,
    image_locality.NAME: image_locality.score,
}
"""Each gives 0-100 per row, or None where kube-scheduler skips it for this pod."""


def _has_claims(spec: PodSpec) -> bool:
    return any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes or ())


def _has_disks(spec: PodSpec) -> bool:
    disks = ((v.gce_persistent_disk, v.aws_elastic_block_store, v.rbd, v.iscsi) for v in spec.volumes or ())
    return any(disk is not None for volume in disks for disk in volume)


def _has_csi(spec: PodSpec) -> bool:
    return any(v.csi is not None for v in spec.volumes or ())


def _must_spread(spec: PodSpec) -> bool:
    return any(c.when_unsatisfiable == "DoNotSchedule" for c in spec.topology_spread_constraints or ())


NOT_MODELLED: dict[str, Callable[[PodSpec], bool]] = {
    "VolumeRestrictions": lambda spec: _has_claims(spec) or _has_disks(spec),
    "NodeVolumeLimits": lambda spec: _has_claims(spec) or _has_csi(spec),
    "VolumeBinding": _has_claims,
    "VolumeZone": _has_claims,
    "PodTopologySpread": _must_spread,
    "DynamicResources": lambda spec: bool(spec.resource_claims),
}
"""Filter plugins of kube-scheduler that are not modelled -> do they have a say about this pod?"""
