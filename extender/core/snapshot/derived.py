"""Derived values: computed from a snapshot when they are first read, and cached until what they were read from changes.

A snapshot changes between decisions. What depends on it follows in one of two ways, and in no other:

- An `Index` (see `core.snapshot.snapshot`) is called back for every change, object by object, or once for many
  new pods. It suits sums and groups of which a change moves one entry.
- A derived value is computed again. Every aspect of the snapshot has a version, which a change of that aspect
  increments; `derived` and `derived_by` return a function's cached value while the versions of the aspects that it
  reads are the same. It suits columns over all nodes and answers to queries. Where a value has a part per node,
  `NodeVersions` say which parts to compute again.

Rule: a derived function reads only the aspects that it declares.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from typing import Any, Literal, TypeVar, cast

import msgspec
import numpy as np

from extender.core.snapshot.arrays import IntArray, grown

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound="Versioned")

_OfNodes = Literal["nodes", "node_label_keys", "taints", "allocatable", "images"]
_OfPods = Literal["pods", "pod_labels", "pod_groups", "coscheduling_groups"]
_OfOwners = Literal["services", "replication_controllers", "replica_sets", "stateful_sets"]
_OfVolumes = Literal["claims", "volumes", "volume_attachments", "storage_classes"]
_OfDrivers = Literal["csi_nodes", "csi_drivers", "csi_storage_capacities"]
_OfDevices = Literal["device_classes", "resource_slices", "resource_claims", "device_taint_rules"]

Aspect = (
    Literal["any", "budgets", "namespaces", "priority_classes"]
    | _OfNodes
    | _OfPods
    | _OfOwners
    | _OfVolumes
    | _OfDrivers
    | _OfDevices
)
"""Parts of the snapshot that change independently of each other, each with a version of its own.

`any`: all objects, and which kinds may not be read; `nodes`: the set of nodes, their labels and declared features;
`node_label_keys`: the set of label keys that nodes have; `taints`: with spec.unschedulable; `pods`: which pods run
where, their specs and statuses; `pod_labels`: labels of pods that keep running; every other aspect is a field of
ObjectTables.
"""


# Tenants write the keys of derived values, as these are made of pods. So not only their number is limited.

MAX_KEY_BYTES = 8 << 10
"""Largest key, encoded, whose value is cached: no ordinary pod has a longer one."""

MAX_CACHED_BYTES = 32 << 20
"""Bytes of all values of a snapshot that are cached by key, with their keys, as `_value_bytes` estimates them."""

_BYTES_PER_ENCODED_BYTE = 16
"""Memory of small Python objects per byte of their encoding, at most."""

_SAMPLE_SIZE = 16
"""Items of a long collection that `_value_bytes` measures."""

_OBJECT_BYTES = 64
"""Memory of a small object and of the reference to it."""


class Versioned:
    """The version of each aspect, and the values derived from them."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = defaultdict(int)
        self._derived: dict[Callable[..., Any], tuple[tuple[int, ...], Any]] = {}
        """Function -> (versions of the aspects that it read, value)."""
        self._derived_by: dict[Callable[..., Any], dict[Any, tuple[tuple[int, ...], Any, int]]] = defaultdict(dict)
        """Function -> key -> (versions of the aspects that it read, value, bytes), the oldest value first."""
        self._cached_bytes = 0
        """Sum of the bytes in `_derived_by`, at most MAX_CACHED_BYTES."""

    @property
    def version(self) -> int:
        """Number of changes, of whatever aspect."""
        return self._versions["any"]

    @contextmanager
    def _derived_values_restored(self) -> Iterator[None]:
        """Restore versions and values at the end, for changes that are taken back inside the `with` block.

        Values that were computed inside are dropped: their versions will belong to other changes.
        """
        versions, derived, derived_by, size = dict(self._versions), self._derived, self._derived_by, self._cached_bytes
        self._derived = dict(derived)
        self._derived_by = defaultdict(dict, {function: dict(values) for function, values in derived_by.items()})
        try:
            yield
        finally:
            self._versions.clear()
            self._versions.update(versions)
            self._derived, self._derived_by, self._cached_bytes = derived, derived_by, size

    def _cache(
        self, values: dict[Any, tuple[tuple[int, ...], Any, int]], key: Any, entry: tuple[Any, Any, int]
    ) -> None:
        if self._cached_bytes + entry[2] > MAX_CACHED_BYTES:
            # Only made-up keys grow as large as this, so dropping all is as good as any order of eviction.
            self._cached_bytes = 0
            for of_function in self._derived_by.values():
                of_function.clear()
        if entry[2] <= MAX_CACHED_BYTES:
            self._cached_bytes += entry[2]
            values[key] = entry


