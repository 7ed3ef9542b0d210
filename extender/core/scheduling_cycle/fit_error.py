"""Compose kube-scheduler's message for a pod that fits on no node: `0/5 nodes are available: 3 Insufficient cpu, ….`

Rule: messages only. Mirrors framework.FitError, RunPostFilterPlugins and the plugins that it runs (v1.37).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from extender.core.framework.filter import FilterRun, Statuses, evaluate_constraints, left_out_by_prefilter
from extender.core.framework.plugins import dynamic_resources
from extender.core.framework.status import NO_VICTIMS_FOUND, SUCCESS, Code, Status, cut_message
from extender.core.preemption.dry_run import DryRun
from extender.core.profile import DYNAMIC_RESOURCES
from extender.core.scheduling_cycle.result import CyclePostFilter, RejectedNodes
from extender.core.snapshot.arrays import BoolArray
from extender.k8s.kinds import Key, key_of
from extender.k8s.version.features import Features

NO_NODES = "no nodes available to schedule pods"
"""Complete message for a cluster without nodes (ErrNoNodesAvailable)."""

NOT_HELPFUL = "Preemption is not helpful for scheduling"
"""Preemption status of every node on which no eviction would help."""

PLUGIN_DISABLED = "plugin disabled"
"""PostFilter status of DynamicResources without its feature gate."""

PREEMPTION = "preemption: "
"""How the reasons of DefaultPreemption's PostFilter begin."""

CYCLE_STATE_NOT_FOUND = "not found"
"""PostFilter error of DynamicResources if its PreFilter, which writes the CycleState, did not run."""

NO_CANDIDATE = "no candidate node for preemption"
"""Preemption status when the extenders left no candidate."""


def dynamic_resources_post_filter(filter_run: FilterRun) -> tuple[CyclePostFilter, Key | None]:
    """Return (PostFilter status of DynamicResources, claim that it deallocates or deletes, if any)."""
    context, name = filter_run.context, DYNAMIC_RESOURCES
    if not context.features.dynamic_resource_allocation:
        return CyclePostFilter(code="Unschedulable", reasons=[PLUGIN_DISABLED]), None
    plugins, rejection = context.profile.prefilter_plugins, filter_run.prefilter_status
    if rejection is not None and rejection.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        # The plugins after the rejecting plugin did not run.
        plugins = plugins[: plugins.index(rejection.plugin) + 1] if rejection.plugin in plugins else ()
    if name not in plugins:
        return CyclePostFilter(code="Error", reasons=[CYCLE_STATE_NOT_FOUND]), None
    reason, claim = dynamic_resources.post_filter(context, rejected_by(filter_run, name))
    is_told = claim is not None or not context.features.claim_post_filter_tells_changes_only
    status = CyclePostFilter(code="Unschedulable", reasons=[reason] if is_told else [])
    return status, None if claim is None else key_of("ResourceClaim", claim)


