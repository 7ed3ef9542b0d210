"""What the facts of many nodes have in common: the same causes for the sentence, the terminal and the page."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from extender.k8s import quantity
from extender.report.facts.schema import (
    AnyFact,
    DeviceRequestFact,
    FactCount,
    ResourceFact,
    SpreadFact,
    StorageCapacityFact,
    VolumeLimitFact,
    VolumeMatchFact,
)

if TYPE_CHECKING:
    from extender.report.pod_schema import NodeDiagnosis
    from extender.report.schema import NodeReport

MAX_SUMMARIZED = 5
"""Maximum number of facts in a summary."""


class NodeFacts(NamedTuple):
    """The facts about a node."""

    name: str
    facts: Sequence[AnyFact]


AnyNode = Union[NodeFacts, "NodeDiagnosis", "NodeReport"]
"""A node with its name and facts."""


def summarize(
    nodes: Iterable[AnyNode], relevant: Callable[[Sequence[AnyFact]], Iterable[AnyFact]] = iter
) -> list[FactCount]:
    """Return the most common causes among the facts of these nodes, with the number of nodes.

    `relevant`: selects the facts of a node that count.
    """
    nodes_of: dict[Hashable, int] = defaultdict(int)
    closest: dict[Hashable, tuple[int, str, AnyFact]] = {}
    alike: dict[tuple[int, ...], tuple[AnyNode, int]] = {}
    for node in nodes:  # many nodes have the same facts, as the same objects
        key = tuple(map(id, node.facts))
        first, size = alike.get(key, (node, 0))
        alike[key] = first, size + 1
    for node, size in alike.values():
        seen = set[Hashable]()
        for fact in relevant(node.facts):
            cause = (type(fact), *[getattr(fact, name) for name in fact.cause]) if fact.cause else fact
            if cause in seen:  # such as two pods that have a port
                continue
            seen.add(cause)
            nodes_of[cause] += size
            missing = _MISSING[type(fact)](fact) if type(fact) in _MISSING else 0
            if cause not in closest or missing < closest[cause][0]:
                closest[cause] = missing, node.name, fact
    most_common = heapq.nlargest(MAX_SUMMARIZED, nodes_of, key=nodes_of.__getitem__)
    found = [(nodes_of[cause], *closest[cause][1:]) for cause in most_common]
    return [FactCount(fact=fact, nodes=count, node=name if fact.cause else "") for count, name, fact in found]


_MISSING: dict[type, Callable[[Any], int]] = {
    ResourceFact: lambda fact: -quantity.parse(fact.free),
    SpreadFact: lambda fact: fact.matching,
    StorageCapacityFact: lambda fact: -quantity.parse(fact.largest),
    VolumeLimitFact: lambda fact: fact.needs + fact.in_use - fact.limit,
    VolumeMatchFact: lambda fact: len(fact.mismatches),
    DeviceRequestFact: lambda fact: -fact.free,
}
"""Kind of fact -> how far the node is from fitting. Of other kinds the first node stands for all."""
