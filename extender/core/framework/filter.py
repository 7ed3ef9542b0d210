"""Run the filter plugins: which nodes fit, and for the others, which plugin rejects and whether eviction may help.

Mirrors schedule_one findNodesThatFitPod and the framework runtime's RunPreFilterPlugins, RunFilterPlugins and
RunFilterPluginsWithNominatedPods (v1.36): filters run twice, first with the nominated pods of equal or higher priority
added to their nodes, then, where that pass succeeds, without them. The first plugin that rejects sets the status.

Rule: all nodes are evaluated in one pass; plugins are evaluated in kube-scheduler's order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import Check, CodeArray, Constraint, NodeRows, SchedulingContext
from extender.core.framework.plugins import FILTERS, PREFILTERS, UNEVALUATED_FILTERS
from extender.core.framework.plugins.missing_permissions import plugins_missing_permissions
from extender.core.framework.status import SUCCESS, Code, Status
from extender.core.profile import Profile
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod

_CODE_LIMIT = max(Code) + 1
"""Every Code is less than this number."""

# NodeAffinity is the only evaluated plugin whose PreFilterResult names nodes, hence the literal plugin list.
FILTERED_OUT_BY_PREFILTER = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)
)
"""Status of a node that a PreFilterResult leaves out (schedule_one findNodesThatFitPod, v1.36)."""


@dataclass(frozen=True, slots=True)
class Statuses:
    """Statuses of some nodes; nodes with the same code and reasons share one Status object."""

    distinct: tuple[Status, ...]
    indices: IntArray
    """[row]: index into `distinct`."""

    def status(self, row: int) -> Status:
        """Return the status of one node; `row` counts the nodes of this object."""
        return self.distinct[int(self.indices[row])]

    def to_list(self) -> list[Status]:
        """Return [row]: the status of each node."""
        return [self.distinct[index] for index in self.indices.tolist()]


@dataclass(frozen=True, slots=True)
class FilterResults:
    """Results of the checks on some nodes, for a given headroom of every check."""

    checks: Sequence[Check]
    headrooms: tuple[Sequence[IntArray], Sequence[IntArray]]
    """Per check its headroom [column, node]: first with the nominated pods added, then without them."""
    codes: CodeArray
    """[node]: Code of each node."""
    rejected_by: IntArray
    """[node]: 2 * index of the first check that rejects, + 1 in the pass without nominated pods; -1: none."""

    @property
    def fits(self) -> BoolArray:
        """Return [node]: whether every check accepts the node."""
        fits: BoolArray = self.codes == Code.SUCCESS
        return fits

    def status(self, row: int) -> Status:
        """Return the status of one node, with reasons."""
        if self.rejected_by[row] < 0:
            return SUCCESS
        index, filter_pass = divmod(int(self.rejected_by[row]), 2)
        check, headroom = self.checks[index], self.headrooms[filter_pass][index]
        return Status(Code(self.codes[row]), check.plugin, check.reasons(headroom, row))

    def statuses(self, rows: NodeRows) -> list[Status]:
        """Return [row]: the status of each of the nodes, with reasons."""
        return self.distinct_statuses(rows).to_list()

    def distinct_statuses(self, rows: NodeRows) -> Statuses:
        """Return the statuses of the nodes, building each distinct one once."""
        if not len(rows):
            return Statuses((), rows)
        # Two nodes share a status if their keys are equal: (rejected_by, reason key, code) as one number.
        keys, key_limit = self.rejected_by[rows], 2 * len(self.checks) + 1
        for rejected_by in np.flatnonzero(np.bincount(keys + 1)[1:]).tolist():
            (index, filter_pass), own = divmod(rejected_by, 2), keys == rejected_by
            check = self.checks[index]
            if isinstance(check, Constraint):
                keys[own] += key_limit * check.reason_keys(self.headrooms[filter_pass][index], rows[own])
        keys = (keys + 1) * _CODE_LIMIT + self.codes[rows]
        small_keys = keys.astype(np.min_scalar_type(keys.max()))  # numpy radix-sorts 8- and 16-bit integers
        _, first, indices = np.unique(small_keys, return_index=True, return_inverse=True)
        return Statuses(tuple(self.status(row) for row in rows[first].tolist()), indices)


def evaluate_constraints(checks: Sequence[Check], headrooms: Sequence[IntArray], size: int) -> FilterResults:
    """Evaluate the checks in order on `size` nodes.

    `headrooms`: per check its headroom [column, node] beside the running pods, without the nominated pods.
    Counterpart of RunFilterPluginsWithNominatedPods: a node fits if it fits both with the nominated pods added and
    without them. The second pass is needed because a nominated pod may never run, and required pod affinity to it
    must not make the node fit.
    """
    codes = np.zeros(size, np.uint8)
    rejected_by = np.full(size, -1, np.int64)
    beside_nominated = [_beside_nominated(check, headroom) for check, headroom in zip(checks, headrooms, strict=True)]
    has_nominated = any(a is not b for a, b in zip(beside_nominated, headrooms, strict=True))
    passes = (beside_nominated, headrooms) if has_nominated else (headrooms,)
    for filter_pass, pass_headrooms in enumerate(passes):
        for index, (check, headroom) in enumerate(zip(checks, pass_headrooms, strict=True)):
            check_codes = check.codes(headroom)
            newly_rejected = (codes == 0) & (check_codes != 0)
            codes[newly_rejected] = check_codes[newly_rejected]
            rejected_by[newly_rejected] = 2 * index + filter_pass
    return FilterResults(checks, (beside_nominated, headrooms), codes, rejected_by)


def _beside_nominated(check: Check, headroom: IntArray) -> IntArray:
    """Return the headroom [column, node] with the nominated pods added to their nodes."""
    return headroom if check.nominated_demand is None else headroom - check.nominated_demand


@dataclass(frozen=True, slots=True)
class FilterRun:
    """PreFilter and Filter results of the whole cluster for one pod."""

    context: SchedulingContext
    checks: tuple[Check, ...]
    results: FilterResults
    prefilter_mask: BoolArray | None
    """[node]: True if the merged PreFilterResult contains the node; None: it contains all."""
    prefilter_node_names: frozenset[str] | None
    """Node names of the merged PreFilterResult, including names that no node has; None: all nodes."""
    prefilter_status: Status | None
    """Rejection by a PreFilter plugin: the pod fits on no node, and no filter ran."""

    @property
    def codes(self) -> CodeArray:
        """Return [node]: the Code of each node of the snapshot."""
        if self.prefilter_status is not None:
            return np.full(len(self.context.snapshot.nodes), self.prefilter_status.code, np.uint8)
        if self.prefilter_mask is None:
            return self.results.codes
        return np.where(self.prefilter_mask, self.results.codes, np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))

    def status(self, row: int) -> Status:
        """Return the status of one node of the snapshot, with reasons."""
        if self.prefilter_status is not None:
            return self.prefilter_status
        if self.prefilter_mask is not None and not self.prefilter_mask[row]:
            return FILTERED_OUT_BY_PREFILTER
        return self.results.status(row)

    def statuses(self, rows: NodeRows) -> list[Status]:
        """Return [row]: the status of each of the nodes; cheaper than one call of `status` per node."""
        return self.distinct_statuses(rows).to_list()

    def distinct_statuses(self, rows: NodeRows) -> Statuses:
        """Return the statuses of the nodes, building each distinct one once."""
        if self.prefilter_status is not None:
            return Statuses((self.prefilter_status,), np.zeros(len(rows), np.int64))
        found = self.results.distinct_statuses(rows)
        if self.prefilter_mask is None:
            return found
        indices = np.where(self.prefilter_mask[rows], found.indices, len(found.distinct))
        return Statuses((*found.distinct, FILTERED_OUT_BY_PREFILTER), indices)

    def rows(self, code: Code) -> NodeRows:
        """Return the nodes that have this code."""
        return np.flatnonzero(self.codes == code)


def scheduling_context(
    snapshot: Snapshot, pod: Pod, profile: Profile, history: EvictionHistory = NO_HISTORY
) -> SchedulingContext:
    """Return the context of the incoming pod, with the nominated pods that it must yield to.

    These have equal or higher priority, no scheduling gates, and the same spec.schedulerName, because the queue and
    nominator of a kube-scheduler hold no other pods; `Profile.scheduler_names` adds the pods of other schedulers.
    """
    schedulers = profile.scheduler_names or {pod.spec.scheduler_name}
    nominees = tuple(
        nominee
        for nominee in snapshot.nominees
        if nominee.priority >= pod.priority
        and nominee.metadata.uid != pod.metadata.uid
        and not nominee.spec.scheduling_gates
        and nominee.spec.scheduler_name in schedulers
    )
    return SchedulingContext(pod, snapshot, profile, nominees, history)


def run_filter_plugins(context: SchedulingContext) -> FilterRun:
    """Run the enabled PreFilter and Filter plugins for every node of the snapshot.

    Plugins without permission to read their objects are skipped; see `filters_not_evaluated`.
    """
    skipped = plugins_missing_permissions(context, "filter")
    enabled = [name for name in context.profile.filter_plugins if name not in skipped]
    node_names: frozenset[str] | None = None
    for name in (name for name in PREFILTERS if name in enabled):
        result = PREFILTERS[name](context)
        if result.status is not None:
            no_results = evaluate_constraints((), (), len(context.snapshot.nodes))
            return FilterRun(context, (), no_results, None, None, result.status)
        # PreFilterResult.Merge: the intersection of the node names; None stands for all nodes.
        node_names = result.node_names if node_names is None else node_names & (result.node_names or node_names)
    checks = tuple(check for name, build in FILTERS.items() if name in enabled for check in build(context))
    headrooms = [check.headroom for check in checks]
    names = context.snapshot.node_names
    mask = None if node_names is None else np.fromiter((name in node_names for name in names), np.bool_, len(names))
    return FilterRun(context, checks, evaluate_constraints(checks, headrooms, len(names)), mask, node_names, None)


def filters_not_evaluated(context: SchedulingContext) -> Mapping[str, BoolArray]:
    """Return filter plugin -> [node] where kube-scheduler evaluates it and this extender does not.

    These are the plugins that are not implemented (UNEVALUATED_FILTERS) and, on all nodes, the enabled ones that
    lack permission to read the objects that they need.
    """
    all_nodes = np.ones(len(context.snapshot.nodes), np.bool_)
    skipped = plugins_missing_permissions(context, "filter") & set(context.profile.filter_plugins)
    masks = {name: nodes_not_evaluated(context) for name, nodes_not_evaluated in UNEVALUATED_FILTERS.items()}
    return masks | dict.fromkeys(sorted(skipped), all_nodes)
