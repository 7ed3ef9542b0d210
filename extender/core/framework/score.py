"""How good a node is for the pod: every score plugin 0-100, times its weight (framework RunScorePlugins, v1.36)."""

from dataclasses import dataclass

import numpy as np

from extender.core.framework.constraint import Rows, SchedulingContext
from extender.core.framework.plugins import SCORES
from extender.core.framework.plugins.missing_permissions import blind
from extender.core.framework.plugins.normalize import MAX_NODE_SCORE
from extender.core.snapshot.arrays import IntArray


@dataclass(frozen=True, slots=True)
class Scores:
    """Weighted scores of the nodes `rows`; a plugin that is skipped for this pod is absent."""

    rows: Rows
    plugins: dict[str, IntArray]
    """[row], 0 to 100 times the plugin's weight."""
    highest: int
    """The total of a node that is perfect for every plugin."""

    @property
    def total(self) -> IntArray:
        return sum(self.plugins.values(), np.zeros(len(self.rows), np.int64))


def score(incoming: SchedulingContext, rows: Rows) -> Scores:
    """`rows` are the feasible nodes: some plugins score relative to the best of them."""
    plugins, highest, unable = {}, 0, blind(incoming, "score")
    for name, weight in incoming.profile.score_weights:
        if name in unable:
            continue
        raw = SCORES[name](incoming, rows) if len(rows) else None
        if raw is not None:
            plugins[name] = raw * weight
            highest += weight * MAX_NODE_SCORE
    return Scores(rows, plugins, highest)
