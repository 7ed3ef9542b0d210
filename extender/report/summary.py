"""Summarize a decision and its reason in one sentence; `extender why` shares that about a pod that nodes reject.

Rule: a sentence states only facts that were compared or counted at the decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from extender.core.framework.status import Code
from extender.core.preemption.sent_candidates import CandidateRejection
from extender.core.record import DecisionRecord, FilterRecord, PreemptRecord, PrioritizeRecord
from extender.report.facts.node_facts import NO_FACTS
from extender.report.facts.resources import INSUFFICIENT, TOO_MANY_PODS
from extender.report.facts.schema import AnyFact, FactCount
from extender.report.facts.wording import NodeFacts, in_brackets
from extender.report.facts.wording import summarize as summarize_facts
from extender.report.ranking_report import explain_priority_sum, render_keys, report_ranking
from extender.report.wording import CRITERIA, REJECTED_BY
from extender.utilities.text import join_counts, join_names, pluralize

MAX_LISTED = 3
"""Maximum number of victims or reasons that a sentence lists."""

MAX_PHRASES = 6
"""Maximum number of causes that a sentence lists."""


class Cause(NamedTuple):
    """Why nodes reject a pod: words that follow their number, such as `with too little cpu`."""

    words: str
    nodes: int
    """0: a reason of the pod itself, whatever the node."""
    facts: Sequence[FactCount] = ()
    """What exactly rejects these nodes, the most common first."""
    looked_at: int | None = None
    """Number of nodes that `facts` are about; None: all."""


def rejected_sentence(pod: str, nodes: int, fits: int, causes: Sequence[Cause], only: str = "") -> str:
    """Return the sentence about a pod that does not fit on all of `nodes`; `only`: name and reason of a single node."""
    first = causes[0]
    facts = in_brackets(first.facts, first.nodes or nodes, "" if first.nodes else first.words, first.looked_at)
    if only:
        return f"{pod} does not fit on {only}{facts}"
    # `5 with a taint that it does not tolerate (gpu:NoSchedule), 1 cordoned`: facts of the most common cause
    counts = [(first.words + facts, first.nodes), *((one.words, one.nodes) for one in causes[1:])]
    why = join_counts(counts, MAX_PHRASES) if first.nodes else first.words + facts
    return f"{pod} fits on {fits or 'none'} of {nodes} nodes: {why}"


def phrase_of(code: str, plugin: str, reasons: Iterable[str]) -> str:
    """Return the phrase for nodes with this status, which follows their number."""
    message = ", ".join(reasons)
    if not message:  # several plugins together leave the node out
        return REJECTED_BY.get(plugin, REJECTED_BY[""])
    # A failing plugin is a bug or an invalid object: only its own message helps.
    if code == "Error":
        return f"on which a plugin fails ({message})"
    if plugin == "NodeResourcesFit":
        short = [one.removeprefix(INSUFFICIENT) for one in reasons if one.startswith(INSUFFICIENT)]
        if short:
            return f"with too little {' and '.join(short)}"
        return "that run as many pods as they may" if TOO_MANY_PODS in reasons else f"with {message}"
    return REJECTED_BY.get(plugin, f"rejected by {plugin} ({message})")


# --- decisions --------------------------------------------------------------------------------------------------------


def summarize(
    record: DecisionRecord, facts: Mapping[str, Sequence[AnyFact]] = NO_FACTS.of_node, *, observed: bool = False
) -> str:
    """Return the sentence; `facts`: of some rejected nodes; `observed`: the decision was made in mode Observe."""
    if isinstance(record, FilterRecord):
        return _filter_sentence(record, facts)
    if isinstance(record, PrioritizeRecord):
        return _prioritize_sentence(record)
    return _preempt_sentence(record, observed)


def _filter_sentence(record: FilterRecord, facts: Mapping[str, Sequence[AnyFact]]) -> str:
    requested, request, pod = len(record.names), record.request, record.request.pod.identity.key
    if not requested:
        return f"kube-scheduler sent no node for {pod}"
    # 1. Nodes by cause; without filters, PreFilter rejected the pod, whatever the node.
    left_out_by, nodes_of = ", ".join(request.left_out_by), dict[tuple[bool, str], list[str]]()
    phrases = [
        "" if one.code == Code.SUCCESS
        else phrase_of(one.code.text, one.plugin or left_out_by, one.reasons) if request.filters
        else one.message
        for one in record.statuses.distinct
    ]  # fmt: skip
    for name, index in zip(record.names, record.statuses.indices.tolist(), strict=True):
        if phrases[index]:
            # The nodes to which the pod is not pinned come last: they are rarely why it is not scheduled.
            is_left_out = bool(left_out_by) and not record.statuses.distinct[index].plugin
            nodes_of.setdefault((is_left_out, phrases[index]), []).append(name)
    if not nodes_of:
        return f"{pod} fits on {record.names[0] if requested == 1 else f'all {requested} nodes'}"
    # 2. The facts of each cause.
    causes = []
    for (_, words), names in sorted(nodes_of.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1])):
        known = [NodeFacts(name, facts[name]) for name in sorted(names) if name in facts]
        causes.append(Cause(words, len(names) if request.filters else 0, summarize_facts(known), len(known)))
    only = f"{record.names[0]}: {record.statuses.status(0).message or causes[0].words}" if requested == 1 else ""
    return rejected_sentence(pod, requested, requested - sum(map(len, nodes_of.values())), causes, only)


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
