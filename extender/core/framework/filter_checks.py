"""Checks: the results of a filter plugin for an incoming pod, on all nodes at once.

A StaticCheck depends only on the node and the incoming pod. A Constraint has columns over the nodes: the remaining
headroom, and the demand of every running pod. Evicting pods and reprieving them is addition and subtraction, where
upstream's dry run calls PreFilterExtensions.RemovePod and AddPod on a clone of NodeInfo.

Rule: a check has the columns and reasons of one plugin; it knows nothing of other plugins or preemption.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code, CodeArray, Status
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows, PodAmounts
from extender.core.snapshot.node_layout import RankedDemand
from extender.k8s.objects import Pod


@dataclass(frozen=True, slots=True)
class StaticCheck:
    """A check without columns: it rejects the same nodes whichever pods are evicted."""

    plugin: str
    rejected: BoolArray
    """[node]: True if the plugin rejects it."""
    rejection_reasons: tuple[str, ...]
    code: Code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    """Code of the rejected nodes."""
    reason_of: IntArray | None = None
    """[node]: index of its only reason in `rejection_reasons`; None if every node has all of them."""

    # The attributes of a constraint without columns.
    nominated_demand: ClassVar[None] = None
    headroom: ClassVar[IntArray] = np.empty((0, 0), np.int64)

    @classmethod
    def of(cls, status: Status, rejected: BoolArray) -> Self:
        """Return a check that rejects the nodes `rejected` [node] with this status."""
        return cls(status.plugin, rejected, status.reasons, status.code)

    @classmethod
    def on_all_nodes(cls, context: SchedulingContext, status: Status) -> Self:
        """Return a check that rejects every node with this status."""
        return cls.of(status, np.ones(len(context.snapshot.nodes), np.bool_))

    def codes(self, _headroom: IntArray) -> CodeArray:
        return np.where(self.rejected, np.uint8(self.code), np.uint8(Code.SUCCESS))

    def take(self, rows: NodeRows) -> Self:
        reason_of = None if self.reason_of is None else self.reason_of[rows]
        return replace(self, rejected=self.rejected[rows], reason_of=reason_of)

    def reason_keys(self, _headroom: IntArray, rows: NodeRows) -> IntArray:
        """Return [row]: key, see `Constraint.reason_keys`."""
        return np.zeros(len(rows), np.int64) if self.reason_of is None else self.reason_of[rows]

    def reasons(self, _headroom: IntArray, row: int) -> tuple[str, ...]:
        return self.rejection_reasons if self.reason_of is None else (self.rejection_reasons[self.reason_of[row]],)


@dataclass(frozen=True, slots=True)
class EvictablePods:
    """The pods of each node that the preemptor may evict."""

    mask: BoolArray
    """[k, node]: True if the pod of rank k may be evicted."""
    freed: IntArray | None = None
    """[resource, node]: BASE_RESOURCES that evicting all these pods frees; None if not summed."""
    has_negative_demand: bool = False
    """True if a pod has a negative request, so that evicting it reduces the headroom."""

    def take(self, rows: NodeRows) -> "EvictablePods":
        """Return the evictable pods of the nodes `rows` only."""
        freed = None if self.freed is None else self.freed.take(rows, axis=1)
        return EvictablePods(self.mask.take(rows, axis=1), freed, self.has_negative_demand)


@dataclass(frozen=True)
class Constraint(ABC):
    """Columns of one plugin, whose headroom determines whether a node fits.

    headroom = capacity - demand of the running pods - demand of the incoming pod, per column and node.
    """

    plugin: str
    headroom: IntArray
    """[column, node]: headroom left with the incoming and all running pods in place; the pod does not fit below 0."""
    ranked_demand: RankedDemand
    """[k, column, node]: demand of the node's pod of rank k, stored sparsely."""
    nominated_demand: IntArray | None
    """[column, node]: summed demand of the nominated pods; None without nominated pods."""

    code: ClassVar[Code] = Code.UNSCHEDULABLE
    """Code of the nodes that do not fit, unless a subclass overrides `codes`."""

    @abstractmethod
    def fits(self, headroom: IntArray) -> BoolArray:
        """Return [node]: whether the incoming pod fits with `headroom` [column, node]."""

    def codes(self, headroom: IntArray) -> CodeArray:
        """Return [node]: the Code with `headroom` [column, node]."""
        return np.where(self.fits(headroom), np.uint8(Code.SUCCESS), np.uint8(self.code))

    def reason_keys(self, headroom: IntArray, rows: NodeRows) -> IntArray:
        """Return [row]: key below 2**32; nodes with the same code and key have the same reasons.

        One key for all nodes by default: the plugin has one set of reasons per code.
        """
        return np.zeros(len(rows), np.int64)

    @abstractmethod
    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        """Return the reasons why node `row` does not fit with `headroom` [column, node]; () if it fits."""

    def remove_pods(self, evictable: EvictablePods) -> IntArray:
        """Return [column, node]: the headroom without the evictable pods, as a new array.

        Counterpart of PreFilterExtensions.RemovePod, for all potential victims of all nodes at once.
        """
        return self.headroom + self.ranked_demand.sums(evictable.mask)

    def take(self, rows: NodeRows) -> Self:
        """Return the constraint for the nodes `rows` only; the last axis of each array is the node."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        arrays: dict[str, Any] = {name: value[..., rows] for name, value in values if isinstance(value, np.ndarray)}
        return replace(self, ranked_demand=self.ranked_demand.take(rows), **arrays)


@dataclass(frozen=True)
class ColumnwiseConstraint(Constraint):
    """A constraint that a node meets if each column, independently of the others, has a headroom of at least 0.

    Subclasses may also reject nodes regardless of the headroom.
    """

    def fits(self, headroom: IntArray) -> BoolArray:
        fits: BoolArray = np.logical_and.reduce(headroom >= 0, axis=0)
        return fits


@dataclass(frozen=True)
class ConflictConstraint(ColumnwiseConstraint):
    """A constraint that conflicting pods violate: a column's headroom is minus their number."""

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
        """Return a constraint with one column; `demand`: of running pods, `demand_of`: (nominee, node row) -> demand.

        `headroom`: [node]; None if it is minus the sum of `demand`.
        """
        own = -demand.per_node(len(context.snapshot.nodes)) if headroom is None else headroom
        nominated = context.nominated_demand(1, lambda pod, node: [demand_of(pod, node)])
        return ConflictConstraint(plugin, own[np.newaxis], RankedDemand(context.layout, (demand,)), nominated, reason)

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        return (self.reason,) if (headroom[:, row] < 0).any() else ()


Check = StaticCheck | Constraint
"""One result of a filter plugin, which returns any number of checks per pod, evaluated in order."""
