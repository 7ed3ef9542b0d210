"""NodePorts: two pods of a node may not use the same host port, protocol and address.

Mirrors pkg/scheduler/framework/plugins/nodeports, pkg/scheduler/util.GetHostPorts and kube-scheduler/framework
HostPortInfo (v1.36).
"""

from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from extender.core.framework.constraint import ConflictConstraint, EvictablePods, SchedulingContext
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.selector_index import KeyIndex
from extender.k8s.objects import Pod

NAME = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"
ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    ip: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Return whether port and protocol are equal, and the addresses are equal or one of them is any address."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip))


def host_ports(pod: Pod) -> frozenset[HostPort]:
    """Return the host ports of containers and sidecars; the default address is any, the default protocol TCP."""
    sidecars = (c for c in pod.spec.init_containers or () if c.restart_policy == "Always")
    return frozenset(
        HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in chain(pod.spec.containers or (), sidecars)
        for port in container.ports or ()
        if port.host_port > 0
    )


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


class HostPortIndex(KeyIndex):
    """Host ports that running pods use (upstream: NodeInfo.UsedPorts)."""

    def keys_of(self, pod: Pod) -> frozenset[HostPort]:
        return host_ports(pod)


def filter(context: SchedulingContext) -> tuple[PortConflictConstraint, ...]:
    """Return one constraint, or none for a pod without host ports."""
    wanted = host_ports(context.pod)
    if not wanted:
        return ()
    snapshot, layout = context.snapshot, context.layout
    held = snapshot.index(HostPortIndex).users.items()
    conflicting = [list(users) for port, users in held if any(map(port.conflicts, wanted))]
    holders = np.zeros((len(conflicting), *layout.pod.shape), np.bool_)
    for port, rows in enumerate(conflicting):
        holders[port, layout.rank[rows], snapshot.pod_node[rows]] = True
    demand = snapshot.pod_amounts({row: 1 for rows in conflicting for row in rows})
    headroom, ranked = -demand.per_node(len(snapshot.nodes)), RankedDemand(layout, (demand,))
    nominated = context.nominated_demand(
        1, lambda pod, _node: [any(held.conflicts(port) for held in host_ports(pod) for port in wanted)]
    )
    return (PortConflictConstraint(NAME, headroom[np.newaxis], ranked, nominated, REASON, holders),)
