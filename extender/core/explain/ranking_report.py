"""How the candidates of a preemption compare, and by what the best one is that.

Rule: keys that were compared when the decision was made are compared again, nothing else.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from extender.core.explain.record import VICTIM, PreemptCapture, Tried
from extender.core.explain.schema import Ranking
from extender.core.preemption.criteria import NON_NEGATIVE
from extender.core.snapshot.arrays import NEVER, IntArray
from extender.k8s.time import SECOND, format_time
from extender.k8s.workloads import QOS_CLASSES


def ranking_of(capture: PreemptCapture) -> Ranking | None:
    tried, criteria = capture.tried, list(capture.asked.incoming.profile.preemption.ranking)
    if tried is None:
        return None
    alive, decided_by = set(range(len(tried.ranked.candidates))), None
    for name, keys in zip(criteria, tried.ranked.keys, strict=True):
        left = {place for place in alive if all(key[place] == key[0] for key in keys)}
        if len(left) == 1 < len(alive):
            decided_by = name
        alive = left
    if len(alive) > 1:
        unnamed = tried.ranked.then[0]
        decided_by = "named" if unnamed[0] < min(unnamed[place] for place in alive if place) else "name"
    names = [tried.nodes[tried.ranked.candidates[place]].metadata.name for place in sorted(alive)]
    return Ranking(criteria=criteria, candidates=len(tried.ranked.candidates), decided_by=decided_by, ties=names)


def loses_by(criteria: Sequence[str], tried: Tried, place: int) -> str | None:
    if place == 0:
        return None
    for name, keys in zip(criteria, tried.ranked.keys, strict=True):
        if any(key[place] != key[0] for key in keys):
            return name
    return "named" if tried.ranked.then[0][place] != tried.ranked.then[0][0] else "name"


def shown_keys(capture: PreemptCapture, tried: Tried, place: int) -> list[str]:
    """Of the candidate in this place of the ranking, per criterion."""
    node, criteria = int(tried.ranked.candidates[place]), capture.asked.incoming.profile.preemption.ranking
    victims = int(np.count_nonzero(flags_on(tried, node) & VICTIM))
    return [
        _shown_key(name, keys_of(keys, place), victims) for name, keys in zip(criteria, tried.ranked.keys, strict=True)
    ]


def keys_of(of_criterion: Sequence[IntArray], place: int) -> list[int]:
    return [int(key[place]) for key in of_criterion]


def flags_on(tried: Tried, node: int) -> npt.NDArray[np.uint8]:
    """[pod] of one node."""
    return tried.flags[: len(tried.on[node].pods), node]


def _shown_key(name: str, keys: Sequence[int], victims: int) -> str:
    if name == "PrioritySum":  # upstream adds a constant for every victim, so that more victims are always worse
        return f"{keys[0] - victims * NON_NEGATIVE} ({several(victims, 'victim')})"
    if name == "LatestStartTime":
        return "not started" if -keys[0] == NEVER else _time(-keys[0])
    if name == "QoSClass":
        return QOS_CLASSES[keys[0]]
    if name == "GracePeriod":
        return f"{keys[0]}s"
    if name == "PodGroups":
        return f"{keys[0]}, and {several(keys[1], 'other pod')}"
    if name == "UnusedCapacity":
        return f"{keys[0] / 10_000:.1f} %"
    return str(keys[0])


def _time(nanoseconds: int) -> str:
    digits = len(f"{nanoseconds % SECOND:09d}".rstrip("0"))
    return format_time(nanoseconds, digits)


def several(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
