"""EBSLimits, GCEPDLimits, AzureDiskLimits: limit the volumes of in-tree plugins per node, up to v1.30.

The limits apply only to nodes without a CSINode: on other nodes, the plugins have been migrated to CSI drivers.

Mirrors pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go (v1.30).
Divergence: on a node without a CSINode, volumes that the CSI driver itself provisions also count.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from extender.core.framework.filter_checks import Check
from extender.core.framework.plugins.shared.claims_of_other_pods import other_pods_claims, unusable_claim
from extender.core.framework.plugins.shared.volume_limit_columns import attachable_volumes, volume_limits
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.arrays import NEVER, IntArray
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import storage
from extender.k8s.objects import Node
from extender.k8s.storage.csi_migration import driver_of
from extender.k8s.well_known import INSTANCE_TYPES

EBS_NAME = "EBSLimits"
GCE_PD_NAME = "GCEPDLimits"
AZURE_DISK_NAME = "AzureDiskLimits"

MAX_EBS_VOLUMES: Final = 39
MAX_EBS_VOLUMES_OF_NITRO: Final = 25
MAX_GCE_PD_VOLUMES: Final = 16
MAX_AZURE_DISK_VOLUMES: Final = 16

_NITRO: Final = re.compile(r"^[cmr]5.*|t3|z1d")
"""Instance types with the Nitro limit (volumeutil.EBSNitroLimitRegex)."""


@dataclass(frozen=True, slots=True)
class _InTreeLimit:
    """The limit of one in-tree volume plugin."""

    name: str
    """Name of the scheduler's plugin."""
    provisioner: str
    resource: str
    """Allocatable resource that may specify a different limit for a node."""
    limit: Callable[[Node], int]

    def filter(self, context: SchedulingContext) -> tuple[Check, ...]:
        """Return the checks of claims and the limit; none for a pod without volumes of the in-tree plugin."""
        if not context.pod.spec.volumes:
            return ()
        unusable = unusable_claim(context, self.name)
        if unusable is not None:
            return (unusable,)
        snapshot, driver = context.snapshot, str(driver_of(self.provisioner))
        requested = storage(snapshot).in_tree_volumes(context.pod, self.provisioner)
        if not requested:
            return ()
        limits = _limits(snapshot, self)
        return (
            *other_pods_claims(context, self.name, limits != NEVER),
            *volume_limits(context, self.name, {driver: limits}, requested, counts_without_new=True),
        )


def _ebs_limit(node: Node) -> int:
    labels = node.metadata.labels or {}
    instance_type = next((labels[key] for key in INSTANCE_TYPES if key in labels), "")
    return MAX_EBS_VOLUMES_OF_NITRO if _NITRO.search(instance_type) else MAX_EBS_VOLUMES


@derived_by("nodes", "allocatable", "csi_nodes")
def _limits(snapshot: Snapshot, plugin: _InTreeLimit) -> IntArray:
    """Return [node]: limit; NEVER if the node has a CSINode."""
    found = np.fromiter(map(plugin.limit, snapshot.nodes), np.int64, len(snapshot.nodes))
    of_allocatable = attachable_volumes(snapshot).get(plugin.resource)
    if of_allocatable is not None:
        found = np.where(of_allocatable == NEVER, found, of_allocatable)
    for _, name in snapshot.objects.csi_nodes:
        if name in snapshot.node_row:
            found[snapshot.node_row[name]] = NEVER
    return found


EBS: Final = _InTreeLimit(EBS_NAME, "kubernetes.io/aws-ebs", "attachable-volumes-aws-ebs", _ebs_limit)
GCE_PD: Final = _InTreeLimit(
    GCE_PD_NAME, "kubernetes.io/gce-pd", "attachable-volumes-gce-pd", lambda _: MAX_GCE_PD_VOLUMES
)
AZURE_DISK: Final = _InTreeLimit(
    AZURE_DISK_NAME, "kubernetes.io/azure-disk", "attachable-volumes-azure-disk", lambda _: MAX_AZURE_DISK_VOLUMES
)
