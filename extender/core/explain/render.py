"""Render the record of a decision into the schema that /decisions, the CLI and the web page show.

Rule: nothing is decided again; everything shown was compared or counted when the decision was made. Only the reasons
why pods are protected are worked out later, from the same objects and the same eviction history.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from msgspec.structs import replace

from extender.core.explain.ranking_report import flags_of_node, keys_at, losing_criterion, render_keys, report_ranking
from extender.core.explain.record import (
    EVICTABLE,
    PROTECTED,
    SCHEDULER_VICTIM,
    VICTIM,
    VIOLATING,
    DecisionRecord,
    DryRunRecord,
    FilterRecord,
    PreemptRecord,
    PrioritizeRecord,
    RecordedRequest,
)
from extender.core.explain.schema import (
    BudgetReport,
    NodeOutcome,
    NodeReport,
    PodReport,
    PodRole,
    RankingReport,
    ResourceAmounts,
    RunningPodReport,
    StatusReport,
)
from extender.core.framework.status import SUCCESS, Code, Status
from extender.core.preemption.drop_reasons import UNREQUESTED_SYSTEM_POD
from extender.core.preemption.dry_run import REPRIEVE, SCHEDULER_PREFERRED, VICTIM_SELECTION_METHODS
from extender.core.preemption.protections import is_system_victim, protection_reasons
from extender.core.profile import UPSTREAM, Profile
from extender.k8s import requests
from extender.k8s.objects import Pod
from extender.k8s.time import SECOND

FITS_AFTER_EVICTION = "the pod would fit after an eviction; scored by what that would cost"
NO_EVICTION_HELPS = "the pod does not fit, and no eviction that is allowed would change that"
"""Reason why a node has no plugin scores."""


_METHODS_WITH_ORDER = (REPRIEVE, SCHEDULER_PREFERRED)
"""Victim selection methods for which the order of the reprieve explains the victims."""


@dataclass(frozen=True, slots=True)
class RenderedDecision:
    """The parts of an explained decision that come from its record."""

    nodes: list[NodeReport]
    ranking: RankingReport | None = None
    highest: int | None = None


def render(record: DecisionRecord, *, node: str | None = None, every_pod: bool = True) -> RenderedDecision:
    """Render all nodes or only `node`, always with the pods of `node`; with `every_pod` also those of all others."""
    if isinstance(record, FilterRecord):
        nodes = [one for one in _filter_nodes(record) if node in (None, one.name)]
        return RenderedDecision(nodes)
    if isinstance(record, PrioritizeRecord):
        nodes = [one for one in _prioritize_nodes(record) if node in (None, one.name)]
        return RenderedDecision(nodes, highest=record.highest)
    with_dry_run = _nodes_with_dry_run(record, record.dry_run, node, every_pod=every_pod) if record.dry_run else ()
    nodes = [*with_dry_run, *(one for one in _nodes_without_dry_run(record) if node in (None, one.name))]
    return RenderedDecision(nodes, report_ranking(record))


# --- the pod and the rules --------------------------------------------------------------------------------------------


def render_incoming_pod(pod: Pod) -> PodReport:
    """Render the incoming pod with its requests."""
    return _pod_report(pod, requests.incoming_requests(pod))


def _pod_report(pod: Pod, amounts: Mapping[str, int]) -> PodReport:
    return PodReport(key=pod.key, uid=pod.metadata.uid, priority=pod.priority, requests=dict(amounts))


def changed_policies(profile: Profile) -> list[str]:
    """List the preemption settings that differ from kube-scheduler's behaviour, as `key: value`."""
    upstream, policy = UPSTREAM.preemption, profile.preemption
    found = list(_differences(policy, upstream))
    if policy.limits != upstream.limits:
        found += [f"limits.{one}" for one in _differences(policy.limits, upstream.limits)]
    if profile.keep_candidates != UPSTREAM.keep_candidates:
        found.append(f"keepCandidates: {profile.keep_candidates or 'All'}")
    return found