def rejected_by(filter_run: FilterRun, plugin: str) -> BoolArray:
    """Return [node]: whether `plugin` rejected it."""
    checks = np.array([one.plugin == plugin for one in filter_run.checks] + [False], np.bool_)
    return checks[filter_run.rejected_by // 2]


def preemption_failed(reason: str, code: str = "Unschedulable") -> CyclePostFilter:
    """Build DefaultPreemption's status for a pod that cannot or may not preempt."""
    return CyclePostFilter(code=code, reasons=[f"{PREEMPTION}{reason}"])


def preemption_succeeded(node: str, victims: int, features: Features) -> CyclePostFilter:
    """Build DefaultPreemption's status for a pod that is nominated to the node."""
    # Upstream writes "1 victims", too.
    placement = f"{PREEMPTION}found a potential placement for pod on node {node}, preempting {victims} victims"
    return CyclePostFilter(code="Success", reasons=[placement] if features.post_filter_tells_placement else [])


def fit_error(nodes: int, reasons: Mapping[str, int], prefilter: str = "", post_filter: str = "") -> str:
    """Build the message from PreFilter's message, or else the number of nodes per reason, and PostFilter's message."""
    first = prefilter or ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    parts = [f"0/{nodes} nodes are available:", f"{first}." if first else "", post_filter]
    return " ".join(filter(None, parts))


def rejected_nodes(filter_run: FilterRun) -> list[RejectedNodes]:
    """Return the statuses with which the filters reject nodes, and the number of nodes of each."""
    rejection = filter_run.prefilter_status
    statuses: Iterable[tuple[Status, int | None]] = (
        _filter_statuses(filter_run) if rejection is None else [(rejection, None)]
    )
    return [
        RejectedNodes(code=one.code.text, plugin=one.plugin, reasons=list(one.reasons), nodes=nodes)
        for one, nodes in statuses
    ]


def fit_error_message(nodes: int, rejected: Iterable[RejectedNodes], post_filter: CyclePostFilter) -> str:
    """Build the message for a pod that the filters rejected on all of these nodes."""
    reasons = Counter[str]()
    for one in rejected:
        if one.nodes is None:
            return fit_error(nodes, {}, cut_message(", ".join(one.reasons)), post_filter.message)
        for reason in one.reasons:
            reasons[reason] += one.nodes
    return fit_error(nodes, reasons, post_filter=post_filter.message)


def no_candidates_message(run: DryRun) -> str:
    """Build the preemption message for a dry run without candidates.

    Nodes without a dry run count as NOT_HELPFUL: preemption runs only on nodes with status Unschedulable.
    """
    nodes = len(run.snapshot.nodes)
    without_victims = ~run.potential.evictable.mask.any(axis=0)
    reasons = _count_reasons(_counts(run.emptied.statuses(np.flatnonzero(~without_victims))))
    reasons.update(dict.fromkeys(NO_VICTIMS_FOUND.reasons, int(np.count_nonzero(without_victims))))
    reasons[NOT_HELPFUL] += nodes - len(run.rows)
    return fit_error(nodes, +reasons)


def unschedulable_plugins(filter_run: FilterRun) -> frozenset[str]:
    """Return the plugins that rejected a node (Diagnosis.UnschedulablePlugins); their events requeue the pod."""
    if filter_run.prefilter_status is not None:
        return frozenset({filter_run.prefilter_status.plugin})
    places = np.flatnonzero(np.bincount(filter_run.rejected_by[filter_run.rejected_by >= 0] // 2))
    rejecting = {filter_run.checks[place].plugin for place in places.tolist()} - {""}
    return _plugins_before_filters(filter_run, _nominated_status(filter_run)) | rejecting


def _plugins_before_filters(filter_run: FilterRun, nominated: Status | None) -> frozenset[str]:
    """Return the plugins that reject the pod before all nodes are filtered: in PreFilter, or on the nominated node."""
    if filter_run.prefilter_node_names is None:
        return frozenset()
    rejected = frozenset[str]() if nominated is None or nominated == SUCCESS else frozenset({nominated.plugin})
    return rejected | filter_run.prefilter_plugins


def _nominated_status(filter_run: FilterRun) -> Status | None:
    """Return the status of the nominated node, which is filtered first, even if a PreFilterResult leaves it out.

    None if the node does not exist (evaluateNominatedNode).
    """
    context = filter_run.context
    row = context.snapshot.node_row.get(context.pod.status.nominated_node_name)
    if row is None or filter_run.prefilter_node_names is None:
        return None if row is None else filter_run.status(row)
    return evaluate_constraints(filter_run.checks[1:], len(filter_run.codes)).status(row)


def _filter_statuses(filter_run: FilterRun) -> Iterator[tuple[Status, int]]:
    """Yield the statuses that reject nodes, with the number of nodes."""
    snapshot, pod = filter_run.context.snapshot, filter_run.context.pod
    rows = np.concatenate([filter_run.rows(code) for code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)])
    nominated = _nominated_status(filter_run)
    if nominated is None:
        yield from _counts(filter_run.statuses(rows))
        return
    # Filtering the nominated node adds the plugin that rejected it to the one map UnschedulablePlugins. The status of
    # the nodes that the PreFilterResult leaves out is composed afterwards, and names all plugins in that map.
    features = filter_run.context.features
    plain = left_out_by_prefilter(filter_run.prefilter_plugins, features)
    left_out = left_out_by_prefilter(_plugins_before_filters(filter_run, nominated), features)
    others = _counts(filter_run.statuses(rows[rows != snapshot.node_row[pod.status.nominated_node_name]]))
    for one, count in (*others, (nominated, 1)):
        yield left_out if one == plain else one, count


def _counts(statuses: Statuses) -> Iterator[tuple[Status, int]]:
    """Yield each distinct status with its number of nodes."""
    return zip(statuses.distinct, np.bincount(statuses.indices).tolist(), strict=True)


def _count_reasons(statuses: Iterable[tuple[Status, int]]) -> Counter[str]:
    """Return reason -> number of nodes with it."""
    found: Counter[str] = Counter()
    for status, count in statuses:
        for reason in status.reasons:
            found[reason] += count
    return found
