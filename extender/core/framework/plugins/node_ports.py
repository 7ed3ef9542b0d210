"""NodePorts: two pods on a node must not use the same host port, protocol and address.

Mirrors pkg/scheduler/framework/plugins/nodeports, pkg/scheduler/util.GetHostPorts and kube-scheduler/framework
HostPortInfo (v1.36).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from extender.core.framework.filter_checks import ConflictConstraint, EvictablePods
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows, index_in
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.selector_index import KeyIndex
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.version.features import Features
from extender.utilities.groups import remove_member

NAME = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"
ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    """A host port that a pod uses; the default address is ANY_ADDRESS, the default protocol TCP."""

    ip: str
    protocol: str
    port: int

    @property
    def number(self) -> tuple[str, int]:
        """Protocol and port: two host ports conflict only if these are equal."""
        return self.protocol, self.port


def host_ports(pod: Pod, features: Features) -> frozenset[HostPort]:
    """Return the host ports of the pod's containers and sidecars."""
    containers = [*(pod.spec.containers or ())]
    if features.host_ports_of_sidecars:
        containers += [one for one in pod.spec.init_containers or () if one.restart_policy == "Always"]
    ports = [port for container in containers for port in container.ports or () if port.host_port > 0]
    return frozenset([HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port) for port in ports])


class WantedPorts:
    """Host ports of the incoming pod, used to find conflicting host ports of other pods."""

    def __init__(self, ports: Iterable[HostPort]) -> None:
        self._addresses: dict[tuple[str, int], set[str]] = defaultdict(set)
        for port in ports:
            self._addresses[port.number].add(port.ip)

    def conflict(self, other: HostPort) -> bool:
        """Return whether protocol and port are equal, and the addresses are equal or one is ANY_ADDRESS."""
        addresses = self._addresses.get(other.number)
        return addresses is not None and (other.ip in addresses or ANY_ADDRESS in addresses or other.ip == ANY_ADDRESS)

    def held(self, index: "HostPortIndex") -> list[HostPort]:
        """Return the conflicting host ports of running pods."""
        held = (HostPort(ip, *number) for number in self._addresses for ip in index.addresses.get(number, ()))
        return [port for port in held if self.conflict(port)]


@dataclass(frozen=True, slots=True)
class PortUsers:
    """Pods that use conflicting host ports: one entry per pod and port."""

    ranks: npt.NDArray[np.int32]
    """[entry]: rank k of the pod."""
    nodes: IntArray
    """[entry]: the pod's node, as an index into the constraint's nodes."""
    ports: IntArray
    """[entry]: index of the port."""

    @classmethod
    def of(cls, context: SchedulingContext, users: Sequence[Collection[int]]) -> "PortUsers":
        """Return the entries; `users`: [port index]: rows of the pods that use it."""
        counts = np.fromiter(map(len, users), np.int64, len(users))
        rows = np.fromiter(chain.from_iterable(users), np.int64, int(counts.sum()))
        ports = np.repeat(np.arange(len(users)), counts)
        return cls(context.layout.rank[rows], context.snapshot.pod_node[rows], ports)

    def take(self, rows: NodeRows, size: int) -> "PortUsers":
        """Return the entries on the nodes `rows` only; `size`: number of nodes before."""
        nodes = index_in(rows, size)[self.nodes]
        here = np.flatnonzero(nodes >= 0)
        return PortUsers(self.ranks[here], nodes[here], self.ports[here])

    def in_use(self, removed: BoolArray) -> IntArray:
        """Return [node]: number of these ports still in use without the pods `removed` [k, node]."""
        # Quirk: upstream keeps a node's used ports as a set (HostPortInfo), so removing one of two pods with the same
        # port frees the port.
        size = removed.shape[1]
        numbers, of_entry = np.unique(self.ports * size + self.nodes, return_inverse=True)
        is_freed = np.zeros(len(numbers), np.bool_)
        is_freed[of_entry[removed[self.ranks, self.nodes]]] = True
        return np.bincount(numbers[~is_freed] % size, minlength=size)


@dataclass(frozen=True)
class PortConflictConstraint(ConflictConstraint):
    """One column: minus the number of the node's pods with a host port that conflicts with the incoming pod's."""

    users: PortUsers

    def remove_pods(self, evictable: EvictablePods) -> IntArray:
        """Return [1, node]: minus the number of conflicting ports still in use."""
        return -self.users.in_use(evictable.mask)[np.newaxis]

    def take(self, rows: NodeRows) -> Self:
        return replace(super().take(rows), users=self.users.take(rows, self.headroom.shape[1]))


class HostPortIndex(KeyIndex):
    """Host ports that running pods use (upstream: NodeInfo.UsedPorts)."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._features = snapshot.features
        self.addresses: dict[tuple[str, int], set[str]] = {}
        """(protocol, port) -> addresses on which running pods use it."""

    def keys_of(self, pod: Pod) -> frozenset[HostPort]:
        return host_ports(pod, self._features)

    def key_added(self, key: HostPort, row: int) -> None:
        super().key_added(key, row)
        self.addresses.setdefault(key.number, set()).add(key.ip)

    def pod_removed(self, row: int, pod: Pod) -> None:
        super().pod_removed(row, pod)
        for port in self.keys_of(pod):
            if port not in self.users:
                remove_member(self.addresses, port.number, port.ip)


def filter(context: SchedulingContext) -> tuple[PortConflictConstraint, ...]:
    """Return one constraint, or none for a pod without host ports."""
    ports, features = host_ports(context.pod, context.features), context.features
    if not ports:
        return ()
    snapshot, wanted = context.snapshot, WantedPorts(ports)
    index = snapshot.index(HostPortIndex)
    conflicting = [index.users[port] for port in wanted.held(index)]
    demand = snapshot.pod_amounts(dict.fromkeys(chain.from_iterable(conflicting), 1))
    headroom, ranked = -demand.per_node(len(snapshot.nodes)), RankedDemand(context.layout, (demand,))
    nominated = context.nominated_demand(1, lambda pod, _node: [any(map(wanted.conflict, host_ports(pod, features)))])
    users = PortUsers.of(context, conflicting)
    return (PortConflictConstraint(NAME, headroom[np.newaxis], ranked, nominated, REASON, users),)
