"""Limits of attached volumes as columns: for NodeVolumeLimits, and up to v1.30 for EBSLimits and its kind.

A driver's limit counts distinct volumes, not pods: evicting one of two pods that share a volume frees nothing. Hence
three kinds of columns:

1. per driver, its volumes that only one pod of the node uses;
2. bits of the pods that share volumes: they say which of these pods are in place (`attached_volumes`);
3. users of a volume of the incoming pod or of a nominated pod: it is attached while it has a user.

Mirrors pkg/scheduler/framework/plugins/nodevolumelimits (v1.36).

Rule: volumes of in-tree plugins count as those of the CSI drivers that replace them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

import numpy as np

from extender.core.framework.filter_checks import Constraint
from extender.core.framework.plugins.shared.attached_volumes import AttachedVolumeIndex
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray, NodeRows, PodAmounts, index_in
from extender.core.snapshot.derived import derived, derived_by
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import VolumeID, storage
from extender.k8s import quantity
from extender.k8s.objects import Pod

_ATTACHABLE_PREFIX = "attachable-volumes-"
REASON = "node(s) exceed max volume count"


# --- a driver's volumes as columns ----------------------------------------------------------------------------------


@derived_by("nodes", "volumes", "volume_attachments")
def _always_attached(snapshot: Snapshot, driver: str) -> IntArray:
    """Return [node]: the driver's volumes that a VolumeAttachment attaches; no eviction detaches them in a dry run."""
    found = np.zeros(len(snapshot.nodes), np.int64)
    for volume in snapshot.index(AttachedVolumeIndex).of(driver).attached:
        found[list(_attached_to(snapshot, volume))] += 1
    return found


@dataclass(frozen=True, slots=True)
class SharedVolumes:
    """Volumes that several pods of a node use, one set of volumes for each set of users."""

    drivers: IntArray
    """[set]: index of the driver."""
    nodes: IntArray
    """[set]: index of the node."""
    counts: IntArray
    """[set]: number of volumes."""
    sets: IntArray
    """[entry]: set whose users have bits in the column."""
    columns: IntArray
    """[entry]: column of the constraint, minus the sum of the bits of the pods that are in place."""
    bits: IntArray
    """[entry]: bits of the users."""

    @classmethod
    def concatenate(cls, parts: "Sequence[SharedVolumes]") -> "SharedVolumes":
        """Put the sets of several drivers, whose columns follow each other, behind each other."""
        if len(parts) == 1:
            return parts[0]
        sets = np.cumsum([0, *(len(part.nodes) for part in parts)])
        numbered = [replace(part, sets=part.sets + first) for part, first in zip(parts, sets.tolist(), strict=False)]
        return cls(*(np.concatenate([getattr(part, name) for part in numbered]) for name in cls.__slots__))

    def take(self, rows: NodeRows, size: int) -> "SharedVolumes":
        """Keep the sets on the nodes `rows`, of `size` nodes."""
        nodes = index_in(rows, size)[self.nodes]
        here = nodes >= 0
        kept = here[self.sets]
        sets = (np.cumsum(here) - 1)[self.sets[kept]]
        return SharedVolumes(
            self.drivers[here], nodes[here], self.counts[here], sets, self.columns[kept], self.bits[kept]
        )

    def attached(self, headroom: IntArray, drivers: int) -> IntArray:
        """Return [driver, node]: number of these volumes that have a user with `headroom` [column, node]."""
        size, in_use = headroom.shape[1], np.zeros(len(self.nodes), np.bool_)
        in_use[self.sets[-headroom[self.columns, self.nodes[self.sets]] & self.bits != 0]] = True
        # Weights make bincount return floats, which are exact up to 2**53.
        attached = np.bincount(self.drivers * size + self.nodes, self.counts * in_use, drivers * size)
        return attached.astype(np.int64).reshape(drivers, size)


@dataclass(frozen=True, slots=True)
class _UsedVolumes:
    """The volumes of one driver that only pods attach."""

    unshared: PodAmounts
    """Number of volumes that no other pod of the node uses."""
    bits: tuple[PodAmounts, ...]
    """[column]: bits of the pods that share volumes."""
    shared: SharedVolumes
    """With the driver 0, and the columns of `bits`."""
    first_set: Mapping[str, int]
    """Node name -> its first set in `shared`."""


