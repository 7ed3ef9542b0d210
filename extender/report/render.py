"""Render the record of a decision into the schema that /decisions, the CLI and the web page show.

Rule: nothing is decided again; everything shown was compared or counted when the decision was made. Only the reasons
why pods are protected are worked out later, from the same objects and the same eviction history.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from extender.core.framework.status import SUCCESS, Code, Status
from extender.core.preemption.dry_run import REPRIEVE, SCHEDULER_PREFERRED, VICTIM_SELECTION_METHODS
from extender.core.preemption.protections.protections import (
    UNREQUESTED_SYSTEM_POD,
    is_system_victim,
    protection_reasons,
)
from extender.core.profile import RETURNING_PODS, UPSTREAM, KubeScheduler, Profile
from extender.core.record import (
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
from extender.k8s import requests
from extender.k8s.objects import Pod
from extender.k8s.time import SECOND
from extender.k8s.version.faults import known_faults
from extender.k8s.version.features import Features
from extender.k8s.version.versions import Version
from extender.report.devices import report_claims, report_pod_claims
from extender.report.ranking_report import (
    flags_of_node,
    keys_at,
    recorded_chance,
    render_keys,
    report_ranking,
)
from extender.report.schema import (
    BudgetReport,
    NodeOutcome,
    NodeReport,
    PodClaimReport,
    PodReport,
    PodRole,
    RankingReport,
    ResourceAmounts,
    RunningPodReport,
    SchedulerReport,
    StatusReport,
)

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
    if isinstance(record, FilterRecord | PrioritizeRecord):
        every = _filter_nodes(record) if isinstance(record, FilterRecord) else _prioritize_nodes(record)
        nodes = [_with_claims(record.request, one, node) for one in every if node in (None, one.name)]
        return RenderedDecision(nodes, highest=record.highest if isinstance(record, PrioritizeRecord) else None)
    with_dry_run = _nodes_with_dry_run(record, record.dry_run, node, every_pod=every_pod) if record.dry_run else ()
    without = (one for one in _nodes_without_dry_run(record) if node in (None, one.name))
    nodes = [_with_claims(record.request, one, node) for one in (*with_dry_run, *without)]
    return RenderedDecision(nodes, report_ranking(record))


# --- the pod and the rules --------------------------------------------------------------------------------------------


def render_incoming_pod(pod: Pod, features: Features) -> PodReport:
    """Render an incoming or nominated pod with its requests."""
    amounts = requests.incoming_requests(pod, features)
    return PodReport(key=pod.key, uid=pod.metadata.uid, priority=pod.priority, requests=dict(amounts))


def render_pod_claims(record: DecisionRecord | None) -> list[PodClaimReport]:
    """Render the resource claims of the incoming pod."""
    devices = None if record is None else record.request.devices
    if record is None or devices is None:
        return []
    return report_pod_claims(devices, record.request.pod.decode(), record.request.context.features)


def _with_claims(request: RecordedRequest, report: NodeReport, node: str | None) -> NodeReport:
    """Return the report of `node` with the devices that the pod's claims may get there, any other one as it is."""
    if request.devices is None or report.name != node:
        return report
    found = report_claims(request.devices, request.pod.decode(), node, request.context)
    with_claims: NodeReport = replace(report, claims=found.claims, not_followed=found.not_followed)
    return with_claims


def render_scheduler(scheduler: KubeScheduler, profile: Profile | None) -> SchedulerReport:
    """Render the version and the profile that judged a pod; None: no profile has the pod's schedulerName."""
    return SchedulerReport(
        version=scheduler.version,
        release=scheduler.release,
        version_source=scheduler.version_source,
        feature_gates=scheduler.changed_gates,
        profile=None if profile is None else profile.scheduler_name,
        not_evaluated_plugins=[] if profile is None else list(profile.not_evaluated_plugins),
    )


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
            key = re.sub("_(.)", lambda match: match[1].upper(), field.name)
            yield f"{key}: {_value(field.name, value)}"


