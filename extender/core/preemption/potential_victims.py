"""Potential victims.

Rule: x.
"""

from dataclasses import dataclass, replace

import numpy as np

from extender.core.framework.constraint import Evictable, Rows, SchedulingContext
from extender.core.preemption.pdb.violations import charging_of, violating, violating_on
from extender.core.preemption.protections import Protections, protects
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.snapshot import Index, Snapshot

_CACHED_GROUPS = 32
"""For how many preemptor priorities a snapshot remembers the groups."""

_FEW_NODES = 1000
"""When more nodes than this have changed, all are looked at."""

_BELOW_ALL = -(2**31) - 1
"""Lower than any priority."""


@dataclass(frozen=True, slots=True)
class PotentialVictims:
    """The pods that a preemptor may evict, and in which of the two groups they are put back."""

    evictable: Evictable
    violating: BoolArray
    """[k, node]: their loss breaks a budget."""
    others: BoolArray
    """[k, node]."""
    protected: BoolArray | None = None
    """[pod]; None: nobody is."""

    def at(self, rows: Rows) -> "PotentialVictims":
        """The same for some nodes only."""
        evictable, violating = self.evictable.at(rows), self.violating.take(rows, axis=1)
        return PotentialVictims(evictable, violating, evictable.mask & ~violating, self.protected)


def potential_victims(incoming: SchedulingContext, chosen: BoolArray | None = None) -> PotentialVictims:
    """All pods of strictly lower priority that no policy protects; `chosen`: see `Protections.mask`."""
    return incoming.snapshot.index(PotentialVictimsIndex, incoming.profile.preemption).of(incoming, chosen)


def in_other_order(
    incoming: SchedulingContext, chosen: BoolArray | None, grouped: PotentialVictims
) -> PotentialVictims:
    """The same pods as `potential_victims` gave, where budgets are charged for the least important ones first."""
    known = incoming.snapshot.index(PotentialVictimsIndex, incoming.profile.preemption)
    return known.of(incoming, chosen, in_other_order=grouped)


class PotentialVictimsIndex(Index):
    """The groups for the last few preemptors; only nodes that changed are looked at again.

    They depend on the highest of the cluster's priorities that is lower than the preemptor's, and on who is protected
    from it.
    """

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        super().__init__(snapshot)
        self._charging = charging_of(snapshot, policy)
        self._protections = snapshot.index(Protections, policy) if protects(policy) else None
        self._known: dict[tuple[object, ...], _Known] = {}

    def of(
        self, incoming: SchedulingContext, chosen: BoolArray | None, *, in_other_order: PotentialVictims | None = None
    ) -> PotentialVictims:
        """See `potential_victims` and `in_other_order`."""
        self._charging.refresh()
        other_order = in_other_order is not None
        lower = (one for one in incoming.snapshot.pod_table.priorities if one < incoming.pod.priority)
        below, protected = max(lower, default=_BELOW_ALL) + 1, None
        key: tuple[object, ...] = below, other_order
        if self._protections is not None:
            protected = in_other_order.protected if in_other_order else self._protections.mask(incoming, chosen)
            key += (chosen is None, self._protections.key(incoming))
        asked = _Asked(incoming.layout, below, protected, other_order)
        known = self._known.pop(key, None)
        changed = None if known is None else self._changed(known, protected)
        if known is None or changed is None or not self._update(known.groups, changed, asked):
            known = _Known(self._build(asked))
        known.seen, known.erased = len(self._charging.journal), self._charging.erased
        known.groups = replace(known.groups, protected=protected)
        if len(self._known) >= _CACHED_GROUPS:
            del self._known[next(iter(self._known))]
        self._known[key] = known
        return known.groups

    def _changed(self, known: "_Known", protected: BoolArray | None) -> set[int] | None:
        """Nodes to look at again; None: all."""
        if known.erased != self._charging.erased:
            return None
        nodes = set(self._charging.journal[known.seen :])
        before = known.groups.protected
        if protected is not None and before is not None:
            if protected.shape != before.shape:
                return None
            nodes.update(self.snapshot.pod_node[np.flatnonzero(protected != before)].tolist())
        nodes.discard(-1)
        return nodes

    def _build(self, asked: "_Asked") -> PotentialVictims:
        mask = asked.mask(slice(None))
        breaking = violating(self._charging, asked.layout, mask, other_order=asked.other_order)
        gives = bool((asked.layout.demand < 0).any())
        return PotentialVictims(Evictable(mask, _freed(asked.layout, mask), gives), breaking, mask & ~breaking)

    def _update(self, potential_victims: PotentialVictims, nodes: set[int], asked: "_Asked") -> bool:
        """Look at some nodes again; False if to build all anew is what it takes, or is cheaper."""
        layout = asked.layout
        if potential_victims.violating.shape != layout.pod.shape or len(nodes) > _FEW_NODES:
            return False
        columns = np.array([node for node in nodes if node < layout.pod.shape[1]], np.int64)
        if not potential_victims.evictable.gives and (layout.demand[:, :, columns] < 0).any():
            return False
        mask = asked.mask(columns)
        breaking = np.zeros_like(mask)
        for place, node in enumerate(columns.tolist()):
            evictable = np.flatnonzero(mask[:, place])[:: -1 if asked.other_order else 1]
            pods = layout.pod[evictable, node].tolist()
            breaking[violating_on(self._charging, zip(evictable.tolist(), pods, strict=True)), place] = True
        potential_victims.evictable.mask[:, columns] = mask
        if potential_victims.evictable.freed is not None:
            potential_victims.evictable.freed[:, columns] = _freed(layout, mask, columns)
        potential_victims.violating[:, columns] = breaking
        potential_victims.others[:, columns] = mask & ~breaking
        return True


def _freed(layout: NodeLayout, mask: BoolArray, nodes: IntArray | slice = slice(None)) -> IntArray:
    """[k, node] of some nodes -> [resource, node]: what these pods take."""
    freed: IntArray = np.einsum("kcn,kn->cn", layout.demand[:, :, nodes], mask.astype(np.int64))
    return freed


@dataclass(slots=True)
class _Known:
    """Groups, and up to where they follow the changes of the cluster."""

    groups: PotentialVictims
    erased: int = 0
    seen: int = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    layout: NodeLayout
    below: int
    """Priority."""
    protected: BoolArray | None
    """[pod]."""
    other_order: bool

    def mask(self, nodes: IntArray | slice) -> BoolArray:
        """[k, node]: evictable."""
        mask: BoolArray = self.layout.priority[:, nodes] < self.below
        return mask if self.protected is None else mask & ~self.protected[self.layout.pod[:, nodes]]
