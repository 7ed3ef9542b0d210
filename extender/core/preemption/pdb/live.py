"""Live budgets: count pods against PodDisruptionBudgets as the eviction API would at this moment.

The status of a budget lags behind the pods. Here a budget allows

    min(status.disruptionsAllowed - approved evictions that the status does not include yet,
        healthy pods in the cluster cache - status.desiredHealthy)

and no disruption while status.observedGeneration is stale. A terminating or Pending pod counts against no budget, nor
does an unready pod if the budget's unhealthyPodEvictionPolicy allows its eviction. A pod with several budgets may never
be evicted. Mirrors pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption, v1.36.

Rule: everything is derived from pods and budgets in the cluster cache, so a restart loses nothing.
"""

from dataclasses import dataclass

from extender.core.preemption.pdb.index import BudgetIndex, difference
from extender.core.snapshot.pod_table import is_assumed_terminating
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod, PodDisruptionBudget

UNLIMITED = 2**31
"""Allowance of a budget row without a limit: more pods than any node holds."""


@dataclass(slots=True)
class LiveBudget:
    """A budget with counts of its pods."""

    object: PodDisruptionBudget
    """The budget as last observed."""
    unready_row: int
    """Budget row that its unready pods count against."""
    healthy: int = 0
    """Number of ready pods that are neither terminating nor in status.disruptedPods."""
    approved: int = 0
    """Number of ready pods assumed to be terminating: we approved their eviction, and the status lacks it yet."""

    @property
    def allowed(self) -> int:
        """Return the number of ready pods that may be evicted."""
        metadata, status = self.object.metadata, self.object.status
        if status.observed_generation < metadata.generation:
            return 0
        return min(status.disruptions_allowed - self.approved, self.healthy - status.desired_healthy)

    @property
    def unready_allowed(self) -> int:
        """Return the number of unready pods that may be evicted: UNLIMITED or 0.

        UNLIMITED with unhealthyPodEvictionPolicy AlwaysAllow, or with IfHealthyBudget while the application is healthy.
        """
        status = self.object.status
        is_healthy = min(status.current_healthy, self.healthy) >= status.desired_healthy > 0
        return UNLIMITED if is_healthy or self.always_evicts_unready else 0

    @property
    def always_evicts_unready(self) -> bool:
        return self.object.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"

    @property
    def is_shared(self) -> bool:
        """Return whether unready pods count against the same row as ready pods.

        They do with desiredHealthy 0: the eviction API then skips its rule for unready pods, so they use up
        disruptionsAllowed.
        """
        return self.object.status.desired_healthy == 0 and not self.always_evicts_unready


class LiveBudgetIndex(BudgetIndex):
    """Budget index with two rows per budget: one for its ready pods and one for its unready pods."""

    def __init__(self, snapshot: Snapshot, empty_selects: str = "Nothing") -> None:
        super().__init__(snapshot, empty_selects)
        self._multiple_budgets = frozenset((self._new_row(),))
        """Row for pods with several budgets; it allows no disruption, as the eviction API rejects such pods."""
        self._budgets_by_row: dict[int, LiveBudget] = {}
        self._counted: dict[int, tuple[int, int, frozenset[int]]] = {}
        """Pod row -> (1 if healthy else 0, 1 if its eviction is approved else 0, budget rows that count it)."""
        self._changed: set[int] = set()
        """Rows of budgets whose counts or status have changed since the last decision."""

    # --- pods ---

    def _count_pod(self, row: int, pod: Pod, selected_by: frozenset[int]) -> None:
        counting = self._not_disrupted(pod, selected_by)
        self._set_budgets(row, self._rows_counted_against(pod, selected_by, counting))
        is_healthy = pod.metadata.deletion_timestamp is None
        self._set_counted(row, is_healthy, is_assumed_terminating(pod), counting if pod.is_ready else frozenset())

    def _rows_counted_against(self, pod: Pod, selected_by: frozenset[int], counting: frozenset[int]) -> frozenset[int]:
        if not selected_by or pod.metadata.deletion_timestamp is not None or pod.status.phase == "Pending":
            return frozenset()
        if len(selected_by) > 1:
            return self._multiple_budgets
        if pod.is_ready:
            return counting
        lives = [(budget, self._budgets_by_row[budget]) for budget in counting]
        return frozenset(budget if live.is_shared else live.unready_row for budget, live in lives)

    def _set_counted(self, row: int, healthy: int, approved: int, budgets: frozenset[int]) -> None:
        """Set the budgets that count a ready pod, and whether they count it as healthy and as approved."""
        before = self._counted.pop(row, (healthy, approved, frozenset[int]()))
        if budgets:
            self._counted[row] = healthy, approved, budgets
        counts_alike = before[:2] == (healthy, approved)
        left, joined = difference(before[2], budgets) if counts_alike else (before[2], budgets)
        self._add_to_budgets(left, -before[0], -before[1])
        self._add_to_budgets(joined, healthy, approved)

    def _add_to_budgets(self, budgets: frozenset[int], healthy: int, approved: int) -> None:
        for budget in budgets:
            live = self._budgets_by_row[budget]
            live.healthy += healthy
            live.approved += approved
        self._changed.update(budgets)

    def pod_removed(self, row: int, pod: Pod) -> None:
        super().pod_removed(row, pod)
        self._set_counted(row, 0, 0, frozenset())

    # --- budgets ---

    def _read_status(self, row: int, budget: PodDisruptionBudget) -> None:
        live = self._budgets_by_row.get(row)
        if live is None:
            self._budgets_by_row[row] = LiveBudget(budget, self._new_row())
        else:
            was_shared, live.object = live.is_shared, budget
            if live.is_shared != was_shared:
                self._recount_all_pods(row)
        self._changed.add(row)

    def _recount_all_pods(self, row: int) -> None:
        """Count all pods of the budget again, because its unready pods now count against a different row."""
        namespace = self._budgets_by_row[row].object.metadata.namespace
        for group in self._groups.in_namespaces(frozenset((namespace,))):
            if row in group.selected_by.get(self._cache_key, ()):
                for member in group.members:
                    self._recount_pod(member)

    def _free_row(self, row: int) -> None:
        super()._free_row(row)
        self._free_rows.append(self._budgets_by_row.pop(row).unready_row)
        self._changed.discard(row)

    def _name_rows(self) -> dict[int, str]:
        names = super()._name_rows()
        of_unready = {live.unready_row: names[row] for row, live in self._budgets_by_row.items() if row in names}
        return {**names, **of_unready, **dict.fromkeys(self._multiple_budgets, "(more than one for a pod)")}

    def settled(self) -> None:
        for row in self._changed:
            live = self._budgets_by_row[row]
            self._set_allowed(row, live.allowed)
            self._set_allowed(live.unready_row, live.unready_allowed)
        self._changed.clear()
