"""Use the Node objects in a request where the cluster cache lacks them, for that decision only.

For /filter and /prioritize these are nodes not cached yet: kube-scheduler may see a node before we do. A dry run also
uses sent nodes that differ from the cached ones: an autoscaler asks about nodes that it would add or change.

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
"""Maximum number of nodes in a request that are not cached, or differ from the cached ones: the default of Cluster
Autoscaler's --max-nodes-per-scaleup. This many nodes delay other calls by 70 ms."""

NODES_PER_STEP = 50
"""Number of whole nodes decoded in one step, which takes about 3 ms."""


def decide_as_sent(snapshot: Snapshot, request: FilterRequest, decide: Callable[[], DecisionT]) -> DecisionT:
    """Decide; if the request has whole nodes that the snapshot lacks, add them to the snapshot for this decision."""
    names = request.nodes if request.has_whole_nodes else ()
    unknown = [place for place, name in enumerate(names) if name not in snapshot.node_row]
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
        """Decode the node at this index of the request; the same node may appear twice."""
        node = decode_node(raw, place)
        first, other = self._by_name.setdefault(node.metadata.name, (place, node))
        if node != other:
            raise RequestError(f"Nodes.items[{place}] has the name of Nodes.items[{first}] and differs from it")

    def that_differ(self, snapshot: Snapshot) -> Sequence[Node]:
        """Return the nodes that the snapshot lacks, or that differ from the cached ones."""
        found = []
        for _, node in self._by_name.values():
            cached = snapshot.objects.nodes.get(("", node.metadata.name))
            # Decisions read no node metadata other than labels.
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
    """Decode all whole nodes of the request, yielding between steps so that other calls can run."""
    for place, raw in enumerate(request.raw_nodes(), 1):
        sent.add(place - 1, raw)
        if place % NODES_PER_STEP == 0:
            yield
