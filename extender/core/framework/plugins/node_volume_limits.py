"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node.

What counts is the set of volumes, not of pods: taking off one of two pods that share a volume frees nothing. Volumes
that one pod of the node uses alone add up in one column per driver; those that pods share, and those that the incoming
pod or a nominated one uses, have a column of their own that counts their users.

Mirrors pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (v1.36, VolumeLimitScaling off as by default).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Self, TypeVar

import numpy as np

from extender.core.framework.constraint import Constraint, NodeRows, SchedulingContext, StaticCheck
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray, PodAmounts
from extender.core.snapshot.derived import derived, derived_by
from extender.core.snapshot.index import Index
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import VolumeID, not_found, storage
from extender.k8s.kinds import Key
from extender.k8s.objects import Pod, Value
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from extender.k8s.storage.volumes import claim_uses, is_for_pod, not_for_pod_message

NAME = "NodeVolumeLimits"
REASON = "node(s) exceed max volume count"

Placement = tuple[VolumeID, str]
"""A volume on a node, by the node's name."""

K = TypeVar("K")
V = TypeVar("V")


# --- what a snapshot holds ------------------------------------------------------------------------------------------


class DriverVolumes:
    """What one driver has attached: which volumes, where, and for whom."""

    def __init__(self) -> None:
        self.users: dict[VolumeID, set[int]] = {}
        """Volume -> rows of the running pods that use it."""
        self.attached: dict[VolumeID, Counter[str]] = {}
        """Volume -> node name -> how many VolumeAttachments attach it there."""
        self.alone: Counter[int] = Counter()
        """Pod row -> how many volumes only this pod of its node uses."""
        self.shared: list[dict[int, int]] = []
        """Columns of at most one volume per node, each user counting 1."""
        self.slots: dict[Placement, int] = {}
        """Volume on a node -> which of these columns."""
        self._used: dict[Placement, set[int]] = {}
        self._filled: dict[str, set[int]] = defaultdict(set)

    def use(self, at: Placement, row: int) -> None:
        """A running pod uses the volume on its node."""
        self._uncount(at)
        self.users.setdefault(at[0], set()).add(row)
        self._used.setdefault(at, set()).add(row)
        self._count(at)

    def stop_using(self, at: Placement, row: int) -> None:
        self._uncount(at)
        _discard(self.users, at[0], row)
        _discard(self._used, at, row)
        self._count(at)

    def attach(self, at: Placement, times: int) -> None:
        """One VolumeAttachment more, or less (-1)."""
        volume, node = at
        self._uncount(at)
        nodes = self.attached.setdefault(volume, Counter())
        nodes[node] += times
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self.attached[volume]
        self._count(at)

    def is_attached(self, at: Placement) -> bool:
        return at[1] in self.attached.get(at[0], ())

    def rows_at(self, at: Placement) -> set[int]:
        """Users of a volume on a node."""
        return self._used.get(at, set())

    def _count(self, at: Placement) -> None:
        rows = self._used.get(at, ())
        if not rows or self.is_attached(at):
            return
        if len(rows) == 1:
            self.alone.update(rows)
            return
        filled = self._filled[at[1]]
        slot = next(slot for slot in count() if slot not in filled)
        filled.add(slot)
        self.slots[at] = slot
        if slot == len(self.shared):
            self.shared.append({})
        self.shared[slot].update(dict.fromkeys(rows, 1))

    def _uncount(self, at: Placement) -> None:
        rows = self._used.get(at, ())
        if at in self.slots:
            slot = self.slots.pop(at)
            _discard(self._filled, at[1], slot)
            for row in rows:
                del self.shared[slot][row]
        elif len(rows) == 1 and not self.is_attached(at):
            (row,) = rows
            self.alone[row] -= 1
            if not self.alone[row]:
                del self.alone[row]


