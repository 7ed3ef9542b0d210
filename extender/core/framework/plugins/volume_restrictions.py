"""VolumeRestrictions: disks that only one node or pod may mount, and ReadWriteOncePod claims.

Mirrors pkg/scheduler/framework/plugins/volumerestrictions (v1.36).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from extender.core.framework.constraint import Conflicts, SchedulingContext
from extender.core.framework.plugins.prefilter import PreFilter
from extender.core.snapshot.arrays import IntArray, PodAmounts
from extender.core.snapshot.node_layout import Placed
from extender.core.snapshot.snapshot import Index, Snapshot
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

    looks_at = frozenset({"spec"})

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


def _disk_conflicts(incoming: SchedulingContext, wanted: list[_Disk]) -> Conflicts:
    in_use = incoming.snapshot.index(Mounts).of_disk
    rows = {row for disk in wanted for row, other in in_use.get(disk.identity, ()) if disk.conflicts(other)}

    def conflicts(pod: Pod) -> bool:
        return any(disk.conflicts(other) for disk in wanted for other in _disks_of(pod))

    takes = incoming.snapshot.amounts(dict.fromkeys(rows, 1))
    room = -takes.per_node(len(incoming.snapshot.nodes))
    return _column(incoming, REASON_DISK, room, takes, conflicts)


# --- ReadWriteOncePod -----------------------------------------------------------------------------------------------


class ClaimUsers(Index):
    """The running pods that name a claim."""

    looks_at = frozenset({"spec"})

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


def _exclusive_claims(incoming: SchedulingContext) -> set[str]:
    """Names of the pod's ReadWriteOncePod claims."""
    pod, found = incoming.pod, storage(incoming.snapshot)
    claims = ((name, found.claim(pod, name)) for name in named_claims(pod))
    return {name for name, claim in claims if claim and READ_WRITE_ONCE_POD in (claim.spec.access_modes or ())}


def _claim_conflicts(incoming: SchedulingContext, names: set[str], in_use: int) -> Conflicts:
    """The same on every node: how many of the claims are in use.

    Quirk: what a dry run takes off or puts back is counted by the name of the claim, whatever the namespace.
    """
    snapshot, users = incoming.snapshot, incoming.snapshot.index(ClaimUsers).of_claim
    uses: Counter[int] = Counter()
    for name in names:
        uses.update(users.get(name, {}))
    room = np.full(len(snapshot.nodes), -in_use)
    return _column(
        incoming,
        REASON_CLAIM,
        room,
        snapshot.amounts(uses),
        lambda pod: sum(name in names for name in named_claims(pod)),
    )


def _in_use(incoming: SchedulingContext, names: set[str]) -> int:
    """How many of the claims a running pod of the same namespace uses."""
    snapshot, namespace = incoming.snapshot, incoming.pod.metadata.namespace
    users = snapshot.index(ClaimUsers).of_claim
    return sum(any(snapshot.pods[row].metadata.namespace == namespace for row in users.get(name, ())) for name in names)


# --- both -----------------------------------------------------------------------------------------------------------


def _column(
    incoming: SchedulingContext, reason: str, room: IntArray, takes: PodAmounts, of_nominee: Callable[[Pod], int]
) -> Conflicts:
    nominated = incoming.nominated(1, lambda pod, _node: [of_nominee(pod)])
    return Conflicts(NAME, room[np.newaxis], Placed(incoming.layout, (takes,)), nominated, reason)


def prefilter(incoming: SchedulingContext) -> PreFilter:
    """A rejection if a claim that the pod names does not exist."""
    found = storage(incoming.snapshot)
    for name in named_claims(incoming.pod):
        if found.claim(incoming.pod, name) is None:
            reason = not_found("persistentvolumeclaim", name)
            return PreFilter.rejecting(NAME, reason)
    return PreFilter()


def filter(incoming: SchedulingContext) -> tuple[Conflicts, ...]:
    """One constraint for disks and one for claims; none (skipped) without disks while no claim is in use."""
    wanted, names = _disks_of(incoming.pod), _exclusive_claims(incoming)
    in_use = _in_use(incoming, names)
    if not wanted and not in_use:
        return ()
    constraints = []
    if wanted:
        constraints.append(_disk_conflicts(incoming, wanted))
    if names:
        constraints.append(_claim_conflicts(incoming, names, in_use))
    return tuple(constraints)
