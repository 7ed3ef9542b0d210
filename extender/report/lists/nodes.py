"""List the nodes of a snapshot: requests, free resources, taints and pods.

Rule: `NodeColumns.of` and `NodeCopy.of` read the snapshot, between two decisions; what they return does not change, and
any thread may render it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from extender.core.snapshot.arrays import BASE_RESOURCES, IntArray
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Node, Pod, Taint
from extender.k8s.requests import allocatable, incoming_requests
from extender.k8s.version.features import Features
from extender.report.lists.node_schema import ListedNodes, NodeDetail, NodePod, NodeSort, NodeSummary


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """The nodes to list."""

    text: str = ""
    """Part of a name, a taint (`key=value:effect`) or a label (`key=value`)."""
    sort: NodeSort = "name"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """The nodes of a snapshot, and what their pods request."""

    nodes: tuple[Node, ...]
    allocatable: IntArray
    """[resource, node]: allocatable amounts of BASE_RESOURCES."""
    requested: Mapping[str, IntArray]
    """Resource -> [node]: requests of its pods; `pods` is their number."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "NodeColumns":
        """Copy what a list shows; call it on the thread that decides."""
        requested = dict(zip(BASE_RESOURCES, snapshot.used.copy(), strict=True))
        scalars = snapshot.allocatable_names - requested.keys()
        return cls(
            tuple(snapshot.nodes),
            snapshot.allocatable,
            requested | {name: snapshot.scalar_used(name) for name in sorted(scalars)},
        )

    def select(self, query: NodeQuery) -> ListedNodes:
        """Return the part of the matching nodes that the query asks for."""
        text = query.text.lower()
        rows = [row for row, node in enumerate(self.nodes) if not text or any(text in one for one in _texts(node))]
        rows.sort(key=lambda row: self.nodes[row].metadata.name)
        if query.sort != "name":
            free = self.allocatable[BASE_RESOURCES.index(query.sort)] - self.requested[query.sort]
            rows.sort(key=free.tolist().__getitem__, reverse=True)
        shown = [self._summary(row) for row in rows[query.offset : query.offset + query.limit]]
        return ListedNodes(nodes=shown, matching=len(rows), total=len(self.nodes))

    def _summary(self, row: int) -> NodeSummary:
        return _summarize(self.nodes[row], {name: int(values[row]) for name, values in self.requested.items()})


@dataclass(frozen=True, slots=True)
class NodeCopy:
    """A node of a snapshot with its pods."""

    node: Node
    requested: Mapping[str, int]
    pods: tuple[Pod, ...]
    """The most important first."""
    nominated: tuple[Pod, ...]
    features: Features

    @classmethod
    def of(cls, snapshot: Snapshot, name: str) -> "NodeCopy | None":
        """Copy a node; None if the cluster has no such node. Call it on the thread that decides."""
        row = snapshot.node_row.get(name)
        if row is None:
            return None
        requested = Counter(dict(zip(BASE_RESOURCES, snapshot.used[:, row].tolist(), strict=True)))
        for pod_row in snapshot.pod_table.on_node[row].values():
            requested.update(dict(snapshot.pod_table.scalar_resources.get(pod_row, ())))
        nominated = tuple(pod for pod in snapshot.nominees if pod.status.nominated_node_name == name)
        return cls(snapshot.nodes[row], requested, snapshot.pods_on(name), nominated, snapshot.features)

    def report(self) -> NodeDetail:
        """Render the node with its labels and pods."""
        summary = _summarize(self.node, self.requested)
        return NodeDetail(
            **{field: getattr(summary, field) for field in summary.__struct_fields__},
            labels=dict(self.node.metadata.labels or {}),
            running=_pods(self.pods, self.features),
            nominated=_pods(self.nominated, self.features),
        )


def taint_text(taint: Taint) -> str:
    """Return `key=value:effect`, or `key:effect` without a value."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _summarize(node: Node, requested: Mapping[str, int]) -> NodeSummary:
    return NodeSummary(
        name=node.metadata.name,
        pods=requested["pods"],
        allocatable=allocatable(node.status.allocatable),
        requested={name: amount for name, amount in requested.items() if amount},
        unschedulable=node.spec.unschedulable,
        taints=[taint_text(one) for one in node.spec.taints or ()],
    )


def _pods(pods: Iterable[Pod], features: Features) -> list[NodePod]:
    return [
        NodePod(
            key=pod.key,
            priority=pod.priority,
            requests=incoming_requests(pod, features),
            started=pod.status.start_time,
            terminating=pod.metadata.deletion_timestamp is not None,
        )
        for pod in pods
    ]


def _texts(node: Node) -> Iterable[str]:
    yield node.metadata.name.lower()
    yield from (taint_text(one).lower() for one in node.spec.taints or ())
    yield from (f"{key}={value}".lower() for key, value in (node.metadata.labels or {}).items())
