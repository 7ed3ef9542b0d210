"""Compose kube-scheduler's message for a pod that fits on no node: `0/5 nodes are available: 3 Insufficient cpu, ….`

Rule: messages only. Mirrors framework.FitError, RunPostFilterPlugins and the plugins that it runs (v1.36).
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from extender.core.framework.filter import FilterResults, FilterRun, evaluate_constraints
from extender.core.framework.status import NO_VICTIMS_FOUND, Code, Status
from extender.core.preemption.dry_run import DryRun
from extender.core.simulator.result import CyclePostFilter

NO_NODES = "no nodes available to schedule pods"
"""Complete message for a cluster without nodes (ErrNoNodesAvailable)."""

NOT_HELPFUL = "Preemption is not helpful for scheduling"
"""Preemption status of every node on which no eviction would help."""

NO_NEW_CLAIMS = "no new claims to deallocate"
"""PostFilter status of DynamicResources for a pod without claims; it runs before DefaultPreemption."""

CYCLE_STATE_NOT_FOUND = "not found"
"""Error of its PostFilter if an earlier plugin rejected the pod at PreFilter: its CycleState was never written."""

NO_CANDIDATE = "no candidate node for preemption"
"""Preemption status when the extenders left no candidate."""


POST_FILTER_ERROR = CyclePostFilter(code="Error", reasons=[CYCLE_STATE_NOT_FOUND])
"""Status after an unresolvable rejection at PreFilter: preemption is not tried."""

POST_FILTER_SUCCESS = CyclePostFilter(code="Success", reasons=[])
"""Status of a pod that was nominated to a node."""


def preemption_failed(reason: str) -> CyclePostFilter:
    """Build the status of a pod that no eviction helps, or for which none is allowed."""
    return CyclePostFilter(code="Unschedulable", reasons=[NO_NEW_CLAIMS, f"preemption: {reason}"])


def fit_error(nodes: int, reasons: Mapping[str, int], prefilter: str = "", post_filter: str = "") -> str:
    """Build the message: that of PreFilter, or else the number of nodes per reason; then that of PostFilter."""
    first = prefilter or ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    parts = [f"0/{nodes} nodes are available:", f"{first}." if first else "", post_filter]
    return " ".join(filter(None, parts))


def fit_error_message(filter_run: FilterRun, post_filter: CyclePostFilter) -> str:
    """Build the message for a pod that the filters rejected on every node."""
    nodes, rejection = len(filter_run.context.snapshot.nodes), filter_run.prefilter_status
    if rejection is not None:
        return fit_error(nodes, {}, rejection.message, post_filter.message)
    return fit_error(nodes, _filter_reasons(filter_run), post_filter=post_filter.message)


def no_candidates_message(run: DryRun) -> str:
    """Build the preemption message for a dry run without a candidate.

    Nodes without a dry run are counted as NOT_HELPFUL: preemption runs only on nodes with status Unschedulable.
    """
    nodes = len(run.snapshot.nodes)
    without_victims = ~run.potential.evictable.mask.any(axis=0)
    reasons = _count_reasons(run.emptied.statuses(np.flatnonzero(~without_victims)).to_list())
    reasons.update(dict.fromkeys(NO_VICTIMS_FOUND.reasons, int(np.count_nonzero(without_victims))))
    reasons[NOT_HELPFUL] += nodes - len(run.rows)
    return fit_error(nodes, +reasons)


def unschedulable_plugins(filter_run: FilterRun) -> frozenset[str]:
    """Return the plugins that rejected a node (Diagnosis.UnschedulablePlugins); their events requeue the pod."""
    if filter_run.prefilter_status is not None:
        return frozenset({filter_run.prefilter_status.plugin})
    results = _without_prefilter(filter_run)
    prefilter_plugins = frozenset[str]() if filter_run.prefilter_node_names is None else frozenset({"NodeAffinity"})
    places = np.unique(results.rejected_by[results.rejected_by >= 0] // 2)
    return prefilter_plugins | {results.checks[place].plugin for place in places.tolist()}


def _without_prefilter(filter_run: FilterRun) -> FilterResults:
    """Return the results of the Filter plugins, on nodes that the PreFilterResult leaves out as well."""
    if filter_run.prefilter_node_names is None:
        return filter_run
    return evaluate_constraints(filter_run.checks[1:], len(filter_run.codes))


def _filter_reasons(filter_run: FilterRun) -> Counter[str]:
    context, codes = filter_run.context, (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    rows = np.concatenate([filter_run.rows(code) for code in codes])
    nominated = context.snapshot.node_row.get(context.pod.status.nominated_node_name)
    if nominated is None:
        return _count_reasons(filter_run.statuses(rows).to_list())
    # The nominated node is filtered first, even where PreFilterResult leaves it out (evaluateNominatedNode).
    statuses = filter_run.statuses(rows[rows != nominated]).to_list()
    return _count_reasons([*statuses, _without_prefilter(filter_run).status(nominated)])


def _count_reasons(statuses: Iterable[Status]) -> Counter[str]:
    """Return reason -> number of nodes that have it; statuses are counted first, because many nodes share one."""
    found: Counter[str] = Counter()
    for status, count in Counter(statuses).items():
        for reason in status.reasons:
            found[reason] += count
    return found
