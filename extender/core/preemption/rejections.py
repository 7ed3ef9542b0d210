"""Find out whether a `/preempt` needs no eviction at all, and why a sent node is not in the answer.

`sent_candidates` declares the reasons (RejectionReason) and finds the first three.

Rule: this module finds reasons; it selects no victims.
"""

from collections.abc import Iterable

import numpy as np

from extender.core.framework.filter import FilterRun
from extender.core.framework.status import Code
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.eligibility import (
    TERMINATING_POD_ON_NOMINATED_NODE,
    is_terminating_by_preemption,
    nominated_node,
)
from extender.core.preemption.protections import (
    UNREQUESTED_SYSTEM_POD,
    ProtectionReason,
    is_system_victim,
    protections_of,
)
from extender.core.preemption.sent_candidates import CandidateRejection, RejectionReason, ResolvedCandidates
from extender.core.snapshot.arrays import BoolArray, index_in

_MAX_LISTED_PODS = 3
"""Maximum number of a node's protected pods that a message lists."""

_MAX_EXPLAINED_NODES = 100
"""Maximum number of nodes whose messages list protected pods: kube-scheduler waits while a node's pods are read."""


def no_eviction_needed(
    filter_run: FilterRun, run: DryRun, sent: ResolvedCandidates, scheduler_decides: BoolArray
) -> CandidateRejection | None:
    """Return why recent deletions make an eviction unnecessary; None if it is necessary.

    kube-scheduler may not have seen these deletions yet; once it has, it tries the pod again.
    """
    context, snapshot, codes = filter_run.context, run.snapshot, filter_run.codes
    recent = context.history.recent_deletions
    # 1. Check whether a victim on a sent node is gone, and the pod fits there without further victims.
    place_of = index_in(run.rows, len(codes))
    for name in sorted(sent.deleted):
        row = snapshot.node_row[name]
        place = place_of[row]
        fits = codes[row] == Code.SUCCESS
        if place >= 0:
            named = run.scheduler_victims is not None and run.scheduler_victims[:, place].any()
            fits = run.emptied.codes[place] == Code.SUCCESS and not run.victims[:, place].any() and not named
        if fits:
            return CandidateRejection(
                RejectionReason.NOT_NEEDED, f"no eviction is needed: the victims on node {name} are gone"
            )
    # 2. Check whether the pod fits on a sent node where a pod was deleted. kube-scheduler may have sent that node for a
    #    reason that we don't know, such as a custom plugin; hence `trusts_fit`.
    changed = set(recent.values()) if context.history.trusts_fit else set()
    for name, row in zip(sent.nodes, sent.rows.tolist(), strict=True):
        if name in changed and codes[row] == Code.SUCCESS and not scheduler_decides[row]:
            return CandidateRejection(RejectionReason.FITS, f"no eviction is needed: the pod fits on node {name} now")
    # 3. Check whether the pod fits on its nominated node, or waits there for victims that are terminating.
    name = nominated_node(snapshot, context.pod)
    nominated = snapshot.node_row.get(name)
    if nominated is None or name not in recent.values() or scheduler_decides[nominated]:
        return None
    if codes[nominated] == Code.SUCCESS:
        return CandidateRejection(
            RejectionReason.FITS, f"no eviction is needed: the pod fits on its nominated node {name} now"
        )
    # kube-scheduler's PodEligibleToPreemptOthers will decide the same once kube-scheduler has seen the deletions.
    waits = codes[nominated] == Code.UNSCHEDULABLE and any(
        pod.metadata.uid in recent and pod.priority < context.pod.priority and is_terminating_by_preemption(pod)
        for pod in snapshot.pods_on(name)
    )
    return CandidateRejection(RejectionReason.NOT_NEEDED, TERMINATING_POD_ON_NOMINATED_NODE) if waits else None


def rejections_of(
    filter_run: FilterRun, run: DryRun, sent: ResolvedCandidates, kept: Iterable[str]
) -> dict[str, CandidateRejection]:
    """Return sent node -> why it is not among the `kept` nodes."""
    places, dropped = index_in(run.rows, len(filter_run.codes))[sent.rows], dict(sent.dropped)
    # 1. Nodes without a dry run: the filter status is the reason.
    not_tried = np.flatnonzero(places < 0)
    statuses = filter_run.statuses(sent.rows[not_tried])
    reasons = [
        CandidateRejection(RejectionReason.UNRESOLVABLE if one.message else RejectionReason.FITS, one.message)
        for one in statuses.distinct
    ]
    for nth, index in zip(not_tried.tolist(), statuses.indices.tolist(), strict=True):
        dropped[sent.nodes[nth]] = reasons[index]
    # 2. Candidates that are not in `kept`: outranked.
    tried = np.flatnonzero(places >= 0)
    dropped |= dict.fromkeys([sent.nodes[nth] for nth in tried.tolist()], CandidateRejection(RejectionReason.OUTRANKED))
    # 3. Other nodes with a dry run: the status of the dry run is the reason.
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
    """Return (protected pods of lower priority with their reasons, time at which the first loses its protection)."""
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
