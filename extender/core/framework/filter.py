"""Run the filter plugins: which nodes fit, which plugin rejects each other node, and whether eviction may help.

Mirrors schedule_one findNodesThatFitPod and the framework runtime's RunPreFilterPlugins, RunFilterPlugins and
RunFilterPluginsWithNominatedPods (v1.36).

Rule: all nodes are evaluated at once, plugins in the profile's order; the first to reject a node sets its status.
"""

import weakref
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.filter_checks import Check, Constraint, EvictablePods, StaticCheck
from extender.core.framework.plugins import (
    FILTERS,
    NODES_NOT_EVALUATED,
    PREFILTERS,
    WITHOUT_PREFILTER,
    dynamic_resources,
    is_switched_off,
    plugins_missing_permissions,
    volume_restrictions,
)
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import SUCCESS, Code, CodeArray, Status, filter_error
from extender.core.profile import Profile
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows, mask_of, select_columns
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import UnknownNode
from extender.k8s.objects import Pod
from extender.k8s.version.features import Features

CheckT = TypeVar("CheckT", bound=Check)

_CODE_LIMIT = max(Code) + 1
"""Every Code is less than this number."""


def left_out_by_prefilter(plugins: Iterable[str], features: Features) -> Status:
    """Return the status of a node that the PreFilterResults of these plugins leave out (findNodesThatFitPod, v1.36)."""
    if not features.left_out_nodes_are_unresolvable:  # up to v1.31 such a node has no status, hence no reason
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "", (reason,))


@dataclass(frozen=True, slots=True)
class Statuses:
    """Statuses of the given nodes; nodes with the same code and reasons share one Status object."""

    distinct: tuple[Status, ...]
    indices: IntArray
    """[row]: index into `distinct`."""

    def status(self, row: int) -> Status:
        """Return the status at index `row` of `indices`."""
        return self.distinct[int(self.indices[row])]

    @property
    def codes(self) -> CodeArray:
        """[row]: Code of each node."""
        codes: CodeArray = np.array([status.code for status in self.distinct], np.uint8)[self.indices]
        return codes

    def to_list(self) -> list[Status]:
        """Return [row]: the status of each node."""
        return [self.distinct[index] for index in self.indices.tolist()]

    def accepted(self, rows: BoolArray, reason: str) -> "Statuses":
        """Return the statuses, replaced by Success with the given reason where `rows` [row] is true."""
        if not rows.any():
            return self
        indices = np.where(rows, len(self.distinct), self.indices)
        return Statuses((*self.distinct, Status(Code.SUCCESS, "", (reason,))), indices)


@dataclass(frozen=True, slots=True)
class FilterResults:
    """Results of the checks on the given nodes."""

    checks: Sequence[Check]
    headrooms: tuple[Sequence[IntArray], Sequence[IntArray]]
    """Headroom [column, node] of each check: first with the nominated pods added, then without them."""
    codes: CodeArray
    """[node]: Code of each node."""
    rejected_by: IntArray
    """[node]: 2 * index of the first check that rejects it, + 1 in the pass without nominated pods; -1 if none."""
    _of_all: list[Statuses] = field(default_factory=list, repr=False, compare=False, kw_only=True)
    """Cached statuses of all nodes: empty, or one entry."""

    def rows(self, code: Code) -> NodeRows:
        """Return the rows of the nodes with this code."""
        return np.flatnonzero(self.codes == code)

    def only_check(self, kind: type[CheckT]) -> tuple[CheckT, IntArray] | None:
        """Return the only check of this class, with its headroom beside the nominated pods; None without one."""
        found = ((one, self.headrooms[0][index]) for index, one in enumerate(self.checks) if isinstance(one, kind))
        return next(found, None)

    def status(self, row: int) -> Status:
        """Return the status of node `row`, with reasons."""
        if self.rejected_by[row] < 0:
            return SUCCESS
        index, filter_pass = divmod(int(self.rejected_by[row]), 2)
        check, headroom = self.checks[index], self.headrooms[filter_pass][index]
        return Status(Code(self.codes[row]), check.plugin, check.reasons(headroom, row))

    def error(self, rows: NodeRows | None = None) -> str | None:
        """Return the first error on `rows` (None: all nodes), which ends the scheduling cycle; None without errors."""
        failed = np.flatnonzero(self.codes == Code.ERROR) if rows is None else rows[self.codes[rows] == Code.ERROR]
        return self.status(int(failed[0])).message if len(failed) else None

    def statuses(self, rows: NodeRows) -> Statuses:
        """Return the statuses of the nodes `rows`; each distinct status is built once."""
        if len(rows) < len(self.codes):
            return self._statuses(rows)
        if not self._of_all:  # cached: explanations request all nodes repeatedly
            self._of_all.append(self._statuses(np.arange(len(self.codes))))
        return Statuses(self._of_all[0].distinct, self._of_all[0].indices[rows])

    def _statuses(self, rows: NodeRows) -> Statuses:
        if not len(rows):
            return Statuses((), rows)
        # Two nodes share a status if their keys are equal: (rejected_by, reason key, code) as one number.
        keys, key_limit = self.rejected_by[rows], 2 * len(self.checks) + 1
        for rejected_by in np.flatnonzero(np.bincount(keys + 1)[1:]).tolist():
            (index, filter_pass), own = divmod(rejected_by, 2), keys == rejected_by
            check = self.checks[index]
            if isinstance(check, Constraint) or check.reason_of is not None:
                keys[own] += key_limit * check.reason_keys(self.headrooms[filter_pass][index], rows[own])
        keys = (keys + 1) * _CODE_LIMIT + self.codes[rows]
        small_keys = keys.astype(np.min_scalar_type(keys.max()))  # numpy radix-sorts 8- and 16-bit integers
        _, first, indices = np.unique(small_keys, return_index=True, return_inverse=True)
        return Statuses(tuple(self.status(row) for row in rows[first].tolist()), indices)


