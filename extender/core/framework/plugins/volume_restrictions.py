"""VolumeRestrictions: disks that only one node or pod may mount, and ReadWriteOncePod claims.

Mirrors pkg/scheduler/framework/plugins/volumerestrictions (v1.36).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from extender.core.framework.constraint import ConflictConstraint, SchedulingContext
from extender.core.framework.plugins.prefilter import PreFilterResult
from extender.core.snapshot.arrays import IntArray, PodAmounts
from extender.core.snapshot.index import Index
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import not_found, storage
from extender.k8s.objects import Pod, Volume
from extender.k8s.storage.volumes import READ_WRITE_ONCE_POD, named_claims

NAME = "VolumeRestrictions"
REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


# --- disks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Disk:
    """A disk as one pod mounts it."""

    identity: tuple[str, ...]
    """Two mounts with the same identity are of the same disk."""
    read_only: bool

    def conflicts(self, other: "_Disk") -> bool:
        """A disk may be mounted twice if both only read it."""
        return self.identity == other.identity and not (self.read_only and other.read_only)


def _disks(volume: Volume) -> Iterator[_Disk]:
    """One per name that the disk goes by: an RBD image has one for each of its monitors."""
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
    return [disk for volume in pod.spec.volumes or () for disk in _disks(volume)]


class Mounts(Index):
    """Every disk that a running pod mounts."""

    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.of_disk: dict[tuple[str, ...], set[tuple[int, _Disk]]] = {}
        """Identity -> pod row and disk of every mount."""

    def pod_added(self, row: int, pod: Pod) -> None:
        for disk in _disks_of(pod):
            self.of_disk.setdefault(disk.identity, set()).add((row, disk))

    def pod_removed(self, row: int, pod: Pod) -> None:
        for disk in set(_disks_of(pod)):
            mounts = self.of_disk[disk.identity]
            mounts.discard((row, disk))
            if not mounts:
                del self.of_disk[disk.identity]


def _disk_conflicts(context: SchedulingContext, wanted: list[_Disk]) -> ConflictConstraint:
    in_use = context.snapshot.index(Mounts).of_disk
    rows = {row for disk in wanted for row, other in in_use.get(disk.identity, ()) if disk.conflicts(other)}

    def conflicts(pod: Pod) -> bool:
        return any(disk.conflicts(other) for disk in wanted for other in _disks_of(pod))

    takes = context.snapshot.pod_amounts(dict.fromkeys(rows, 1))
    headroom = -takes.per_node(len(context.snapshot.nodes))
    return _column(context, REASON_DISK, headroom, takes, conflicts)


# --- ReadWriteOncePod -----------------------------------------------------------------------------------------------


class ClaimUsers(Index):
    """The running pods that name a claim."""

    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.of_claim: dict[str, Counter[int]] = {}
        """Name of a claim, in any namespace -> pod row -> how often the pod names it."""

    def pod_added(self, row: int, pod: Pod) -> None:
        for name in named_claims(pod):
            self.of_claim.setdefault(name, Counter())[row] += 1

    def pod_removed(self, row: int, pod: Pod) -> None:
        for name in set(named_claims(pod)):
            users = self.of_claim[name]
            del users[row]
            if not users:
                del self.of_claim[name]


def _exclusive_claims(context: SchedulingContext) -> set[str]:
    """Names of the pod's ReadWriteOncePod claims."""
    pod, found = context.pod, storage(context.snapshot)
    claims = ((name, found.claim(pod, name)) for name in named_claims(pod))
    return {name for name, claim in claims if claim and READ_WRITE_ONCE_POD in (claim.spec.access_modes or ())}


def _claim_conflicts(context: SchedulingContext, names: set[str], in_use: int) -> ConflictConstraint:
    """The same on every node: how many of the claims are in use.

    Quirk: what a dry run takes off or puts back is counted by the name of the claim, whatever the namespace.
    """
    snapshot, users = context.snapshot, context.snapshot.index(ClaimUsers).of_claim
    uses: Counter[int] = Counter()
    for name in names:
        uses.update(users.get(name, {}))
    headroom = np.full(len(snapshot.nodes), -in_use)
    return _column(
        context,
        REASON_CLAIM,
        headroom,
        snapshot.pod_amounts(uses),
        lambda pod: sum(name in names for name in named_claims(pod)),
    )


def _in_use(context: SchedulingContext, names: set[str]) -> int:
    """How many of the claims a running pod of the same namespace uses."""
    snapshot, namespace = context.snapshot, context.pod.metadata.namespace
    users = snapshot.index(ClaimUsers).of_claim
    return sum(any(snapshot.pods[row].metadata.namespace == namespace for row in users.get(name, ())) for name in names)


# --- both -----------------------------------------------------------------------------------------------------------


def _column(
    context: SchedulingContext, reason: str, headroom: IntArray, takes: PodAmounts, of_nominee: Callable[[Pod], int]
) -> ConflictConstraint:
    nominated = context.nominated_demand(1, lambda pod, _node: [of_nominee(pod)])
    return ConflictConstraint(NAME, headroom[np.newaxis], RankedDemand(context.layout, (takes,)), nominated, reason)


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """A rejection if a claim that the pod names does not exist."""
    found = storage(context.snapshot)
    for name in named_claims(context.pod):
        if found.claim(context.pod, name) is None:
            reason = not_found("persistentvolumeclaim", name)
            return PreFilterResult.rejecting(NAME, reason)
    return PreFilterResult()


def filter(context: SchedulingContext) -> tuple[ConflictConstraint, ...]:
    """One constraint for disks and one for claims; none (skipped) without disks while no claim is in use."""
    wanted, names = _disks_of(context.pod), _exclusive_claims(context)
    in_use = _in_use(context, names)
    if not wanted and not in_use:
        return ()
    constraints = []
    if wanted:
        constraints.append(_disk_conflicts(context, wanted))
    if names:
        constraints.append(_claim_conflicts(context, names, in_use))
    return tuple(constraints)
