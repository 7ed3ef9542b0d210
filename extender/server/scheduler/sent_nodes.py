"""Use whole nodes of a request that the cluster cache lacks, as they were sent, for one decision.

/filter and /prioritize use nodes with unknown names: kube-scheduler may have seen a node first. A dry run also uses
nodes that were sent in another state: an autoscaler asks about nodes that it would change or add.

Rule: a node that cannot be decoded, or too many nodes, is a RequestError; no sent node stays in the snapshot.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec import Raw

from extender.core.engine import FilterDecision, PrioritizeDecision
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError, RequestTooLarge
from extender.k8s.objects import Node
from extender.wire.decode import FilterRequest, decode_node

DecisionT = TypeVar("DecisionT", FilterDecision, PrioritizeDecision)

MAX_SENT_NODES = 1000
"""Limit on nodes of a request that the cluster cache lacks or holds in another state: the default of Cluster
Autoscaler's --max-nodes-per-scaleup. That many keep other calls waiting for 70 ms."""

NODES_PER_STEP = 50
"""Whole nodes that are decoded in one step, which takes about 3 ms."""


def decide_as_sent(snapshot: Snapshot, request: FilterRequest, decide: Callable[[], DecisionT]) -> DecisionT:
    """Decide with the whole nodes of the request that the snapshot lacks, if it has any."""
    if not request.has_whole_nodes:
        return decide()
    unknown = [place for place, name in enumerate(request.nodes) if name not in snapshot.node_row]
    if not unknown:
        return decide()
    _check_count(len({request.nodes[place] for place in unknown}))
    raw_nodes, sent = request.raw_nodes(), SentNodes()
    for place in unknown:
        sent.add(place, raw_nodes[place])
    with snapshot.with_nodes(sent.that_differ(snapshot)):
        decision = decide()
        evaluation = decision.evaluation
        if evaluation is not None:
            evaluation.outlive_nodes(with_statuses=isinstance(decision, FilterDecision))
        return decision


class SentNodes:
    """The whole nodes of one request by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[int, Node]] = {}

    def add(self, place: int, raw: Raw) -> None:
        """Decode the node in this place of the request; the same node may be there twice."""
        node = decode_node(raw, place)
        first, other = self._by_name.setdefault(node.metadata.name, (place, node))
        if node != other:
            raise RequestError(f"Nodes.items[{place}] has the name of Nodes.items[{first}] and differs from it")

    def that_differ(self, snapshot: Snapshot) -> Sequence[Node]:
        """Return the nodes that the snapshot lacks, or has in another state."""
        found = []
        for _, node in self._by_name.values():
            cached = snapshot.objects.nodes.get(("", node.metadata.name))
            # Decisions read no other metadata of a node.
            if cached is None or (cached.metadata.labels, cached.spec, cached.status) != (
                node.metadata.labels,
                node.spec,
                node.status,
            ):
                found.append(node)
        _check_count(len(found))
        return found


def _check_count(count: int) -> None:
    if count > MAX_SENT_NODES:
        raise RequestTooLarge(
            f"Nodes.items: {count} nodes that the cluster cache lacks or holds in another state, "
            f"at most {MAX_SENT_NODES} are accepted"
        )


def decode_in_steps(request: FilterRequest, sent: SentNodes) -> Iterator[None]:
    """Decode all whole nodes of the request, and yield between steps so that other calls can run."""
    for place, raw in enumerate(request.raw_nodes(), 1):
        sent.add(place - 1, raw)
        if place % NODES_PER_STEP == 0:
            yield
