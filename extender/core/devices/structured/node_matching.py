"""Decide whether a node may use a device or a slice of devices, and say what does not parse.

Mirrors NodeMatches (k8s.io/dynamic-resource-allocation/structured/internal/incubating, v1.36).

Rule: one node and one selector; columns of nodes are `selector_index`'s.
"""

from functools import lru_cache

import msgspec

from extender.k8s.objects import Node, NodeSelector
from extender.k8s.selectors import NodeTerm, SelectorError, parse_node_selector

_NAME_FIELD = "metadata.name"


class NodeSelectorError(Exception):
    """A node selector that does not parse. Upstream's texts have whole objects in Go's notation."""


def selects_node(node: Node, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> bool:
    """Return whether these three fields of a slice or device select the node; raises NodeSelectorError."""
    if node_name:
        return node.metadata.name == node_name
    if all_nodes:
        return True
    return selector is not None and any(_holds(term, node) for term in _terms(msgspec.json.encode(selector)))


@lru_cache(maxsize=4096)
def _terms(selector: bytes) -> tuple[NodeTerm, ...]:
    try:
        return parse_node_selector(msgspec.json.decode(selector, type=NodeSelector)).terms or ()
    except SelectorError as error:
        raise NodeSelectorError("a node selector that does not parse") from error


def _holds(term: NodeTerm, node: Node) -> bool:
    labels = node.metadata.labels or {}
    name = node.metadata.name
    return all(one.holds(labels.get(one.key)) for one in term.labels) and all(
        ((name if one.key == _NAME_FIELD else "") == one.value) != one.negated for one in term.fields
    )
