"""What was decided, and by what, in one sentence.

Rule: correct English, short, and true; no more is said than was compared, counted or said when it was decided.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from extender.core.explain.ranking_report import ranking_of, several, shown_keys
from extender.core.explain.record import Capture, FilterCapture, PreemptCapture, PrioritizeCapture
from extender.core.framework.status import Code

MOST_NAMED = 3
"""Of so many victims, or reasons, is spoken in a sentence."""

BY = {
    "PDBViolations": "disruption budget violations",
    "HighestPriority": "the highest priority among its victims",
    "PrioritySum": "the sum of priorities",
    "VictimCount": "the number of victims",
    "LatestStartTime": "the start of its most important victim",
    "PodDeletionCost": "pod deletion cost",
    "EvictionCost": "eviction cost",
    "QoSClass": "the quality of service of its victims",
    "GracePeriod": "the longest grace period",
    "Workloads": "the number of workloads that lose a pod",
    "PodGroups": "broken pod groups",
    "UnusedCapacity": "the capacity that is freed and left unused",
}
"""Criterion -> what a sentence calls it, after `best of N candidates by`."""


def sentence(capture: Capture, *, observed: bool = False) -> str:
    """What was decided, and by what."""
    if isinstance(capture, FilterCapture):
        return _filter_sentence(capture)
    if isinstance(capture, PrioritizeCapture):
        return _prioritize_sentence(capture)
    return _preempt_sentence(capture, observed)


def _filter_sentence(capture: FilterCapture) -> str:
    offered, pod = len(capture.names), capture.asked.pod.key
    if not offered:
        return f"no node was offered for {pod}"
    failing = [verdict for verdict in capture.verdicts.each() if verdict.code != Code.SUCCESS]
    fitting = offered - len(failing)
    if not failing:
        return f"{pod} fits on {capture.names[0] if offered == 1 else f'all {offered} nodes'}"
    why = _counted(verdict.message for verdict in failing)
    if offered == 1:
        return f"{pod} does not fit on {capture.names[0]}: {failing[0].message}"
    return f"{pod} fits on {fitting or 'none'} of {offered} nodes; {why}"


def _counted(said: Iterator[str]) -> str:
    """`3 Insufficient cpu, 1 node(s) were unschedulable`: as kube-scheduler does."""
    common = Counter(said).most_common()
    shown = [f"{count} {reason}" for reason, count in common[:MOST_NAMED]]
    more = sum(count for _, count in common[MOST_NAMED:])
    return ", ".join(shown + ([f"{more} for other reasons"] if more else []))


def _prioritize_sentence(capture: PrioritizeCapture) -> str:
    offered, pod = len(capture.names), capture.asked.pod.key
    if not offered:
        return f"no node was offered for {pod}"
    top = max(capture.scores)
    best = [name for name, score in zip(capture.names, capture.scores, strict=True) if score == top]
    if len(best) == offered:
        return f"{best[0] if offered == 1 else f'all {offered} nodes'} scored {top} of 10 for {pod}"
    others = f" and {len(best) - 1} more" if len(best) > 1 else ""
    return f"{best[0]}{others} scored best of {offered} nodes for {pod}: {top} of 10"


def _preempt_sentence(capture: PreemptCapture, observed: bool) -> str:
    pod, kept = capture.asked.pod, capture.decision.kept
    if not kept:
        why = capture.decision.vetoed or _where(capture.decision.dropped) or "no node was offered"
        return f"{'would evict' if observed else 'evicts'} nobody for {pod.key}: {why}"
    victims = [victim.key for victim in kept[0].victims]
    more = len(victims) - MOST_NAMED
    named = ", ".join(victims[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    said = f"{'would evict' if observed else 'evicts'} {named} from {kept[0].node} for {pod.key}: {_decided(capture)}"
    return said if len(kept) == 1 else f"{said}; kube-scheduler chooses among {len(kept)} nodes"


def _where(dropped: Mapping[str, str]) -> str:
    """`No preemption victims found for incoming pod (2 nodes); would break disruption budget shop/web (n3)`."""
    nodes: dict[str, list[str]] = {}
    for node, why in dropped.items():
        reason, protected, _ = why.partition("; not evictable: ")  # who is, is another matter on every node
        nodes.setdefault(f"{reason}, and some pods are protected" if protected else reason, []).append(node)
    common = sorted(nodes.items(), key=lambda one: -len(one[1]))
    shown = [f"{why} ({of[0] if len(of) == 1 else several(len(of), 'node')})" for why, of in common[:MOST_NAMED]]
    more = sum(len(of) for _, of in common[MOST_NAMED:])
    return "; ".join(shown + ([f"{several(more, 'node')} for other reasons"] if more else []))


def _decided(capture: PreemptCapture) -> str:
    ranking, tried = ranking_of(capture), capture.tried
    if ranking is None or tried is None or ranking.decided_by is None:
        asked = _asked_about(capture)
        return "the only candidate" + (f" of {asked} nodes" if asked > 1 else "")
    if capture.decision.kept[0].node != ranking.ties[0]:
        return "the best candidate that passed the last check"
    if ranking.decided_by in BY:
        place = ranking.criteria.index(ranking.decided_by)
        own, next_best = (shown_keys(capture, tried, one)[place] for one in (0, 1))
        return f"best of {ranking.candidates} candidates by {BY[ranking.decided_by]}, {own} against {next_best}"
    equal, every = len(ranking.ties), ranking.candidates
    which = f"{equal} of {every}" if equal < every else "both" if every == 2 else f"all {every}"
    cost = f"{which} candidates cost the same"
    if ranking.decided_by == "name":
        return f"{cost}, and its name comes first"
    if tried.ranked.then[0][0]:
        return f"{cost}, and its victims differ least from those that kube-scheduler chose"
    return f"{cost}, and kube-scheduler had chosen its victims"


def _asked_about(capture: PreemptCapture) -> int:
    tried = {node.metadata.name for node in capture.tried.nodes} if capture.tried else set()
    return len(tried | set(capture.offered))
