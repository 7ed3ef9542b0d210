"""VolumeRestrictions: disks that only one pod of a node may mount, and claims with ReadWriteOncePod access mode.

Mirrors pkg/scheduler/framework/plugins/volumerestrictions (v1.36).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from extender.core.framework.filter_checks import ConflictConstraint
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import PreFilterResult
from extender.core.snapshot.selector_index import KeyIndex
from extender.core.snapshot.volume_index import not_found, storage
from extender.k8s.objects import Pod, Volume
from extender.k8s.storage.volumes import READ_WRITE_ONCE_POD, named_claims

NAME = "VolumeRestrictions"
REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
REASON_CLAIM_UNTIL_1_33 = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


# --- disks ----------------------------------------------------------------------------------------------------------


class _Disk(NamedTuple):
    """A disk and how one pod mounts it."""

    identity: tuple[str, ...]
    """Volume type and ID: two mounts with equal identity are of the same disk."""
    read_only: bool


def _disks(volume: Volume) -> Iterator[_Disk]:
    """Yield one disk per identity of the volume; an RBD image has one for each of its monitors."""
    if (gce := volume.gce_persistent_disk) is not None:
        yield _Disk(("gce", gce.pd_name), gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        yield _Disk(("aws", aws.volume_id), read_only=False)
    if (iscsi := volume.iscsi) is not None:
        yield _Disk(("iscsi", iscsi.iqn), iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        for monitor in rbd.monitors or ():
            yield _Disk(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)


def _disks_of(pod: Pod) -> list[_Disk]:
    """Return every disk that the pod mounts inline."""
    volumes = pod.spec.volumes
    return [disk for volume in volumes for disk in _disks(volume)] if volumes else []


class DiskMountIndex(KeyIndex):
    """Disks that running pods mount."""

    def keys_of(self, pod: Pod) -> list[_Disk]:
        return _disks_of(pod)


def disk_checks(context: SchedulingContext) -> tuple[ConflictConstraint, ...]:
    """Return the constraint that no pod of the node mounts a conflicting disk, or none for a pod that mounts none."""
    requested, users = _disks_of(context.pod), context.snapshot.index(DiskMountIndex).users
    if not requested:
        return ()
    # Two pods may mount the same disk if both only read.
    mounts = (_Disk(disk.identity, read_only) for disk in requested for read_only in {False, not disk.read_only})
    rows = {row for mount in mounts for row in users.get(mount, ())}
    read = {disk.identity for disk in requested}
    written = {disk.identity for disk in requested if not disk.read_only}

    def conflicts(pod: Pod, _node: int) -> bool:
        return any(
            disk.identity in written or (disk.identity in read and not disk.read_only) for disk in _disks_of(pod)
        )

    demand = context.snapshot.pod_amounts(dict.fromkeys(rows, 1))
    return (ConflictConstraint.of(context, NAME, REASON_DISK, demand, conflicts),)


# --- ReadWriteOncePod -----------------------------------------------------------------------------------------------


class ClaimUserIndex(KeyIndex):
    """Running pods by the names of the claims that they use, whatever the namespace."""

    def keys_of(self, pod: Pod) -> Iterable[str]:
        return named_claims(pod)


def _claim_conflicts(context: SchedulingContext, names: set[str], in_use: int) -> ConflictConstraint:
    """Return the constraint that no other pod uses the claims; its headroom is equal on all nodes.

    `in_use`: number of the claims that a running pod uses.
    """
    snapshot, users = context.snapshot, context.snapshot.index(ClaimUserIndex).users
    # Quirk: AddPod and RemovePod compare claim names only, so pods of other namespaces count in a dry run.
    uses: Counter[int] = Counter()
    for name in names:
        uses.update(users.get(name, {}))
    return ConflictConstraint.of(
        context,
        NAME,
        REASON_CLAIM if context.features.read_write_once_pod_reason_of_1_34 else REASON_CLAIM_UNTIL_1_33,
        snapshot.pod_amounts(uses),
        lambda pod, _node: sum(name in names for name in named_claims(pod)),
        np.full(len(snapshot.nodes), -in_use),
    )


# --- plugin ---------------------------------------------------------------------------------------------------------


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if a claim that it names does not exist."""
    for name in named_claims(context.pod):
        if storage(context.snapshot).claim(context.pod, name) is None:
            return PreFilterResult.rejecting(NAME, not_found("persistentvolumeclaim", name))
    return PreFilterResult()


def filter(context: SchedulingContext) -> tuple[ConflictConstraint, ...]:
    """Return a constraint for disks and one for claims; none (Skip) without disks while no claim is in use."""
    claims = ((name, storage(context.snapshot).claim(context.pod, name)) for name in named_claims(context.pod))
    exclusive = {name for name, claim in claims if claim and READ_WRITE_ONCE_POD in (claim.spec.access_modes or ())}
    # Here, unlike in a dry run, pods of the same namespace count only.
    pods, users = context.snapshot.pods, context.snapshot.index(ClaimUserIndex).users
    namespace = context.pod.metadata.namespace
    in_use = sum(any(pods[row].metadata.namespace == namespace for row in users.get(name, ())) for name in exclusive)
    disks = disk_checks(context)
    if not disks and not in_use:
        return ()
    return (*disks, _claim_conflicts(context, exclusive, in_use)) if exclusive else disks
