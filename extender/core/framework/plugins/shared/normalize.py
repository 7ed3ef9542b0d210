"""Normalize raw plugin scores to 0-100, relative to the best node; score utilizations by a configured shape.

Mirrors DefaultNormalizeScore and BuildBrokenLinearFunction (pkg/scheduler/framework/plugins/helper, v1.36).
"""

from itertools import pairwise

import numpy as np

from extender.core.snapshot.arrays import IntArray

MAX_NODE_SCORE = 100
"""framework.MaxNodeScore: the best score of one plugin, before weighting."""


def normalize(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """Return [row]: scores scaled to 0-100. `reverse`: the lowest raw score becomes the best.

    `scores`: [row], not negative, of all feasible nodes.
    """
    # score' = 100 * score / max(scores), integer division as in Go; reverse: score' = 100 - that quotient.
    # With max = 0 all scores stay 0 (100 if reversed).
    highest = int(scores.max(initial=0))
    scaled = scores * MAX_NODE_SCORE // highest if highest else scores
    return MAX_NODE_SCORE - scaled if reverse else scaled


def interpolate(shape: tuple[tuple[int, int], ...], utilization: IntArray) -> IntArray:
    """Return [row]: 0-100, interpolated linearly between the shape's points and constant outside them.

    `shape`: (utilization 0-100, score 0-10), ascending. Mirrors BuildBrokenLinearFunction
    (plugins/helper/shape_score.go, v1.36).
    """
    # Between (x0, y0) and (x1, y1): score = y0 + (y1 - y0) * (utilization - x0) / (x1 - x0)
    points = [(x, y * 10) for x, y in shape]
    scores = np.full(utilization.shape, points[-1][1], np.int64)
    for (x0, y0), (x1, y1) in reversed(list(pairwise(points))):
        scaled_rise = (y1 - y0) * (utilization - x0)
        rise = np.sign(scaled_rise) * (np.abs(scaled_rise) // (x1 - x0))  # Go's division truncates towards zero
        scores = np.where(utilization <= x1, y0 + rise, scores)
    return np.where(utilization <= points[0][0], points[0][1], scores)
