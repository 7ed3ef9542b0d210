"""How raw scores become 0-100: relative to the best node (plugins/helper/normalize_score.go, v1.36)."""

from extender.core.snapshot.arrays import IntArray

MAX_NODE_SCORE = 100


def normalize(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """100 * score / max, in integers as Go divides; `reverse` gives the lowest raw score 100."""
    highest = int(scores.max(initial=0))
    scaled = scores * MAX_NODE_SCORE // highest if highest else scores
    return MAX_NODE_SCORE - scaled if reverse else scaled
