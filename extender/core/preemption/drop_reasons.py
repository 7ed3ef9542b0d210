"""Render the reason why a node that kube-scheduler sent is not in the answer to `/preempt`.

Rule: messages only; which nodes are dropped is decided elsewhere (`core.engine.preempt`).
"""

from collections.abc import Iterable
from itertools import compress

import numpy as np

from extender.core.framework.constraint import NodeRows
from extender.core.framework.filter import FilterRun
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.protections import is_system_victim, may_change_victims, protection_reasons
from extender.core.preemption.sent_candidates import ResolvedCandidates
from extender.core.snapshot.arrays import mask_of
from extender.k8s.objects import Pod

OUTRANKED = "another node is the better candidate"
NO_VICTIMS_MAKE_ROOM = "no victims would make the pod fit"
FITS_WITHOUT_PREEMPTION = "the pod fits without evicting anyone"
UNREQUESTED_SYSTEM_POD = "a mirror pod, system-critical or terminating already, and not chosen by kube-scheduler"

_MAX_LISTED_PODS = 3
"""Number of protected pods of a node that a message lists."""

_MAX_EXPLAINED_NODES = 100
"""Nodes whose messages list protected pods: the list reads every pod of a node while kube-scheduler waits."""


def reasons_not_tried(filter_run: FilterRun, rows: NodeRows, tried: NodeRows) -> dict[str, str]:
    """Return node -> filter message, for the sent nodes (`rows`) without a dry run (`tried`)."""
    names = filter_run.context.snapshot.node_names
    rows = rows[~mask_of(tried, len(filter_run.codes))[rows]]
    return {
        names[row]: status.message or FITS_WITHOUT_PREEMPTION
        for row, status in zip(rows.tolist(), filter_run.statuses(rows).to_list(), strict=True)
    }


def reasons_not_chosen(run: DryRun, resolved: ResolvedCandidates, kept: Iterable[str]) -> dict[str, str]:
    """Return node -> why it is not among the `kept` nodes, for the sent nodes with a dry run."""
    place_of = np.full(len(run.snapshot.nodes), -1)
    place_of[run.rows] = np.arange(len(run.rows))
    places = place_of[resolved.rows]
    tried = places >= 0
    names, places = list(compress(resolved.nodes, tried.tolist())), places[tried]
    dropped = dict.fromkeys(names, OUTRANKED)
    others = np.flatnonzero(~run.candidate[places])
    explained = _MAX_EXPLAINED_NODES if may_change_victims(run.context.profile.preemption) else 0
    statuses = run.statuses(places[others])
    for number, (nth, status) in enumerate(zip(others.tolist(), statuses, strict=True)):
        name = names[nth]
        dropped[name] = status.message or NO_VICTIMS_MAKE_ROOM
        if number < explained and not run.makes_room[places[nth]]:
            dropped[name] += _protected_pods_message(run, resolved, name)
    for name in kept:
        dropped.pop(name, None)
    return dropped


def _protected_pods_message(run: DryRun, resolved: ResolvedCandidates, node: str) -> str:
    """Return the pods of lower priority that policies protect, each with all reasons; "" if there are none."""
    lower = (pod for pod in run.snapshot.pods_on(node) if pod.priority < run.context.pod.priority)
    protected = [(pod, why) for pod in lower if (why := _reasons_of_pod(run, resolved, pod))]
    listed = [f"{pod.key} is {'; '.join(why)}" for pod, why in protected[:_MAX_LISTED_PODS]]
    more = [f"{len(protected) - _MAX_LISTED_PODS} more"] if len(protected) > _MAX_LISTED_PODS else []
    return f"; not evictable: {', '.join(listed + more)}" if protected else ""


def _reasons_of_pod(run: DryRun, resolved: ResolvedCandidates, pod: Pod) -> tuple[str, ...]:
    found, row = protection_reasons(run.context, pod), run.snapshot.running_row(pod)
    is_scheduler_victim = row is not None and resolved.victims[row]
    return (*found, UNREQUESTED_SYSTEM_POD) if is_system_victim(pod) and not is_scheduler_victim else found
