"""Indexes: data derived from the snapshot and updated with every change, object by object.

Counterpart of client-go's ResourceEventHandler and of indexers on informers: the snapshot calls each index for every
change, so that nothing is computed again over all pods.

Rule: an index changes in its callbacks only; decisions read it.
"""

import weakref
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from extender.core.snapshot.pod_table import PodPart
from extender.k8s.objects import Pod

if TYPE_CHECKING:
    from extender.core.snapshot.snapshot import Snapshot


class Index:
    """Base of all indexes, which `Snapshot.index` creates; the constructor leaves it empty, callbacks fill it."""

    reads: ClassVar[tuple[str, ...]] = ()
    """Fields of ObjectTables whose changes call `object_changed`; `pods` cannot be one of them."""

    pod_parts: ClassVar[frozenset[PodPart]] = frozenset(get_args(PodPart))
    """Parts of a running pod that the index reads: `pod_changed` is not called for changes of other parts."""

    def __init__(self, snapshot: "Snapshot") -> None:
        # A weak reference avoids a cycle: a snapshot that was replaced is freed with its last reader, not when the
        # cycle collector runs.
        self.snapshot: Snapshot = weakref.proxy(snapshot)

    def pod_added(self, row: int, pod: Pod) -> None:
        """Handle a pod that now runs in this row."""

    def pod_removed(self, row: int, pod: Pod) -> None:
        """Handle a pod that is about to leave its row; its columns still hold its values."""

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        """Handle a new state of a running pod, which differs in `parts`; row and node stay the same."""
        self.pod_removed(row, before)
        self.pod_added(row, after)

    def object_changed(self, field: str, before: Any, after: Any) -> None:
        """Handle an object that was added (`before` is None), changed or removed (`after` is None)."""
