"""Compare preemption candidates and name the criterion that decided.

Rule: the comparison reuses the keys of the decision and computes no others.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from extender.core.explain.record import VICTIM, DryRunRecord, PreemptRecord
from extender.core.explain.schema import RankingReport
from extender.core.snapshot.arrays import NEVER, IntArray
from extender.k8s.priority import PRIORITY_OFFSET
from extender.k8s.time import SECOND, format_time
from extender.k8s.workloads import QOS_CLASSES


def report_ranking(record: PreemptRecord) -> RankingReport | None:
    """Find the criterion that singled out the best candidate, and the ties; None: no dry run was made."""
    dry_run, criteria = record.dry_run, list(record.request.context.profile.preemption.ranking)
    if dry_run is None:
        return None
    # As kube-scheduler's pickOneNodeForPreemption: each criterion keeps the candidates that equal the best.
    equal, decided_by = set(range(len(dry_run.ranked.candidates))), None
    for name, keys in zip(criteria, dry_run.ranked.keys, strict=True):
        left = {place for place in equal if all(key[place] == key[0] for key in keys)}
        if len(left) == 1 < len(equal):
            decided_by = name
        equal = left
    if len(equal) > 1:
        unrequested = dry_run.ranked.tie_breakers[0]
        decided_by = "named" if unrequested[0] < min(unrequested[place] for place in equal if place) else "name"
    names = [dry_run.nodes[dry_run.ranked.candidates[place]].metadata.name for place in sorted(equal)]
    candidates = len(dry_run.ranked.candidates)
    return RankingReport(criteria=criteria, candidates=candidates, decided_by=decided_by, ties=names)


def losing_criterion(criteria: Sequence[str], dry_run: DryRunRecord, place: int) -> str | None:
    """Return the first criterion by which the candidate ranked at `place` is worse than the best one, if any."""
    if place == 0:
        return None
    for name, keys in zip(criteria, dry_run.ranked.keys, strict=True):
        if any(key[place] != key[0] for key in keys):
            return name
    return "named" if dry_run.ranked.tie_breakers[0][place] != dry_run.ranked.tie_breakers[0][0] else "name"


def render_keys(record: PreemptRecord, dry_run: DryRunRecord, place: int) -> list[str]:
    """Return, per criterion, the keys of the candidate ranked at `place` as readable text."""
    node, criteria = int(dry_run.ranked.candidates[place]), record.request.context.profile.preemption.ranking
    victims = int(np.count_nonzero(flags_of_node(dry_run, node) & VICTIM))
    return [
        _render_key(name, keys_at(keys, place), victims)
        for name, keys in zip(criteria, dry_run.ranked.keys, strict=True)
    ]


def keys_at(criterion_keys: Sequence[IntArray], place: int) -> list[int]:
    """Return the keys of one criterion for the candidate ranked at `place`."""
    return [int(key[place]) for key in criterion_keys]


def flags_of_node(dry_run: DryRunRecord, node: int) -> npt.NDArray[np.uint8]:
    """Return [pod]: the bits of each pod of one node (EVICTABLE, VIOLATING, …)."""
    return dry_run.flags[: len(dry_run.pods_on_node[node].pods), node]


def _render_key(name: str, keys: Sequence[int], victims: int) -> str:
    if name == "PrioritySum":  # upstream adds a constant for every victim, so that more victims are always worse
        return f"{keys[0] - victims * PRIORITY_OFFSET} ({pluralize(victims, 'victim')})"
    if name == "LatestStartTime":
        digits = len(f"{-keys[0] % SECOND:09d}".rstrip("0"))
        return "not started" if -keys[0] == NEVER else format_time(-keys[0], digits)
    if name == "QoSClass":
        return QOS_CLASSES[keys[0]]
    if name == "GracePeriod":
        return f"{keys[0]}s"
    if name == "PodGroups":
        return f"{keys[0]}, and {pluralize(keys[1], 'other pod')}"
    if name == "UnusedCapacity":
        return f"{keys[0] / 10_000:.1f} %"
    return str(keys[0])


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun: `1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