def _differences(these: Any, those: Any) -> Iterator[str]:
    for field in fields(these):
        value = getattr(these, field.name)
        if value != getattr(those, field.name) and field.name != "limits":
            yield f"{_camel(field.name)}: {_value(field.name, value)}"


_DURATIONS = ("min_pending_duration", "workload_cooldown", "attempts_within")


def _value(name: str, value: Any) -> str:
    if name in _DURATIONS:
        return f"{value / SECOND:g}s"
    if name == "protections":
        return ", ".join(dict.fromkeys(protection.name for protection in value))
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


# --- /filter ----------------------------------------------------------------------------------------------------------


def _filter_nodes(record: FilterRecord) -> Iterator[NodeReport]:
    for name, status, preemption_helps in zip(
        record.names, record.statuses.to_list(), record.preemption_helps.tolist(), strict=True
    ):
        outcome: NodeOutcome = "accepted"
        if status.code != Code.SUCCESS:
            outcome = "failed" if preemption_helps else "unresolvable"
        yield NodeReport(name=name, outcome=outcome, why=status.message, filter=_status(status))


def _status(status: Status) -> StatusReport:
    return StatusReport(code=status.code.text, plugin=status.plugin, reasons=list(status.reasons))


# --- /prioritize ------------------------------------------------------------------------------------------------------


def _prioritize_nodes(record: PrioritizeRecord) -> Iterator[NodeReport]:
    place_of = {row: place for place, row in enumerate(record.scored.tolist())}
    plugins = {name: values.tolist() for name, values in record.plugins.items()}
    for name, score, row in zip(record.names, record.scores, record.rows.tolist(), strict=True):
        place = place_of.get(row)
        if place is None:
            yield NodeReport(
                name=name, outcome="unscored", score=score, why=FITS_AFTER_EVICTION if score else NO_EVICTION_HELPS
            )
            continue
        own = {plugin: values[place] for plugin, values in plugins.items()}
        yield NodeReport(name=name, outcome="scored", score=score, total=sum(own.values()), plugins=own)


# --- /preempt: nodes --------------------------------------------------------------------------------------------------


def _nodes_with_dry_run(
    record: PreemptRecord, dry_run: DryRunRecord, only: str | None, *, every_pod: bool
) -> Iterator[NodeReport]:
    """Return the nodes with a dry run, or `only` one of them: candidates best first, then the others by name."""
    ranked, names = dry_run.ranked.candidates.tolist(), [node.metadata.name for node in dry_run.nodes]
    answered = {candidate.node: [victim.key for victim in candidate.victims] for candidate in record.decision.kept}
    sent_nodes = frozenset(record.sent_nodes)
    others = sorted(set(range(len(names))) - set(ranked), key=names.__getitem__)
    for place, node in [*enumerate(ranked), *((None, node) for node in others)]:
        name = names[node]
        if only in (None, name):
            show_pods = every_pod or name == only
            yield _node(record, dry_run, node, place, answered.get(name), name in sent_nodes, show_pods)


def _node(
    record: PreemptRecord,
    dry_run: DryRunRecord,
    node: int,
    place: int | None,
    answered: list[str] | None,
    is_sent: bool,
    show_pods: bool,
) -> NodeReport:
    """Render one node with a dry run.

    `place`: its place in the ranking, None if it is not a candidate; `answered`: keys of its victims in the answer,
    None if the answer does not contain it.
    """
    name, criteria = dry_run.nodes[node].metadata.name, record.request.context.profile.preemption.ranking
    outcome = _outcome(record, dry_run, node, is_candidate=place is not None, is_answered=answered is not None)
    victims, method = _places_with(dry_run, node, VICTIM), int(dry_run.methods[node])
    budgets = _budget_reports(dry_run, node, victims)
    shown = NodeReport(
        name=name,
        outcome=outcome,
        sent=is_sent,
        why=record.decision.dropped.get(name) or _reason_not_sent(dry_run, node, outcome, budgets),
        filter=_status(dry_run.filter.status(node)),
        emptied=_status(dry_run.emptied[node]) if node in dry_run.emptied else None,
        rank=None if place is None else place + 1,
        keys=[] if place is None else [keys_at(criterion_keys, place) for criterion_keys in dry_run.ranked.keys],
        shown=[] if place is None else render_keys(record, dry_run, place),
        loses_by=None if place is None else losing_criterion(criteria, dry_run, place),
        victims=[dry_run.pods_on_node[node].pods[k].key for k in victims] if answered is None else answered,
        violations=int(dry_run.violations[node]) if victims else 0,
        chosen_by=VICTIM_SELECTION_METHODS[method] if victims and method != REPRIEVE else "",
        counts=_counts(record, dry_run, node),
        budgets=budgets,
    )
    return _with_pods(shown, record, dry_run, node) if show_pods else shown


