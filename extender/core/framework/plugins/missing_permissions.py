"""Which plugins cannot decide because they read kinds of objects that may not be read.

A pod that such a plugin has nothing to do with is judged as ever; about any other the plugin says nothing, and the
decision says so: a claim that was never seen is not a claim that is missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from extender.core.framework.constraint import SchedulingContext
from extender.core.framework.plugins import (
    inter_pod_affinity,
    node_volume_limits,
    pod_topology_spread,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from extender.k8s.storage.csi_migration import migrated_volume
from extender.k8s.storage.volumes import claim_uses

Point = Literal["filter", "score"]
"""What the plugin is asked for."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a plugin reads beside nodes and pods, as fields of ObjectTables, and for which pods."""

    fields: frozenset[str]
    concerns: Callable[[SchedulingContext, Point], bool]


def _has_claims(incoming: SchedulingContext, _point: Point = "filter") -> bool:
    return any(True for _ in claim_uses(incoming.pod))


def _has_volumes(incoming: SchedulingContext, _point: Point) -> bool:
    inline = (volume for volume in incoming.pod.spec.volumes or () if volume.persistent_volume_claim is None)
    return _has_claims(incoming) or any(migrated_volume(volume) is not None for volume in inline)


def _spreads_with_its_owner(incoming: SchedulingContext, point: Point) -> bool:
    return pod_topology_spread.asks_owner(incoming, "DoNotSchedule" if point == "filter" else "ScheduleAnyway")


def _selects_namespaces(incoming: SchedulingContext, _point: Point) -> bool:
    return inter_pod_affinity.asks_namespaces(incoming)


_VOLUMES = {"claims", "volumes", "storage_classes"}
_OWNERS = {"services", "replication_controllers", "replica_sets", "stateful_sets"}

NEEDS: Mapping[str, Needs] = {
    volume_restrictions.NAME: Needs(frozenset({"claims"}), _has_claims),
    node_volume_limits.NAME: Needs(frozenset(_VOLUMES | {"csi_nodes", "volume_attachments"}), _has_volumes),
    volume_binding.NAME: Needs(
        frozenset(_VOLUMES | {"csi_nodes", "csi_drivers", "csi_storage_capacities"}), _has_claims
    ),
    volume_zone.NAME: Needs(frozenset(_VOLUMES), _has_claims),
    pod_topology_spread.NAME: Needs(frozenset(_OWNERS), _spreads_with_its_owner),
    inter_pod_affinity.NAME: Needs(frozenset({"namespaces"}), _selects_namespaces),
}


def blind(incoming: SchedulingContext, point: Point) -> frozenset[str]:
    """The plugins that have a say about the pod, but may not read what it depends on."""
    unread = incoming.snapshot.unread
    if not unread:
        return frozenset()
    return frozenset(name for name, needs in NEEDS.items() if needs.fields & unread and needs.concerns(incoming, point))
