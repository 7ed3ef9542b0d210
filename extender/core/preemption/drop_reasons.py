"""Find the reason why a node that kube-scheduler sent is not in the answer to `/preempt`.

Rule: reasons only; which nodes are dropped is decided elsewhere (`core.engine.preempt`).
"""

from collections.abc import Iterable

import numpy as np

from extender.core.framework.filter import FilterRun
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.protections import (
    UNREQUESTED_SYSTEM_POD,
    ProtectionReason,
    is_system_victim,
    protections_of,
)
from extender.core.preemption.sent_candidates import CandidateRejection, RejectionReason, ResolvedCandidates

_MAX_LISTED_PODS = 3
"""Number of protected pods of a node that a message lists."""

_MAX_EXPLAINED_NODES = 100
"""Nodes whose messages list protected pods: the list reads every pod of a node while kube-scheduler waits."""


def drop_reasons(
    filter_run: FilterRun, run: DryRun, sent: ResolvedCandidates, kept: Iterable[str]
) -> dict[str, CandidateRejection]:
    """Return node -> why it is not among the `kept` nodes, for all nodes that were sent."""
    place_of = np.full(len(filter_run.codes), -1)
    place_of[run.rows] = np.arange(len(run.rows))
    places, dropped = place_of[sent.rows], dict(sent.dropped)
    # Without a dry run: the filter status.
    not_tried = np.flatnonzero(places < 0)
    statuses = filter_run.statuses(sent.rows[not_tried])
    reasons = [
        CandidateRejection(RejectionReason.UNRESOLVABLE if one.message else RejectionReason.FITS, one.message)
        for one in statuses.distinct
    ]
    for nth, index in zip(not_tried.tolist(), statuses.indices.tolist(), strict=True):
        dropped[sent.nodes[nth]] = reasons[index]
    # With a dry run: candidates are outranked, the others have its status.
    tried = np.flatnonzero(places >= 0)
    dropped |= dict.fromkeys([sent.nodes[nth] for nth in tried.tolist()], CandidateRejection(RejectionReason.OUTRANKED))
    others = tried[~run.candidate[places[tried]]]
    explained = _MAX_EXPLAINED_NODES if run.context.profile.preemption.may_change_victims else 0
    for nth, status in zip(others.tolist(), run.statuses(places[others]), strict=True):
        code, protected, until = RejectionReason.POLICY, "", None
        if not run.makes_room[places[nth]]:
            code = RejectionReason.NO_ROOM
            protected, until = _protected_pods(run, sent, sent.nodes[nth]) if explained > 0 else ("", None)
        explained -= 1
        dropped[sent.nodes[nth]] = CandidateRejection(code, status.message, protected, until)
    for name in kept:
        dropped.pop(name, None)
    return dropped


def _protected_pods(run: DryRun, sent: ResolvedCandidates, node: str) -> tuple[str, int | None]:
    """Return the pods of lower priority that policies protect, with all reasons, and when the first is free again."""
    protected, ends = list[str](), list[int]()
    for pod in run.snapshot.pods_on(node):
        if pod.priority < run.context.pod.priority:
            row, why = run.snapshot.running_row(pod), list(protections_of(run.context, pod))
            if is_system_victim(pod) and not (row is not None and sent.victims[row]):
                why.append(ProtectionReason(UNREQUESTED_SYSTEM_POD))
            if why:
                protected.append(f"{pod.key} is {'; '.join(one.text for one in why)}")
                until = [one.until for one in why if one.until is not None]
                ends += [max(until)] if len(until) == len(why) else []
    more = len(protected) - _MAX_LISTED_PODS
    listed = ", ".join(protected[:_MAX_LISTED_PODS] + ([f"{more} more"] if more > 0 else []))
    return listed, min(ends, default=None)
