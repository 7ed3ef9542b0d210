"""Find the potential victims: the pods that a preemptor may evict, split by disruption budget.

The first half of defaultpreemption.SelectVictimsOnNode (v1.36): every pod of strictly lower priority is a potential
victim unless a policy protects it, and filterPodsWithPDBViolation splits them into those whose eviction would violate a
PodDisruptionBudget and the others.

Rule: nothing is put back here; the result is cached, and only nodes that changed are computed again.
"""

from dataclasses import dataclass, replace

import numpy as np

from extender.core.framework.constraint import EvictablePods, NodeRows, SchedulingContext
from extender.core.preemption.pdb.violations import budget_index, pods_violating_pdbs, pods_violating_pdbs_on_node
from extender.core.preemption.protections import ProtectionIndex, may_change_victims
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.priority import BELOW_ALL_PRIORITIES

_MAX_CACHED_PREEMPTORS = 32
"""Preemptor priorities (and protection keys) for which one snapshot caches the potential victims."""

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

    def at(self, rows: NodeRows) -> "PotentialVictims":
        """Restrict the potential victims to the nodes in `rows`."""
        evictable, violating = self.evictable.at(rows), self.violating.take(rows, axis=1)
        return PotentialVictims(evictable, violating, evictable.mask & ~violating, self.protected)


def potential_victims(context: SchedulingContext, scheduler_victims: BoolArray | None = None) -> PotentialVictims:
    """Return all pods of strictly lower priority that no policy protects.

    `scheduler_victims`: [pod] that kube-scheduler selected, see `ProtectionIndex.protected`.
    """
    return context.snapshot.index(PotentialVictimsIndex, context.profile.preemption).get(context, scheduler_victims)


def potential_victims_least_important_first(
    context: SchedulingContext, scheduler_victims: BoolArray | None, potential: PotentialVictims
) -> PotentialVictims:
    """Split the pods of `potential` again, counting budgets from the least important pod on.

    Then the most important pods are the ones that violate, so the reprieve tries them first. `potential` is what
    `potential_victims` returned for the same context.
    """
    index = context.snapshot.index(PotentialVictimsIndex, context.profile.preemption)
    return index.get(context, scheduler_victims, reverse_of=potential)