@derived_by("nodes", "pods", "claims", "volumes", "storage_classes", "volume_attachments")
def _used_volumes(snapshot: Snapshot, driver: str) -> _UsedVolumes:
    volumes = snapshot.index(AttachedVolumeIndex).of(driver)
    on_nodes, names = tuple(volumes.sharing.values()), tuple(volumes.sharing)
    sizes = np.fromiter((len(one.counts) for one in on_nodes), np.int64, len(on_nodes))
    lengths = np.fromiter((len(one.bits) for one in on_nodes), np.int64, len(on_nodes))
    first = np.cumsum(sizes) - sizes
    sets_and_columns = np.fromiter(chain.from_iterable(chain.from_iterable(one.bits for one in on_nodes)), np.int64)
    shared = SharedVolumes(
        np.zeros(sizes.sum(), np.int64),
        np.repeat(np.array([snapshot.node_row[name] for name in names], np.int64), sizes),
        np.fromiter(chain.from_iterable(one.counts for one in on_nodes), np.int64),
        np.repeat(first, lengths) + sets_and_columns[::2],
        sets_and_columns[1::2],
        np.fromiter(chain.from_iterable(one.bits.values() for one in on_nodes), np.int64),
    )
    amounts: list[dict[int, int]] = []
    for one in on_nodes:
        amounts += [{} for _ in range(len(amounts), len(one.amounts))]
        for column, of_pods in one.amounts.items():
            amounts[column].update(of_pods)
    first_set = dict(zip(names, first.tolist(), strict=True))
    bits = tuple(map(snapshot.pod_amounts, amounts))
    return _UsedVolumes(snapshot.pod_amounts(volumes.unshared), bits, shared, first_set)


def _used_volumes_without(snapshot: Snapshot, driver: str, excluded: Sequence[VolumeID]) -> _UsedVolumes:
    """Return `_used_volumes` without the volumes `excluded`, which get columns of their own."""
    volumes, used = snapshot.index(AttachedVolumeIndex).of(driver), _used_volumes(snapshot, driver)
    fewer, counts = np.zeros(len(snapshot.pods), np.int64), used.shared.counts.copy()
    for volume in excluded:
        attached, sets = volumes.attached.get(volume, ()), set[int]()
        for row in volumes.users.get(volume, ()):
            node = snapshot.node_names[snapshot.pod_node[row]]
            of_node = volumes.sharing.get(node)
            if of_node is not None and volume in of_node.shared:
                sets.add(used.first_set[node] + of_node.shared[volume])
            else:
                fewer[row] += node not in attached
        counts[list(sets)] -= 1
    unshared = replace(used.unshared, amounts=used.unshared.amounts - fewer[used.unshared.pods])
    return replace(used, unshared=unshared, shared=replace(used.shared, counts=counts))


def _attached_to(snapshot: Snapshot, volume: VolumeID) -> set[int]:
    """Return the rows of the nodes to which a VolumeAttachment attaches the volume."""
    attached = snapshot.index(AttachedVolumeIndex).of(volume[0]).attached.get(volume, ())
    return {snapshot.node_row[node] for node in attached if node in snapshot.node_row}


@derived("nodes", "allocatable")
def attachable_volumes(snapshot: Snapshot) -> dict[str, IntArray]:
    """Return resource "attachable-volumes-…" of allocatable -> [node]: limit, NEVER where the node does not name it."""
    found: dict[str, IntArray] = {}
    for row, node in enumerate(snapshot.nodes):
        for name, amount in (node.status.allocatable or {}).items():
            if name.startswith(_ATTACHABLE_PREFIX):
                limits = found.setdefault(name, np.full(len(snapshot.nodes), NEVER))
                limits[row] = quantity.value(quantity.parse(amount))
    return found


# --- constraint -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OwnColumn:
    """Volumes of the incoming pod or of nominated pods that have the same users; the column counts these."""

    volume: VolumeID
    """One of them."""
    driver: int
    """Index of their driver."""
    count: int
    """Number of the volumes."""
    is_requested: bool
    """True if the incoming pod uses the volumes."""


@dataclass(frozen=True)
class VolumeLimitConstraint(Constraint):
    """Columns: per driver, its limit minus its unshared and always attached volumes; then minus the bits of the pods
    that share volumes; then, per entry of `own_columns`, minus the number of its users."""

    drivers: int
    """Number of drivers."""
    shared: SharedVolumes
    own_columns: tuple[_OwnColumn, ...]
    always_attached: BoolArray
    """[own column, node]: True if a VolumeAttachment attaches the volumes."""
    counts_without_new: bool
    """See `volume_limits`."""

    def take(self, rows: NodeRows) -> Self:
        return replace(super().take(rows), shared=self.shared.take(rows, self.headroom.shape[1]))

    def fits(self, headroom: IntArray) -> BoolArray:
        # Per driver with a new volume: attached volumes (shared and own columns in use) + new volumes <= headroom.
        attached = self.shared.attached(headroom, self.drivers)
        in_use = headroom[len(headroom) - len(self.own_columns) :] < 0
        adds_volume = np.full(attached.shape, self.counts_without_new, np.bool_)
        for column, used, always_attached in zip(self.own_columns, in_use, self.always_attached, strict=True):
            attached[column.driver] += np.where(used | always_attached, column.count, 0)
            if column.is_requested:
                # Quirk: upstream counts the volume twice if a VolumeAttachment attaches it and no pod uses it.
                attached[column.driver] += np.where(used, 0, column.count)
                adds_volume[column.driver] |= ~used
        fits: BoolArray = np.logical_and.reduce(~adds_volume | (attached <= headroom[: self.drivers]), axis=0)
        return fits

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        return () if self.fits(headroom)[row] else (REASON,)


