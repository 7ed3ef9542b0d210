"""Results of a filter plugin: the checks that it makes of an incoming pod, for all nodes at once.

A StaticCheck depends on node and incoming pod only. A Constraint is a set of columns over the nodes: the headroom that
is left, and the demand of every running pod. So evicting pods and putting them back is addition and subtraction, where
upstream's dry run calls PreFilterExtensions.RemovePod and AddPod on a clone of NodeInfo.

Rule: a check has the columns and reasons of one plugin; it knows no other plugin and nothing of preemption.
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
    """A check without columns: whichever pods are evicted, it rejects the same nodes."""

    plugin: str
    rejected: BoolArray
    """[node]: True if the plugin rejects it."""
    rejection_reasons: tuple[str, ...]
    code: Code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    """Code of the rejected nodes."""
    reason_of: IntArray | None = None
    """[node]: index of its only reason in `rejection_reasons`; None: every node has all of them."""

    # As a constraint without columns.
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

    def take(self, rows: NodeRows) -> "EvictablePods":
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

    code: ClassVar[Code] = Code.UNSCHEDULABLE
    """Code of the nodes that do not fit, unless a subclass has several."""

    @abstractmethod
    def fits(self, headroom: IntArray) -> BoolArray:
        """Return [node]: whether the incoming pod fits with `headroom` [column, node]."""

    def codes(self, headroom: IntArray) -> CodeArray:
        """Return [node]: the Code with `headroom` [column, node]."""
        return np.where(self.fits(headroom), np.uint8(Code.SUCCESS), np.uint8(self.code))

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

    def take(self, rows: NodeRows) -> Self:
        """Return the constraint for the nodes `rows` only: the last axis of all its arrays is the node."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        arrays: dict[str, Any] = {name: value[..., rows] for name, value in values if isinstance(value, np.ndarray)}
        return replace(self, ranked_demand=self.ranked_demand.take(rows), **arrays)


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
"""A filter plugin returns any number of them for a pod, to be evaluated in this order."""