class PotentialVictimsIndex(Index):
    """Cache of the potential victims for the last few preemptors.

    They depend only on the highest priority in the cluster that is lower than the preemptor's, and on the pods that are
    protected from it, so preemptors of nearby priorities share an entry. The change log of the budget index names the
    nodes to compute again.
    """

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        super().__init__(snapshot)
        self._budgets = budget_index(snapshot, policy)
        self._protections = snapshot.index(ProtectionIndex, policy) if may_change_victims(policy) else None
        self._cached: dict[tuple[object, ...], _CachedVictims] = {}
        """(lowest priority that is not evictable, order, protection key) -> entry; the least recently used first."""

    def get(
        self,
        context: SchedulingContext,
        scheduler_victims: BoolArray | None,
        *,
        reverse_of: PotentialVictims | None = None,
    ) -> PotentialVictims:
        """Return the potential victims; `reverse_of`: see `potential_victims_least_important_first`."""
        self._budgets.refresh()
        least_important_first = reverse_of is not None
        lower = (priority for priority in context.snapshot.pod_table.priorities if priority < context.pod.priority)
        below, protected = max(lower, default=BELOW_ALL_PRIORITIES) + 1, None
        key: tuple[object, ...] = below, least_important_first
        if self._protections is not None:
            protected = reverse_of.protected if reverse_of else self._protections.protected(context, scheduler_victims)
            key += (scheduler_victims is None, self._protections.cache_key(context))
        query = _Query(context.layout, below, protected, least_important_first)
        cached = self._cached.pop(key, None)
        changed = None if cached is None else self._changed_nodes(cached, protected)
        if cached is None or changed is None or not self._update(cached.potential, changed, query):
            cached = _CachedVictims(self._build(query))
        cached.log_position, cached.log_resets = len(self._budgets.change_log), self._budgets.change_log_resets
        cached.potential = replace(cached.potential, protected=protected)
        if len(self._cached) >= _MAX_CACHED_PREEMPTORS:
            del self._cached[next(iter(self._cached))]
        self._cached[key] = cached
        return cached.potential

    def _changed_nodes(self, cached: "_CachedVictims", protected: BoolArray | None) -> set[int] | None:
        """Return the node rows to compute again; None: all, because the change log was reset since."""
        if cached.log_resets != self._budgets.change_log_resets:
            return None
        nodes = set(self._budgets.change_log[cached.log_position :])
        before = cached.potential.protected
        if protected is not None and before is not None:
            if protected.shape != before.shape:
                return None
            nodes.update(self.snapshot.pod_node[np.flatnonzero(protected != before)].tolist())
        nodes.discard(-1)
        return nodes

    def _build(self, query: "_Query") -> PotentialVictims:
        mask = query.evictable(slice(None))
        violating = pods_violating_pdbs(
            self._budgets, query.layout, mask, least_important_first=query.least_important_first
        )
        has_negative_demand = bool((query.layout.demand < 0).any())
        evictable = EvictablePods(mask, _freed(query.layout, mask), has_negative_demand)
        return PotentialVictims(evictable, violating, mask & ~violating)

    def _update(self, potential: PotentialVictims, nodes: set[int], query: "_Query") -> bool:
        """Compute `nodes` again in place; return False if all nodes must be computed, or doing so is cheaper."""
        layout = query.layout
        if potential.violating.shape != layout.pod.shape or len(nodes) > _MAX_NODES_TO_UPDATE:
            return False
        columns = np.array([node for node in nodes if node < layout.pod.shape[1]], np.int64)
        if not potential.evictable.has_negative_demand and (layout.demand[:, :, columns] < 0).any():
            return False
        mask = query.evictable(columns)
        violating = np.zeros_like(mask)
        for place, node in enumerate(columns.tolist()):
            ranks = np.flatnonzero(mask[:, place])[:: -1 if query.least_important_first else 1]
            pods = zip(ranks.tolist(), layout.pod[ranks, node].tolist(), strict=True)
            violating[pods_violating_pdbs_on_node(self._budgets, pods), place] = True
        potential.evictable.mask[:, columns] = mask
        if potential.evictable.freed is not None:
            potential.evictable.freed[:, columns] = _freed(layout, mask, columns)
        potential.violating[:, columns] = violating
        potential.non_violating[:, columns] = mask & ~violating
        return True


def _freed(layout: NodeLayout, mask: BoolArray, nodes: IntArray | slice = slice(None)) -> IntArray:
    """Return [resource, node]: total requests of the pods in `mask` [k, node] on these nodes."""
    freed: IntArray = np.einsum("kcn,kn->cn", layout.demand[:, :, nodes], mask.astype(np.int64))
    return freed


@dataclass(slots=True)
class _CachedVictims:
    """Potential victims, and the position in the change log up to which they are current."""

    potential: PotentialVictims
    log_resets: int = 0
    log_position: int = 0


@dataclass(frozen=True, slots=True)
class _Query:
    """Query for potential victims: all that they depend on, except the budgets."""

    layout: NodeLayout
    below: int
    """Pods of lower priority than this are evictable."""
    protected: BoolArray | None
    """[pod]: True if a policy protects it."""
    least_important_first: bool
    """True if budgets are counted from the least important pod on."""

    def evictable(self, nodes: IntArray | slice) -> BoolArray:
        """Return [k, node] for the nodes in `nodes`."""
        mask: BoolArray = self.layout.priority[:, nodes] < self.below
        return mask if self.protected is None else mask & ~self.protected[self.layout.pod[:, nodes]]
