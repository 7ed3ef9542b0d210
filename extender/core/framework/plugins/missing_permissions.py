"""Find the plugins that cannot be evaluated because the extender has no permission to list the objects they read.

A plugin that does not apply to the pod (a volume plugin for a pod without volumes) is evaluated as usual. Otherwise it
is skipped, and the decision reports it as not evaluated: an object that was never listed is not a missing object.

Rule: a missing permission never turns into a rejection or an acceptance by the plugin.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from extender.core.framework.constraint import SchedulingContext
from extender.core.framework.plugins import (
    dynamic_resources,
    in_tree_volume_limits,
    inter_pod_affinity,
    node_volume_limits,
    pod_topology_spread,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from extender.k8s.storage.csi_migration import migrated_volume
from extender.k8s.storage.volumes import claim_uses

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
"""Plugin -> fields of ObjectTables that it reads besides nodes and pods; whether it reads them for this pod there."""


def plugins_missing_permissions(context: SchedulingContext, point: ExtensionPoint) -> frozenset[str]:
    """Return the plugins that apply to the pod and lack permission to read one of their tables."""
    unreadable = context.snapshot.unreadable_tables
    if not unreadable:
        return frozenset()
    return frozenset(
        name
        for name, (tables, applies_to) in REQUIRED_TABLES.items()
        if (tables | _tables_of_features(context, name)) & unreadable and applies_to(context, point)
    )


def tables_read_for(context: SchedulingContext) -> frozenset[str]:
    """Return the tables besides nodes and pods that any plugin, enabled or not, reads for this pod.

    The snapshot of the context has no objects yet, and all tables are unreadable: what depends on other objects, such
    as the terms of running pods, counts as read.
    """
    return frozenset[str]().union(
        *(
            tables | _tables_of_features(context, name)
            for name, (tables, applies_to) in REQUIRED_TABLES.items()
            if applies_to(context, "filter") or applies_to(context, "score")
        ),
        {"namespaces"},  # terms of running pods may have a namespaceSelector
    )


def _tables_of_features(context: SchedulingContext, plugin: str) -> frozenset[str]:
    """Return the tables that the plugin reads in some versions or with a feature gate only."""
    features = context.features
    if plugin == dynamic_resources.NAME:
        return dynamic_resources.tables(features)
    if plugin != node_volume_limits.NAME:
        return frozenset()
    read = {"volume_attachments": features.volume_attachments_count, "csi_drivers": features.volume_limit_scaling}
    return frozenset(table for table, is_read in read.items() if is_read)