@dataclass(frozen=True, slots=True)
class FilterRun(FilterResults):
    """PreFilter and Filter results of the whole cluster for one pod; PreFilter's rejections are the first check."""

    context: SchedulingContext
    prefilter_node_names: frozenset[str] | None = None
    """Node names of the merged PreFilterResult, including names that no node has; None for all nodes."""
    prefilter_plugins: frozenset[str] = frozenset()
    """Plugins whose PreFilterResult names nodes."""
    prefilter_status: Status | None = None
    """Rejection by a PreFilter plugin: the pod fits on no node, and no filter ran."""


def evaluate_constraints(checks: Sequence[Check], size: int, evicted: EvictablePods | None = None) -> FilterResults:
    """Evaluate the checks in order on `size` nodes, without the `evicted` pods.

    Counterpart of RunFilterPluginsWithNominatedPods: a node fits if it fits both with the nominated pods added and
    without them.
    """
    # 1. The headroom without the evicted pods; then also minus the demand of the nominated pods.
    headrooms = [
        check.headroom if evicted is None or isinstance(check, StaticCheck) else check.remove_pods(evicted)
        for check in checks
    ]
    beside_nominated = [
        headroom if check.nominated_demand is None else headroom - check.nominated_demand
        for check, headroom in zip(checks, headrooms, strict=True)
    ]
    # 2. One pass with the nominated pods, one without them: a nominated pod may never run, so required pod
    #    affinity to it must not make the node fit.
    has_nominated = any(check.nominated_demand is not None for check in checks)
    codes, rejected_by = np.zeros(size, np.uint8), np.full(size, -1, np.int64)
    for filter_pass, pass_headrooms in enumerate((beside_nominated, headrooms) if has_nominated else (headrooms,)):
        for index, (check, headroom) in enumerate(zip(checks, pass_headrooms, strict=True)):
            check_codes = check.codes(headroom)
            newly_rejected = (codes == 0) & (check_codes != 0)
            codes[newly_rejected] = check_codes[newly_rejected]
            rejected_by[newly_rejected] = 2 * index + filter_pass
    return FilterResults(checks, (beside_nominated, headrooms), codes, rejected_by)


def scheduling_context(
    snapshot: Snapshot, pod: Pod, profile: Profile, history: EvictionHistory = NO_HISTORY
) -> SchedulingContext:
    """Return the context of the incoming pod, with the nominated pods that it must yield to.

    These have equal or higher priority and one of the schedulerNames of this kube-scheduler: its queue and nominator
    hold no other pods.
    """
    schedulers = profile.scheduler_names or {pod.spec.scheduler_name}
    counts_any = snapshot.features.nominations_count_before_pre_enqueue
    nominees = tuple(
        nominee
        for nominee in snapshot.nominees
        if nominee.priority >= pod.priority
        and nominee.metadata.uid != pod.metadata.uid
        and nominee.spec.scheduler_name in schedulers
        # Up to v1.36 the nominator holds no pods that PreEnqueue keeps out of the queue.
        and (counts_any or _is_queued(snapshot, nominee, profile))
    )
    return SchedulingContext(pod, snapshot, profile, nominees, history)


