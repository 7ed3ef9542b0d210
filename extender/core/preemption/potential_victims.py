"""Find the potential victims: the pods that a preemptor may evict, split by disruption budget.

This is the first half of defaultpreemption.SelectVictimsOnNode (v1.36): every pod of strictly lower priority is a
potential victim unless a policy protects it, and filterPodsWithPDBViolation splits the potential victims by whether
their eviction would violate a PodDisruptionBudget.

Rule: the result is cached, and only nodes that have changed since are computed again.
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
"""Maximum number of cached results per policy: one for each priority boundary and protection key."""

_MAX_NODES_TO_UPDATE = 1000
"""Number of changed nodes above which computing all nodes at once is cheaper than updating these."""


@dataclass(frozen=True, slots=True)
class PotentialVictims:
    """The pods that a preemptor may evict, in the two groups that the reprieve puts back one after the other."""

    evictable: EvictablePods
    """All potential victims, of both groups."""
    violating: BoolArray
    """[k, node]: potential victims whose eviction would violate a PDB; they are reprieved first."""
    non_violating: BoolArray
    """[k, node]: the other potential victims."""
    protected: BoolArray | None = None
    """[pod]: whether a policy protects it; None if the profile has no such policy."""

    def take(self, rows: NodeRows) -> "PotentialVictims":
        """Return a copy restricted to the nodes in `rows`."""
        evictable, violating = self.evictable.take(rows), self.violating.take(rows, axis=1)
        return PotentialVictims(evictable, violating, evictable.mask & ~violating, self.protected)


def potential_victims(context: SchedulingContext, scheduler_victims: BoolArray | None = None) -> PotentialVictims:
    """Return all pods of strictly lower priority that no policy protects.

    `scheduler_victims`: [pod], kube-scheduler's victims; see `ProtectionIndex.protected`.
    """
    snapshot, policy, layout = context.snapshot, context.profile.preemption, context.layout
    budgets, size = budget_index(snapshot, policy), len(snapshot.nodes)
    # 1. Build the cache key. Potential victims depend only on the highest priority in the cluster that is below the
    #    preemptor's, and on the pods protected from the preemptor, so preemptors of nearby priorities share them.
    lower = (priority for priority in snapshot.pod_table.priorities if priority < context.pod.priority)
    below, protected = max(lower, default=BELOW_ALL_PRIORITIES) + 1, None
    key: tuple[object, ...] = (below,)
    if policy.may_change_victims:
        protections = snapshot.index(ProtectionIndex, policy)
        protected = protections.protected(context, scheduler_victims)
        key += (scheduler_victims is None, protections.cache_key(context))
    # 2. Find the nodes to compute: nodes that have changed since, or where a pod has become protected or unprotected.
    #    Compute all nodes if that is cheaper, or if the shapes of the arrays have changed.
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
    # 3. Compute the evictable pods of these nodes, their total requests, and which of them violate budgets.
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
"""(lowest priority that is not evictable, protection key) -> (latest node version of the budgets at that time,
potential victims)."""


@derived("nodes")
def _kept(_snapshot: Snapshot) -> defaultdict[PreemptionPolicy, KeptVictims]:
    """Return the cache, initially empty: policy -> potential victims of the latest preemptors."""
    return defaultdict(lambda: LRU(_MAX_KEPT_PREEMPTORS))
