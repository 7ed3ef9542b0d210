"""The plugins of kube-scheduler's default profile that are modelled, each found by its Kubernetes name.

One literal table per extension point, in the order in which kube-scheduler asks. NOT_MODELLED says where one of
the others would have a say, so that nobody takes silence for a verdict.
"""

from collections.abc import Callable, Sequence

from extender.core.framework.constraint import Check, Rows, SchedulingContext
from extender.core.framework.plugins import (
    dynamic_resources,
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources,
    node_unschedulable,
    node_volume_limits,
    pod_topology_spread,
    taint_toleration,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from extender.core.framework.plugins.prefilter import PreFilter
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.default_selector import Services
from extender.core.snapshot.snapshot import Index

PREFILTERS: dict[str, Callable[[SchedulingContext], PreFilter]] = {
    node_affinity.NAME: node_affinity.prefilter,
    volume_restrictions.NAME: volume_restrictions.prefilter,
    volume_binding.NAME: volume_binding.prefilter,
    volume_zone.NAME: volume_zone.prefilter,
    pod_topology_spread.NAME: pod_topology_spread.prefilter,
    inter_pod_affinity.NAME: inter_pod_affinity.prefilter,
}

FILTERS: dict[str, Callable[[SchedulingContext], Sequence[Check]]] = {
    node_unschedulable.NAME: node_unschedulable.filter,
    node_name.NAME: node_name.filter,
    taint_toleration.NAME: taint_toleration.filter,
    node_affinity.NAME: node_affinity.filter,
    node_ports.NAME: node_ports.filter,
    node_resources.FIT: node_resources.filter,
    volume_restrictions.NAME: volume_restrictions.filter,
    node_volume_limits.NAME: node_volume_limits.filter,
    volume_binding.NAME: volume_binding.filter,
    volume_zone.NAME: volume_zone.filter,
    pod_topology_spread.NAME: pod_topology_spread.filter,
    inter_pod_affinity.NAME: inter_pod_affinity.filter,
    node_declared_features.NAME: node_declared_features.filter,
}

SCORES: dict[str, Callable[[SchedulingContext, Rows], IntArray | None]] = {
    taint_toleration.NAME: taint_toleration.score,
    node_affinity.NAME: node_affinity.score,
    pod_topology_spread.NAME: pod_topology_spread.score,
    inter_pod_affinity.NAME: inter_pod_affinity.score,
    node_resources.FIT: node_resources.fit_score,
    node_resources.BALANCED: node_resources.balanced_score,
    image_locality.NAME: image_locality.score,
}
"""Each gives 0-100 per row, or None where kube-scheduler skips it for this pod."""


INDEXES: tuple[type[Index], ...] = (
    Services,
    image_locality.Images,
    inter_pod_affinity.Owners,
    node_ports.HeldPorts,
    node_volume_limits.AttachedVolumes,
    volume_restrictions.ClaimUsers,
    volume_restrictions.Mounts,
)
"""What plugins look up: built before a request waits for it."""

NOT_MODELLED: dict[str, Callable[[SchedulingContext], BoolArray]] = {
    dynamic_resources.NAME: dynamic_resources.decides,
}
"""Filter plugins of kube-scheduler that are not modelled -> [node] where they have a say about the pod."""