def _is_queued(snapshot: Snapshot, nominee: Pod, profile: Profile) -> bool:
    """Return whether the pod is queued: neither scheduling gates nor unusable claims keep it out."""
    spec = nominee.spec
    if spec.scheduling_gates and spec.scheduler_name not in profile.ungated_scheduler_names:
        return False
    has_claims = spec.resource_claims and dynamic_resources.NAME in profile.pre_enqueue_plugins
    return not has_claims or dynamic_resources.pre_enqueue(snapshot, nominee) is None


def run_filter_plugins(context: SchedulingContext) -> FilterRun:
    """Run the profile's PreFilter and Filter plugins for every node of the snapshot, in the profile's order.

    Plugins without permission to read their objects are skipped; see `filters_not_evaluated`.
    """
    names, skipped = context.snapshot.node_names, plugins_missing_permissions(context, "filter")
    # 1. PreFilter: a rejection ends the cycle, and is then the only check.
    left, restricting, rejection = _run_prefilter_plugins(context, skipped)
    checks: list[Check] = []
    if rejection is not None:
        checks = [StaticCheck.on_all_nodes(context, rejection)]
    else:
        # 2. Nodes that PreFilter leaves out are not filtered.
        if left is not None:
            left_out = np.fromiter((name not in left for name in names), np.bool_, len(names))
            checks = [StaticCheck.of(left_out_by_prefilter(restricting, context.features), left_out)]
        # 3. Filter.
        enabled = (name for name in context.profile.filter_plugins if name not in skipped)
        checks += [check for name in enabled for check in filter_checks(context, name)]
    results = evaluate_constraints(checks, len(names))
    return FilterRun(
        checks, results.headrooms, results.codes, results.rejected_by, context, left, restricting, rejection
    )


def _run_prefilter_plugins(
    context: SchedulingContext, skipped: Container[str]
) -> tuple[frozenset[str] | None, frozenset[str], Status | None]:
    """Return the names of the remaining nodes (None: all), the plugins that name nodes, and the rejection, if any."""
    left, restricting = None, list[str]()
    for name in context.profile.prefilter_plugins:
        if name in skipped or name not in PREFILTERS:
            continue
        result = PREFILTERS[name](context)
        if result.status is not None:
            return None, frozenset(), result.status
        if result.node_names is not None:
            # PreFilterResult.Merge: the intersection of the node names; None stands for all nodes.
            left = result.node_names if left is None else left & result.node_names
            restricting.append(name)
            if not left:
                # The texts of RunPreFilterPlugins (v1.31); the code is UnschedulableAndUnresolvable since v1.30.
                named = " ".join(sorted(restricting))
                unmet = f"plugin(s) [{named}] simultaneously" if len(restricting) > 1 else f"plugin {named}"
                is_final = context.features.disjoint_prefilters_are_unresolvable
                code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if is_final else Code.UNSCHEDULABLE
                return None, frozenset(), Status(code, "", (f"node(s) didn't satisfy {unmet}",))
    return left, frozenset(restricting), None


def filter_checks(context: SchedulingContext, name: str) -> Sequence[Check]:
    """Return the checks of a filter plugin, which fails on all nodes if it lacks the state of its PreFilter."""
    if is_switched_off(name, context.features):
        return ()
    if name in WITHOUT_PREFILTER and name not in context.profile.prefilter_plugins:
        failing = StaticCheck.on_all_nodes(context, filter_error(name, WITHOUT_PREFILTER[name]))
        # VolumeRestrictions looks at disks before it reads its PreFilter state.
        return (*volume_restrictions.disk_checks(context), failing) if name == volume_restrictions.NAME else (failing,)
    return FILTERS[name](context) if name in FILTERS else ()


def last_filter_run(context: SchedulingContext) -> FilterRun:
    """Run the filter plugins, or return the last run if it was for the same pod: /prioritize follows /filter."""
    # The eviction history may differ: filter plugins read only its time, and only if a claim waits for devices.
    last, timed_out = _last_filter_run(context.snapshot), dynamic_resources.timed_out_claims(context)
    known = last[0][1] if last and last[0][0] == timed_out else None
    if known is None or known.context.profile is not context.profile or known.context.pod != context.pod:
        known = without_snapshot(run_filter_plugins(context))
        last[:] = [(timed_out, known)]
    return replace(known, context=context)


