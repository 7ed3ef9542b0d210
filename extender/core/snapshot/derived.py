"""Derived values: what is computed from a snapshot when it is read, and kept until what it was read from changes.

A snapshot changes between decisions. What depends on it follows in one of two ways, and in no other:

- An `Index` (see `core.snapshot.snapshot`) is called back for every change, object by object. It suits sums and groups
  of which a change moves one entry.
- A derived value is computed again. Every aspect of the snapshot has a version, which a change of that aspect
  increments; `derived` and `derived_by` return a function's kept value while the versions of the aspects that it reads
  are the same. It suits columns over all nodes and answers to queries. Where a value has a part per node,
  `NodeVersions` say which parts to compute again.

Rule: a derived function reads only the aspects that it declares.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Literal, TypeVar, cast

import numpy as np

from extender.core.snapshot.arrays import IntArray, grown

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound="Versioned")

_OfNodes = Literal["nodes", "taints", "allocatable", "images"]
_OfPods = Literal["pods", "pod_labels", "pod_groups", "coscheduling_groups"]
_OfOwners = Literal["services", "replication_controllers", "replica_sets", "stateful_sets"]
_OfVolumes = Literal["claims", "volumes", "volume_attachments", "storage_classes"]
_OfDrivers = Literal["csi_nodes", "csi_drivers", "csi_storage_capacities", "device_classes"]

Aspect = (
    Literal["any", "budgets", "namespaces", "priority_classes"]
    | _OfNodes
    | _OfPods
    | _OfOwners
    | _OfVolumes
    | _OfDrivers
)
"""Parts of the snapshot that change independently of each other, each with a version of its own.

`any`: all objects, and which kinds may not be read; `nodes`: the set of nodes, their labels and declared features;
`taints`: with spec.unschedulable; `pods`: which pods run where, their specs and statuses; `pod_labels`: labels of pods
that keep running; every other aspect is a field of ObjectTables.
"""


class Versioned:
    """What values are derived from: the version of each aspect, and the values that are kept."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = defaultdict(int)
        self._derived: dict[Callable[..., Any], dict[Any, tuple[tuple[int, ...], Any]]] = defaultdict(dict)
        """Function -> key -> (versions of the aspects that it read, value), the oldest value first."""


def derived(*reads: Aspect) -> Callable[[Callable[[S], T]], Callable[[S], T]]:
    """Keep the value of a function of a snapshot until one of `reads` changes; it must read no other aspect."""

    def decorate(build: Callable[[S], T]) -> Callable[[S], T]:
        by_key = derived_by(*reads, max_entries=1)(wraps(build)(lambda snapshot, _key: build(snapshot)))
        return wraps(build)(lambda snapshot: by_key(snapshot, None))

    return decorate


def derived_by(*reads: Aspect, max_entries: int = 128) -> Callable[[Callable[[S, K], T]], Callable[[S, K], T]]:
    """Keep the values of a function of a snapshot and a key, for the last `max_entries` keys, until `reads` change."""

    def decorate(build: Callable[[S, K], T]) -> Callable[[S, K], T]:
        @wraps(build)
        def current(snapshot: S, key: K) -> T:
            versions = tuple([snapshot._versions[aspect] for aspect in reads])
            kept = snapshot._derived[build]
            known = kept.get(key)
            if known is not None and known[0] == versions:
                return cast(T, known[1])
            value = build(snapshot, key)
            kept.pop(key, None)
            if len(kept) >= max_entries:
                kept.pop(next(iter(kept)))
            kept[key] = versions, value
            return value

        return current

    return decorate


class NodeVersions:
    """[node]: version of what is derived from the pods of one node."""

    def __init__(self) -> None:
        self.latest = 0
        """Version of the node that changed last."""
        self._versions: IntArray = np.zeros(64, np.int64)

    def changed(self, node: int) -> None:
        """Give the node the next version."""
        self._versions = grown(self._versions, node, 0)
        self.latest += 1
        self._versions[node] = self.latest

    def changed_since(self, version: int, size: int) -> IntArray:
        """Return the rows below `size` of the nodes that changed after `latest` was `version`."""
        return np.flatnonzero(self._versions[:size] > version)
