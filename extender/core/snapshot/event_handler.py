"""Callbacks for changes of the snapshot, object by object; counterpart of client-go's ResourceEventHandler.

`Index` in `snapshot.snapshot` is the base of everything that follows changes this way.

Rule: a handler changes in its callbacks only; decisions read it.
"""

from typing import Any, ClassVar, get_args

from extender.core.snapshot.pod_table import PodPart
from extender.k8s.objects import Pod


class SnapshotEventHandler:
    """Callbacks that a snapshot calls for every change of the objects that `reads` and `pod_parts` select."""

    reads: ClassVar[tuple[str, ...]] = ()
    """Fields of ObjectTables whose changes call `object_changed`; `pods` cannot be one of them."""

    pod_parts: ClassVar[frozenset[PodPart]] = frozenset(get_args(PodPart))
    """Parts of a running pod that the index reads: `pod_changed` is not called for changes of other parts."""

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
