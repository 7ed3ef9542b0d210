"""Render one node on which a preemption was dry-run, with its pods, from the record of the decision.

Rule: nothing is decided again. Only the reasons why pods are protected are computed here, from the same objects and the
same eviction history.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from extender.core.framework.status import Status
from extender.core.preemption.dry_run import REPRIEVE, SCHEDULER_PREFERRED, VICTIM_SELECTION_METHODS
from extender.core.preemption.protections import UNREQUESTED_SYSTEM_POD, is_system_victim, protection_reasons
from extender.core.preemption.sent_candidates import CandidateRejection
from extender.core.record import (
    EVICTABLE,
    PROTECTED,
    SCHEDULER_VICTIM,
    VICTIM,
    VIOLATING,
    DryRunRecord,
    RecordedRequest,
)
from extender.k8s import requests
from extender.k8s.objects import Pod
from extender.k8s.version.features import Features
from extender.report.ranking_report import flags_of_node, keys_at, recorded_chance, render_keys
from extender.report.schema import (
    BudgetReport,
    NodeOutcome,
    NodeReport,
    PodClaimReport,
    PodReport,
    PodRole,
    ResourceAmounts,
    RunningPodReport,
    StatusReport,
)

_METHODS_WITH_ORDER = (REPRIEVE, SCHEDULER_PREFERRED)
"""Victim selection methods whose result depends on the reprieve order."""


def status_report(status: Status) -> StatusReport:
    return StatusReport(code=status.code.text, plugin=status.plugin, reasons=list(status.reasons))


def report_pod(pod: Pod, features: Features, claims: Sequence[PodClaimReport] = ()) -> PodReport:
    """Describe an incoming or nominated pod with its requests."""
    amounts = dict(requests.incoming_requests(pod, features))
    return PodReport(key=pod.key, uid=pod.metadata.uid, priority=pod.priority, requests=amounts, claims=list(claims))


@dataclass(frozen=True)
class TriedNode:
    """A node with a dry run."""

    request: RecordedRequest
    dry_run: DryRunRecord
    node: int
    """Index of the node in the arrays of `dry_run`."""
    place: int | None
    """Index of the node in the ranking; None if it is not a candidate."""
    amounts: Mapping[str, int]
    """Requests of the incoming pod."""
    answered: list[str] | None = None
    """Keys of the victims in the answer; None if the answer does not contain the node."""
    is_sent: bool = False
    """True if kube-scheduler sent the node as a candidate."""
    is_rejected: bool = False
    """True if the guard rejected the node."""
    why_dropped: CandidateRejection | None = None

    @property
    def name(self) -> str:
        return self.dry_run.name(self.node)

    @cached_property
    def flags(self) -> npt.NDArray[np.uint8]:
        """[pod of the node]: flag bits of the pod."""
        return flags_of_node(self.dry_run, self.node)

    @cached_property
    def victims(self) -> list[int]:
        """Indexes of the victims among the node's pods."""
        places: list[int] = np.flatnonzero(self.flags & VICTIM).tolist()
        return places

    def report(self) -> NodeReport:
        """Return the report without the pods of the node."""
        request, dry_run, node, place, victims = self.request, self.dry_run, self.node, self.place, self.victims
        method, outcome, budgets = int(dry_run.methods[node]), self.outcome(), self.budgets()
        emptied, dropped = dry_run.emptied.get(node), self.why_dropped
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
            filter=status_report(dry_run.filter.status(node)),
            emptied=status_report(emptied) if emptied else None,
            rank=None if place is None else place + 1,
            keys=[] if place is None else keys_at(request, dry_run, place),
            shown=[] if place is None else render_keys(request, dry_run, place),
            loses_by=None if place is None else dry_run.ranked.keys.decided_by(0, place),
            victims=[pods[k].key for k in victims] if self.answered is None else self.answered,
            violations=int(dry_run.violations[node]) if victims else 0,
            chosen_by=VICTIM_SELECTION_METHODS[method] if victims and method != REPRIEVE else "",
            chance=[] if place is None else recorded_chance(request, dry_run, node),
            counts=self.counts(),
            budgets=budgets,
        )

    def report_with_pods(self) -> NodeReport:
        """Return the report with every pod of the node and its resource totals."""
        context, pods = self.request.context, list(self._pods())
        nominated = [pod for pod in context.nominees if pod.status.nominated_node_name == self.name]
        return replace(
            self.report(),
            allocatable=self._relevant(self.dry_run.allocatable(self.node)),
            used=self._relevant(_sum(pods)),
            freed=self._relevant(_sum([pod for pod in pods if pod.role == "victim"])),
            nominated=[report_pod(pod, context.features) for pod in nominated],
            pods=pods,
        )

    def _relevant(self, amounts: Mapping[str, int]) -> ResourceAmounts:
        """Return the amounts of cpu, memory, pods and every other resource that the incoming pod requests."""
        names = dict.fromkeys(("cpu", "memory", "pods", *sorted(self.amounts)))
        return {name: amounts[name] for name in names if name in amounts}

    def outcome(self) -> NodeOutcome:
        if self.is_rejected:
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
        """Return role -> number of pods."""
        # Counted on the bits: /decisions?pods=none renders thousands of nodes, and _pods() of each would be slow.
        flags, own = self.flags, self.request.pod.identity.priority
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

    def _pods(self) -> Iterator[RunningPodReport]:
        """Yield every pod of the node, most important first."""
        context, dry_run, flags = self.request.context, self.dry_run, self.flags.tolist()
        on, order = dry_run.pods_on_node[self.node], dict[int, int]()
        if dry_run.methods[self.node] in _METHODS_WITH_ORDER:
            # As upstream, pods that violate a budget are reprieved first, then all other pods.
            removed = [place for place, flag in enumerate(flags) if flag & EVICTABLE]
            in_turn = sorted(removed, key=lambda place: not flags[place] & VIOLATING)
            order = {place: number for number, place in enumerate(in_turn, 1)}
        for place, (pod, flag) in enumerate(zip(on.pods, flags, strict=True)):
            role, protected_by = self._role(pod, flag), list[str]()
            if role == "protected":
                protected_by += protection_reasons(context, pod)
                if is_system_victim(pod) and not flag & SCHEDULER_VICTIM:
                    protected_by.append(UNREQUESTED_SYSTEM_POD)
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
                protected_by=protected_by,
                requests=requests.running_usage(pod, context.features).requests,
            )

    def _role(self, pod: Pod, flag: int) -> PodRole:
        if flag & VICTIM:
            return "victim"
        if flag & EVICTABLE:
            return "reprieved"
        return "protected" if flag & PROTECTED and pod.priority < self.request.pod.identity.priority else "kept"


def _sum(pods: Sequence[RunningPodReport]) -> ResourceAmounts:
    total = Counter[str](pods=len(pods))
    for pod in pods:
        total.update(pod.requests)
    return dict(total)
