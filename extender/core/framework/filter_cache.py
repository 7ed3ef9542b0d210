"""Cache the last filter run: /prioritize follows /filter with the same pod and a subset of its nodes.

Rule: an entry is reused only for an equal pod under the same profile while no object of the snapshot has changed.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from extender.core.eviction_history import NO_HISTORY
from extender.core.framework.constraint import NodeRows, SchedulingContext
from extender.core.framework.filter import FilterRun, run_filter_plugins
from extender.core.snapshot.snapshot import Index, Snapshot


class FilterCache(Index):
    """The FilterRun of the last pod, and the rows of the node names that were sent last."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._filter_run: FilterRun | None = None
        self._filter_run_version = -1
        """`Snapshot.changes` at the time of the filter run; -1: none cached."""
        self._node_names: Sequence[str] = ()
        self._rows: NodeRows = np.zeros(0, np.int64)
        self._rows_version = -1
        """`Snapshot.changes` at the time of the row lookup; -1: none cached."""

    def filter_run(self, context: SchedulingContext) -> FilterRun:
        """Return what `run_filter_plugins` returns, from the cache if possible.

        The eviction history is not part of the key: filter plugins do not read it.
        """
        known = self._filter_run
        if known is None or self._filter_run_version != self.snapshot.changes or not _is_same(known.context, context):
            known = run_filter_plugins(context)
            # `context.snapshot` may hold this index: keep `self.snapshot` instead, to avoid a reference cycle that
            # keeps old snapshots alive. The eviction history is dropped, so that it can be freed.
            mine = replace(context, snapshot=self.snapshot, history=NO_HISTORY)
            self._filter_run = replace(known, context=mine)
            self._filter_run_version = self.snapshot.changes
        return replace(known, context=context)

    def rows(self, nodes: Sequence[str]) -> NodeRows:
        """Return the rows of the nodes named `nodes`. KeyError if one is not in the snapshot."""
        if self._rows_version != self.snapshot.changes or self._node_names != nodes:
            self._rows = np.fromiter(map(self.snapshot.node_row.__getitem__, nodes), np.int64, len(nodes))
            self._node_names, self._rows_version = list(nodes), self.snapshot.changes
        return self._rows


def _is_same(before: SchedulingContext, now: SchedulingContext) -> bool:
    return before.profile is now.profile and before.pod == now.pod
