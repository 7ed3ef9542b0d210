"""What the last question was about: /prioritize asks about the pod and the nodes of the /filter before it.

Rule: it is found again only for an equal pod under the same profile, while no object of the cluster has changed.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from extender.core.eviction_history import NO_HISTORY
from extender.core.framework.constraint import Rows, SchedulingContext
from extender.core.framework.filter import FilterRun, run_filter_plugins
from extender.core.snapshot.snapshot import Index, Snapshot


class FilterCache(Index):
    """The filters' verdicts on the last pod, and the rows of the nodes that were offered last."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._filtering: FilterRun | None = None
        self._judged_at = -1
        """`Snapshot.changes` when the filters were run."""
        self._nodes: Sequence[str] = ()
        self._rows: Rows = np.zeros(0, np.int64)
        self._found_at = -1
        """`Snapshot.changes` when the rows were looked up."""

    def filtering(self, incoming: SchedulingContext) -> FilterRun:
        """As `run_filter_plugins`; they do not look at the moment."""
        known = self._filtering
        if known is None or self._judged_at != self.snapshot.changes or not _is_same(known.incoming, incoming):
            known = run_filter_plugins(incoming)
            # Neither the snapshot, which holds this, nor what was approved lately is to be held by it.
            mine = replace(incoming, snapshot=self.snapshot, moment=NO_HISTORY)
            self._filtering = replace(known, incoming=mine)
            self._judged_at = self.snapshot.changes
        return replace(known, incoming=incoming)

    def rows(self, nodes: Sequence[str]) -> Rows:
        """Of these nodes; KeyError if one is not in the snapshot."""
        if self._found_at != self.snapshot.changes or self._nodes != nodes:
            self._rows = np.fromiter(map(self.snapshot.node_row.__getitem__, nodes), np.int64, len(nodes))
            self._nodes, self._found_at = list(nodes), self.snapshot.changes
        return self._rows


def _is_same(before: SchedulingContext, now: SchedulingContext) -> bool:
    return before.profile is now.profile and before.pod == now.pod