def without_snapshot(run: FilterRun) -> FilterRun:
    """Return the run for its snapshot to cache: with a weak reference back, which does not keep the snapshot alive."""
    context = run.context
    return replace(run, context=replace(context, snapshot=weakref.proxy(context.snapshot), history=NO_HISTORY))


@derived("any")
def _last_filter_run(_snapshot: Snapshot) -> list[tuple[tuple[bool, ...], FilterRun]]:
    """Return the last run with its `timed_out_claims`: empty, or one entry."""
    return []


def fits_without_terminating_pods(filter_run: FilterRun, rows: NodeRows) -> BoolArray:
    """Return [node]: whether it is one of `rows` and rejects the pod, but would fit without its terminating pods.

    Pods approved for eviction count as terminating.
    """
    # kube-scheduler offers an extender only nodes that passed its own filters, which count terminating pods, too: they
    # stay in NodeInfo until removed. So if it offers the node, its cache is newer and no longer has these pods.
    fits: BoolArray = mask_of(rows, len(filter_run.codes)) & (filter_run.codes != Code.SUCCESS)
    if not fits.any():
        return fits
    snapshot = filter_run.context.snapshot
    nodes = snapshot.pod_node[snapshot.pod_table.terminating[: len(snapshot.pod_node)]]
    fits &= mask_of(nodes[nodes >= 0], len(fits))
    tried = np.flatnonzero(fits)
    if len(tried):
        pods = select_columns(filter_run.context.layout.pod, tried)
        evicted = EvictablePods(snapshot.pod_table.terminating[pods] & (pods >= 0))
        for check in filter_run.checks:
            # Topology spread does not count terminating pods in the first place.
            without = None if check.plugin == "PodTopologySpread" else evicted
            fits[tried] &= evaluate_constraints([check.take(tried)], len(tried), without).codes == Code.SUCCESS
    return fits


def node_rows(snapshot: Snapshot, names: Sequence[str]) -> NodeRows:
    """Return the rows of the named nodes; raises UnknownNode if a node is not in the snapshot."""
    # kube-scheduler sends the same names in its next call for the pod, which reuses the last rows.
    last = _last_rows(snapshot)
    if not last or last[0][0] != names:
        try:
            rows = np.fromiter(map(_row_of(snapshot).__getitem__, names), np.int64, len(names))
        except KeyError:
            unknown = sum(name not in snapshot.node_row for name in names)
            raise UnknownNode(f"{unknown} of {len(names)} nodes are not in the cluster cache") from None
        last[:] = [(list(names), rows)]
    return last[0][1]


@derived("nodes")
def _row_of(snapshot: Snapshot) -> dict[str, int]:
    """Return a copy of `Snapshot.node_row` whose names lie side by side in memory, which makes lookups faster."""
    names = snapshot.node_names
    return {(name + " ")[:-1]: row for row, name in enumerate(names)}


@derived("nodes")
def _last_rows(_snapshot: Snapshot) -> list[tuple[list[str], NodeRows]]:
    """Return the last names and their rows: empty, or one entry."""
    return []


def filters_not_evaluated(context: SchedulingContext) -> Mapping[str, BoolArray]:
    """Return filter plugin -> [node]: whether kube-scheduler evaluates it there and this extender does not."""
    profile, size = context.profile, len(context.snapshot.nodes)
    enabled = {*profile.prefilter_plugins, *profile.filter_plugins}
    # 1. Plugins with an unsupported feature, on the nodes where the pod needs it.
    masks = {
        name: nodes_of(context)
        for name, nodes_of in NODES_NOT_EVALUATED.items()
        if name in enabled and not is_switched_off(name, context.features)
    }
    # 2. On all nodes: plugins without permission to read their objects, out-of-tree plugins, and
    #    GangScheduling for a pod of a PodGroup.
    skipped = {
        *(plugins_missing_permissions(context, "filter").keys() & enabled),
        *profile.not_evaluated_filters,
    } - masks.keys()
    if context.features.groups_are_evicted_whole and context.pod.spec.scheduling_group is not None:
        skipped.add("GangScheduling")
    return masks | {name: np.ones(size, np.bool_) for name in sorted(skipped)} if skipped else masks
