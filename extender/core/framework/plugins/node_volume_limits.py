"""NodeVolumeLimits: limit the number of attached CSI volumes per driver and node (CSINode allocatable count).

With VolumeLimitScaling, a node without the driver is rejected if the CSIDriver requests it.

Mirrors pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (v1.36).
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np

from extender.core.framework.filter_checks import Check, StaticCheck
from extender.core.framework.plugins.shared.claims_of_other_pods import other_pods_claims, unusable_claim
from extender.core.framework.plugins.shared.volume_limit_columns import attachable_volumes, volume_limits
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import is_migrated, storage
from extender.k8s.storage.csi_migration import PORTWORX_DRIVER, PORTWORX_PLUGIN
from extender.k8s.storage.objects import CSINodeDriver

NAME = "NodeVolumeLimits"

_LIMIT_PREFIX: Final = "attachable-volumes-csi-"
_MAX_LIMIT_KEY_CHARACTERS: Final = 62
"""Maximum length of a limit key; a longer one is cut and ends in a hash."""


def filter(context: SchedulingContext) -> tuple[Check, ...]:
    """Return the checks of claims, drivers and limits; none for a pod without CSI volumes."""
    if not context.pod.spec.volumes:
        return ()
    unusable = unusable_claim(context, NAME)
    if unusable is not None:
        return (unusable,)
    snapshot = context.snapshot
    requested = storage(snapshot).csi_volumes(context.pod)
    if not requested:
        return ()
    drivers = {driver for driver, _ in requested}
    limits, reads_other_pods = _limits(snapshot, drivers), _has_limit(snapshot)
    if PORTWORX_DRIVER in drivers and PORTWORX_DRIVER not in storage(snapshot).native_drivers(context.pod):
        migrated = _migrates_portworx(snapshot)
        if PORTWORX_DRIVER in limits:
            limits = {**limits, PORTWORX_DRIVER: np.where(migrated, limits[PORTWORX_DRIVER], NEVER)}
        if len(drivers) == 1:  # if none of the pod's volumes counts, upstream reads no other pods' volumes
            reads_other_pods = reads_other_pods & migrated
    return (
        *(
            StaticCheck(NAME, missing, (f"{driver} CSI driver is not installed on the node",), code=Code.UNSCHEDULABLE)
            for driver, missing in missing_drivers(context, drivers)
        ),
        *other_pods_claims(context, NAME, reads_other_pods),
        *volume_limits(context, NAME, limits, requested),
    )


# --- limits ---------------------------------------------------------------------------------------------------------


def _limits(snapshot: Snapshot, drivers: Collection[str]) -> Mapping[str, IntArray]:
    """Return driver -> [node]: limit, NEVER if the node has none; without drivers that have no limit on any node."""
    found = _limits_of_csi_nodes(snapshot)
    if not snapshot.features.volume_limits_of_allocatable:
        return found
    # Up to v1.31, a node's allocatable may specify a limit that its CSINode does not.
    merged = dict(found)
    for driver in drivers:
        of_allocatable = attachable_volumes(snapshot).get(limit_key(driver))
        if of_allocatable is not None:
            own = found.get(driver)
            merged[driver] = of_allocatable if own is None else np.where(own == NEVER, of_allocatable, own)
    return merged


@derived("nodes", "csi_nodes")
def _limits_of_csi_nodes(snapshot: Snapshot) -> dict[str, IntArray]:
    found: dict[str, IntArray] = {}
    for node, one in _drivers_of_nodes(snapshot):
        if one.allocatable is not None and one.allocatable.count is not None:
            found.setdefault(one.name, np.full(len(snapshot.nodes), NEVER))[node] = one.allocatable.count
    return found


def _drivers_of_nodes(snapshot: Snapshot) -> Iterator[tuple[int, CSINodeDriver]]:
    """Yield (node row, driver) for every driver of every CSINode whose node is known."""
    for (_, name), csi_node in snapshot.objects.csi_nodes.items():
        node = snapshot.node_row.get(name)
        if node is not None:
            yield from ((node, one) for one in csi_node.spec.drivers or ())


def _migrates_portworx(snapshot: Snapshot) -> BoolArray:
    """Return [node]: whether volumes of the in-tree plugin count there as volumes of the CSI driver."""
    # Divergence: if a pod also has volumes of the CSI driver itself, all count on every node. Up to v1.35, the feature
    # gate and the CSINode's list of plugins decide; other plugins are migrated on every node with a CSINode.
    if not snapshot.features.csi_migration_portworx:
        return np.zeros(len(snapshot.nodes), np.bool_)
    if not snapshot.features.portworx_is_migrated_by_node:
        return np.ones(len(snapshot.nodes), np.bool_)
    return is_migrated(snapshot, PORTWORX_PLUGIN)


@derived("nodes", "csi_nodes", "allocatable")
def _has_limit(snapshot: Snapshot) -> BoolArray:
    """Return [node]: whether the node has a limit for any driver."""
    columns = list(_limits_of_csi_nodes(snapshot).values())
    if snapshot.features.volume_limits_of_allocatable:
        columns += attachable_volumes(snapshot).values()
    found = np.zeros(len(snapshot.nodes), np.bool_)
    for column in columns:
        found |= column != NEVER
    return found


def limit_key(driver: str) -> str:
    """Return the name of the allocatable resource that specifies the driver's limit (GetCSIAttachLimitKey)."""
    if len(_LIMIT_PREFIX + driver) <= _MAX_LIMIT_KEY_CHARACTERS:
        return _LIMIT_PREFIX + driver
    digest = hashlib.sha1(driver.encode(), usedforsecurity=False).hexdigest()
    return f"{_LIMIT_PREFIX}{driver[:23]}{digest[:16]}"


# --- drivers that a node must have ----------------------------------------------------------------------------------


def missing_drivers(context: SchedulingContext, drivers: Collection[str]) -> Iterator[tuple[str, BoolArray]]:
    """Yield the drivers whose CSIDriver prevents scheduling to nodes without the driver, with [node]: is it missing."""
    if not context.features.volume_limit_scaling:
        return
    snapshot = context.snapshot
    native = storage(snapshot).native_drivers(context.pod)
    for driver in sorted(drivers):  # divergence: upstream names any missing driver, here the first by name
        known = snapshot.objects.csi_drivers.get(("", driver))
        if known is not None and known.spec.prevent_pod_scheduling_if_missing:
            nodes = _nodes_without(snapshot).get(driver)
            missing = _has_csi_node(snapshot).copy() if nodes is None else nodes.copy()
            # Volumes of in-tree plugins are not migrated on a node without a CSINode, so they do not need the driver.
            if driver in native:
                missing |= ~_has_csi_node(snapshot)
            yield driver, missing


@derived("nodes", "csi_nodes")
def _has_csi_node(snapshot: Snapshot) -> BoolArray:
    """Return [node]: whether it has a CSINode."""
    csi_nodes = snapshot.objects.csi_nodes
    return np.fromiter((("", name) in csi_nodes for name in snapshot.node_names), np.bool_, len(snapshot.nodes))


@derived("nodes", "csi_nodes")
def _nodes_without(snapshot: Snapshot) -> dict[str, BoolArray]:
    """Return driver -> [node]: whether the node's CSINode lacks the driver; only drivers that a CSINode lists."""
    found: dict[str, BoolArray] = {}
    for node, one in _drivers_of_nodes(snapshot):
        found.setdefault(one.name, _has_csi_node(snapshot).copy())[node] = False
    return found