def _with_pods(shown: NodeReport, record: PreemptRecord, dry_run: DryRunRecord, node: int) -> NodeReport:
    """Return the report with every pod of the node and its resource totals."""
    pods = list(_pods_on(record, dry_run, node))
    allocatable = requests.allocatable(dry_run.nodes[node].status.allocatable)
    with_pods: NodeReport = replace(
        shown,
        allocatable=_relevant_amounts(record.request, allocatable),
        used=_relevant_amounts(record.request, _sum(pods)),
        freed=_relevant_amounts(record.request, _sum([pod for pod in pods if pod.role == "victim"])),
        nominated=list(_nominated(record, shown.name)),
        pods=pods,
    )
    return with_pods


def _reason_not_sent(dry_run: DryRunRecord, node: int, outcome: NodeOutcome, budgets: Sequence[BudgetReport]) -> str:
    """Return why a node is not in the answer that kube-scheduler did not send, so that no drop reason was recorded."""
    if outcome == "rejectedByPolicy":
        broken = [budget.name for budget in budgets if budget.after < 0]
        return f"would break {', '.join(broken)}" if broken else "a policy forbids evicting its victims"
    return dry_run.emptied[node].message if node in dry_run.emptied else ""


def _outcome(
    record: PreemptRecord, dry_run: DryRunRecord, node: int, *, is_candidate: bool, is_answered: bool
) -> NodeOutcome:
    if dry_run.nodes[node].metadata.name in record.decision.rejected:
        return "rejected"
    if is_answered:
        return "chosen"
    if is_candidate:
        return "outranked"
    flags = flags_of_node(dry_run, node)
    if not (flags & EVICTABLE).any():
        return "noVictims"
    if (flags & VICTIM).any():
        return "rejectedByPolicy"
    return "insufficientAfterPreemption" if node in dry_run.emptied else "notEvaluated"


def _places_with(dry_run: DryRunRecord, node: int, flag: int) -> list[int]:
    """Return the places of the pods of a node that have the bit."""
    places: list[int] = np.flatnonzero(flags_of_node(dry_run, node) & flag).tolist()
    return places


def _counts(record: PreemptRecord, dry_run: DryRunRecord, node: int) -> dict[PodRole, int]:
    """Return role -> number of pods, counted on the bits: equals counting `_role` of every pod, but much faster."""
    flags, own = flags_of_node(dry_run, node), record.request.pod.priority
    victims, evictable = (int(np.count_nonzero(flags & flag)) for flag in (VICTIM, EVICTABLE))
    spared = [k for k in _places_with(dry_run, node, PROTECTED) if not flags[k] & EVICTABLE]
    protected = sum(dry_run.pods_on_node[node].pods[k].priority < own for k in spared)
    counts: dict[PodRole, int] = {
        "victim": victims,
        "reprieved": evictable - victims,
        "protected": protected,
        "kept": len(flags) - evictable - protected,
    }
    return {role: count for role, count in counts.items() if count}


def _budget_reports(dry_run: DryRunRecord, node: int, victims: Sequence[int]) -> list[BudgetReport]:
    """Return the disruption budgets that the victims of a node count against, by name."""
    used = Counter(
        budget for k in victims for budget in dry_run.pods_on_node[node].budget_rows[k].tolist() if budget >= 0
    )
    shown = [
        BudgetReport(name=dry_run.budgets[budget], allowed=int(dry_run.allowed[budget]), used=count)
        for budget, count in used.items()
    ]
    return sorted(shown, key=lambda budget: budget.name)