def _value(name: str, value: Any) -> str:
    if name in ("min_pending_duration", "workload_cooldown", "attempts_within"):
        return f"{value / SECOND:g}s"
    if name == "protections":
        return ", ".join(dict.fromkeys(protection.name for protection in value))
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


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
    ranked, names = dry_run.ranked.candidates.tolist(), dry_run.names
    answered = {candidate.node: [victim.key for victim in candidate.victims] for candidate in record.decision.kept}
    sent_nodes, amounts = frozenset(record.sent_nodes), record.request.amounts()
    others = sorted(set(range(len(names))) - set(ranked), key=names.__getitem__)
    for place, node in [*enumerate(ranked), *((None, node) for node in others)]:
        name = names[node]
        if only in (None, name):
            tried = _TriedNode(record, dry_run, node, place, answered.get(name), name in sent_nodes, amounts)
            yield tried.report_with_pods() if every_pod or name == only else tried.report()


@dataclass(frozen=True)
class _TriedNode:
    """A node with a dry run."""

    record: PreemptRecord
    dry_run: DryRunRecord
    node: int
    """Its place in the arrays of `dry_run`."""
    place: int | None
    """Its place in the ranking; None: it is not a candidate."""
    answered: list[str] | None
    """Keys of its victims in the answer; None: the answer does not contain it."""
    is_sent: bool
    amounts: Mapping[str, int]
    """What the incoming pod requests."""

    @property
    def name(self) -> str:
        return self.dry_run.name(self.node)

    @cached_property
    def flags(self) -> npt.NDArray[np.uint8]:
        """[pod of the node]: its bits."""
        return flags_of_node(self.dry_run, self.node)

    @cached_property
    def victims(self) -> list[int]:
        """Places of its victims among its pods."""
        places: list[int] = np.flatnonzero(self.flags & VICTIM).tolist()
        return places

    def report(self) -> NodeReport:
        record, dry_run, node, place, victims = self.record, self.dry_run, self.node, self.place, self.victims
        method, outcome, budgets = int(dry_run.methods[node]), self.outcome(), self.budgets()
        emptied, dropped = dry_run.emptied.get(node), record.decision.dropped.get(self.name)
        why = dropped.message if dropped else emptied.message if emptied else ""
        if not why and outcome == "rejectedByPolicy":  # no reason was recorded: kube-scheduler did not send the node
            broken = [budget.name for budget in budgets if budget.after < 0]
            why = f"would break {', '.join(broken)}" if broken else "a policy forbids evicting its victims"
        pods = dry_run.pods_on_node[node].pods
        return NodeReport(
            name=self.name,
            outcome=outcome,
            sent=self.is_sent,
            why=why,
            filter=_status(dry_run.filter.status(node)),
            emptied=_status(emptied) if emptied else None,
            rank=None if place is None else place + 1,
            keys=[] if place is None else keys_at(record, dry_run, place),
            shown=[] if place is None else render_keys(record, dry_run, place),
            loses_by=None if place is None else dry_run.ranked.keys.decided_by(0, place),
            victims=[pods[k].key for k in victims] if self.answered is None else self.answered,
            violations=int(dry_run.violations[node]) if victims else 0,
            chosen_by=VICTIM_SELECTION_METHODS[method] if victims and method != REPRIEVE else "",
            chance=[] if place is None else recorded_chance(record, dry_run, node),
            counts=self.counts(),
            budgets=budgets,
        )

    def report_with_pods(self) -> NodeReport:
        """Return the report with every pod of the node and its resource totals."""
        request, pods = self.record.request, list(_pods_on(self.record, self.dry_run, self.node))
        wanted = self.amounts
        with_pods: NodeReport = replace(
            self.report(),
            allocatable=_relevant_amounts(wanted, self.dry_run.allocatable(self.node)),
            used=_relevant_amounts(wanted, _sum(pods)),
            freed=_relevant_amounts(wanted, _sum([pod for pod in pods if pod.role == "victim"])),
            nominated=[
                render_incoming_pod(pod, request.context.features)
                for pod in request.context.nominees
                if pod.status.nominated_node_name == self.name
            ],
            pods=pods,
        )
        return with_pods

    def outcome(self) -> NodeOutcome:
        if self.name in self.record.decision.rejected:
            return "rejected"
        if self.answered is not None:
            return "chosen"
        if self.place is not None:
            return "outranked"
        if not (self.flags & EVICTABLE).any():
            return "noVictims"
        if self.victims:
            return "rejectedByPolicy"
        return "insufficientAfterPreemption" if self.node in self.dry_run.emptied else "notEvaluated"

    def counts(self) -> dict[PodRole, int]:
        """Return role -> number of pods, counted on the bits: equals counting `_role` of every pod, but much faster."""
        flags, own = self.flags, self.record.request.pod.priority
        spared = np.flatnonzero((flags & PROTECTED != 0) & (flags & EVICTABLE == 0)).tolist()
        protected = sum(self.dry_run.pods_on_node[self.node].pods[k].priority < own for k in spared)
        evictable, victims = int(np.count_nonzero(flags & EVICTABLE)), len(self.victims)
        counts: dict[PodRole, int] = {
            "victim": victims,
            "reprieved": evictable - victims,
            "protected": protected,
            "kept": len(flags) - evictable - protected,
        }
        return {role: count for role, count in counts.items() if count}

    def budgets(self) -> list[BudgetReport]:
        """Return the disruption budgets that the victims count against, by name."""
        budgets = self.dry_run.pods_on_node[self.node].budgets
        used = Counter(budget for k in self.victims for budget in sorted(budgets[k]))
        names, allowed = self.dry_run.budgets, self.dry_run.allowed
        shown = [BudgetReport(name=names[one], allowed=int(allowed[one]), used=count) for one, count in used.items()]
        return sorted(shown, key=lambda budget: budget.name)


