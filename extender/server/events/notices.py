"""The Events about an answered preemption: their pods and notes.

The users of a namespace may read the Events of its pods. So pods of other namespaces, and objects with their names, are
counted but not named, unless `events.namesAcrossNamespaces` allows it.

Rule: only answered decisions get Events, which contain nothing that is not in the record of the decision.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from extender.core.engine import PreemptDecision
from extender.core.eviction_history import EvictionHistory
from extender.core.preemption.sent_candidates import RejectionReason
from extender.core.record import PreemptRecord
from extender.k8s.objects import Pod
from extender.report.summary import why_best
from extender.server.events.event import Notice
from extender.utilities.text import join_names, pluralize

MAX_LISTED_PODS = 3
"""Maximum number of victims that an Event names."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The nodes on which a policy rejects the victims."""

    nodes: int
    wait: int | None
    """Nanoseconds until the policy may allow the victims on one of these nodes; None if that is not known."""


@dataclass(frozen=True, slots=True)
class AnsweredPreemption:
    """An answer to /preempt that is worth Events."""

    record: PreemptRecord
    rejecting: Mapping[str, Rejection]
    """Policy -> its rejections."""

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        return self.record.size


def rejecting_policies(decision: PreemptDecision) -> dict[str, Rejection]:
    """Return policy -> its rejections, if it has any; call it before the decision's snapshot changes."""
    evaluation = decision.evaluation
    if evaluation is None or evaluation.refusal is not None or decision.kept:
        return {}
    run = evaluation.policies
    rejecting = {}
    for veto in run.vetoes:
        places = np.flatnonzero(veto.nodes & run.makes_room)
        if len(places):
            rejecting[veto.policy] = Rejection(len(places), veto.wait(run, places))
    return rejecting


def is_worth_events(decision: PreemptDecision) -> bool:
    """Return whether pods are evicted, or are not because of a policy of ours."""
    if decision.kept:
        return bool(decision.kept[0].victims)
    return any(
        dropped.code in (RejectionReason.REFUSED, RejectionReason.POLICY) or dropped.protected
        for dropped in decision.dropped.values()
    )


def notices(preemption: AnsweredPreemption, *, names_across_namespaces: bool) -> Iterator[Notice]:
    """Yield the notice about the preemptor, then one for each victim."""
    record, kept = preemption.record, preemption.record.decision.kept
    preemptor = record.request.pod.identity
    # 1. A veto.
    if not kept:
        note = f"No pod is evicted: {_veto_reason(preemption, names_across_namespaces)}"
        yield Notice(pod=preemptor, type="Warning", reason="PreemptionVetoed", note=note)
        return
    victims = [pod for pod in kept[0].victims if pod.metadata.deletion_timestamp is None]
    listed = _listed(victims, preemptor, names_across_namespaces)
    why = why_best(record)
    # 2. With several candidates, kube-scheduler chooses the node, so the victims are not known yet.
    if len(kept) > 1:
        note = f"Preemption candidates: {kept[0].node} is the {why}; kube-scheduler chooses among {len(kept)} nodes"
        yield Notice(pod=preemptor, type="Normal", reason="PreemptionNominated", note=note)
        return
    # 3. One candidate: kube-scheduler evicts its victims.
    note = f"Preempting on node {kept[0].node}, {why}; evicting {listed}"
    yield Notice(pod=preemptor, type="Normal", reason="PreemptionNominated", note=note)
    for victim in victims:
        yield _victim_notice(victim, preemptor, kept[0].node, names_across_namespaces)


def _victim_notice(victim: Pod, preemptor: Pod, node: str, names_across_namespaces: bool) -> Notice:
    is_named = names_across_namespaces or victim.metadata.namespace == preemptor.metadata.namespace
    who = f"pod {preemptor.key}" if is_named else "a pod of another namespace"
    return Notice(
        pod=victim,
        type="Normal",
        reason="PreemptionVictim",
        note=f"Chosen for eviction from node {node}: {who} of priority {preemptor.priority} takes the room, "
        f"this pod has priority {victim.priority}",
        related=preemptor if is_named else None,
    )


def _listed(victims: list[Pod], preemptor: Pod, names_across_namespaces: bool) -> str:
    own = preemptor.metadata.namespace
    named = [pod.key for pod in victims if names_across_namespaces or pod.metadata.namespace == own]
    others = len(victims) - len(named)
    parts = [join_names(named, MAX_LISTED_PODS)] if named else []
    parts += [f"{pluralize(others, 'pod')} of other namespaces"] if others else []
    return " and ".join(parts) or "no pod that is not terminating already"


def _veto_reason(preemption: AnsweredPreemption, names_across_namespaces: bool) -> str:
    """Return the reason why no pod is evicted, and for how long if that is known."""
    decision, history = preemption.record.decision, preemption.record.request.context.history
    # The reasons of nodes name pods and budgets, which may be those of other namespaces: then name only the policies.
    if decision.vetoed is not None or names_across_namespaces:
        return decision.no_candidate_reason
    reasons = [
        f"{policy} rejects the victims on {pluralize(one.nodes, 'node')}{_until(history, one.wait)}"
        for policy, one in preemption.rejecting.items()
    ]
    protected = [dropped for dropped in decision.dropped.values() if dropped.protected]
    if protected:
        ends = [one.protected_until for one in protected if one.protected_until is not None]
        wait = min(ends) - history.now if ends else None
        reasons.append(
            f"pods that policies protect are in the way on {pluralize(len(protected), 'node')}{_until(history, wait)}"
        )
    return "; ".join(reasons) or "a policy rejects the victims"


def _until(history: EvictionHistory, wait: int | None) -> str:
    """Render the end of a wait: a lower bound, because other nodes and other pods of the node may take longer."""
    return "" if wait is None else f", {history.until(wait)} at least"
