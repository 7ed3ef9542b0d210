"""VolumeRestrictions: reject nodes for conflicting disk mounts, and for ReadWriteOncePod claims that are in use.

Mirrors pkg/scheduler/framework/plugins/volumerestrictions (v1.36).
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from extender.core.framework.filter_checks import ConflictConstraint
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import PreFilterResult
from extender.core.snapshot.selector_index import KeyIndex
from extender.core.snapshot.volume_index import not_found, storage
from extender.k8s.objects import Pod
from extender.k8s.storage.volumes import READ_WRITE_ONCE_POD, named_claims

NAME = "VolumeRestrictions"
REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
REASON_CLAIM_UNTIL_1_33 = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


# --- disks ----------------------------------------------------------------------------------------------------------


class MountedDisk(NamedTuple):
    """A disk and how one pod mounts it."""

    identity: tuple[str, ...]
    """Volume type and ID: mounts with equal identity mount the same disk."""
    read_only: bool


def disks_of(pod: Pod) -> list[MountedDisk]:
    """Return every disk that the pod mounts inline; an RBD image counts as one disk per monitor."""
    found = []
    for volume in pod.spec.volumes or ():
        if (gce := volume.gce_persistent_disk) is not None:
            found.append(MountedDisk(("gce", gce.pd_name), gce.read_only))
        if (aws := volume.aws_elastic_block_store) is not None:
            found.append(MountedDisk(("aws", aws.volume_id), read_only=False))
        if (iscsi := volume.iscsi) is not None:
            found.append(MountedDisk(("iscsi", iscsi.iqn), iscsi.read_only))
        if (rbd := volume.rbd) is not None:
            found += [
                MountedDisk(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only) for monitor in rbd.monitors or ()
            ]
    return found


class DiskMountIndex(KeyIndex):
    """Disks that running pods mount."""

    def keys_of(self, pod: Pod) -> list[MountedDisk]:
        return disks_of(pod)


def conflicting_mounts(disk: MountedDisk) -> list[MountedDisk]:
    """Return the mounts that exclude this one; two pods may mount the same disk if both mount it read-only."""
    return [MountedDisk(disk.identity, read_only) for read_only in {False, not disk.read_only}]


def disk_checks(context: SchedulingContext) -> tuple[ConflictConstraint, ...]:
    """Return the constraint that no pod of the node mounts a conflicting disk, or none if the pod mounts no disk."""
    requested, users = disks_of(context.pod), context.snapshot.index(DiskMountIndex).users
    if not requested:
        return ()
    rows = {row for disk in requested for mount in conflicting_mounts(disk) for row in users.get(mount, ())}
    read = {disk.identity for disk in requested}
    written = {disk.identity for disk in requested if not disk.read_only}

    def conflicts(pod: Pod, _node: int) -> bool:
        return any(disk.identity in written or (disk.identity in read and not disk.read_only) for disk in disks_of(pod))

    demand = context.snapshot.pod_amounts(dict.fromkeys(rows, 1))
    return (ConflictConstraint.of(context, NAME, REASON_DISK, demand, conflicts),)


# --- ReadWriteOncePod -----------------------------------------------------------------------------------------------


class ClaimUserIndex(KeyIndex):
    """Running pods by the names of the claims that they use, across all namespaces."""

    def keys_of(self, pod: Pod) -> Iterable[str]:
        return named_claims(pod)


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if a claim that it names does not exist."""
    for name in named_claims(context.pod):
        if storage(context.snapshot).claim(context.pod, name) is None:
            return PreFilterResult.rejecting(NAME, not_found("persistentvolumeclaim", name))
    return PreFilterResult()


def exclusive_claims(context: SchedulingContext) -> set[str]:
    """Return the names of the pod's claims that one pod at a time may use (ReadWriteOncePod)."""
    claims = ((name, storage(context.snapshot).claim(context.pod, name)) for name in named_claims(context.pod))
    return {name for name, claim in claims if claim and READ_WRITE_ONCE_POD in (claim.spec.access_modes or ())}


def filter(context: SchedulingContext) -> tuple[ConflictConstraint, ...]:
    """Return a constraint for disks and one for claims; none (Skip) without disks if none of the claims is in use."""
    snapshot, namespace = context.snapshot, context.pod.metadata.namespace
    # 1. isVolumeConflict
    disks = disk_checks(context)
    # 2. satisfyReadWriteOncePod: no running pod of the namespace, on any node, uses one of the claims.
    exclusive = exclusive_claims(context)
    users = [snapshot.index(ClaimUserIndex).users.get(name, Counter[int]()) for name in exclusive]
    in_use = sum(any(snapshot.pods[row].metadata.namespace == namespace for row in rows) for rows in users)
    if not exclusive or not (disks or in_use):
        return disks
    # Quirk: AddPod and RemovePod compare claim names only, so pods of other namespaces count in a dry run.
    uses = Counter[int]()
    for rows in users:
        uses.update(rows)
    return (
        *disks,
        ConflictConstraint.of(
            context,
            NAME,
            REASON_CLAIM if context.features.read_write_once_pod_reason_of_1_34 else REASON_CLAIM_UNTIL_1_33,
            snapshot.pod_amounts(uses),
            lambda pod, _node: sum(name in exclusive for name in named_claims(pod)),
            np.full(len(snapshot.nodes), -in_use),
        ),
    )
