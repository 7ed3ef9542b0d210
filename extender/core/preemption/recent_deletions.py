"""Judge sent candidates where kube-scheduler's cache and ours differ by a deletion that one of them has not seen yet.

Where ours has seen it first, a victim that kube-scheduler chose is terminating or gone. A terminating one counts as a
victim when nodes are ranked, as in kube-scheduler, but the answer names only the others; if there are none, the
terminating ones, so that the pod is nominated and no further pod goes. If all victims of some node are gone, no pod is
evicted: kube-scheduler schedules the pod again when it sees that. Where kube-scheduler has seen it first, it chose its
victims without a pod that still terminates here: a node that needs more victims only because of that pod is judged
without it.

A deletion counts while it is recent (`EvictionHistory.recent_deletions`). After that both caches have seen it, and a
terminating pod is what it is in kube-scheduler: a potential victim that holds its room until it is gone.

Rule: this module decides which pods are taken for gone, and whether any eviction is needed; never which pod is evicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from extender.core.framework.filter import FilterRun
from extender.core.framework.filter_checks import Check
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code
from extender.core.preemption.dry_run import NO_UNSYNCED_DELETIONS, DryRun, UnsyncedDeletions, dry_run_preemption
from extender.core.preemption.eligibility import (
    TERMINATING_POD_ON_NOMINATED_NODE,
    is_terminating_by_preemption,
    nominated_node,
)
from extender.core.preemption.sent_candidates import CandidateRejection, RejectionReason, ResolvedCandidates
from extender.core.snapshot.arrays import BoolArray, NodeRows, count_per_node, mask_of
from extender.core.snapshot.pod_table import is_assumed_terminating


def dry_run_sent_candidates(
    context: SchedulingContext, checks: Sequence[Check], rows: NodeRows, sent: ResolvedCandidates
) -> DryRun:
    """Dry-run the preemption on `rows` with the sent victims, and with recent deletions taken into account."""
    recent, pod_table = context.history.recent_deletions, context.snapshot.pod_table
    rows_of_recent = [row for uid in recent if (row := pod_table.row_of.get(uid)) is not None]
    evicted = sent.victims & mask_of(np.array(rows_of_recent, np.int64), len(sent.victims))
    evicted &= pod_table.terminating
    deletions = UnsyncedDeletions(evicted) if evicted.any() else NO_UNSYNCED_DELETIONS
    run = dry_run_preemption(context, checks, rows, sent.victims, deletions)
    unknown = _terminating_pods_in_the_way(run, sent, recent)
    if unknown is None:
        return run
    deletions = replace(deletions, unknown_to_kube_scheduler=unknown)
    without = dry_run_preemption(context, checks, rows, sent.victims, deletions)
    worse = run.makes_room & ~without.makes_room
    if not worse.any():
        return without
    # There it is what it is here: a pod that holds its room.
    pods = run.pods[:, worse]
    unknown[pods[pods >= 0]] = False
    return dry_run_preemption(context, checks, rows, sent.victims, deletions)


def _terminating_pods_in_the_way(
    run: DryRun, sent: ResolvedCandidates, recent_deletions: Mapping[str, str]
) -> BoolArray | None:
    """Return [pod]: the terminating pods that kube-scheduler's cache no longer holds; None if there are none.

    Those are the pods that kube-scheduler did not choose and that began to terminate shortly ago, or were approved for
    eviction, on sent nodes where the pod does not fit, or only with more victims than kube-scheduler chose.
    """
    named, snapshot = run.scheduler_victims, run.snapshot
    if named is None:
        return None
    place_of = np.full(len(snapshot.nodes), -1)
    place_of[run.rows] = np.arange(len(run.rows))
    pods = np.flatnonzero(snapshot.pod_table.terminating & (snapshot.pod_node >= 0))
    places = place_of[snapshot.pod_node[pods]]
    pods, places = pods[places >= 0], places[places >= 0]
    if not len(pods):
        return None
    differs = ~run.makes_room | (count_per_node(run.victims) > count_per_node(named))
    differs &= mask_of(sent.rows, len(snapshot.nodes))[run.rows] & named.any(axis=0)
    unnamed = pods[differs[places] & ~named[run.context.layout.rank[pods], places]].tolist()
    in_the_way = ((row, snapshot.pods[row]) for row in unnamed)
    unknown = [row for row, pod in in_the_way if pod.metadata.uid in recent_deletions or is_assumed_terminating(pod)]
    return mask_of(np.array(unknown, np.int64), len(snapshot.pod_node)) if unknown else None


def no_eviction_needed(
    filter_run: FilterRun, run: DryRun, sent: ResolvedCandidates, scheduler_decides: BoolArray
) -> CandidateRejection | None:
    """Return why no eviction is needed; None: one is."""
    return (
        _all_victims_gone(filter_run, run, sent)
        or _fits_on_sent_node(filter_run, sent, scheduler_decides)
        or _nominated_node_has_room(filter_run, run, scheduler_decides)
    )


def _all_victims_gone(filter_run: FilterRun, run: DryRun, sent: ResolvedCandidates) -> CandidateRejection | None:
    """Return the reason if the pod fits on a sent node, of which a victim was removed, without further victims."""
    place_of = {row: place for place, row in enumerate(run.rows.tolist())}
    for name in sorted(sent.deleted):
        row = run.snapshot.node_row[name]
        place = place_of.get(row)
        fits = filter_run.codes[row] == Code.SUCCESS
        if place is not None:
            named = run.scheduler_victims is not None and run.scheduler_victims[:, place].any()
            fits = run.emptied.codes[place] == Code.SUCCESS and not run.victims[:, place].any() and not named
        if fits:
            return CandidateRejection(
                RejectionReason.NOT_NEEDED, f"no eviction is needed: the victims on node {name} are gone"
            )
    return None


def _fits_on_sent_node(
    filter_run: FilterRun, sent: ResolvedCandidates, scheduler_decides: BoolArray
) -> CandidateRejection | None:
    """Return the reason if the pod fits on a sent node after a deletion that kube-scheduler may not have seen.

    It may also have a reason that is not known here, such as a plugin of its own; hence `EvictionHistory.trusts_fit`.
    """
    history = filter_run.context.history
    if not history.trusts_fit:
        return None
    changed = set(history.recent_deletions.values())
    for name, row in zip(sent.nodes, sent.rows.tolist(), strict=True):
        if name in changed and filter_run.codes[row] == Code.SUCCESS and not scheduler_decides[row]:
            return CandidateRejection(RejectionReason.FITS, f"no eviction is needed: the pod fits on node {name} now")
    return None


def _nominated_node_has_room(
    filter_run: FilterRun, run: DryRun, scheduler_decides: BoolArray
) -> CandidateRejection | None:
    """Return the reason if the pod fits on its nominated node, or will when victims have gone that terminate there."""
    context, recent = filter_run.context, filter_run.context.history.recent_deletions
    name = nominated_node(run.snapshot, context.pod)
    row = run.snapshot.node_row.get(name)
    if row is None or name not in recent.values() or scheduler_decides[row]:
        return None
    if filter_run.codes[row] == Code.SUCCESS:
        return CandidateRejection(
            RejectionReason.FITS, f"no eviction is needed: the pod fits on its nominated node {name} now"
        )
    # PodEligibleToPreemptOthers, as kube-scheduler will find it when it has seen the deletions.
    waits = filter_run.codes[row] == Code.UNSCHEDULABLE and any(
        pod.metadata.uid in recent and pod.priority < context.pod.priority and is_terminating_by_preemption(pod)
        for pod in run.snapshot.pods_on(name)
    )
    return CandidateRejection(RejectionReason.NOT_NEEDED, TERMINATING_POD_ON_NOMINATED_NODE) if waits else None
