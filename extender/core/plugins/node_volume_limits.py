"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node.

What counts is the set of volumes, not of pods: taking off one of two pods that share a volume frees nothing. Volumes
that one pod of the node uses alone add up in one column per driver; those that pods share, and those that the incoming
pod or a nominated one uses, have a column of their own that counts their users.

Mirrors pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (v1.36, VolumeLimitScaling off as by default).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from extender.core.checks import Constraint, Incoming, Rows, StaticCheck
from extender.core.snapshot import NEVER, BoolArray, IntArray, Placed, PodAmounts, Snapshot
from extender.core.storage import VolumeID, not_found, storage
from extender.k8s.objects import Pod
from extender.k8s.volumes import claim_uses, is_for_pod, not_for_pod

NAME = "NodeVolumeLimits"
REASON = "node(s) exceed max volume count"


# --- what a snapshot holds ------------------------------------------------------------------------------------------


def volume_users(snapshot: Snapshot) -> dict[VolumeID, list[int]]:
    """CSI volume -> rows of the running pods that use it; take it from `snapshot.memo`."""
    found = storage(snapshot)
    users: dict[VolumeID, list[int]] = defaultdict(list)
    for row, pod in enumerate(snapshot.pods):
        if pod.spec.volumes:
            for volume in found.csi_volumes(pod):
                users[volume].append(row)
    return dict(users)


def _attachments(snapshot: Snapshot) -> dict[VolumeID, set[int]]:
    """CSI volume -> rows of the nodes that a VolumeAttachment attaches it to."""
    found = storage(snapshot)
    attachments: dict[VolumeID, set[int]] = defaultdict(set)
    for attachment in snapshot.objects.volume_attachments:
        spec = attachment.spec
        volume = found.volumes.get(spec.source.persistent_volume_name or "")
        node = snapshot.node_row.get(spec.node_name)
        if spec.attacher and node is not None and volume is not None and volume.spec.csi is not None:
            attachments[spec.attacher, volume.spec.csi.volume_handle].add(node)
    return dict(attachments)


def _limits(snapshot: Snapshot) -> dict[str, IntArray]:
    """Driver -> [node], NEVER where it has no limit; of drivers that some node limits."""
    found: dict[str, IntArray] = {}
    for name, csi_node in storage(snapshot).csi_nodes.items():
        node = snapshot.node_row.get(name)
        for one in (csi_node.spec.drivers or ()) if node is not None else ():
            if one.allocatable is not None and one.allocatable.count is not None:
                found.setdefault(one.name, np.full(len(snapshot.nodes), NEVER))[node] = one.allocatable.count
    return found


@dataclass(frozen=True, slots=True)
class Load:
    """What one driver has attached."""

    always: IntArray
    """[node]: by a VolumeAttachment, whoever leaves."""
    alone: PodAmounts
    """Volumes that only this pod of its node uses."""
    shared: tuple[PodAmounts, ...]
    """Columns of at most one volume per node, each user counting 1."""
    slots: Mapping[tuple[VolumeID, int], int]
    """(volume, node row) -> which of these columns."""


def loads(snapshot: Snapshot) -> dict[str, Load]:
    """Driver -> its load, of drivers that some node limits; take it from `snapshot.memo`."""
    of_driver: dict[str, list[VolumeID]] = {driver: [] for driver in snapshot.memo(_limits)}
    if not of_driver:
        return {}
    for volume in dict.fromkeys([*snapshot.memo(volume_users), *snapshot.memo(_attachments)]):
        if volume[0] in of_driver:
            of_driver[volume[0]].append(volume)
    return {driver: _load(snapshot, volumes) for driver, volumes in of_driver.items()}


def _load(snapshot: Snapshot, volumes: Iterable[VolumeID]) -> Load:
    users, attachments = snapshot.memo(volume_users), snapshot.memo(_attachments)
    always = np.zeros(len(snapshot.nodes), np.int64)
    alone: dict[int, int] = defaultdict(int)
    columns: list[list[int]] = []
    slots: dict[tuple[VolumeID, int], int] = {}
    filled: dict[int, int] = defaultdict(int)
    for volume in volumes:
        attached = attachments.get(volume, ())
        for node in attached:
            always[node] += 1
        for node, rows in _by_node(snapshot, users.get(volume, [])).items():
            if node in attached:
                continue
            if len(rows) == 1:
                alone[rows[0]] += 1
                continue
            slot = slots[volume, node] = filled[node]
            filled[node] += 1
            if slot == len(columns):
                columns.append([])
            columns[slot] += rows
    shared = tuple(snapshot.amounts(dict.fromkeys(rows, 1)) for rows in columns)
    return Load(always, snapshot.amounts(alone), shared, slots)


def _without(snapshot: Snapshot, load: Load, volumes: Iterable[VolumeID]) -> Load:
    """The load, these volumes left out: they get columns of their own."""
    users, attachments = snapshot.memo(volume_users), snapshot.memo(_attachments)
    always, amounts, shared = load.always.copy(), load.alone.amounts.copy(), list(load.shared)
    for volume in volumes:
        attached = attachments.get(volume, ())
        for node in attached:
            always[node] -= 1
        for node, rows in _by_node(snapshot, users.get(volume, [])).items():
            if (volume, node) in load.slots:
                slot = load.slots[volume, node]
                shared[slot] = shared[slot].without(rows)
            elif node not in attached:
                amounts[load.alone.pods == rows[0]] -= 1
    return Load(always, replace(load.alone, amounts=amounts), tuple(shared), load.slots)