def _nominated(record: PreemptRecord, node: str) -> Iterator[PodReport]:
    for pod in record.request.context.nominees:
        if pod.status.nominated_node_name == node:
            yield _pod_report(pod, requests.incoming_requests(pod))


def _relevant_amounts(request: RecordedRequest, amounts: Mapping[str, int]) -> ResourceAmounts:
    """Return the amounts of cpu, memory, pods and every other resource that the incoming pod requests."""
    wanted = ("cpu", "memory", "pods", *sorted(requests.incoming_requests(request.pod)))
    return {name: amounts[name] for name in dict.fromkeys(wanted) if name in amounts}


def _sum(pods: Sequence[RunningPodReport]) -> ResourceAmounts:
    total = Counter[str](pods=len(pods))
    for pod in pods:
        total.update(pod.requests)
    return dict(total)


def _nodes_without_dry_run(record: PreemptRecord) -> Iterator[NodeReport]:
    """Return the sent nodes without a dry run, by name."""
    seen = {node.metadata.name for node in record.dry_run.nodes} if record.dry_run else set()
    for name in sorted({*record.sent_nodes, *record.decision.dropped} - seen):
        status = record.not_tried.get(name)
        outcome: NodeOutcome = "notEvaluated"
        if name in record.decision.rejected:
            outcome = "rejected"
        elif record.decision.vetoed is not None:
            outcome = "vetoed"
        elif status is not None and status == SUCCESS:
            outcome = "fits"
        why = record.decision.dropped.get(name, "")
        yield NodeReport(name=name, outcome=outcome, why=why, filter=_status(status) if status else None)


# --- /preempt: the pods of a node -------------------------------------------------------------------------------------


def _pods_on(record: PreemptRecord, dry_run: DryRunRecord, node: int) -> Iterator[RunningPodReport]:
    """Return every pod of a node, most important first."""
    flags, on = flags_of_node(dry_run, node).tolist(), dry_run.pods_on_node[node]
    order = _order(flags) if dry_run.methods[node] in _METHODS_WITH_ORDER else {}
    for place, (pod, flag) in enumerate(zip(on.pods, flags, strict=True)):
        role = _role(pod, flag, record.request)
        yield RunningPodReport(
            key=pod.key,
            uid=pod.metadata.uid,
            role=role,
            priority=pod.priority,
            started=pod.status.start_time,
            order=order.get(place),
            violating=bool(flag & VIOLATING),
            budgets=[dry_run.budgets[row] for row in on.budget_rows[place].tolist() if row >= 0],
            named=bool(flag & SCHEDULER_VICTIM),
            terminating=pod.metadata.deletion_timestamp is not None,
            protected_by=_protected_by(record.request, pod, flag) if role == "protected" else [],
            requests=requests.running_usage(pod).requests,
        )


def _order(flags: Sequence[int]) -> dict[int, int]:
    """Return place of a pod -> its turn in the reprieve: PDB-violating pods come first, as upstream."""
    removed = [place for place, flag in enumerate(flags) if flag & EVICTABLE]
    in_turn = sorted(removed, key=lambda place: not flags[place] & VIOLATING)
    return {place: number for number, place in enumerate(in_turn, 1)}


def _role(pod: Pod, flag: int, request: RecordedRequest) -> PodRole:
    if flag & VICTIM:
        return "victim"
    if flag & EVICTABLE:
        return "reprieved"
    return "protected" if flag & PROTECTED and pod.priority < request.pod.priority else "kept"


def _protected_by(request: RecordedRequest, pod: Pod, flag: int) -> list[str]:
    found = protection_reasons(request.context, pod)
    is_scheduler_victim = bool(flag & SCHEDULER_VICTIM)
    return list((*found, UNREQUESTED_SYSTEM_POD) if is_system_victim(pod) and not is_scheduler_victim else found)
