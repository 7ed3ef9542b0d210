"""NodeVolumeLimits: limit the number of CSI volumes per driver that are attached to a node (CSINode allocatable count).

A driver's limit counts distinct volumes, not pods: evicting one of two pods that share a volume frees nothing. So
unshared volumes (used by one pod of the node) are summed in one column per driver. Shared volumes, and volumes of the
incoming pod or of a nominated pod, have columns that count their users: such a volume is attached while it has a user.

Mirrors pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (v1.36, VolumeLimitScaling off as by default).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

import numpy as np

from extender.core.framework.constraint import Constraint, SchedulingContext, StaticCheck
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray, PodAmounts
from extender.core.snapshot.derived import derived, derived_by
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.core.snapshot.volume_index import VolumeID, not_found, storage
from extender.k8s.kinds import Key
from extender.k8s.objects import Object, Pod
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from extender.k8s.storage.volumes import claim_uses, is_for_pod, not_for_pod_message

NAME = "NodeVolumeLimits"
REASON = "node(s) exceed max volume count"

Placement = tuple[VolumeID, str]
"""A volume on a node, by the node's name."""

K = TypeVar("K")
V = TypeVar("V")


# --- index ----------------------------------------------------------------------------------------------------------


class DriverVolumes:
    """Volumes of one CSI driver: which are attached, on which nodes, and which pods use them."""

    def __init__(self) -> None:
        self.users: dict[VolumeID, set[int]] = {}
        """Volume -> rows of the running pods that use it."""
        self.attached: dict[VolumeID, Counter[str]] = {}
        """Volume -> node name -> how many VolumeAttachments attach it there."""
        self.unshared: Counter[int] = Counter()
        """Pod row -> number of volumes that no other pod of its node uses."""
        # Columns are kept up to date volume by volume: laying out thousands of shared volumes takes milliseconds.
        self.shared: list[dict[int, int]] = []
        """[column]: pod row -> 1 for each user; a column holds at most one volume per node."""
        self.column_of: dict[Placement, int] = {}
        """Volume on a node that several of its pods use -> its column in `shared`."""
        self._columns_on: dict[str, set[int]] = defaultdict(set)
        """Node name -> columns that hold a volume there."""
        self.used: dict[Placement, set[int]] = {}
        """Volume on a node -> rows of the pods that use it there."""

    def use(self, at: Placement, row: int) -> None:
        """Record that a running pod uses the volume on its node."""
        self._count(at, -1)
        self.users.setdefault(at[0], set()).add(row)
        self.used.setdefault(at, set()).add(row)
        self._count(at, 1)

    def stop_using(self, at: Placement, row: int) -> None:
        self._count(at, -1)
        _discard(self.users, at[0], row)
        _discard(self.used, at, row)
        self._count(at, 1)

    def attach(self, at: Placement, times: int) -> None:
        """Record `times` more VolumeAttachments of the volume to the node; -1: one was deleted."""
        volume, node = at
        self._count(at, -1)
        nodes = self.attached.setdefault(volume, Counter())
        nodes[node] += times
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self.attached[volume]
        self._count(at, 1)

    def _count(self, at: Placement, sign: int) -> None:
        """Count the volume as unshared or shared (-1: no longer); not if a VolumeAttachment attaches it anyway."""
        rows, node = self.used.get(at), at[1]
        if not rows or node in self.attached.get(at[0], ()):
            return
        if len(rows) == 1:
            (row,) = rows
            self.unshared[row] += sign
            if not self.unshared[row]:
                del self.unshared[row]
        elif sign > 0:
            taken = self._columns_on[node]
            column = self.column_of[at] = next(column for column in count() if column not in taken)
            taken.add(column)
            if column == len(self.shared):
                self.shared.append({})
            self.shared[column].update(dict.fromkeys(rows, 1))
        else:
            column = self.column_of.pop(at)
            _discard(self._columns_on, node, column)
            for row in rows:
                del self.shared[column][row]


