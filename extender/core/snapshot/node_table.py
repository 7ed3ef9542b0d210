"""The nodes of a snapshot, one row each, with their columns.

Rule: rows are contiguous; when a node is removed, the last node takes its row.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from extender.core.snapshot.arrays import BASE_RESOURCES, BoolArray, Encoded, IntArray, LabelColumn, clamped, encode
from extender.core.snapshot.derived import Aspect, Versioned, derived, derived_by
from extender.k8s.objects import Node, ResourceList
from extender.k8s.requests import allocatable

_MAX_LABEL_COLUMNS = 4096
"""Maximum number of cached label columns: more than nodes have label keys, so that each column is built only once."""


class NodeTable(Versioned):
    """The nodes, one per row, and [node] columns derived from them."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.node_names: list[str] = []
        self.node_row: dict[str, int] = {}
        self.node_order: dict[str, int] = {}
        """Node name -> position in listing order."""
        self._label_key_counts: Counter[str] = Counter()
        """Label key -> number of nodes that have it."""
        self._resources: list[dict[str, int]] = []
        """[node]: allocatable amounts by resource name, in the scheduler's units."""

    def _write_node(self, node: Node) -> int | None:
        """Add or update a node; return the row of a new node. Raises ValueError, changing nothing, if unreadable."""
        amounts = {name: clamped(amount) for name, amount in allocatable(node.status.allocatable).items()}
        name = node.metadata.name
        row = self.node_row.get(name)
        if row is not None:
            for aspect in _changed_aspects(self.nodes[row], node):
                self._versions[aspect] += 1
            self._count_labels(self.nodes[row], node)
            self.nodes[row], self._resources[row] = node, amounts
            return None
        row = self.node_row[name] = len(self.nodes)
        self._count_labels(None, node)
        self.nodes.append(node)
        self.node_names.append(name)
        self._resources.append(amounts)
        self._node_rows_changed()
        return row

    def _drop_node(self, name: str) -> None:
        """Remove a node; the last node takes its row."""
        row, last = self.node_row.pop(name), self.node_names[-1]
        del self.node_order[name]
        self._count_labels(self.nodes[row], None)
        columns: tuple[list[Any], ...] = self.nodes, self.node_names, self._resources
        # Moving the last row is cheaper than moving all rows behind, and leaves no gap that every column must skip.
        for column in columns:
            column[row] = column[-1]
            column.pop()
        if last != name:
            self.node_row[last] = row
        self._node_rows_changed()

    def _count_labels(self, before: Node | None, after: Node | None) -> None:
        old, new = ((node.metadata.labels or {}) if node else {} for node in (before, after))
        if old.keys() == new.keys():
            return
        self._label_key_counts.update(new.keys())
        self._label_key_counts.subtract(old.keys())
        added = [key for key in new if self._label_key_counts[key] == 1 and key not in old]
        removed = [key for key in old if not self._label_key_counts[key]]
        for key in removed:
            del self._label_key_counts[key]
        if added or removed:
            self._versions["node_label_keys"] += 1

    def _node_rows_changed(self) -> None:
        # Values derived from pods contain rows of nodes, too.
        for aspect in ("nodes", "taints", "allocatable", "images", "pods"):
            self._versions[aspect] += 1

    @property
    @derived("allocatable")
    def allocatable(self) -> IntArray:
        """[resource, node]: allocatable amounts of BASE_RESOURCES."""
        amounts = [[own.get(name, 0) for name in BASE_RESOURCES] for own in self._resources]
        # A copy, so that the amounts of one resource lie side by side: filters read them resource by resource.
        return np.array(amounts, np.int64).reshape(len(amounts), len(BASE_RESOURCES)).T.copy()

    @property
    @derived("allocatable")
    def allocatable_names(self) -> frozenset[str]:
        """Names of the resources that at least one node has."""
        return frozenset().union(*self._resources)

    def scalar_allocatable(self, resource: str) -> IntArray:
        """Return [node]: allocatable amount of an extended resource, 0 if the node does not have it."""
        if resource not in self.allocatable_names:
            return np.zeros(len(self._resources), np.int64)
        return self._scalar_allocatable(resource)

    def has_scalar(self, resource: str) -> BoolArray:
        """Return [node]: whether the node's allocatable lists an extended resource, even with amount 0."""
        if resource not in self.allocatable_names:
            return np.zeros(len(self._resources), np.bool_)
        return np.fromiter((resource in own for own in self._resources), np.bool_, len(self._resources))

    @derived_by("allocatable")
    def _scalar_allocatable(self, resource: str) -> IntArray:
        return np.fromiter((own.get(resource, 0) for own in self._resources), np.int64, len(self._resources))

    @property
    @derived("node_label_keys")
    def node_label_keys(self) -> frozenset[str]:
        """Label keys that at least one node has: the same object until the set changes."""
        return frozenset(self._label_key_counts)

    def label(self, key: str) -> LabelColumn:
        """Return [node]: value of one label."""
        # Pods may name thousands of keys that no node has: these keys share one column.
        return self._label(key) if key in self._label_key_counts else self._absent_label

    @derived_by("nodes", max_entries=_MAX_LABEL_COLUMNS)
    def _label(self, key: str) -> LabelColumn:
        return LabelColumn.of([(node.metadata.labels or {}).get(key) for node in self.nodes])

    @property
    @derived("nodes")
    def _absent_label(self) -> LabelColumn:
        return LabelColumn.of([None] * len(self.nodes))

    @property
    @derived("taints")
    def taints(self) -> Encoded:
        """[node]: list of taints; equal lists share a code, so that tolerations are checked once for each."""
        of_node = [node.spec.taints or [] for node in self.nodes]
        return encode(of_node, key=lambda taints: tuple((taint.key, taint.value, taint.effect) for taint in taints))

    @property
    @derived("nodes")
    def frozen_node_names(self) -> tuple[str, ...]:
        """`node_names` as a tuple, which records share: the same object until a node is added, removed or labelled."""
        return tuple(self.node_names)

    @property
    @derived("allocatable")
    def frozen_allocatable(self) -> tuple[ResourceList | None, ...]:
        """[node]: status.allocatable; records share this tuple, too."""
        return tuple([node.status.allocatable for node in self.nodes])

    @property
    @derived("nodes")
    def name_order(self) -> IntArray:
        """[node]: index of its name among all names in alphabetical order, which is the last tie-breaker."""
        order = np.empty(len(self.nodes), np.int64)
        order[np.array(sorted(range(len(order)), key=self.node_names.__getitem__), np.int64)] = np.arange(len(order))
        return order


def _changed_aspects(before: Node, after: Node) -> Iterator[Aspect]:
    """Yield the aspects in which two states of a node differ (kubelet heartbeats differ in none)."""
    one, other = before.status, after.status
    if before.metadata.labels != after.metadata.labels or one.declared_features != other.declared_features:
        yield "nodes"
    if before.spec != after.spec:
        yield "taints"
    if one.allocatable != other.allocatable:
        yield "allocatable"
    if one.images != other.images:
        yield "images"
