"""Checks: how a filter plugin expresses the conditions of one incoming pod on all nodes at once.

A StaticCheck depends on node and incoming pod only. A Constraint is a set of columns over the nodes: the headroom
that is left, and the demand of every running pod. Removing pods from a node and adding them back is therefore addition
and subtraction; this replaces PreFilterExtensions.AddPod/RemovePod and cloning NodeInfo in upstream's dry run.
SchedulingContext holds what plugins read (upstream: the pod, the CycleState and the snapshot's NodeInfos).

Rule: a check knows the columns and reasons of one plugin; it knows nothing of other plugins or of preemption.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.status import Code
from extender.core.profile import DEFAULT_IMPORTANCE, Profile
from extender.core.snapshot.arrays import BoolArray, IntArray, PodAmounts
from extender.core.snapshot.importance import ImportanceLayout
from extender.core.snapshot.node_layout import NodeLayout, RankedDemand
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.version.features import Features

CodeArray = npt.NDArray[np.uint8]
"""[node]: Code of each node."""
NodeRows = npt.NDArray[np.int64]
"""Row numbers of some of the snapshot's nodes."""


class ScoreFailed(Exception):
    """The error of a score plugin, in upstream's words; it ends the scheduling cycle."""


@dataclass(frozen=True, slots=True)
class SchedulingContext:
    """The incoming pod (preemptor) and everything that the plugins may read to schedule it."""

    pod: Pod
    snapshot: Snapshot
    profile: Profile
    nominees: tuple[Pod, ...]
    """Nominated pods that the incoming pod must yield to: equal or higher priority, not the pod itself."""
    history: EvictionHistory = NO_HISTORY
    """Time and recent evictions, which protections and rate limits read; of plugins DynamicResources reads the time."""

    @property
    def features(self) -> Features:
        """Return the switches of the kube-scheduler's version."""
        return self.snapshot.features

    @property
    def layout(self) -> NodeLayout:
        """Return the pods of every node in the profile's order of importance."""
        policy = self.profile.preemption
        if policy.importance == DEFAULT_IMPORTANCE:
            return self.snapshot.layout
        return self.snapshot.index(ImportanceLayout, policy.importance, policy.eviction_cost_annotation).layout

    def nominated_demand(self, columns: int, demand_of: Callable[[Pod, int], Sequence[int]]) -> IntArray | None:
        """Return [column, node]: the nominees' demand, summed on the node of their nomination; None without nominees.

        `demand_of`: (nominee, node row) -> its demand in each column.
        """
        if not self.nominees:
            return None
        nominated = np.zeros((columns, len(self.snapshot.nodes)), np.int64)
        for pod in self.nominees:
            node = self.snapshot.node_row[pod.status.nominated_node_name]
            nominated[:, node] += demand_of(pod, node)
        return nominated


@dataclass(frozen=True, slots=True)
class StaticCheck:
    """A check without columns: whichever pods are evicted, it rejects the same nodes."""

    plugin: str
    rejected: BoolArray
    """[node]: True if the plugin rejects it."""
    rejection_reasons: tuple[str, ...]
    code: Code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    """Code of the rejected nodes."""
    reason_of: IntArray | None = None
    """[node]: index of its only reason in `rejection_reasons`; None: every node has all of them."""

    nominated_demand: ClassVar[None] = None
    headroom: ClassVar[IntArray] = np.empty((0, 0), np.int64)
    """A static check has no columns."""

    def codes(self, _headroom: IntArray) -> CodeArray:
        return np.where(self.rejected, np.uint8(self.code), np.uint8(Code.SUCCESS))

    def at(self, rows: NodeRows) -> Self:
        reason_of = None if self.reason_of is None else self.reason_of[rows]
        return replace(self, rejected=self.rejected[rows], reason_of=reason_of)

    def reason_keys(self, _headroom: IntArray, rows: NodeRows) -> IntArray:
        """Return [row]: as `Constraint.reason_keys`."""
        return np.zeros(len(rows), np.int64) if self.reason_of is None else self.reason_of[rows]

    def reasons(self, _headroom: IntArray, row: int) -> tuple[str, ...]:
        return self.rejection_reasons if self.reason_of is None else (self.rejection_reasons[self.reason_of[row]],)


