"""Run the score plugins: each scores a node 0 to 100, multiplied by the plugin's weight.

Mirrors the framework runtime's RunPreScorePlugins and RunScorePlugins (v1.36).

Rule: total score of a node = sum over the plugins of (normalized score * weight).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from extender.core.framework.plugins import (
    NORMALIZE_SCORE,
    NOT_FOUND,
    SCORES,
    SCORES_READING_PREFILTER,
    WITHOUT_PRESCORE,
    is_score_switched_off,
    plugins_missing_permissions,
)
from extender.core.framework.plugins.shared.normalize import MAX_NODE_SCORE
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import ScoreFailed
from extender.core.profile import PRESCORE_PLUGINS
from extender.core.snapshot.arrays import IntArray, NodeRows

_FAILED: Final = 'running Score plugins: plugin "{}" failed with: {}'


@dataclass(frozen=True, slots=True)
class Scores:
    """Weighted scores of the nodes `rows`; plugins that skip the pod (PreScore Skip) or do not score it are absent."""

    rows: NodeRows
    plugins: dict[str, IntArray]
    """Plugin -> [row]: 0 to 100 times the plugin's weight."""
    highest: int
    """Highest possible total: 100 times the sum of the weights of `plugins`."""
    error: str | None = None
    """Error of a score plugin, which ends the scheduling cycle; there are then no scores."""

    @property
    def total(self) -> IntArray:
        """[row]: sum of the plugins' weighted scores."""
        return sum(self.plugins.values(), np.zeros(len(self.rows), np.int64))


def score(
    context: SchedulingContext, rows: NodeRows, known: Mapping[str, IntArray | None] = MappingProxyType({})
) -> Scores:
    """Score `rows`, which must contain all feasible nodes: some plugins score relative to the best node.

    Plugins without permission to read their objects are skipped. `known`: plugin -> its scores (see SCORES) on all
    nodes, for a profile without `cycle_error`. `rows` may contain duplicates.
    """
    if not len(rows):
        return Scores(rows, {}, 0)
    error = None if known else cycle_error(context)
    if error is not None:
        return Scores(rows, {}, 0, error)
    plugins, highest, skipped = {}, 0, plugins_missing_permissions(context, "score")
    for name, weight in context.profile.score_weights:
        if name in skipped or name not in SCORES:
            continue
        # 1. The plugin's own scores.
        if name in known:
            column = known[name]
            scores = None if column is None else column[rows]
        else:
            try:
                scores = SCORES[name](context, rows)
            except ScoreFailed as failure:
                return Scores(rows, {}, 0, _FAILED.format(name, failure))
        if scores is None and name in PRESCORE_PLUGINS and name not in context.profile.prescore_plugins:
            scores = np.zeros(len(rows), np.int64)  # only PreScore can skip a plugin
        # 2. NormalizeScore, then the weight.
        if scores is not None:
            normalized = NORMALIZE_SCORE[name](scores) if name in NORMALIZE_SCORE else scores
            plugins[name] = normalized * weight
            highest += weight * MAX_NODE_SCORE
    return Scores(rows, plugins, highest)


def cycle_error(context: SchedulingContext) -> str | None:
    """Return the error of the first plugin whose state is missing: its PreFilter or PreScore is not enabled."""
    for name in context.profile.prescore_plugins:
        if _lacks_prefilter(context, name):
            return f'running PreScore plugin "{name}": {NOT_FOUND}'
    for name, _ in context.profile.score_weights:
        error = None if name in context.profile.prescore_plugins else WITHOUT_PRESCORE.get(name)
        if error is None and _lacks_prefilter(context, name):
            error = NOT_FOUND
        if error is not None:
            return _FAILED.format(name, error)
    return None


def _lacks_prefilter(context: SchedulingContext, name: str) -> bool:
    if name not in SCORES_READING_PREFILTER or name in context.profile.prefilter_plugins:
        return False
    return not is_score_switched_off(name, context.features)
