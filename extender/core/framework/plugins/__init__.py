"""The plugin registry: one table of plugins per extension point (PreFilter, Filter, Score).

Counterpart of pkg/scheduler/framework/plugins/registry.go (v1.36). NODES_NOT_EVALUATED reports the nodes where
the pod needs an unsupported feature of a plugin, so that decisions report the plugin as not evaluated, not as passed.

Rule: a plugin exists if it is in a table here; nothing registers itself by import.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from extender.core.framework.filter_checks import Check
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
from extender.core.framework.plugins.shared.attached_volumes import AttachedVolumeIndex
from extender.core.framework.plugins.shared.normalize import normalize
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import PreFilterResult
from extender.core.snapshot.affinity_terms import TermOwnerIndex
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows
from extender.core.snapshot.default_selector import ServiceIndex
from extender.core.snapshot.snapshot import Index
from extender.k8s.objects import Pod
from extender.k8s.requests import is_resize_deferred
from extender.k8s.storage.csi_migration import migrated_volume
from extender.k8s.storage.volumes import claim_uses
from extender.k8s.version.features import Features

# The profile specifies which plugins are enabled, and in which order.

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
"""PreFilter plugins that may reject the pod, or restrict it to some nodes, before any node is filtered."""

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
"""Filter plugins: each returns its checks for all nodes, or none if kube-scheduler skips the plugin for the pod."""

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
"""Score plugins: each returns [row]: 0 to 100, or any number if the plugin is in NORMALIZE_SCORE; None if
kube-scheduler skips the plugin for the pod."""

NORMALIZE_SCORE: dict[str, Callable[[IntArray], IntArray]] = {
    taint_toleration.NAME: taint_toleration.normalize_score,
    node_affinity.NAME: normalize,
    inter_pod_affinity.NAME: inter_pod_affinity.normalize_score,
    dynamic_resources.NAME: normalize,
}
"""Score plugins that scale their scores relative to all feasible nodes (ScoreExtensions) -> [row]: 0 to 100."""

SCORES_OF_PODS_ON_NODE: dict[str, Callable[[SchedulingContext], node_resources.Scorer | None]] = {
    node_resources.FIT_NAME: node_resources.fit_scorer,
    node_resources.BALANCED_ALLOCATION_NAME: node_resources.balanced_scorer,
}
"""Score plugins that read only the pods of the scored node, so that single nodes can be rescored; None if skipped."""

SCORES_WITHOUT_PODS = frozenset({taint_toleration.NAME, node_affinity.NAME, image_locality.NAME})
"""Score plugins that read no pod but the incoming one."""

PLUGIN_INDEXES: tuple[type[Index], ...] = (
    ServiceIndex,
    image_locality.ImageIndex,
    TermOwnerIndex,
    node_ports.HostPortIndex,
    node_resources.PendingResizeIndex,
    AttachedVolumeIndex,
    volume_restrictions.ClaimUserIndex,
    volume_restrictions.DiskMountIndex,
)
"""Indexes that plugins and their facts read, built in advance so that no request waits for them."""


def waits_to_grow(pod: Pod, features: Features) -> bool:
    """Return whether the pod waits for room to resize in place, for which it may preempt (KEP-5836, v1.37)."""
    # Its own node is then the only candidate, and already counts the larger requests: filters would add them twice.
    return features.in_place_pod_vertical_scaling_scheduler_preemption and is_resize_deferred(pod)


NODES_NOT_EVALUATED: dict[str, Callable[[SchedulingContext], BoolArray]] = {
    dynamic_resources.NAME: dynamic_resources.nodes_not_evaluated,
    "DeferredPodScheduling": lambda context: np.full(
        len(context.snapshot.nodes), waits_to_grow(context.pod, context.features)
    ),
}
"""Filter plugins with unsupported features -> [node]: whether the pod needs such a feature there, or an object
that may not be read."""


# --- plugins without their PreFilter or PreScore --------------------------------------------------------------------

# If a plugin's PreFilter or PreScore is not enabled, its state is missing from CycleState (getPreFilterState and
# getPreScoreState, v1.36). Plugins not listed here then compute the state themselves, as all modules here do.

NOT_FOUND: Final = "not found"
"""Error of a plugin that reads missing PreFilter state."""

WITHOUT_PREFILTER: Final[Mapping[str, str]] = {
    node_ports.NAME: 'reading "PreFilterNodePorts" from cycleState: not found',
    node_resources.FIT_NAME: 'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
    volume_restrictions.NAME: 'cannot read "PreFilterVolumeRestrictions" from cycleState',
    volume_binding.NAME: NOT_FOUND,
    pod_topology_spread.NAME: 'reading "PreFilterPodTopologySpread" from cycleState: not found',
    inter_pod_affinity.NAME: 'error reading "PreFilterInterPodAffinity" from cycleState: not found',
    node_declared_features.NAME: 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
    dynamic_resources.NAME: NOT_FOUND,
}
"""Filter plugin that fails on every node without its PreFilter -> its error."""

WITHOUT_PRESCORE: Final[Mapping[str, str]] = {
    taint_toleration.NAME: 'failed to read "PreScoreTaintToleration" from cycleState: not found',
    pod_topology_spread.NAME: 'error reading "PreScorePodTopologySpread" from cycleState: not found',
    inter_pod_affinity.NAME: 'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
}
"""Score plugin that fails without its PreScore -> its error."""

SCORES_READING_PREFILTER: Final = frozenset({volume_binding.NAME, dynamic_resources.NAME})
"""Score plugins that read the state of their PreFilter, and fail without it."""


def is_switched_off(plugin: str, features: Features) -> bool:
    """Return whether a feature gate turns off a filter plugin, even if it is enabled."""
    if plugin == dynamic_resources.NAME:
        return not features.dynamic_resource_allocation
    return plugin == node_declared_features.NAME and not features.node_declared_features


def is_score_switched_off(plugin: str, features: Features) -> bool:
    """Return whether a feature gate turns off a score plugin, even if it is enabled."""
    if plugin == volume_binding.NAME:
        return not features.storage_capacity_scoring
    return is_switched_off(plugin, features)


# --- objects that plugins read --------------------------------------------------------------------------------------

# A plugin that applies to the pod, but whose objects the extender lacks permission to list, is skipped and reported as
# not evaluated: an object that was never listed must not count as missing.

ExtensionPoint = Literal["filter", "score"]
"""Extension point at which the plugin would run."""


def _has_claims(context: SchedulingContext, _point: ExtensionPoint) -> bool:
    return any(True for _ in claim_uses(context.pod))


def _has_volumes(context: SchedulingContext, point: ExtensionPoint) -> bool:
    inline = (volume for volume in context.pod.spec.volumes or () if volume.persistent_volume_claim is None)
    return _has_claims(context, point) or any(migrated_volume(volume) is not None for volume in inline)


_VOLUME_TABLES = frozenset({"claims", "volumes", "storage_classes"})
_OWNER_TABLES = frozenset({"services", "replication_controllers", "replica_sets", "stateful_sets"})

REQUIRED_TABLES: Mapping[str, tuple[frozenset[str], Callable[[SchedulingContext, ExtensionPoint], bool]]] = {
    volume_restrictions.NAME: (frozenset({"claims"}), _has_claims),
    **dict.fromkeys(
        (in_tree_volume_limits.EBS_NAME, in_tree_volume_limits.GCE_PD_NAME, in_tree_volume_limits.AZURE_DISK_NAME),
        (_VOLUME_TABLES | {"csi_nodes"}, _has_volumes),
    ),
    node_volume_limits.NAME: (_VOLUME_TABLES | {"csi_nodes"}, _has_volumes),
    volume_binding.NAME: (
        _VOLUME_TABLES | {"csi_nodes", "csi_drivers", "csi_storage_capacities"},
        lambda context, point: (
            _has_claims(context, point) and (point == "filter" or context.features.storage_capacity_scoring)
        ),
    ),
    volume_zone.NAME: (_VOLUME_TABLES, _has_claims),
    pod_topology_spread.NAME: (
        _OWNER_TABLES,
        lambda context, point: pod_topology_spread.uses_default_selector(
            context, "DoNotSchedule" if point == "filter" else "ScheduleAnyway"
        ),
    ),
    inter_pod_affinity.NAME: (
        frozenset({"namespaces"}),
        lambda context, _point: inter_pod_affinity.uses_namespace_selector(context),
    ),
    dynamic_resources.NAME: (
        dynamic_resources.TABLES,
        lambda context, _point: dynamic_resources.reads_tables(context),
    ),
}
"""Plugin -> (fields of ObjectTables that it reads besides nodes and pods, whether it reads them for the pod)."""


def plugins_missing_permissions(context: SchedulingContext, point: ExtensionPoint) -> Mapping[str, frozenset[str]]:
    """Return the plugins that apply to the pod but lack permission to read some of their tables, with these tables."""
    unreadable = context.snapshot.unreadable_tables
    if not unreadable:
        return {}
    return {
        name: missing
        for name, (tables, applies_to) in REQUIRED_TABLES.items()
        if (missing := (tables | _tables_of_features(context, name)) & unreadable) and applies_to(context, point)
    }


def tables_read_for(context: SchedulingContext) -> frozenset[str]:
    """Return the tables, besides nodes and pods, that any plugin, enabled or not, may read for this pod.

    The context's snapshot has no objects yet: all its tables are unreadable.
    """
    return frozenset[str]().union(
        *(
            tables | _tables_of_features(context, name)
            for name, (tables, applies_to) in REQUIRED_TABLES.items()
            if applies_to(context, "filter") or applies_to(context, "score")
        ),
        {"namespaces"},  # terms of pods not yet in the snapshot may have a namespaceSelector
    )


def _tables_of_features(context: SchedulingContext, plugin: str) -> frozenset[str]:
    """Return the tables that the plugin reads only in some versions or with a feature gate."""
    features = context.features
    if plugin == dynamic_resources.NAME:
        return dynamic_resources.tables(features)
    if plugin != node_volume_limits.NAME:
        return frozenset()
    read = {"volume_attachments": features.volume_attachments_count, "csi_drivers": features.volume_limit_scaling}
    return frozenset(table for table, is_read in read.items() if is_read)