class AttachedVolumeIndex(Index):
    """CSI volumes that running pods use and that VolumeAttachments attach, by driver."""

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

    def _refresh_users(self, rows: Iterable[int]) -> None:
        for row in rows:
            now = self._storage.csi_volumes(self.snapshot.pods[row])
            self._use(row, self._of_pod.get(row, frozenset()), now)

    # --- objects ---

    def object_changed(self, field: str, before: Object | None, after: Object | None) -> None:
        for one, is_now in ((before, False), (after, True)):
            if isinstance(one, PersistentVolumeClaim):
                self._claim(one, is_now)
            elif isinstance(one, VolumeAttachment):
                self._attachment(one, is_now)
        one = after or before
        if isinstance(one, PersistentVolumeClaim):
            self._refresh_users(self._claim_users.get(_key(one), ()))
        elif isinstance(one, PersistentVolume):
            self._volume(one.metadata.name)
        elif isinstance(one, StorageClass):  # names the driver of claims without a volume; rarely changes
            self._refresh_users(row for rows in self._claim_users.values() for row in rows)

    def _claim(self, claim: PersistentVolumeClaim, is_now: bool) -> None:
        if is_now and claim.spec.volume_name:
            self._claims_of[claim.spec.volume_name].add(_key(claim))
        else:
            _discard(self._claims_of, claim.spec.volume_name, _key(claim))

    def _volume(self, name: str) -> None:
        for claim in self._claims_of.get(name, ()):
            self._refresh_users(self._claim_users.get(claim, ()))
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
    """Return driver -> [node]: limit, NEVER where the node has none. Drivers without any limit are left out."""
    found: dict[str, IntArray] = {}
    for (_, name), csi_node in snapshot.objects.csi_nodes.items():
        node = snapshot.node_row.get(name)
        for one in (csi_node.spec.drivers or ()) if node is not None else ():
            if one.allocatable is not None and one.allocatable.count is not None:
                found.setdefault(one.name, np.full(len(snapshot.nodes), NEVER))[node] = one.allocatable.count
    return found


@derived_by("nodes", "volumes", "volume_attachments")
def _always_attached(snapshot: Snapshot, driver: str) -> IntArray:
    """Return [node]: the driver's volumes that a VolumeAttachment attaches; no eviction detaches them in a dry run."""
    found = np.zeros(len(snapshot.nodes), np.int64)
    for volume in snapshot.index(AttachedVolumeIndex).of(driver).attached:
        found[list(_attached_to(snapshot, volume))] += 1
    return found


@derived_by("nodes", "pods", "claims", "volumes", "storage_classes", "volume_attachments")
def _used_volumes(snapshot: Snapshot, driver: str) -> tuple[PodAmounts, ...]:
    """Return the columns of the driver's volumes that only pods attach: the unshared ones, then the shared ones."""
    volumes = snapshot.index(AttachedVolumeIndex).of(driver)
    return tuple(map(snapshot.pod_amounts, (volumes.unshared, *volumes.shared)))


def _used_volumes_without(snapshot: Snapshot, driver: str, excluded: Sequence[VolumeID]) -> list[PodAmounts]:
    """Return the columns of `_used_volumes` without the volumes `excluded`, which get columns of their own."""
    volumes = snapshot.index(AttachedVolumeIndex).of(driver)
    unshared, *shared = _used_volumes(snapshot, driver)
    fewer, not_shared = np.zeros(len(snapshot.pods), np.int64), defaultdict[int, list[int]](list)
    for volume in excluded:
        attached = _attached_to(snapshot, volume)
        for row in volumes.users.get(volume, ()):
            node = int(snapshot.pod_node[row])
            column = volumes.column_of.get((volume, snapshot.node_names[node]))
            if column is not None:
                not_shared[column].append(row)
            elif node not in attached:
                fewer[row] += 1
    for column, rows in not_shared.items():
        shared[column] = shared[column].without(rows)
    return [replace(unshared, amounts=unshared.amounts - fewer[unshared.pods]), *shared]


def _attached_to(snapshot: Snapshot, volume: VolumeID) -> set[int]:
    """Return the rows of the nodes to which a VolumeAttachment attaches the volume."""
    attached = snapshot.index(AttachedVolumeIndex).of(volume[0]).attached.get(volume, ())
    return {snapshot.node_row[node] for node in attached if node in snapshot.node_row}


# --- constraint -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OwnColumn:
    """A volume of the incoming pod or of a nominated pod; its column counts its users."""

    driver: int
    """Index of its driver."""
    is_requested: bool
    """True if the incoming pod uses the volume."""


