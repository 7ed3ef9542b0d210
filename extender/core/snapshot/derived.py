"""Derived values: computed from a snapshot on first read, and cached until the objects that they depend on change.

A snapshot changes between decisions. Data derived from it is kept up to date in one of two ways:

- An `Index` (see `core.snapshot.snapshot`) is called back for every change, object by object, or once for many
  new pods. It suits sums and groups in which a change moves one entry.
- A derived value is recomputed. Every aspect of the snapshot has a version, which a change of the aspect
  increments; `derived` and `derived_by` return a function's cached value while the versions of the aspects that it
  reads are the same. It suits columns over all nodes and answers to queries. If a value has a part per node,
  `NodeVersions` tells which parts to recompute.

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

`any`: all objects, and the kinds that may not be read; `nodes`: the set of nodes, their labels and declared features;
`node_label_keys`: the set of label keys that nodes have; `taints`: with spec.unschedulable; `pods`: the set of running
pods, their nodes, specs and statuses; `pod_labels`: labels of pods that keep running; every other aspect is a field of
ObjectTables.
"""


# Keys are made of pods, so tenants control them: their size is limited, not only their number.

MAX_KEY_BYTES = 8 << 10
"""Maximum size of an encoded key whose value is cached: no ordinary pod has a larger key."""

MAX_CACHED_BYTES = 32 << 20
"""Maximum memory of a snapshot's values that are cached by key, with their keys, as estimated by `_value_bytes`."""

_BYTES_PER_ENCODED_BYTE = 16
"""Maximum memory of small Python objects per byte of their encoding."""

_SAMPLE_SIZE = 16
"""Number of items of a long collection that `_value_bytes` measures."""

_OBJECT_BYTES = 64
"""Memory of a small object and the reference to it."""


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
        """Number of changes of any aspect."""
        return self._versions["any"]

    @contextmanager
    def _derived_values_restored(self) -> Iterator[None]:
        """Restore versions and values when the `with` block ends, for changes that are undone inside it.

        Values computed inside are dropped, because later changes will reuse their versions.
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
            # Only contrived keys grow this large, so dropping all values is as good as any order of eviction.
            self._cached_bytes = 0
            for of_function in self._derived_by.values():
                of_function.clear()
        if entry[2] <= MAX_CACHED_BYTES:
            self._cached_bytes += entry[2]
            values[key] = entry


def derived(*reads: Aspect) -> Callable[[Callable[[S], T]], Callable[[S], T]]:
    """Cache a function's value for a snapshot until one of `reads` changes; the function must read no other aspect."""

    def decorate(build: Callable[[S], T]) -> Callable[[S], T]:
        @wraps(build)
        def current(snapshot: S) -> T:
            # A list, because a generator takes twice as long and every decision comes here dozens of times.
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
            # 1. Compute the value, which may cache other values of this function.
            value = build(snapshot, key)
            # 2. Make room: drop the outdated value of the key, or else the oldest value.
            old = values.pop(key, None)
            if old is None and len(values) >= max_entries:
                old = values.pop(next(iter(values)))
            snapshot._cached_bytes -= old[2] if old is not None else 0
            # 3. Cache the value, unless it would take too much memory.
            key_bytes = len(_ENCODER.encode(key))
            if key_bytes <= MAX_KEY_BYTES:
                size = key_bytes * _BYTES_PER_ENCODED_BYTE + _value_bytes(value)
                snapshot._cache(values, key, (versions, value, size))
            return value

        return current

    return decorate


_ENCODER = msgspec.msgpack.Encoder(enc_hook=lambda _: None)  # only the length of the encoding is read


def _value_bytes(value: Any) -> int:
    """Estimate the memory of a value: its arrays, and the items of its collections, sampled from long ones."""
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
    """[node]: version of the values derived from the node's pods."""

    def __init__(self) -> None:
        self.latest = 0
        """Version of the node that changed last."""
        self._versions: IntArray = np.zeros(64, np.int64)

    def copy(self) -> "NodeVersions":
        """Return a copy, which changes independently."""
        other = NodeVersions()
        other.latest, other._versions = self.latest, self._versions.copy()
        return other

    def changed(self, node: int) -> None:
        """Give the node the next version."""
        self._versions = grown(self._versions, node, 0)
        self.latest += 1
        self._versions[node] = self.latest

    def changed_together(self, nodes: IntArray) -> None:
        """Give all of these nodes the same next version."""
        self._versions = grown(self._versions, int(nodes.max(initial=0)), 0)
        self.latest += 1
        self._versions[nodes] = self.latest

    def changed_since(self, version: int, size: int) -> IntArray:
        """Return the rows below `size` of the nodes that changed after `latest` was `version`."""
        return np.flatnonzero(self._versions[:size] > version)
