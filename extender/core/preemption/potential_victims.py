"""Find the potential victims: the pods that a preemptor may evict, split by disruption budget.

The first half of defaultpreemption.SelectVictimsOnNode (v1.36): every pod of strictly lower priority is a potential
victim unless a policy protects it, and filterPodsWithPDBViolation splits them into those whose eviction would violate a
PodDisruptionBudget and the others.

Rule: the result is cached, and only nodes that changed since are computed again.
"""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from extender.core.framework.filter_checks import EvictablePods
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.preemption.pdb.violations import budget_index, pods_violating_pdbs
from extender.core.preemption.protections import ProtectionIndex
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import BoolArray, NodeRows
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.priority import BELOW_ALL_PRIORITIES
from extender.utilities.lru import LRU

_MAX_KEPT_PREEMPTORS = 32
"""Number of preemptor priorities (and protection keys) whose potential victims a snapshot caches."""

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

    `scheduler_victims`: [pod] that kube-scheduler selected, see `ProtectionIndex.protected`.
    """
    snapshot, policy, layout = context.snapshot, context.profile.preemption, context.layout
    budgets, size = budget_index(snapshot, policy), len(snapshot.nodes)
    # 1. The cache key. Potential victims depend only on the highest priority in the cluster that is lower than the
    #    preemptor's, and on the pods that are protected from it, so preemptors of nearby priorities share them.
    lower = (priority for priority in snapshot.pod_table.priorities if priority < context.pod.priority)
    below, protected = max(lower, default=BELOW_ALL_PRIORITIES) + 1, None
    key: tuple[object, ...] = (below,)
    if policy.may_change_victims:
        protections = snapshot.index(ProtectionIndex, policy)
        protected = protections.protected(context, scheduler_victims)
        key += (scheduler_victims is None, protections.cache_key(context))
    # 2. The nodes to compute: those that changed since then, or where a pod has become protected or unprotected; all
    #    nodes if that is cheaper or the arrays have other shapes now.
    kept = _kept(snapshot)[policy]
    version, potential = kept.pop(key, (0, None))
    changed = budgets.node_versions.changed_since(version, size) if potential is not None else np.arange(size)
    if potential is not None and protected is not None and potential.protected is not None:
        if protected.shape == potential.protected.shape:
            nodes = snapshot.pod_node[np.flatnonzero(protected != potential.protected)]
            changed = np.union1d(changed, nodes[nodes >= 0])
        else:
            potential = None
    if potential is not None and (
        potential.violating.shape != layout.pod.shape
        or len(changed) > _MAX_NODES_TO_UPDATE
        or (not potential.evictable.has_negative_demand and (layout.demand[:, :, changed] < 0).any())
    ):
        potential = None
    # 3. Their evictable pods, what these request, and which of them violate budgets.
    at = slice(None) if potential is None else changed
    mask: BoolArray = layout.priority[:, at] < below
    if protected is not None:
        mask &= ~protected[layout.pod[:, at]]
    freed = np.einsum("kcn,kn->cn", layout.demand[:, :, at], mask.astype(np.int64))
    violating = pods_violating_pdbs(budgets, layout.pod[:, at], mask)
    if potential is None:
        evictable = EvictablePods(mask, freed, bool((layout.demand < 0).any()))
        potential = PotentialVictims(evictable, violating, mask & ~violating)
    else:
        potential.evictable.mask[:, at] = mask
        if potential.evictable.freed is not None:
            potential.evictable.freed[:, at] = freed
        potential.violating[:, at], potential.non_violating[:, at] = violating, mask & ~violating
    potential = replace(potential, protected=protected)
    kept.put(key, (budgets.node_versions.latest, potential))
    return potential


KeptVictims = LRU[tuple[object, ...], tuple[int, PotentialVictims]]
"""(lowest priority that is not evictable, protection key) -> the latest node version of the budgets by then, and the
potential victims."""


@derived("nodes")
def _kept(_snapshot: Snapshot) -> defaultdict[PreemptionPolicy, KeptVictims]:
    """Return the place for the potential victims of the last few preemptors under each policy."""
    return defaultdict(lambda: LRU(_MAX_KEPT_PREEMPTORS))
