"""Live budgets: count pods against PodDisruptionBudgets as the eviction API would at this moment.

The status of a budget lags behind the pods. Here a budget allows

    min(status.disruptionsAllowed - approved evictions that the status cannot know of yet,
        healthy pods in the cluster cache - status.desiredHealthy)

and nothing while status.observedGeneration is behind. A terminating or Pending pod counts against no budget; an unready
pod does not either where the budget's unhealthyPodEvictionPolicy allows its eviction; a pod with several budgets may
never be evicted. Mirrors pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption, v1.36.

Rule: everything is derived from pods and budgets in the cluster cache, so a restart loses nothing.
"""

from dataclasses import dataclass

from extender.core.preemption.pdb.index import BudgetIndex
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
    """Ready pods that are neither terminating nor in status.disruptedPods."""
    approved: int = 0
    """Ready pods assumed to be terminating: their eviction was approved here, and the status cannot know of it yet."""

    @property
    def allowed(self) -> int:
        """Return how many healthy pods may be evicted."""
        metadata, status = self.object.metadata, self.object.status
        if status.observed_generation < metadata.generation:
            return 0
        return min(status.disruptions_allowed - self.approved, self.healthy - status.desired_healthy)

    @property
    def unready_allowed(self) -> int:
        """Return how many unready pods may be evicted: all or none.

        All with unhealthyPodEvictionPolicy AlwaysAllow, or (IfHealthyBudget) while the application is healthy.
        """
        status = self.object.status
        is_healthy = min(status.current_healthy, self.healthy) >= status.desired_healthy > 0
        return UNLIMITED if is_healthy or self.always_evicts_unready else 0

    @property
    def always_evicts_unready(self) -> bool:
        return self.object.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"

    @property
    def is_shared(self) -> bool:
        """Return whether unready pods count against the same row as ready ones: they do if no pod has to be healthy.

        With desiredHealthy 0 the eviction API skips its rule for unready pods, so they use up disruptionsAllowed.
        """
        return self.object.status.desired_healthy == 0 and not self.always_evicts_unready


class LiveBudgetIndex(BudgetIndex):
    """Budget index with two rows per budget: one that its ready pods count against, one for its unready pods."""

    def __init__(self, snapshot: Snapshot, empty_selects: str = "Nothing") -> None:
        super().__init__(snapshot, empty_selects)
        self._multiple_budgets_row = self._new_row()
        """Row that pods with several budgets count against: it allows nothing, for the eviction API rejects them."""
        self._budgets_by_row: dict[int, LiveBudget] = {}
        self._counted: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        """Pod row -> (1 if healthy else 0, 1 if its eviction is approved else 0, the budgets that count it)."""
        self._changed: set[int] = set()
        """Budgets whose counts changed since the last decision."""

    # --- pods ---

    def _count_pod(self, row: int, pod: Pod, selected_by: tuple[int, ...]) -> None:
        self._set_budgets(row, self._rows_counted_against(pod, selected_by))
        counting = tuple(budget for budget in selected_by if not self._is_disrupted(budget, pod))
        if pod.is_ready:
            self._counted[row] = pod.metadata.deletion_timestamp is None, is_assumed_terminating(pod), counting
            self._add_to_budgets(row, 1)

    def _rows_counted_against(self, pod: Pod, selected_by: tuple[int, ...]) -> tuple[int, ...]:
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Pending":
            return ()
        if len(selected_by) > 1:
            return (self._multiple_budgets_row,)
        (budget,) = selected_by
        if self._is_disrupted(budget, pod):
            return ()
        live = self._budgets_by_row[budget]
        return (budget if pod.is_ready or live.is_shared else live.unready_row,)

    def _add_to_budgets(self, row: int, sign: int) -> None:
        healthy, approved, budgets = self._counted[row]
        for budget in budgets:
            live = self._budgets_by_row[budget]
            live.healthy += sign * healthy
            live.approved += sign * approved
        self._changed.update(budgets)

    def _uncount_pod(self, row: int) -> None:
        super()._uncount_pod(row)
        if row in self._counted:
            self._add_to_budgets(row, -1)
            del self._counted[row]

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
        """Count all pods of the budget again, because its unready pods count against another row now."""
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
        return {**names, **of_unready, self._multiple_budgets_row: "(more than one for a pod)"}

    def settled(self) -> None:
        for row in self._changed:
            live = self._budgets_by_row[row]
            self._set_allowed(row, live.allowed)
            self._set_allowed(live.unready_row, live.unready_allowed)
        self._changed.clear()
