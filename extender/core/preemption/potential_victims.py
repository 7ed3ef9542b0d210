"""Find the potential victims: the pods that a preemptor may evict, split by disruption budget.

The first half of defaultpreemption.SelectVictimsOnNode (v1.36): every pod of strictly lower priority is a potential
victim unless a policy protects it, and filterPodsWithPDBViolation splits them into those whose eviction would violate a
PodDisruptionBudget and the others.

Rule: nothing is put back here; the result is kept, and only nodes that changed are computed again.
"""

from dataclasses import dataclass, replace

import numpy as np

from extender.core.framework.filter_checks import EvictablePods
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.preemption.pdb.index import BudgetIndex
from extender.core.preemption.pdb.violations import budget_index, pods_violating_pdbs
from extender.core.preemption.protections import ProtectionIndex
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows
from extender.core.snapshot.derived import derived
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.priority import BELOW_ALL_PRIORITIES
from extender.utilities.lru import LRU

_MAX_KEPT_PREEMPTORS = 32
"""Preemptor priorities (and protection keys) for which one snapshot keeps the potential victims."""

_MAX_NODES_TO_UPDATE = 1000
"""If more nodes than this changed, computing all nodes at once is cheaper than updating them one by one."""


@dataclass(frozen=True, slots=True)
class PotentialVictims:
    """The pods that a preemptor may evict, and the two groups in which the reprieve puts them back."""

    evictable: EvictablePods
    """All potential victims, of both groups."""
    violating: BoolArray
    """[k, node]: potential victims whose eviction would violate a disruption budget; they are reprieved first."""
    non_violating: BoolArray
    """[k, node]: the other potential victims."""
    protected: BoolArray | None = None
    """[pod]: True if a policy protects it; None: the profile has no such policy."""

    def take(self, rows: NodeRows) -> "PotentialVictims":
        """Restrict the potential victims to the nodes in `rows`."""
        evictable, violating = self.evictable.take(rows), self.violating.take(rows, axis=1)
        return PotentialVictims(evictable, violating, evictable.mask & ~violating, self.protected)


def potential_victims(context: SchedulingContext, scheduler_victims: BoolArray | None = None) -> PotentialVictims:
    """Return all pods of strictly lower priority that no policy protects.

    They depend only on the highest priority in the cluster that is lower than the preemptor's, and on the pods that are
    protected from it, so preemptors of nearby priorities share them. `scheduler_victims`: [pod] that kube-scheduler
    selected, see `ProtectionIndex.protected`.
    """
    snapshot, policy = context.snapshot, context.profile.preemption
    budgets, kept = budget_index(snapshot, policy), _kept(snapshot).setdefault(policy, LRU(_MAX_KEPT_PREEMPTORS))
    lower = (priority for priority in snapshot.pod_table.priorities if priority < context.pod.priority)
    below, protected = max(lower, default=BELOW_ALL_PRIORITIES) + 1, None
    key: tuple[object, ...] = (below,)
    if policy.may_change_victims:
        protections = snapshot.index(ProtectionIndex, policy)
        protected = protections.protected(context, scheduler_victims)
        key += (scheduler_victims is None, protections.cache_key(context))
    split = _Split(budgets, context.layout, below, protected)
    version, potential = kept.pop(key, (0, None))
    if potential is None or not split.update(potential, version):
        potential = split.build()
    potential = replace(potential, protected=protected)
    kept.put(key, (budgets.node_versions.latest, potential))
    return potential


KeptVictims = LRU[tuple[object, ...], tuple[int, PotentialVictims]]
"""(lowest priority that is not evictable, protection key) -> the latest node version of the budgets by then, and the
potential victims."""


@derived("nodes")
def _kept(_snapshot: Snapshot) -> dict[PreemptionPolicy, KeptVictims]:
    """Return the place for the potential victims of the last few preemptors under each policy."""
    return {}


@dataclass(frozen=True, slots=True)
class _Split:
    """All that potential victims depend on."""

    budgets: BudgetIndex
    layout: NodeLayout
    below: int
    """Pods of lower priority than this are evictable."""
    protected: BoolArray | None
    """[pod]: True if a policy protects it."""

    def build(self) -> PotentialVictims:
        """Compute all nodes."""
        mask, freed, violating = self._on(slice(None))
        evictable = EvictablePods(mask, freed, bool((self.layout.demand < 0).any()))
        return PotentialVictims(evictable, violating, mask & ~violating)

    def update(self, potential: PotentialVictims, version: int) -> bool:
        """Compute the nodes again, in place, that changed after `version`, or of which a pod is protected or no longer.

        Return False, changing nothing, if all nodes must be computed, or doing so is cheaper.
        """
        size, before, protected = self.layout.pod.shape[1], potential.protected, self.protected
        if potential.violating.shape != self.layout.pod.shape:
            return False
        nodes = self.budgets.node_versions.changed_since(version, size)
        if protected is not None and before is not None:
            if protected.shape != before.shape:
                return False
            of_changed = self.budgets.snapshot.pod_node[np.flatnonzero(protected != before)]
            nodes = np.union1d(nodes, of_changed[of_changed >= 0])
        if len(nodes) > _MAX_NODES_TO_UPDATE:
            return False
        if not potential.evictable.has_negative_demand and (self.layout.demand[:, :, nodes] < 0).any():
            return False
        mask, freed, violating = self._on(nodes)
        potential.evictable.mask[:, nodes] = mask
        if potential.evictable.freed is not None:
            potential.evictable.freed[:, nodes] = freed
        potential.violating[:, nodes] = violating
        potential.non_violating[:, nodes] = mask & ~violating
        return True

    def _on(self, nodes: IntArray | slice) -> tuple[BoolArray, IntArray, BoolArray]:
        """Return [k, node]: the evictable pods; [resource, node]: what they request; [k, node]: those that violate."""
        mask: BoolArray = self.layout.priority[:, nodes] < self.below
        if self.protected is not None:
            mask &= ~self.protected[self.layout.pod[:, nodes]]
        freed = np.einsum("kcn,kn->cn", self.layout.demand[:, :, nodes], mask.astype(np.int64))
        return mask, freed, pods_violating_pdbs(self.budgets, self.layout.pod[:, nodes], mask)
