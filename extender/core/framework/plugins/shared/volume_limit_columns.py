"""Limits of attached volumes as columns: for NodeVolumeLimits and, up to v1.30, the in-tree limits such as EBSLimits.

A limit counts a driver's distinct volumes, not pods: evicting one of two pods that share a volume frees nothing. So a
driver has three kinds of columns:

1. volumes that only one pod of the node uses;
2. bits of the pods that share volumes, which encode the pods that are in place (`attached_volumes`);
3. users of each volume of the incoming pod or of nominated pods: the volume is attached while it has a user.

Mirrors pkg/scheduler/framework/plugins/nodevolumelimits (v1.36).

Rule: volumes of in-tree plugins count as volumes of the CSI drivers that replace the plugins.
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


@derived("nodes", "allocatable")
def attachable_volumes(snapshot: Snapshot) -> dict[str, IntArray]:
    """Return resource "attachable-volumes-…" of allocatable -> [node]: limit, NEVER where the node has none."""
    found: dict[str, IntArray] = {}
    for row, node in enumerate(snapshot.nodes):
        for name, amount in (node.status.allocatable or {}).items():
            if name.startswith(_ATTACHABLE_PREFIX):
                limits = found.setdefault(name, np.full(len(snapshot.nodes), NEVER))
                limits[row] = quantity.value(quantity.parse(amount))
    return found


def _attached_to(snapshot: Snapshot, volume: VolumeID) -> list[int]:
    """Return the rows of the nodes to which a VolumeAttachment attaches the volume."""
    attached = snapshot.index(AttachedVolumeIndex).of(volume[0]).attached.get(volume, ())
    return [snapshot.node_row[node] for node in attached if node in snapshot.node_row]


# --- volumes that pods of a node share ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedVolumes:
    """Volumes of one driver that several pods of a node use; volumes with the same users form a set."""

    nodes: IntArray
    """[set]: index of the node."""
    counts: IntArray
    """[set]: number of volumes."""
    sets: IntArray
    """[entry]: index of a set whose users have bits in the entry's column."""
    columns: IntArray
    """[entry]: column of the constraint, whose headroom is minus the sum of the bits of the pods in place."""
    bits: IntArray
    """[entry]: bits of the set's users in the column."""

    def take(self, rows: NodeRows, size: int) -> "SharedVolumes":
        """Return the sets on the nodes `rows` only; `size`: number of nodes before."""
        nodes = index_in(rows, size)[self.nodes]
        here = nodes >= 0
        kept = here[self.sets]
        sets = (np.cumsum(here) - 1)[self.sets[kept]]
        return SharedVolumes(nodes[here], self.counts[here], sets, self.columns[kept], self.bits[kept])

    def attached(self, headroom: IntArray) -> IntArray:
        """Return [node]: number of these volumes that still have a user, given `headroom` [column, node]."""
        in_use = np.zeros(len(self.nodes), np.bool_)
        in_use[self.sets[-headroom[self.columns, self.nodes[self.sets]] & self.bits != 0]] = True
        # Weights make bincount return floats, which are exact up to 2**53.
        return np.bincount(self.nodes, self.counts * in_use, headroom.shape[1]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _UsedVolumes:
    """Volumes of one driver that pods use and that no VolumeAttachment attaches to their node."""

    unshared: PodAmounts
    """Per pod, the number of volumes that no other pod of the node uses."""
    bits: tuple[PodAmounts, ...]
    """Bits of the pods that share volumes, for columns 1, 2, …"""
    shared: SharedVolumes
    first_set: Mapping[str, int]
    """Node name -> index of the node's first set in `shared`."""

    def without(self, snapshot: Snapshot, volumes: Sequence[VolumeID]) -> "_UsedVolumes":
        """Return the used volumes without `volumes`."""
        fewer, counts = np.zeros(len(snapshot.pods), np.int64), self.shared.counts.copy()
        for volume in volumes:
            of_driver, sets = snapshot.index(AttachedVolumeIndex).of(volume[0]), set[int]()
            for row in of_driver.users.get(volume, ()):
                node = snapshot.node_names[snapshot.pod_node[row]]
                of_node = of_driver.sharing.get(node)
                if of_node is not None and volume in of_node.shared:
                    sets.add(self.first_set[node] + of_node.shared[volume])
                else:
                    fewer[row] += node not in of_driver.attached.get(volume, ())
            counts[list(sets)] -= 1
        unshared = replace(self.unshared, amounts=self.unshared.amounts - fewer[self.unshared.pods])
        return replace(self, unshared=unshared, shared=replace(self.shared, counts=counts))


@derived_by("nodes", "pods", "claims", "volumes", "storage_classes", "volume_attachments")
def _used_volumes(snapshot: Snapshot, driver: str) -> _UsedVolumes:
    volumes = snapshot.index(AttachedVolumeIndex).of(driver)
    on_nodes, names = tuple(volumes.sharing.values()), tuple(volumes.sharing)
    sizes = np.fromiter((len(one.counts) for one in on_nodes), np.int64, len(on_nodes))
    lengths = np.fromiter((len(one.bits) for one in on_nodes), np.int64, len(on_nodes))
    first = np.cumsum(sizes) - sizes
    sets_and_columns = np.fromiter(chain.from_iterable(chain.from_iterable(one.bits for one in on_nodes)), np.int64)
    shared = SharedVolumes(
        np.repeat(np.array([snapshot.node_row[name] for name in names], np.int64), sizes),
        np.fromiter(chain.from_iterable(one.counts for one in on_nodes), np.int64),
        np.repeat(first, lengths) + sets_and_columns[::2],
        1 + sets_and_columns[1::2],
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


# --- constraint -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OwnColumn:
    """Volumes of the incoming pod or of nominated pods with the same users; the column counts the users."""

    volume: VolumeID
    """Any of the volumes."""
    count: int
    """Number of volumes."""
    is_requested: bool
    """True if the incoming pod uses the volumes."""


@dataclass(frozen=True)
class VolumeLimitConstraint(Constraint):
    """The volume limit of one driver.

    Columns: the limit minus unshared and always attached volumes; minus the bits of the pods that share volumes;
    and for each entry of `own_columns`, minus the number of its users.
    """

    driver: str
    limits: IntArray
    """[node]: limit; NEVER without one."""
    shared: SharedVolumes
    own_columns: tuple[_OwnColumn, ...]
    always_attached: BoolArray
    """[own column, node]: True if a VolumeAttachment attaches the volumes; no eviction detaches them in a dry run."""
    counts_without_new: bool
    """Whether a node beyond its limit is rejected even if all requested volumes are already attached."""

    def take(self, rows: NodeRows) -> Self:
        return replace(super().take(rows), shared=self.shared.take(rows, self.headroom.shape[1]))

    def fits(self, headroom: IntArray) -> BoolArray:
        in_use, new = self.volumes(headroom)
        fits: BoolArray = (in_use + new <= self.limits) | ((new == 0) & (not self.counts_without_new))
        return fits

    def volumes(self, headroom: IntArray) -> tuple[IntArray, IntArray]:
        """Return ([node]: volumes in use or attached, [node]: volumes of the incoming pod that are not in use yet)."""
        in_use, new = self.limits - headroom[0] + self.shared.attached(headroom), np.zeros(headroom.shape[1], np.int64)
        used_columns = headroom[len(headroom) - len(self.own_columns) :] < 0
        for column, used, always_attached in zip(self.own_columns, used_columns, self.always_attached, strict=True):
            in_use += np.where(used | always_attached, column.count, 0)
            if column.is_requested:
                # Quirk: upstream counts the volume twice if a VolumeAttachment attaches it and no pod uses it.
                new += np.where(used, 0, column.count)
        return in_use, new

    @property
    def requested(self) -> int:
        """Number of the driver's volumes that the incoming pod uses."""
        return sum(column.count for column in self.own_columns if column.is_requested)

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        return () if self.fits(headroom)[row] else (REASON,)


def volume_limits(
    context: SchedulingContext,
    plugin: str,
    limits: Mapping[str, IntArray],
    requested: frozenset[VolumeID],
    *,
    counts_without_new: bool = False,
) -> list[VolumeLimitConstraint]:
    """Return one constraint for each driver that has a limit and whose volumes the pod requests.

    `limits`: driver -> [node]: limit, NEVER without one. `counts_without_new`: a node beyond its limit is rejected
    even if all requested volumes are already attached.
    """
    snapshot, constraints = context.snapshot, list[VolumeLimitConstraint]()
    nominated_volumes = [storage(snapshot).csi_volumes(pod) for pod in context.nominees]
    for driver in sorted({driver for driver, _ in requested} & limits.keys()):
        own_columns = _own_columns(snapshot, driver, requested, nominated_volumes)
        # 1. The driver's volumes, except those with their own column.
        used = _used_volumes(snapshot, driver).without(snapshot, [*chain.from_iterable(own_columns.values())])
        # 2. Bits of the pods that share volumes (`used.bits`). 3. Users of each own column.
        users = snapshot.index(AttachedVolumeIndex).of(driver).users
        own = [snapshot.pod_amounts(dict.fromkeys(users.get(one.volume, ()), 1)) for one in own_columns]
        demand = (used.unshared, *used.bits, *own)
        headroom = np.stack([-column.per_node(len(snapshot.nodes)) for column in demand])
        headroom[0] += limits[driver] - _always_attached(snapshot, driver)
        always_attached = np.zeros((len(own_columns), len(snapshot.nodes)), np.bool_)
        for attached, column in zip(always_attached, own_columns, strict=True):
            attached[_attached_to(snapshot, column.volume)] = True
            headroom[0] += attached * column.count  # the own column counts them instead
        first = len(demand) - len(own)
        constraints.append(
            VolumeLimitConstraint(
                plugin,
                headroom,
                RankedDemand(context.layout, demand),
                _nominated_demand(context, first, tuple(own_columns)),
                driver,
                limits[driver],
                used.shared,
                tuple(own_columns),
                always_attached,
                counts_without_new,
            )
        )
    return constraints


def _own_columns(
    snapshot: Snapshot, driver: str, requested: frozenset[VolumeID], nominated: Sequence[frozenset[VolumeID]]
) -> dict[_OwnColumn, list[VolumeID]]:
    """Return column -> its volumes, for the driver's volumes of the incoming pod and of the nominated pods.

    Volumes share a column if the same pods use them and they are attached to the same nodes: all are in use or none is.
    """
    of_driver, together = snapshot.index(AttachedVolumeIndex).of(driver), defaultdict[object, list[VolumeID]](list)
    for volume in sorted(requested.union(*nominated)):
        if volume[0] == driver:
            users = frozenset(of_driver.users.get(volume, ()))
            nominees = tuple(volume in volumes for volumes in nominated)
            attached = frozenset(of_driver.attached.get(volume, ()))
            together[volume in requested, users, nominees, attached].append(volume)
    return {_OwnColumn(volumes[0], len(volumes), volumes[0] in requested): volumes for volumes in together.values()}


def _nominated_demand(context: SchedulingContext, first: int, own_columns: Sequence[_OwnColumn]) -> IntArray | None:
    """Return [column, node]: number of nominated pods that use the own column's volumes; 0 for the `first` columns."""

    def demand_of(pod: Pod, _node: int) -> list[int]:
        volumes = storage(context.snapshot).csi_volumes(pod)
        return [0] * first + [column.volume in volumes for column in own_columns]

    return context.nominated_demand(first + len(own_columns), demand_of)


@derived_by("nodes", "volumes", "volume_attachments")
def _always_attached(snapshot: Snapshot, driver: str) -> IntArray:
    """Return [node]: number of the driver's volumes that a VolumeAttachment attaches."""
    found = np.zeros(len(snapshot.nodes), np.int64)
    for volume in snapshot.index(AttachedVolumeIndex).of(driver).attached:
        found[_attached_to(snapshot, volume)] += 1
    return found
