"""NodePorts: two pods of a node may not use the same host port, protocol and address.

Mirrors pkg/scheduler/framework/plugins/nodeports (v1.36).
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from extender.core.framework.constraint import ConflictConstraint, EvictablePods, NodeRows, SchedulingContext
from extender.core.snapshot.arrays import BoolArray, IntArray, RowSet
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Pod
from extender.k8s.ports import HostPort, host_ports

NAME = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"


@dataclass(frozen=True)
class PortConflictConstraint(ConflictConstraint):
    """One column: minus the number of the node's pods with a host port that conflicts with the incoming pod's."""

    holders: BoolArray
    """[port, k, node]: True if the node's pod of rank k uses this conflicting port."""

    def remove_pods(self, evictable: EvictablePods) -> IntArray:
        """Return [1, node]: minus the number of conflicting ports still in use.

        Quirk: upstream keeps a node's used ports as a set (HostPortInfo), so removing one of two pods with the same
        port frees the port.
        """
        kept = (self.holders & ~evictable.mask).any(axis=1)
        freed = (self.holders & evictable.mask).any(axis=1)
        conflicts: IntArray = (kept & ~freed).sum(axis=0, keepdims=True, dtype=np.int64)
        return -conflicts

    def at(self, rows: NodeRows) -> Self:
        return replace(super().at(rows), holders=self.holders[:, :, rows])


class HostPortIndex(Index):
    """Host ports that running pods use (upstream: NodeInfo.UsedPorts)."""

    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.holders: dict[HostPort, RowSet] = {}
        """Host port -> rows of the pods that use it."""

    def pod_added(self, row: int, pod: Pod) -> None:
        for port in host_ports(pod):
            self.holders.setdefault(port, RowSet()).add(row)

    def pod_removed(self, row: int, pod: Pod) -> None:
        for port in host_ports(pod):
            self.holders[port].remove(row)
            if not self.holders[port].members:
                del self.holders[port]


def filter(context: SchedulingContext) -> tuple[PortConflictConstraint, ...]:
    """Return one constraint, or none for a pod without host ports."""
    wanted = host_ports(context.pod)
    if not wanted:
        return ()
    snapshot, layout = context.snapshot, context.layout
    held = snapshot.index(HostPortIndex).holders
    conflicting = [holders.rows for port, holders in held.items() if any(map(port.conflicts, wanted))]
    holders = np.zeros((len(conflicting), *layout.pod.shape), np.bool_)
    for port, rows in enumerate(conflicting):
        holders[port, layout.rank[rows], snapshot.pod_node[rows]] = True
    demand = snapshot.pod_amounts({row: 1 for rows in conflicting for row in rows.tolist()})
    headroom, ranked = -demand.per_node(len(snapshot.nodes)), RankedDemand(layout, (demand,))
    return (PortConflictConstraint(NAME, headroom[np.newaxis], ranked, _nominated(context, wanted), REASON, holders),)


def _nominated(context: SchedulingContext, wanted: frozenset[HostPort]) -> IntArray | None:
    def demand_of(pod: Pod, _node: int) -> list[int]:
        return [any(held.conflicts(port) for held in host_ports(pod) for port in wanted)]

    return context.nominated_demand(1, demand_of)
