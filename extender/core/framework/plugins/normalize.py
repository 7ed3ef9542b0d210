"""Normalize raw plugin scores to 0-100, relative to the best node.

Mirrors DefaultNormalizeScore (pkg/scheduler/framework/plugins/helper/normalize_score.go, v1.36).
"""

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
