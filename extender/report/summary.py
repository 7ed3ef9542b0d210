"""Summarize a decision and its reason in one sentence.

Rule: a sentence states only facts that were compared or counted at the decision.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from extender.core.framework.status import Code
from extender.core.preemption.sent_candidates import CandidateRejection
from extender.core.record import DecisionRecord, FilterRecord, PreemptRecord, PrioritizeRecord
from extender.report.ranking_report import explain_priority_sum, render_keys, report_ranking
from extender.report.wording import CRITERIA
from extender.utilities.text import join_names, pluralize

MAX_LISTED = 3
"""Maximum number of victims or reasons that a sentence lists."""


def summarize(record: DecisionRecord, *, observed: bool = False) -> str:
    """Return the sentence; `observed`: the decision was made in mode Observe and has no effect."""
    if isinstance(record, FilterRecord):
        return _filter_sentence(record)
    if isinstance(record, PrioritizeRecord):
        return _prioritize_sentence(record)
    return _preempt_sentence(record, observed)


def _filter_sentence(record: FilterRecord) -> str:
    requested, pod = len(record.names), record.request.pod.identity.key
    if not requested:
        return f"kube-scheduler sent no node for {pod}"
    failing = [status for status in record.statuses.to_list() if status.code != Code.SUCCESS]
    if not failing:
        return f"{pod} fits on {record.names[0] if requested == 1 else f'all {requested} nodes'}"
    if requested == 1:
        return f"{pod} does not fit on {record.names[0]}: {failing[0].message}"
    # `3 Insufficient cpu, 1 node(s) were unschedulable`, as in framework.FitError: a node counts for each reason.
    counts = Counter(reason for status in failing for reason in status.reasons)
    listed = dict(counts.most_common(MAX_LISTED))
    others = sum(listed.keys().isdisjoint(status.reasons) for status in failing)
    why = ", ".join(f"{count} {reason}" for reason, count in listed.items())
    more = f", {others} for other reasons" if others else ""
    return f"{pod} fits on {requested - len(failing) or 'none'} of {requested} nodes; {why}{more}"


def _prioritize_sentence(record: PrioritizeRecord) -> str:
    requested, pod = len(record.names), record.request.pod.identity.key
    if not requested:
        return f"kube-scheduler sent no node for {pod}"
    top = max(record.scores)
    best = [name for name, score in zip(record.names, record.scores, strict=True) if score == top]
    if len(best) == requested:
        return f"{best[0] if requested == 1 else f'all {requested} nodes'} scored {top} of 10 for {pod}"
    return f"{join_names(best, 1)} scored best of {requested} nodes for {pod}: {top} of 10"


def _preempt_sentence(record: PreemptRecord, observed: bool) -> str:
    pod, kept, verb = record.request.pod.identity.key, record.decision.kept, "would evict" if observed else "evicts"
    if not kept:
        why = record.decision.vetoed or _drop_reasons(record.decision.dropped) or "kube-scheduler sent no node"
        return f"{verb} no pod for {pod}: {why}"
    victims = join_names([victim.key for victim in kept[0].victims], MAX_LISTED)
    sentence = f"{verb} {victims} from {kept[0].node} for {pod}: {why_best(record)}"
    return sentence if len(kept) == 1 else f"{sentence}; kube-scheduler chooses among {len(kept)} nodes"


def _drop_reasons(dropped: Mapping[str, CandidateRejection]) -> str:
    """Render `No preemption victims found for incoming pod (2 nodes); would break disruption budget shop/web (n3)`."""
    nodes: dict[str, list[str]] = {}
    for node, why in dropped.items():
        # The protected pods differ from node to node: without their names, nodes share a reason.
        reason = f"{replace(why, protected='').message}, and some pods are protected" if why.protected else why.message
        nodes.setdefault(reason, []).append(node)
    common = sorted(nodes.items(), key=lambda one: -len(one[1]))
    shown = [f"{why} ({of[0] if len(of) == 1 else pluralize(len(of), 'node')})" for why, of in common[:MAX_LISTED]]
    more = sum(len(of) for _, of in common[MAX_LISTED:])
    return "; ".join(shown + ([f"{pluralize(more, 'node')} for other reasons"] if more else []))


def why_best(record: PreemptRecord) -> str:
    """Return the reason why the best candidate won, without names of pods."""
    ranking, dry_run = report_ranking(record), record.dry_run
    if ranking is None or dry_run is None or ranking.decided_by is None:
        tried = set(dry_run.names) if dry_run else set()
        nodes = len(tried | set(record.sent_nodes))
        return "the only candidate" + (f" of {nodes} nodes" if nodes > 1 else "")
    # The guard may have removed the best candidate.
    if record.decision.kept[0].node != ranking.ties[0]:
        return "the best candidate that passed the last check"
    # The sums themselves would mislead: they contain 2^31 per victim.
    if ranking.decided_by == "PrioritySum" and (why := explain_priority_sum(record.request, dry_run)):
        return f"best of {ranking.candidates} candidates by {why}"
    if CRITERIA[ranking.decided_by].phrase:
        place = ranking.criteria.index(ranking.decided_by)
        own, next_best = (render_keys(record.request, dry_run, one)[place] for one in (0, 1))
        phrase = CRITERIA[ranking.decided_by].phrase
        return f"best of {ranking.candidates} candidates by {phrase}, {own} against {next_best}"
    equal, every = len(ranking.ties), ranking.candidates
    which = f"{equal} of {every}" if equal < every else "both" if every == 2 else f"all {every}"
    cost = f"{which} candidates cost the same"
    if ranking.decided_by == "name":
        return f"{cost}, and its name comes first"
    if dry_run.ranked.keys.by_criterion["named"][0][0]:
        return f"{cost}, and its victims differ least from those that kube-scheduler chose"
    return f"{cost}, and kube-scheduler had chosen its victims"
