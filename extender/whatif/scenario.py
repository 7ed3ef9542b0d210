"""Scenario of a simulation: changes of nodes, then pods that arrive.

Its fields match the keyword arguments of the Python API and the body of `POST /simulate`; the command line builds one.

Rule: a scenario only holds and checks values; `whatif.simulator` runs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from extender.admission.admit import AdmissionMode
from extender.cluster.files.manifests import RawManifest
from extender.core.scheduling_cycle.schedule_one import Draw, seeded_draw
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Node, Pod
from extender.whatif.workloads import replicas_of

MAX_UNTIL_FULL_PODS = 10_000
"""Maximum number of copies that a simulation with `until_full` binds."""

MAX_ADDED = 150_000
"""Maximum number of replicas, and of nodes, that a simulation adds: Kubernetes supports no more pods in a cluster."""


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """Copies of a node to add."""

    node: RawManifest | Node
    count: int = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """Changes of nodes, then pods that arrive: nodes are added, cordoned, removed and drained in this order."""

    pods: Sequence[RawManifest | Pod] = ()
    """Pods that arrive, besides pods of `workloads`."""
    claims: Sequence[RawManifest] = ()
    """Objects that the pods need and the cluster lacks: claims, budgets, classes, Services."""
    pending: bool = False
    """Schedule the pending pods of the cluster too."""
    seed: int | None = None
    """Seed of the random choice among equal nodes; None if the first by name is chosen."""
    add_nodes: Sequence[AddedNodes] = ()
    cordon: Sequence[str] = ()
    remove_nodes: Sequence[str] = ()
    """Nodes that are deleted with their pods."""
    drain: Sequence[str] = ()
    """Nodes that are all cordoned first, then drained one by one."""
    workloads: Sequence[RawManifest] = ()
    until_full: bool = False
    """Bind copies of the only pod, or further pods of the only workload, until one does not fit."""
    gang: bool = False
    """Bind all pods that arrive, or none."""
    replace_evicted: bool = True
    """Let controllers recreate evicted pods."""
    admission: AdmissionMode = "local"
    """What makes of manifests the objects that an API server stores."""
    strict: bool = False
    """Refuse unknown fields too, and required fields that are missing and do not change the answer."""

    @property
    def changes_nodes(self) -> bool:
        return bool(self.add_nodes or self.cordon or self.remove_nodes or self.drain)

    @property
    def only_pods_arrive(self) -> bool:
        return not (self.changes_nodes or self.workloads or self.until_full or self.gang)

    @property
    def replicas(self) -> int:
        """Return the number of pods of all workloads but DaemonSets; 0 for a workload that will be refused."""
        return sum(replicas_of(one) for one in self.workloads)

    @property
    def added(self) -> int:
        """Return the number of nodes that are added."""
        return sum(one.count for one in self.add_nodes)

    @property
    def draw(self) -> Draw | None:
        """Return the function that chooses among equal nodes; None if the first by name is chosen."""
        return None if self.seed is None else seeded_draw(self.seed)

    def displaced_pods(self, cluster: ClusterObjects | Snapshot) -> int:
        """Return the number of pods on the nodes that are removed or drained."""
        nodes = {*self.remove_nodes, *self.drain}
        # A snapshot indexes the pods of each node; without one, every pod is checked.
        if isinstance(cluster, Snapshot):
            rows = (cluster.node_row[name] for name in nodes if name in cluster.node_row)
            return sum(len(cluster.pod_table.on_node[row]) for row in rows)
        return sum(pod.spec.node_name in nodes for pod in cluster.pods) if nodes else 0

    def arriving_pods(self, cluster: ClusterObjects | Snapshot) -> int:
        """Return the number of pods that are given, pending, or replicas of workloads."""
        waiting = cluster.pods_without_row() if isinstance(cluster, Snapshot) else cluster.pods
        pending = sum(not pod.spec.node_name for pod in waiting) if self.pending else 0
        return len(self.pods) + pending + (0 if self.until_full else self.replicas)

    def check(self, snapshot: Snapshot) -> None:
        """Raise RequestError if the scenario cannot be carried out on this snapshot."""
        self._check_nodes(snapshot)
        # `until_full` ignores the number of replicas, and has a limit of its own.
        for field, number in (("workloads", 0 if self.until_full else self.replicas), ("addNodes", self.added)):
            if number > MAX_ADDED:
                raise RequestError(f"{field}: {number} exceed the limit of {MAX_ADDED}")
        if self.until_full and self.gang:
            raise RequestError("untilFull and gang are mutually exclusive")
        if self.gang and not (self.pods or self.workloads):
            raise RequestError("gang: requires pods or workloads")
        if self.until_full and len(self.pods) + len(self.workloads) != 1:
            raise RequestError("untilFull: requires exactly one pod or one workload")
        if self.until_full and any(one.kind == "DaemonSet" for one in self.workloads):
            raise RequestError("untilFull: a DaemonSet runs one pod on each node, whatever fits there")

    def _check_nodes(self, snapshot: Snapshot) -> None:
        named: dict[str, str] = {}
        for field, names in (("cordon", self.cordon), ("removeNodes", self.remove_nodes), ("drain", self.drain)):
            for name in names:
                if name not in snapshot.node_row:
                    raise RequestError(f"{field}: no node {name[:300]!r} in the cluster")
                if name in named:
                    where = "twice" if named[name] == field else f"in {named[name]} too"
                    raise RequestError(f"{field}: node {name!r} is named {where}")
                named[name] = field
        for one in self.add_nodes:
            name = one.node.metadata.name if isinstance(one.node, Node) else one.node.name[1]
            if one.count < 1:
                raise RequestError(f"addNodes: node {name!r}: count must be at least 1")
