"""Disruption budgets as the eviction API would treat them now, instead of as their status said some time ago.

A budget allows no more than the healthy pods that we see leave over, and no more than it reports, less those that were
approved and are not yet seen to go. A pod that is leaving or has not started charges nothing; an unready one
charges nothing either where the budget's unhealthyPodEvictionPolicy lets it go; a pod with several budgets is
never allowed (pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption, v1.36).

Rule: all that counts is on the pods and budgets of the picture, so that nothing is lost with a restart.
"""

from dataclasses import dataclass

from extender.core.preemption.pdb.index import Charging
from extender.core.snapshot.pod_table import is_assumed_leaving
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod, PodDisruptionBudget

UNLIMITED = 2**31
"""More pods than any node holds."""


@dataclass(slots=True)
class Held:
    """A budget and those of its pods that matter."""

    object: PodDisruptionBudget
    unready: int
    """The row that its unready pods charge."""
    healthy: int = 0
    """Ready pods that are not leaving, nor charged by the API server already."""
    approved: int = 0
    """Ready pods that are assumed to be leaving: what is reported cannot know of them yet."""

    @property
    def allowed(self) -> int:
        """How many healthy pods may be lost."""
        metadata, status = self.object.metadata, self.object.status
        if status.observed_generation < metadata.generation:
            return 0
        return min(status.disruptions_allowed - self.approved, self.healthy - status.desired_healthy)

    @property
    def unready_allowed(self) -> int:
        """How many unready ones."""
        status = self.object.status
        is_healthy = min(status.current_healthy, self.healthy) >= status.desired_healthy > 0
        return UNLIMITED if is_healthy or self.lets_unready_go else 0

    @property
    def lets_unready_go(self) -> bool:
        return self.object.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"

    @property
    def is_shared(self) -> bool:
        """Do unready pods charge what ready ones do? They do where no pod has to be healthy."""
        return self.object.status.desired_healthy == 0 and not self.lets_unready_go


class LiveCharging(Charging):
    """Two rows for a budget: one that its ready pods charge, one that its unready pods do."""

    def __init__(self, snapshot: Snapshot, empty_selects: str = "Nothing") -> None:
        super().__init__(snapshot, empty_selects)
        self._several = self._new_row()
        """What pods charge that several budgets select: it never allows anything."""
        self._held: dict[int, Held] = {}
        self._counted: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        """[pod] -> what it adds to `healthy` and to `approved` of which budgets."""
        self._changed: set[int] = set()

    # --- pods ---

    def _enter(self, row: int, pod: Pod, selected_by: tuple[int, ...]) -> None:
        self._charge(row, self._charged_for(pod, selected_by))
        counting = tuple(one for one in selected_by if not self._is_disrupted(one, pod))
        if pod.is_ready:
            self._counted[row] = pod.metadata.deletion_timestamp is None, is_assumed_leaving(pod), counting
            self._count(row, 1)

    def _charged_for(self, pod: Pod, selected_by: tuple[int, ...]) -> tuple[int, ...]:
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Pending":
            return ()
        if len(selected_by) > 1:
            return (self._several,)
        (budget,) = selected_by
        if self._is_disrupted(budget, pod):
            return ()
        held = self._held[budget]
        return (budget if pod.is_ready or held.is_shared else held.unready,)

    def _count(self, row: int, sign: int) -> None:
        healthy, approved, budgets = self._counted[row]
        for budget in budgets:
            held = self._held[budget]
            held.healthy += sign * healthy
            held.approved += sign * approved
        self._changed.update(budgets)

    def _leave(self, row: int) -> None:
        super()._leave(row)
        if row in self._counted:
            self._count(row, -1)
            del self._counted[row]

    # --- budgets ---

    def _report(self, row: int, budget: PodDisruptionBudget) -> None:
        held = self._held.get(row)
        if held is None:
            self._held[row] = Held(budget, self._new_row())
        else:
            was_shared, held.object = held.is_shared, budget
            if held.is_shared != was_shared:
                self._look_at_all_of(row)
        self._changed.add(row)

    def _look_at_all_of(self, row: int) -> None:
        """Its pods may charge another row now."""
        namespace = self._held[row].object.metadata.namespace
        for group in self._groups.in_namespaces(frozenset((namespace,))):
            if row in group.selected_by.get(self._way, ()):
                for member in group.members:
                    self._look_again(member, self.snapshot.pods[member])

    def _forget(self, row: int) -> None:
        super()._forget(row)
        self._free.append(self._held.pop(row).unready)
        self._changed.discard(row)

    def _name_rows(self) -> dict[int, str]:
        names = super()._name_rows()
        of_unready = {held.unready: names[row] for row, held in self._held.items() if row in names}
        return {**names, **of_unready, self._several: "of several for one pod"}

    def refresh(self) -> None:
        for row in self._changed:
            held = self._held[row]
            self._allow(row, held.allowed)
            self._allow(held.unready, held.unready_allowed)
        self._changed.clear()