class AttachedVolumes(Index):
    """The CSI volumes that running pods use and that VolumeAttachments attach, by driver."""

    reads = ("claims", "volumes", "storage_classes", "volume_attachments")
    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._storage = storage(snapshot)
        self._drivers: dict[str, DriverVolumes] = defaultdict(DriverVolumes)
        self._of_pod: dict[int, frozenset[VolumeID]] = {}
        self._claim_users: dict[Key, set[int]] = defaultdict(set)
        self._claims_of: dict[str, set[Key]] = defaultdict(set)
        self._attaching: dict[str, set[Key]] = defaultdict(set)
        self._attached: dict[Key, Placement] = {}

    def of(self, driver: str) -> DriverVolumes:
        return self._drivers[driver]

    # --- pods ---

    def pod_added(self, row: int, pod: Pod) -> None:
        if pod.spec.volumes:
            for use in claim_uses(pod):
                self._claim_users[pod.metadata.namespace, use.name].add(row)
            self._use(row, frozenset(), self._storage.csi_volumes(pod))

    def pod_removed(self, row: int, pod: Pod) -> None:
        if pod.spec.volumes:
            self._use(row, self._of_pod.get(row, frozenset()), frozenset())
            for use in claim_uses(pod):
                _discard(self._claim_users, (pod.metadata.namespace, use.name), row)

    def _use(self, row: int, before: frozenset[VolumeID], after: frozenset[VolumeID]) -> None:
        node = self.snapshot.node_names[self.snapshot.pod_node[row]]
        for volume in before - after:
            self._drivers[volume[0]].stop_using((volume, node), row)
        for volume in after - before:
            self._drivers[volume[0]].use((volume, node), row)
        self._of_pod[row] = after
        if not after:
            del self._of_pod[row]

    def _look_again(self, rows: Iterable[int]) -> None:
        for row in rows:
            now = self._storage.csi_volumes(self.snapshot.pods[row])
            self._use(row, self._of_pod.get(row, frozenset()), now)

    # --- objects ---

    def object_changed(self, field: str, before: Value | None, after: Value | None) -> None:
        for one, is_now in ((before, False), (after, True)):
            if isinstance(one, PersistentVolumeClaim):
                self._claim(one, is_now)
            elif isinstance(one, VolumeAttachment):
                self._attachment(one, is_now)
        one = after or before
        if isinstance(one, PersistentVolumeClaim):
            self._look_again(self._claim_users.get(_key(one), ()))
        elif isinstance(one, PersistentVolume):
            self._volume(one.metadata.name)
        elif isinstance(one, StorageClass):  # tells the driver of claims without a volume; seldom changes
            self._look_again(row for rows in self._claim_users.values() for row in rows)

    def _claim(self, claim: PersistentVolumeClaim, is_now: bool) -> None:
        if is_now and claim.spec.volume_name:
            self._claims_of[claim.spec.volume_name].add(_key(claim))
        else:
            _discard(self._claims_of, claim.spec.volume_name, _key(claim))

    def _volume(self, name: str) -> None:
        for claim in self._claims_of.get(name, ()):
            self._look_again(self._claim_users.get(claim, ()))
        for key in tuple(self._attaching.get(name, ())):
            self._detach(key)
            self._attach(key, self.snapshot.objects.volume_attachments[key])

    def _attachment(self, attachment: VolumeAttachment, is_now: bool) -> None:
        key, volume = ("", attachment.metadata.name), attachment.spec.source.persistent_volume_name or ""
        if is_now:
            self._attaching[volume].add(key)
            self._attach(key, attachment)
        else:
            _discard(self._attaching, volume, key)
            self._detach(key)

    def _attach(self, key: Key, attachment: VolumeAttachment) -> None:
        spec = attachment.spec
        volume = self._storage.volume(spec.source.persistent_volume_name or "")
        if spec.attacher and volume is not None and volume.spec.csi is not None:
            at = self._attached[key] = (spec.attacher, volume.spec.csi.volume_handle), spec.node_name
            self._drivers[spec.attacher].attach(at, 1)

    def _detach(self, key: Key) -> None:
        at = self._attached.pop(key, None)
        if at is not None:
            self._drivers[at[0][0]].attach(at, -1)


def _key(claim: PersistentVolumeClaim) -> Key:
    return claim.metadata.namespace, claim.metadata.name


def _discard(table: dict[K, set[V]], key: K, value: V) -> None:
    values = table.get(key)
    if values is not None:
        values.discard(value)
        if not values:
            del table[key]


# --- a driver's volumes as columns ----------------------------------------------------------------------------------


@derived("nodes", "csi_nodes")
def _limits(snapshot: Snapshot) -> dict[str, IntArray]:
    """Driver -> [node], NEVER where it has no limit; of drivers that some node limits."""
    found: dict[str, IntArray] = {}
    for (_, name), csi_node in snapshot.objects.csi_nodes.items():
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


@derived_by("nodes", "pods", "claims", "volumes", "storage_classes", "volume_attachments")
def _load(snapshot: Snapshot, driver: str) -> Load:
    volumes = snapshot.index(AttachedVolumes).of(driver)
    always = np.zeros(len(snapshot.nodes), np.int64)
    for volume in volumes.attached:
        always[list(_attached_to(snapshot, volume))] += 1
    return Load(always, snapshot.pod_amounts(volumes.alone), tuple(map(snapshot.pod_amounts, volumes.shared)))


def _without(snapshot: Snapshot, driver: str, apart: Iterable[VolumeID]) -> Load:
    """The driver's load, the volumes `apart` left out: they get columns of their own."""
    load, volumes = _load(snapshot, driver), snapshot.index(AttachedVolumes).of(driver)
    always, amounts, shared = load.always.copy(), load.alone.amounts.copy(), list(load.shared)
    for volume in apart:
        attached = _attached_to(snapshot, volume)
        always[list(attached)] -= 1
        for node in {int(snapshot.pod_node[row]) for row in volumes.users.get(volume, ())} - attached:
            at = volume, snapshot.node_names[node]
            rows = list(volumes.rows_at(at))
            if at in volumes.slots:
                shared[volumes.slots[at]] = shared[volumes.slots[at]].without(rows)
            else:
                amounts[load.alone.pods == rows[0]] -= 1
    return Load(always, replace(load.alone, amounts=amounts), tuple(shared))