@dataclass(frozen=True)
class VolumeLimitConstraint(Constraint):
    """Columns: per driver, its limit minus its unshared and always attached volumes; then, per shared volume and per
    volume of `own_columns`, minus the number of its users."""

    drivers: int
    """Number of drivers."""
    shared: tuple[int, ...]
    """[shared column]: index of its driver."""
    own_columns: tuple[_OwnColumn, ...]
    always_attached: BoolArray
    """[own column, node]: True if a VolumeAttachment attaches the volume."""

    def fits(self, headroom: IntArray) -> BoolArray:
        # Per driver with a new volume: attached volumes (shared and own columns in use) + new volumes <= headroom.
        in_use = headroom[self.drivers :] < 0
        attached = np.zeros((self.drivers, headroom.shape[1]), np.int64)
        adds_volume = np.zeros(attached.shape, np.bool_)
        for driver, used in zip(self.shared, in_use, strict=False):
            attached[driver] += used
        for column, used, always_attached in zip(
            self.own_columns, in_use[len(self.shared) :], self.always_attached, strict=True
        ):
            attached[column.driver] += used | always_attached
            if column.is_requested:
                # Quirk: upstream counts the volume twice if a VolumeAttachment attaches it and no pod uses it.
                attached[column.driver] += ~used
                adds_volume[column.driver] |= ~used
        fits: BoolArray = np.logical_and.reduce(~adds_volume | (attached <= headroom[: self.drivers]), axis=0)
        return fits

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        return () if self.fits(headroom)[row] else (REASON,)


def filter(context: SchedulingContext) -> tuple[StaticCheck | VolumeLimitConstraint, ...]:
    """Return one constraint for all drivers, or none for a pod without volumes of a driver that has a limit."""
    if not context.pod.spec.volumes:
        return ()
    snapshot, found = context.snapshot, storage(context.snapshot)
    unusable = _unusable_claim(context)
    if unusable is not None:
        return (StaticCheck(NAME, np.ones(len(snapshot.nodes), np.bool_), (unusable,)),)
    requested, limits = found.csi_volumes(context.pod), _limits(snapshot)
    drivers = sorted({driver for driver, _ in requested} & limits.keys())
    if not drivers:
        return ()
    new_volumes = requested.union(*map(found.csi_volumes, context.nominees))
    own_volumes = sorted(volume for volume in new_volumes if volume[0] in drivers)
    return (_constraint(context, limits, drivers, requested, own_volumes),)


def _unusable_claim(context: SchedulingContext) -> str | None:
    """Return why a claim of the pod cannot be resolved, or None; VolumeBinding, if enabled, rejects it first."""
    pod = context.pod
    for use in claim_uses(pod):
        claim = storage(context.snapshot).claim(pod, use.name)
        if claim is None:
            return f"looking up PVC {pod.metadata.namespace}/{use.name}: {not_found('persistentvolumeclaim', use.name)}"
        if use.is_ephemeral and not is_for_pod(claim, pod):
            return not_for_pod_message(claim, pod)
    return None


def _constraint(
    context: SchedulingContext,
    limits: Mapping[str, IntArray],
    drivers: Sequence[str],
    requested: frozenset[VolumeID],
    own_volumes: Sequence[VolumeID],
) -> VolumeLimitConstraint:
    """Lay out the columns: one per driver, then the shared volumes, then `own_volumes`."""
    snapshot = context.snapshot
    own_of = {driver: [volume for volume in own_volumes if volume[0] == driver] for driver in drivers}
    used = [_used_volumes_without(snapshot, driver, own_of[driver]) for driver in drivers]
    shared = [(nth, column) for nth, columns in enumerate(used) for column in columns[1:]]
    demand = [unshared for unshared, *_ in used] + [column for _, column in shared]
    index = snapshot.index(AttachedVolumeIndex)
    users = [index.of(volume[0]).users.get(volume, ()) for volume in own_volumes]
    demand += [snapshot.pod_amounts(dict.fromkeys(rows, 1)) for rows in users]
    headroom = np.stack([-column.per_node(len(snapshot.nodes)) for column in demand])
    always_attached = np.zeros((len(own_volumes), len(snapshot.nodes)), np.bool_)
    for nth, volume in enumerate(own_volumes):
        always_attached[nth, list(_attached_to(snapshot, volume))] = True
    for nth, driver in enumerate(drivers):
        of_driver = [volume[0] == driver for volume in own_volumes]
        headroom[nth] += limits[driver] - (_always_attached(snapshot, driver) - always_attached[of_driver].sum(axis=0))

    def demand_of(pod: Pod, _node: int) -> list[int]:
        volumes = storage(snapshot).csi_volumes(pod)
        return [0] * (len(drivers) + len(shared)) + [volume in volumes for volume in own_volumes]

    return VolumeLimitConstraint(
        NAME,
        headroom,
        RankedDemand(context.layout, tuple(demand)),
        context.nominated_demand(len(headroom), demand_of),
        len(drivers),
        tuple(nth for nth, _ in shared),
        tuple(_OwnColumn(drivers.index(volume[0]), volume in requested) for volume in own_volumes),
        always_attached,
    )
