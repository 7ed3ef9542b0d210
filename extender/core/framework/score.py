"""Run the score plugins: each gives a node 0 to 100, times the plugin's weight.

Mirrors the framework runtime's RunScorePlugins (v1.36).

Rule: total score of a node = sum over the plugins of (normalized score * weight).
"""

from dataclasses import dataclass

import numpy as np

from extender.core.framework.constraint import NodeRows, SchedulingContext
from extender.core.framework.plugins import SCORES
from extender.core.framework.plugins.missing_permissions import plugins_missing_permissions
from extender.core.framework.plugins.normalize import MAX_NODE_SCORE
from extender.core.snapshot.arrays import IntArray


@dataclass(frozen=True, slots=True)
class Scores:
    """Weighted scores of the nodes `rows`; a plugin that skips this pod (PreScore Skip) is absent."""

    rows: NodeRows
    plugins: dict[str, IntArray]
    """Plugin -> [row]: 0 to 100 times the plugin's weight."""
    highest: int
    """Highest possible total: 100 times the sum of the weights of these plugins."""

    @property
    def total(self) -> IntArray:
        """Return [row]: the sum of the plugins' weighted scores."""
        return sum(self.plugins.values(), np.zeros(len(self.rows), np.int64))


def score(context: SchedulingContext, rows: NodeRows) -> Scores:
    """Score the feasible nodes `rows`. All of them must be given: some plugins score relative to the best one.

    Plugins without permission to read their objects are skipped.
    """
    plugins, highest, skipped = {}, 0, plugins_missing_permissions(context, "score")
    for name, weight in context.profile.score_weights:
        if name in skipped:
            continue
        normalized = SCORES[name](context, rows) if len(rows) else None
        if normalized is not None:
            plugins[name] = normalized * weight
            highest += weight * MAX_NODE_SCORE
    return Scores(rows, plugins, highest)