@dataclass(frozen=True, slots=True)
class EvictablePods:
    """The pods of each node that the preemptor may evict."""

    mask: BoolArray
    """[k, node]: True if the pod of rank k may be evicted."""
    freed: IntArray | None = None
    """[resource, node]: BASE_RESOURCES that evicting all of them frees; None: not summed."""
    has_negative_demand: bool = False
    """True if some pod has a negative request, so that evicting it reduces the headroom."""

    def at(self, rows: NodeRows) -> "EvictablePods":
        """Return the pods of the nodes `rows` only."""
        freed = None if self.freed is None else self.freed.take(rows, axis=1)
        return EvictablePods(self.mask.take(rows, axis=1), freed, self.has_negative_demand)


@dataclass(frozen=True)
class Constraint(ABC):
    """Columns of one plugin; whether a node fits depends on the headroom left in them.

    headroom = capacity - demand of the running pods - demand of the incoming pod, per column and node.
    """

    plugin: str
    headroom: IntArray
    """[column, node]: headroom beside the incoming pod with all running pods in place; below 0 it does not fit."""
    ranked_demand: RankedDemand
    """[k, column, node]: demand of the node's pod of rank k, stored sparsely."""
    nominated_demand: IntArray | None
    """[column, node]: summed demand of the nominated pods; None without nominated pods."""

    @abstractmethod
    def fits(self, headroom: IntArray) -> BoolArray:
        """Return [node]: whether the incoming pod fits with `headroom` [column, node]."""

    def codes(self, headroom: IntArray) -> CodeArray:
        """Return [node]: the Code with `headroom` [column, node]."""
        return np.where(self.fits(headroom), np.uint8(Code.SUCCESS), np.uint8(Code.UNSCHEDULABLE))

    def reason_keys(self, headroom: IntArray, rows: NodeRows) -> IntArray:
        """Return [row]: a number below 2**32; nodes with the same code and key share their reasons.

        One key by default: the plugin has one set of reasons per code.
        """
        return np.zeros(len(rows), np.int64)

    @abstractmethod
    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        """Return why node `row` does not fit with `headroom` [column, node]; () if it fits."""

    def remove_pods(self, evictable: EvictablePods) -> IntArray:
        """Return [column, node]: the headroom without the evictable pods, as a new array.

        Counterpart of PreFilterExtensions.RemovePod, for all potential victims of all nodes at once.
        """
        return self.headroom + self.ranked_demand.sums(evictable.mask)

    def at(self, rows: NodeRows) -> Self:
        """Return the constraint for the nodes `rows` only: the last axis of all its arrays is the node."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        arrays: dict[str, Any] = {name: value[..., rows] for name, value in values if isinstance(value, np.ndarray)}
        return replace(self, ranked_demand=self.ranked_demand.at(rows), **arrays)


@dataclass(frozen=True)
class ColumnwiseConstraint(Constraint):
    """A constraint that fits where every column has a headroom of at least 0, independently of the other columns.

    Subclasses may also reject nodes whatever the headroom.
    """

    def fits(self, headroom: IntArray) -> BoolArray:
        fits: BoolArray = np.logical_and.reduce(headroom >= 0, axis=0)
        return fits


@dataclass(frozen=True)
class ConflictConstraint(ColumnwiseConstraint):
    """A constraint that no pod may violate: a column's headroom is minus the number of conflicting pods."""

    reason: str

    @classmethod
    def of(
        cls,
        context: SchedulingContext,
        plugin: str,
        reason: str,
        demand: PodAmounts,
        demand_of: Callable[[Pod, int], int],
        headroom: IntArray | None = None,
    ) -> "ConflictConstraint":
        """Return a constraint of one column: `demand` of the running pods, `demand_of` a nominee and its node row.

        `headroom`: [node], where it is not minus the sum of `demand`.
        """
        own = -demand.per_node(len(context.snapshot.nodes)) if headroom is None else headroom
        nominated = context.nominated_demand(1, lambda pod, node: [demand_of(pod, node)])
        return ConflictConstraint(plugin, own[np.newaxis], RankedDemand(context.layout, (demand,)), nominated, reason)

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        return (self.reason,) if (headroom[:, row] < 0).any() else ()


Check = StaticCheck | Constraint
"""Type of the checks that a filter plugin returns for a pod, zero or more, evaluated in order."""
