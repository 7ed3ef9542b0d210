"""List the nodes of a snapshot: requests, free resources, taints and pods.

Rule: `NodeColumns.of` and `node_reporter` read the snapshot, between two decisions; what they return does not change.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from extender.core.snapshot.arrays import BASE_RESOURCES, IntArray
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Node, Pod
from extender.k8s.requests import allocatable, incoming_requests
from extender.k8s.version.features import Features
from extender.report.facts.wording import taint_text
from extender.report.lists.node_schema import ListedNodes, NodeDetail, NodePod, NodeSort, NodeSummary


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """The nodes of a snapshot, and what their pods request."""

    nodes: tuple[Node, ...]
    allocatable: IntArray
    """[resource, node]: allocatable amounts of BASE_RESOURCES."""
    requested: IntArray
    """[resource, node]: requests of its pods for BASE_RESOURCES; `pods` is their number."""
    scalar_resources: Mapping[int, tuple[tuple[str, int], ...]]
    """Pod row -> (resource, amount) of each extended resource that the pod requests."""
    pod_node: IntArray
    """[pod]: node row."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "NodeColumns":
        """Copy what a list shows; call it on the thread that decides."""
        # Extended resources are summed up on the other thread: there may be hundreds, each requested by many pods.
        return cls(
            tuple(snapshot.nodes),
            snapshot.allocatable,
            snapshot.used.copy(),
            snapshot.pod_table.scalar_resources.copy(),
            snapshot.pod_node.copy(),
        )

    def select(self, text: str, sort: NodeSort, offset: int, limit: int) -> ListedNodes:
        """Return at most `limit` matching nodes after the first `offset`.

        `text`: part of a name, a taint (`key=value:effect`) or a label (`key=value`).
        """
        text = text.lower()
        rows = [row for row, node in enumerate(self.nodes) if not text or any(text in one for one in _texts(node))]
        rows.sort(key=lambda row: self.nodes[row].metadata.name)
        if sort != "name":
            base = BASE_RESOURCES.index(sort)
            rows.sort(key=(self.allocatable[base] - self.requested[base]).tolist().__getitem__, reverse=True)
        shown = rows[offset : offset + limit]
        held: dict[int, list[tuple[tuple[str, int], ...]]] = {row: [] for row in shown}
        for pod, amounts in self.scalar_resources.items():
            if (row := int(self.pod_node[pod])) in held:
                held[row].append(amounts)
        nodes = [_summarize(self.nodes[row], _totals(self.requested[:, row], held[row])) for row in shown]
        return ListedNodes(nodes=nodes, matching=len(rows), total=len(self.nodes))


def node_reporter(snapshot: Snapshot, name: str) -> Callable[[], NodeDetail] | None:
    """Read a node, and return what reports it with its labels and pods, on any thread; None if it does not exist.

    The report takes longer than the reading: tenants choose how many containers their pods have.
    """
    row = snapshot.node_row.get(name)
    if row is None:
        return None
    node, requested, features = snapshot.nodes[row], requests_on(snapshot, row), snapshot.features
    running = snapshot.pods_on(name)
    nominated = [pod for pod in snapshot.nominees if pod.status.nominated_node_name == name]

    def report() -> NodeDetail:
        summary = _summarize(node, requested)
        return NodeDetail(
            **{field: getattr(summary, field) for field in summary.__struct_fields__},
            labels=dict(node.metadata.labels or {}),
            running=_pods(running, features),
            nominated=_pods(nominated, features),
        )

    return report


def requests_on(snapshot: Snapshot, row: int) -> dict[str, int]:
    """Return what the pods of a node request of each resource; 0 of those of BASE_RESOURCES that none requests."""
    scalar_resources = snapshot.pod_table.scalar_resources
    held = [scalar_resources.get(pod, ()) for pod in snapshot.pod_table.on_node[row].values()]
    return _totals(snapshot.used[:, row], held)


def _totals(base: IntArray, scalars: Iterable[tuple[tuple[str, int], ...]]) -> dict[str, int]:
    """Return the totals of a node from those of BASE_RESOURCES and its pods' requests for extended resources."""
    totals = dict(zip(BASE_RESOURCES, base.tolist(), strict=True))
    for name, amount in chain.from_iterable(scalars):
        totals[name] = totals.get(name, 0) + amount
    return totals


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