def derived(*reads: Aspect) -> Callable[[Callable[[S], T]], Callable[[S], T]]:
    """Cache the value of a function of a snapshot until one of `reads` changes; it must read no other aspect."""

    def decorate(build: Callable[[S], T]) -> Callable[[S], T]:
        @wraps(build)
        def current(snapshot: S) -> T:
            # From a list: every decision comes here dozens of times, and a generator takes twice as long.
            versions = tuple([snapshot._versions[aspect] for aspect in reads])
            known = snapshot._derived.get(build)
            if known is None or known[0] != versions:
                known = snapshot._derived[build] = versions, build(snapshot)
            return cast(T, known[1])

        return current

    return decorate


def derived_by(*reads: Aspect, max_entries: int = 128) -> Callable[[Callable[[S, K], T]], Callable[[S, K], T]]:
    """Cache the values of a function of a snapshot and a key, for the last `max_entries` keys, until `reads` change."""

    def decorate(build: Callable[[S, K], T]) -> Callable[[S, K], T]:
        @wraps(build)
        def current(snapshot: S, key: K) -> T:
            versions = tuple([snapshot._versions[aspect] for aspect in reads])
            values = snapshot._derived_by[build]
            known = values.get(key)
            if known is not None and known[0] == versions:
                return cast(T, known[1])
            # 1. Compute it, which may cache other values of this function.
            value = build(snapshot, key)
            # 2. Make room: for the outdated value of the key, or the oldest one.
            old = values.pop(key, None)
            if old is None and len(values) >= max_entries:
                old = values.pop(next(iter(values)))
            snapshot._cached_bytes -= old[2] if old is not None else 0
            # 3. Cache it, unless it would take too much memory.
            key_bytes = len(_ENCODER.encode(key))
            if key_bytes <= MAX_KEY_BYTES:
                size = key_bytes * _BYTES_PER_ENCODED_BYTE + _value_bytes(value)
                snapshot._cache(values, key, (versions, value, size))
            return value

        return current

    return decorate


_ENCODER = msgspec.msgpack.Encoder(enc_hook=lambda _: None)  # only the length of what it encodes is read


def _value_bytes(value: Any) -> int:
    """Estimate the memory of a value: its arrays, and what its collections hold, from a sample of long ones."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        parts: Collection[Any] = value.items()
    elif isinstance(value, tuple | list | frozenset):
        parts = value
    else:
        parts = [getattr(value, name) for name in getattr(value, "__dataclass_fields__", ())]
    sample = [_OBJECT_BYTES + _value_bytes(part) for part in islice(parts, _SAMPLE_SIZE)]
    return sum(sample) * len(parts) // max(len(sample), 1)


class NodeVersions:
    """[node]: version of what is derived from the pods of one node."""

    def __init__(self) -> None:
        self.latest = 0
        """Version of the node that changed last."""
        self._versions: IntArray = np.zeros(64, np.int64)

    def copy(self) -> "NodeVersions":
        """Return the same versions, which change independently."""
        other = NodeVersions()
        other.latest, other._versions = self.latest, self._versions.copy()
        return other

    def changed(self, node: int) -> None:
        """Give the node the next version."""
        self._versions = grown(self._versions, node, 0)
        self.latest += 1
        self._versions[node] = self.latest

    def changed_together(self, nodes: IntArray) -> None:
        """Give these nodes the next version, the same one for all."""
        self._versions = grown(self._versions, int(nodes.max(initial=0)), 0)
        self.latest += 1
        self._versions[nodes] = self.latest

    def changed_since(self, version: int, size: int) -> IntArray:
        """Return the rows below `size` of the nodes that changed after `latest` was `version`."""
        return np.flatnonzero(self._versions[:size] > version)