def _by_node(snapshot: Snapshot, rows: Sequence[int]) -> dict[int, list[int]]:
    """Pod rows by node row."""
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(int(snapshot.pod_node[row]), []).append(row)
    return found


# --- constraint -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Single:
    """A volume with a column of its own."""

    driver: int
    """Place among the drivers."""
    is_wanted: bool
    """By the incoming pod."""


@dataclass(frozen=True)
class VolumeLimits(Constraint):
    """First a column per driver: its limit less the volumes that count by themselves. Then minus the users of shared
    volumes, then of single ones: such a volume is attached while it has a user."""

    drivers: int
    shared: tuple[int, ...]
    """Driver of each shared column."""
    singles: tuple[_Single, ...]
    always: BoolArray
    """[single, node]: attached, whoever leaves."""

    def fits(self, room: IntArray) -> BoolArray:
        in_use = room[self.drivers :] < 0
        taken = np.zeros((self.drivers, room.shape[1]), np.int64)
        brings = np.zeros(taken.shape, np.bool_)
        for driver, used in zip(self.shared, in_use, strict=False):
            taken[driver] += used
        for single, used, always in zip(self.singles, in_use[len(self.shared) :], self.always, strict=True):
            taken[single.driver] += used | always
            if single.is_wanted:
                taken[single.driver] += ~used  # quirk: once more, although it is attached already
                brings[single.driver] |= ~used
        fits: BoolArray = np.logical_and.reduce(~brings | (taken <= room[: self.drivers]), axis=0)
        return fits

    def reasons(self, room: IntArray, row: int) -> tuple[str, ...]:
        return () if self.fits(room)[row] else (REASON,)

    def at(self, rows: Rows) -> Self:
        return replace(super().at(rows), always=self.always[:, rows])


def filter(incoming: Incoming) -> tuple[StaticCheck | VolumeLimits, ...]:
    """One constraint for all drivers, or none for a pod that brings no volume of a limited driver."""
    snapshot, found = incoming.snapshot, storage(incoming.snapshot)
    unusable = _unusable_claim(incoming)
    if unusable is not None:
        return (StaticCheck(NAME, np.ones(len(snapshot.nodes), np.bool_), (unusable,)),)
    wanted = found.csi_volumes(incoming.pod)
    limits = snapshot.memo(_limits)
    drivers = sorted({driver for driver, _ in wanted} & limits.keys())
    if not drivers:
        return ()
    brought = wanted.union(*map(found.csi_volumes, incoming.nominees))
    singles = sorted(volume for volume in brought if volume[0] in drivers)
    return (_columns(incoming, limits, drivers, wanted, singles),)


def _unusable_claim(incoming: Incoming) -> str | None:
    """Why a claim of the pod cannot be counted: VolumeBinding has said so before, if it is enabled."""
    pod = incoming.pod
    for use in claim_uses(pod):
        claim = storage(incoming.snapshot).claim(pod, use.name)
        if claim is None:
            return f"looking up PVC {pod.metadata.namespace}/{use.name}: {not_found('persistentvolumeclaim', use.name)}"
        if use.is_ephemeral and not is_for_pod(claim, pod):
            return not_for_pod(claim, pod)
    return None


def _columns(
    incoming: Incoming,
    limits: Mapping[str, IntArray],
    drivers: Sequence[str],
    wanted: frozenset[VolumeID],
    singles: Sequence[VolumeID],
) -> VolumeLimits:
    snapshot = incoming.snapshot
    users, attachments = snapshot.memo(volume_users), snapshot.memo(_attachments)
    apart = [volume for volume in singles if volume in users or volume in attachments]
    found = [
        _without(
            snapshot, snapshot.memo(loads).get(driver) or _load(snapshot, ()), (v for v in apart if v[0] == driver)
        )
        for driver in drivers
    ]
    shared = [(place, column) for place, load in enumerate(found) for column in load.shared]
    takes = [load.alone for load in found] + [column for _, column in shared]
    takes += [snapshot.amounts(dict.fromkeys(users.get(volume, ()), 1)) for volume in singles]
    room = np.stack([-column.per_node(len(snapshot.nodes)) for column in takes])
    for place, (driver, load) in enumerate(zip(drivers, found, strict=True)):
        room[place] += limits[driver] - load.always
    always = np.zeros((len(singles), len(snapshot.nodes)), np.bool_)
    for place, volume in enumerate(singles):
        always[place, list(attachments.get(volume, ()))] = True

    def of_nominee(pod: Pod, _node: int) -> list[int]:
        volumes = storage(snapshot).csi_volumes(pod)
        return [0] * (len(drivers) + len(shared)) + [volume in volumes for volume in singles]

    return VolumeLimits(
        NAME,
        room,
        Placed(snapshot.layout, tuple(takes)),
        incoming.nominated(len(room), of_nominee),
        len(drivers),
        tuple(place for place, _ in shared),
        tuple(_Single(drivers.index(volume[0]), volume in wanted) for volume in singles),
        always,
    )