def _relevant_amounts(wanted: Mapping[str, int], amounts: Mapping[str, int]) -> ResourceAmounts:
    """Return the amounts of cpu, memory, pods and every other resource in `wanted`."""
    names = dict.fromkeys(("cpu", "memory", "pods", *sorted(wanted)))
    return {name: amounts[name] for name in names if name in amounts}


def _sum(pods: Sequence[RunningPodReport]) -> ResourceAmounts:
    total = Counter[str](pods=len(pods))
    for pod in pods:
        total.update(pod.requests)
    return dict(total)


def _nodes_without_dry_run(record: PreemptRecord) -> Iterator[NodeReport]:
    """Return the sent nodes without a dry run, by name."""
    seen = set(record.dry_run.names) if record.dry_run else set()
    for name in sorted({*record.sent_nodes, *record.decision.dropped} - seen):
        status = record.not_tried.get(name)
        outcome: NodeOutcome = "notEvaluated"
        if name in record.decision.rejected:
            outcome = "rejected"
        elif record.decision.vetoed is not None:
            outcome = "vetoed"
        elif status is not None and status == SUCCESS:
            outcome = "fits"
        why = record.decision.dropped[name].message if name in record.decision.dropped else ""
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
            budgets=[dry_run.budgets[row] for row in sorted(on.budgets[place])],
            named=bool(flag & SCHEDULER_VICTIM),
            terminating=pod.metadata.deletion_timestamp is not None,
            protected_by=_protected_by(record.request, pod, flag) if role == "protected" else [],
            requests=requests.running_usage(pod, record.request.context.features).requests,
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
    if not found and request.context.profile.preemption.returning_pods and not is_system_victim(pod):
        # What nodes, volumes and nominated pods the cluster had is not kept with a decision.
        found = (f"protected by {RETURNING_PODS}",)
    is_scheduler_victim = bool(flag & SCHEDULER_VICTIM)
    return list((*found, UNREQUESTED_SYSTEM_POD) if is_system_victim(pod) and not is_scheduler_victim else found)


def left_out(scheduler: KubeScheduler) -> list[str]:
    """Return what a simulation leaves out: plugins, that kube-scheduler samples, and faults of its patch."""
    notes = known_faults(Version(scheduler.minor, scheduler.patch))
    for profile in scheduler.profiles:
        name = f"profile {profile.scheduler_name}"
        if profile.percentage_of_nodes_to_score not in (0, 100):
            share = f"{name}: percentageOfNodesToScore is {profile.percentage_of_nodes_to_score}"
            notes.append(f"{share}: kube-scheduler stops once it has found enough feasible nodes; here all are judged")
        asked = profile.min_candidate_nodes_percentage, profile.min_candidate_nodes_absolute
        if asked != (UPSTREAM.min_candidate_nodes_percentage, UPSTREAM.min_candidate_nodes_absolute):
            limits = f"minCandidateNodesPercentage is {asked[0]} and minCandidateNodesAbsolute {asked[1]}"
            notes.append(f"{name}: {limits}: kube-scheduler's dry run tries that many nodes; here all are tried")
        if profile.not_evaluated_plugins:
            notes.append(f"{name}: plugins that are not evaluated: {', '.join(profile.not_evaluated_plugins)}")
    return notes