def _attached_to(snapshot: Snapshot, volume: VolumeID) -> set[int]:
    """Rows of the nodes that a VolumeAttachment attaches it to."""
    attached = snapshot.index(AttachedVolumes).of(volume[0]).attached.get(volume, ())
    return {snapshot.node_row[node] for node in attached if node in snapshot.node_row}


# --- constraint -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Single:
    """A volume with a column of its own."""

    driver: int
    """Place among the drivers."""
    is_wanted: bool
    """By the incoming pod."""


@dataclass(frozen=True)
class VolumeLimitConstraint(Constraint):
    """First a column per driver: its limit less the volumes that count by themselves. Then minus the users of shared
    volumes, then of single ones: such a volume is attached while it has a user."""

    drivers: int
    shared: tuple[int, ...]
    """Driver of each shared column."""
    singles: tuple[_Single, ...]
    always: BoolArray
    """[single, node]: attached, whoever leaves."""

    def fits(self, headroom: IntArray) -> BoolArray:
        in_use = headroom[self.drivers :] < 0
        taken = np.zeros((self.drivers, headroom.shape[1]), np.int64)
        brings = np.zeros(taken.shape, np.bool_)
        for driver, used in zip(self.shared, in_use, strict=False):
            taken[driver] += used
        for single, used, always in zip(self.singles, in_use[len(self.shared) :], self.always, strict=True):
            taken[single.driver] += used | always
            if single.is_wanted:
                taken[single.driver] += ~used  # quirk: once more, although it is attached already
                brings[single.driver] |= ~used
        fits: BoolArray = np.logical_and.reduce(~brings | (taken <= headroom[: self.drivers]), axis=0)
        return fits

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        return () if self.fits(headroom)[row] else (REASON,)

    def at(self, rows: NodeRows) -> Self:
        return replace(super().at(rows), always=self.always[:, rows])


def filter(context: SchedulingContext) -> tuple[StaticCheck | VolumeLimitConstraint, ...]:
    """One constraint for all drivers, or none for a pod that brings no volume of a limited driver."""
    snapshot, found = context.snapshot, storage(context.snapshot)
    unusable = _unusable_claim(context)
    if unusable is not None:
        return (StaticCheck(NAME, np.ones(len(snapshot.nodes), np.bool_), (unusable,)),)
    wanted = found.csi_volumes(context.pod)
    limits = _limits(snapshot)
    drivers = sorted({driver for driver, _ in wanted} & limits.keys())
    if not drivers:
        return ()
    brought = wanted.union(*map(found.csi_volumes, context.nominees))
    singles = sorted(volume for volume in brought if volume[0] in drivers)
    return (_columns(context, limits, drivers, wanted, singles),)


def _unusable_claim(context: SchedulingContext) -> str | None:
    """Why a claim of the pod cannot be counted: VolumeBinding has said so before, if it is enabled."""
    pod = context.pod
    for use in claim_uses(pod):
        claim = storage(context.snapshot).claim(pod, use.name)
        if claim is None:
            return f"looking up PVC {pod.metadata.namespace}/{use.name}: {not_found('persistentvolumeclaim', use.name)}"
        if use.is_ephemeral and not is_for_pod(claim, pod):
            return not_for_pod_message(claim, pod)
    return None


def _users(snapshot: Snapshot, volume: VolumeID) -> set[int]:
    return snapshot.index(AttachedVolumes).of(volume[0]).users.get(volume, set())


def _columns(
    context: SchedulingContext,
    limits: Mapping[str, IntArray],
    drivers: Sequence[str],
    wanted: frozenset[VolumeID],
    singles: Sequence[VolumeID],
) -> VolumeLimitConstraint:
    snapshot = context.snapshot
    found = [_without(snapshot, driver, [volume for volume in singles if volume[0] == driver]) for driver in drivers]
    shared = [(place, column) for place, load in enumerate(found) for column in load.shared]
    takes = [load.alone for load in found] + [column for _, column in shared]
    takes += [snapshot.pod_amounts(dict.fromkeys(_users(snapshot, volume), 1)) for volume in singles]
    headroom = np.stack([-column.per_node(len(snapshot.nodes)) for column in takes])
    for place, (driver, load) in enumerate(zip(drivers, found, strict=True)):
        headroom[place] += limits[driver] - load.always
    always = np.zeros((len(singles), len(snapshot.nodes)), np.bool_)
    for place, volume in enumerate(singles):
        always[place, list(_attached_to(snapshot, volume))] = True

    def of_nominee(pod: Pod, _node: int) -> list[int]:
        volumes = storage(snapshot).csi_volumes(pod)
        return [0] * (len(drivers) + len(shared)) + [volume in volumes for volume in singles]

    return VolumeLimitConstraint(
        NAME,
        headroom,
        RankedDemand(context.layout, tuple(takes)),
        context.nominated_demand(len(headroom), of_nominee),
        len(drivers),
        tuple(place for place, _ in shared),
        tuple(_Single(drivers.index(volume[0]), volume in wanted) for volume in singles),
        always,
    )
