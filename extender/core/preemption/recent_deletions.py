"""Judge sent candidates where kube-scheduler's cache and ours differ by a deletion that one of them has not seen yet.

Where ours has seen it first, a victim that kube-scheduler chose is terminating or gone. It counts as a victim when
nodes are ranked, as in kube-scheduler, but it is not evicted again. If some node needs no other, no pod is evicted:
kube-scheduler schedules the pod again when it sees the deletion. Where kube-scheduler has seen it first, it chose its
victims without a pod that still terminates here: a node that needs other victims only because of that pod is judged
without it.

A deletion counts while it is recent (`EvictionHistory.recent_deletions`). After that both caches have seen it, and a
terminating pod is what it is in kube-scheduler: a potential victim that holds its room until it is gone.

Rule: this module decides which pods are taken for gone, and whether any eviction is needed; never which pod is evicted.
"""

from collections.abc import Mapping

import numpy as np

from extender.core.framework.filter import FilterRun
from extender.core.framework.status import Code
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.eligibility import (
    TERMINATING_POD_ON_NOMINATED_NODE,
    is_terminating_by_preemption,
    nominated_node,
)
from extender.core.preemption.sent_candidates import ResolvedCandidates
from extender.core.snapshot.arrays import BoolArray, IntArray, mask_of
from extender.core.snapshot.pod_table import is_assumed_terminating
from extender.core.snapshot.snapshot import Snapshot


def terminating_victims(
    snapshot: Snapshot, sent: ResolvedCandidates, recent_deletions: Mapping[str, str]
) -> BoolArray | None:
    """Return [pod]: the sent victims that began to terminate shortly ago; None if there are none."""
    gone = sent.victims & _recently_terminating(snapshot, recent_deletions)
    return gone if gone.any() else None


def terminating_pods_in_the_way(
    run: DryRun, sent: ResolvedCandidates, recent_deletions: Mapping[str, str]
) -> BoolArray | None:
    """Return [pod]: the terminating pods that kube-scheduler's cache no longer holds; None if there are none.

    Those are the pods that kube-scheduler did not choose and that began to terminate shortly ago, or were approved for
    eviction, on sent nodes where the pod does not fit, or only with victims that kube-scheduler did not choose.
    """
    snapshot, named = run.snapshot, run.scheduler_victims
    terminating = _recently_terminating(snapshot, recent_deletions)
    rows = np.flatnonzero(snapshot.pod_table.terminating[: len(terminating)])
    terminating[[row for row in rows.tolist() if is_assumed_terminating(snapshot.pods[row])]] = True
    if named is None or not terminating.any():
        return None
    unnamed = terminating[run.pods] & (run.pods >= 0) & ~named
    differs = ~run.makes_room | (run.victims & ~named).any(axis=0)
    unnamed[:, ~(differs & _was_sent(run, sent))] = False
    return mask_of(run.pods[unnamed], len(terminating)) if unnamed.any() else None


def no_eviction_needed(
    filter_run: FilterRun, run: DryRun, sent: ResolvedCandidates, scheduler_decides: BoolArray
) -> str | None:
    """Return why no eviction is needed; None: one is."""
    context, names = filter_run.context, run.snapshot.node_names
    recent = context.history.recent_deletions
    for row in run.rows[_without_victims(run, sent)].tolist():
        return f"on node {names[row]} the victims of kube-scheduler are terminating or gone"
    fits = (filter_run.codes == Code.SUCCESS) & ~scheduler_decides
    changed = [run.snapshot.node_row[node] for node in set(recent.values()) if node in run.snapshot.node_row]
    for row in sent.rows[fits[sent.rows] & mask_of(np.array(changed, np.int64), len(fits))[sent.rows]].tolist():
        return f"the pod fits on node {names[row]} now"
    nominated = run.snapshot.node_row.get(nominated_node(run.snapshot, context.pod))
    if nominated is None or nominated not in changed:
        return None
    if fits[nominated]:
        return f"the pod fits on its nominated node {names[nominated]} now"
    # PodEligibleToPreemptOthers, as kube-scheduler will find it when it has seen the deletions.
    waits = filter_run.codes[nominated] == Code.UNSCHEDULABLE and any(
        pod.metadata.uid in recent and pod.priority < context.pod.priority and is_terminating_by_preemption(pod)
        for pod in run.snapshot.pods_on(names[nominated])
    )
    return TERMINATING_POD_ON_NOMINATED_NODE if waits else None


def _recently_terminating(snapshot: Snapshot, recent_deletions: Mapping[str, str]) -> BoolArray:
    rows = [row for uid in recent_deletions if (row := snapshot.pod_table.row_of.get(uid)) is not None]
    size = len(snapshot.pod_node)
    return mask_of(np.array(rows, np.int64), size) & snapshot.pod_table.terminating[:size]


def _was_sent(run: DryRun, sent: ResolvedCandidates) -> BoolArray:
    """Return [place]: whether kube-scheduler sent the node."""
    return mask_of(sent.rows, len(run.snapshot.nodes))[run.rows]


def _without_victims(run: DryRun, sent: ResolvedCandidates) -> IntArray:
    """Return the places of sent nodes where all victims are terminating or gone."""
    deleted = mask_of(
        np.array([run.snapshot.node_row[name] for name in sent.deleted], np.int64), len(run.snapshot.nodes)
    )
    had_victims = deleted[run.rows] | run.victims.any(axis=0)
    fits = (run.emptied.codes == Code.SUCCESS) & had_victims & ~run.evicted.any(axis=0)
    return np.flatnonzero(fits & _was_sent(run, sent))
