"""The plugin registry: the one literal place where plugins are registered, each under its Kubernetes name.

Counterpart of pkg/scheduler/framework/plugins/registry.go and of the default profile's plugin lists (v1.36): one table
per extension point (PreFilter, Filter, Score). NODES_NOT_EVALUATED says where a plugin does not follow a feature, so
that decisions report it as not evaluated instead of as passed.

Rule: a plugin exists if it is in a table here; nothing registers itself by import.
"""

from collections.abc import Callable, Sequence

import numpy as np

from extender.core.framework.constraint import Check, NodeRows, SchedulingContext
from extender.core.framework.plugins import (
    dynamic_resources,
    image_locality,
    in_tree_volume_limits,
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
from extender.core.framework.plugins.attached_volumes import AttachedVolumeIndex
from extender.core.framework.plugins.normalize import normalize
from extender.core.framework.status import PreFilterResult
from extender.core.snapshot.affinity_terms import TermOwnerIndex
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.default_selector import ServiceIndex
from extender.core.snapshot.snapshot import Index
from extender.k8s.objects import Pod
from extender.k8s.requests import is_resize_deferred
from extender.k8s.version.features import Features

# The profile says which of them are enabled, and in which order: the first that rejects sets the status of a node.
PREFILTERS: dict[str, Callable[[SchedulingContext], PreFilterResult]] = {
    node_name.NAME: node_name.prefilter,
    node_affinity.NAME: node_affinity.prefilter,
    volume_restrictions.NAME: volume_restrictions.prefilter,
    volume_binding.NAME: volume_binding.prefilter,
    volume_zone.NAME: volume_zone.prefilter,
    pod_topology_spread.NAME: pod_topology_spread.prefilter,
    inter_pod_affinity.NAME: inter_pod_affinity.prefilter,
    dynamic_resources.NAME: dynamic_resources.prefilter,
}
"""PreFilter plugins that may reject the pod or leave only some nodes, before any node is filtered."""

FILTERS: dict[str, Callable[[SchedulingContext], Sequence[Check]]] = {
    node_unschedulable.NAME: node_unschedulable.filter,
    node_name.NAME: node_name.filter,
    taint_toleration.NAME: taint_toleration.filter,
    node_affinity.NAME: node_affinity.filter,
    node_ports.NAME: node_ports.filter,
    node_resources.FIT_NAME: node_resources.filter,
    volume_restrictions.NAME: volume_restrictions.filter,
    in_tree_volume_limits.EBS_NAME: in_tree_volume_limits.EBS.filter,
    in_tree_volume_limits.GCE_PD_NAME: in_tree_volume_limits.GCE_PD.filter,
    node_volume_limits.NAME: node_volume_limits.filter,
    in_tree_volume_limits.AZURE_DISK_NAME: in_tree_volume_limits.AZURE_DISK.filter,
    volume_binding.NAME: volume_binding.filter,
    volume_zone.NAME: volume_zone.filter,
    pod_topology_spread.NAME: pod_topology_spread.filter,
    inter_pod_affinity.NAME: inter_pod_affinity.filter,
    dynamic_resources.NAME: dynamic_resources.filter,
    node_declared_features.NAME: node_declared_features.filter,
}
"""Filter plugins: each returns its checks for all nodes, none where kube-scheduler skips the plugin for this pod."""

SCORES: dict[str, Callable[[SchedulingContext, NodeRows], IntArray | None]] = {
    taint_toleration.NAME: taint_toleration.score,
    node_affinity.NAME: node_affinity.score,
    volume_binding.NAME: volume_binding.score,
    pod_topology_spread.NAME: pod_topology_spread.score,
    inter_pod_affinity.NAME: inter_pod_affinity.score,
    dynamic_resources.NAME: dynamic_resources.score,
    node_resources.FIT_NAME: node_resources.fit_score,
    node_resources.BALANCED_ALLOCATION_NAME: node_resources.balanced_score,
    image_locality.NAME: image_locality.score,
}
"""Score plugins: each returns [row] 0 to 100, any number where NORMALIZE_SCORE has the plugin, or None where
kube-scheduler skips the plugin for this pod or does not score it."""

NORMALIZE_SCORE: dict[str, Callable[[IntArray], IntArray]] = {
    taint_toleration.NAME: taint_toleration.normalize_score,
    node_affinity.NAME: normalize,
    inter_pod_affinity.NAME: inter_pod_affinity.normalize_score,
    dynamic_resources.NAME: normalize,
}
"""Score plugins whose scores are relative to those of the other feasible nodes (ScoreExtensions) -> [row]: 0 to 100."""

SCORES_OF_PODS_ON_NODE: dict[str, Callable[[SchedulingContext], node_resources.Scorer | None]] = {
    node_resources.FIT_NAME: node_resources.fit_scorer,
    node_resources.BALANCED_ALLOCATION_NAME: node_resources.balanced_scorer,
}
"""Score plugins that read the pods which run on a node, and no others; None where SCORES has None."""

SCORES_WITHOUT_PODS = frozenset({taint_toleration.NAME, node_affinity.NAME, image_locality.NAME})
"""Score plugins that read no other pods."""

PLUGIN_INDEXES: tuple[type[Index], ...] = (
    ServiceIndex,
    image_locality.ImageIndex,
    TermOwnerIndex,
    node_ports.HostPortIndex,
    AttachedVolumeIndex,
    volume_restrictions.ClaimUserIndex,
    volume_restrictions.DiskMountIndex,
)
"""Snapshot indexes that plugins read, built ahead so that no request waits for them."""


def waits_to_grow(pod: Pod, features: Features) -> bool:
    """Return whether the pod waits for room to grow in place, for which it may preempt (KEP-5836, v1.37).

    Its own node is then the only candidate. Its larger requests count there already, so that the filters here, which
    would add them once more, cannot judge it.
    """
    return features.in_place_pod_vertical_scaling_scheduler_preemption and is_resize_deferred(pod)


def _all_nodes_if_it_waits_to_grow(context: SchedulingContext) -> BoolArray:
    return np.full(len(context.snapshot.nodes), waits_to_grow(context.pod, context.features))


NODES_NOT_EVALUATED: dict[str, Callable[[SchedulingContext], BoolArray]] = {
    dynamic_resources.NAME: dynamic_resources.nodes_not_evaluated,
    "DeferredPodScheduling": _all_nodes_if_it_waits_to_grow,
}
"""Filter plugins with features that are not followed -> [node] where the pod needs one, or an object that may not be
read."""