def _own_columns(
    snapshot: Snapshot, drivers: Sequence[str], requested: frozenset[VolumeID], nominated: Sequence[frozenset[VolumeID]]
) -> dict[_OwnColumn, list[VolumeID]]:
    """Return column -> its volumes, for the volumes of the incoming pod and of the nominated pods.

    Volumes of a driver share a column if the same pods use them and they are attached to the same nodes: then all of
    them are in use, or none.
    """
    index, driver_index = snapshot.index(AttachedVolumeIndex), {driver: index for index, driver in enumerate(drivers)}
    together: dict[object, list[VolumeID]] = defaultdict(list)
    for volume in sorted(requested.union(*nominated)):
        if volume[0] in driver_index:
            of_driver = index.of(volume[0])
            users = frozenset(of_driver.users.get(volume, ()))
            attached = frozenset(of_driver.attached.get(volume, ()))
            nominees = tuple(volume in volumes for volumes in nominated)
            together[volume[0], volume in requested, users, nominees, attached].append(volume)
    return {
        _OwnColumn(volumes[0], driver_index[volumes[0][0]], len(volumes), volumes[0] in requested): volumes
        for volumes in together.values()
    }


def volume_limits(
    context: SchedulingContext,
    plugin: str,
    limits: Mapping[str, IntArray],
    requested: frozenset[VolumeID],
    *,
    counts_without_new: bool = False,
) -> tuple[VolumeLimitConstraint, ...]:
    """Return one constraint for all drivers with a limit, or none if the pod requests no volume of theirs.

    `limits`: driver -> [node], NEVER where there is none. `counts_without_new`: a node beyond its limit is rejected
    even if all requested volumes are attached already.
    """
    drivers = sorted({driver for driver, _ in requested} & limits.keys())
    if not drivers:
        return ()
    snapshot, size = context.snapshot, len(context.snapshot.nodes)
    nominated_volumes = [storage(snapshot).csi_volumes(pod) for pod in context.nominees]
    own_columns = _own_columns(snapshot, drivers, requested, nominated_volumes)
    own_of: list[list[VolumeID]] = [[] for _ in drivers]
    for column, volumes in own_columns.items():
        own_of[column.driver] += volumes
    # 1. Columns of drivers: their unshared volumes, but for those with an own column.
    used = [_used_volumes_without(snapshot, driver, own) for driver, own in zip(drivers, own_of, strict=True)]
    demand, shared = [of_driver.unshared for of_driver in used], list[SharedVolumes]()
    # 2. Bits of the pods that share volumes.
    for number, of_driver in enumerate(used):
        driver_of, columns = of_driver.shared.drivers + number, of_driver.shared.columns + len(demand)
        shared.append(replace(of_driver.shared, drivers=driver_of, columns=columns))
        demand += of_driver.bits
    # 3. Own columns.
    index = snapshot.index(AttachedVolumeIndex)
    users = [index.of(column.volume[0]).users.get(column.volume, ()) for column in own_columns]
    demand += [snapshot.pod_amounts(dict.fromkeys(rows, 1)) for rows in users]
    headroom = np.stack([-column.per_node(size) for column in demand])
    always_attached = np.zeros((len(own_columns), size), np.bool_)
    for number, driver in enumerate(drivers):
        headroom[number] += limits[driver] - _always_attached(snapshot, driver)
    for attached, column in zip(always_attached, own_columns, strict=True):
        attached[list(_attached_to(snapshot, column.volume))] = True
        headroom[column.driver] += attached * column.count

    def demand_of(pod: Pod, _node: int) -> list[int]:
        volumes = storage(snapshot).csi_volumes(pod)
        return [0] * (len(demand) - len(own_columns)) + [column.volume in volumes for column in own_columns]

    return (
        VolumeLimitConstraint(
            plugin,
            headroom,
            RankedDemand(context.layout, tuple(demand)),
            context.nominated_demand(len(headroom), demand_of),
            len(drivers),
            SharedVolumes.concatenate(shared),
            tuple(own_columns),
            always_attached,
            counts_without_new,
        ),
    )
