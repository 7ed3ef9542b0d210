"""PodTopologySpread: limit the skew of matching pods across zones, hosts or other topology domains.

Each hard constraint (DoNotSchedule) is a column: how many more matching pods the node's domain may hold. A dry run
removes pods from one domain only, so the minimum over the *other* domains is known in advance.

Mirrors pkg/scheduler/framework/plugins/podtopologyspread (v1.36).

Rule: a node fits unless matchNum + selfMatchNum - minMatchNum > maxSkew for some hard constraint.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from extender.core.framework.filter_checks import ColumnwiseConstraint
from extender.core.framework.plugins.shared.normalize import MAX_NODE_SCORE
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code, CodeArray, PreFilterResult
from extender.core.snapshot.arrays import (
    MAX_AMOUNT,
    NEVER,
    BoolArray,
    IntArray,
    LabelColumn,
    NodeRows,
    PodAmounts,
    mask_of,
)
from extender.core.snapshot.default_selector import default_selector
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.selector_index import MatchingPods, nodes_matching, pods_matching
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.affinity import PodSelector
from extender.k8s.limits.limits import MAX_HARD_CONSTRAINTS, TOO_MANY_HARD_CONSTRAINTS
from extender.k8s.objects import Pod, TopologySpreadConstraint
from extender.k8s.selectors import (
    HARD_EFFECTS,
    NOTHING,
    LabelMatcher,
    SelectorError,
    compile_label_selector,
    find_untolerated,
    required_node_affinity,
)
from extender.k8s.well_known import HOSTNAME, ZONE

NAME = "PodTopologySpread"
REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = REASON + " (missing required label)"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(3, HOSTNAME, "ScheduleAnyway"),
    TopologySpreadConstraint(5, ZONE, "ScheduleAnyway"),
)
"""Constraints of a pod that has none, unless the profile sets default constraints (systemDefaultConstraints)."""


# --- constraints ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompiledConstraint:
    """A TopologySpreadConstraint with compiled selector and applied defaults."""

    max_skew: int
    topology_key: str
    selector: LabelMatcher
    min_domains: int
    policies: tuple[bool, bool]
    """Whether nodeAffinityPolicy and nodeTaintsPolicy are Honor."""


def _compile(context: SchedulingContext, constraint: TopologySpreadConstraint) -> CompiledConstraint:
    labels, features = context.pod.metadata.labels or {}, context.features
    keys = constraint.match_label_keys if features.match_label_keys_in_pod_topology_spread else None
    own = {key: labels[key] for key in keys or () if key in labels}
    selector = compile_label_selector(constraint.label_selector)
    policies = (constraint.node_affinity_policy in (None, "Honor"), constraint.node_taints_policy == "Honor")
    min_domains = 1 if constraint.min_domains is None else constraint.min_domains
    return CompiledConstraint(
        constraint.max_skew,
        constraint.topology_key,
        selector.with_labels(own) if own else selector,
        # Without the feature gate, any number of domains is enough.
        min_domains if features.min_domains_in_pod_topology_spread else 0,
        policies if features.node_inclusion_policy_in_pod_topology_spread else (True, False),
    )


def _constraints(context: SchedulingContext, action: str) -> tuple[CompiledConstraint, ...]:
    """Return the pod's constraints, or the default ones with the selector of its Services and controller.

    `action`: whenUnsatisfiable. Raises SelectorError if a selector does not parse.
    """
    pod, own = context.pod, context.pod.spec.topology_spread_constraints
    if own:
        return tuple(_compile(context, one) for one in own if one.when_unsatisfiable == action)
    constraints = _default_constraints(context, action)
    selector = default_selector(context.snapshot, pod) if constraints else NOTHING
    return tuple(replace(_compile(context, one), selector=selector) for one in constraints if not selector.is_empty)


def _default_constraints(context: SchedulingContext, action: str) -> list[TopologySpreadConstraint]:
    defaults = context.profile.default_spread_constraints
    return [one for one in (SYSTEM_DEFAULTS if defaults is None else defaults) if one.when_unsatisfiable == action]


def uses_default_selector(context: SchedulingContext, action: str) -> bool:
    """Return whether default constraints apply, so that the result depends on the pod's Services and controller."""
    return not context.pod.spec.topology_spread_constraints and bool(_default_constraints(context, action))


def _matching_pods(context: SchedulingContext, constraint: CompiledConstraint) -> MatchingPods:
    """Return all matching pods of the incoming pod's namespace, including terminating ones."""
    namespaces = frozenset((context.pod.metadata.namespace,))
    return pods_matching(context.snapshot, PodSelector(namespaces, NOTHING, constraint.selector))


def _match_counts(context: SchedulingContext, constraint: CompiledConstraint) -> IntArray:
    """Return [node]: number of matching pods, excluding terminating ones."""
    # Quirk up to v1.37: an empty selector counts no pod (countPodsMatchSelector).
    if constraint.selector.is_empty and not context.features.empty_selectors_match_all:
        return np.zeros(len(context.snapshot.nodes), np.int64)
    return _matching_pods(context, constraint).non_terminating


def _included_nodes(
    context: SchedulingContext, constraints: Sequence[CompiledConstraint]
) -> dict[tuple[bool, bool], BoolArray]:
    """Return (honors affinity, honors taints) -> [node]: whether the node counts under these policies."""
    snapshot, affinity = context.snapshot, required_node_affinity(context.pod)
    tolerations = context.pod.spec.tolerations
    compares = context.features.taint_toleration_comparison_operators
    found = {}
    for honors_affinity, honors_taints in {one.policies for one in constraints}:
        included = np.ones(len(snapshot.nodes), np.bool_)
        if honors_affinity and affinity is not None:
            included &= nodes_matching(snapshot, affinity)
        if honors_taints:
            included &= snapshot.taints.map_bool(
                lambda taints: find_untolerated(taints, tolerations, HARD_EFFECTS, compares=compares) is None
            )
        found[honors_affinity, honors_taints] = included
    return found


def _nodes_with_all_keys(snapshot: Snapshot, constraints: Sequence[CompiledConstraint]) -> BoolArray:
    """Return [node]: whether the node has the topology key of every constraint."""
    with_keys = np.ones(len(snapshot.nodes), np.bool_)
    for key in dict.fromkeys(one.topology_key for one in constraints):
        with_keys &= snapshot.label(key).present
    return with_keys


def _until_missing_key(
    snapshot: Snapshot, constraints: tuple[CompiledConstraint, ...]
) -> tuple[CompiledConstraint, ...]:
    """Return the constraints up to and including the first whose topology key no node has: it rejects every node."""
    keys = snapshot.node_label_keys
    missing = (index for index, one in enumerate(constraints) if one.topology_key not in keys)
    return constraints[: next(missing, len(constraints)) + 1]


# --- filter ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpreadConstraint(ColumnwiseConstraint):
    """One column per hard constraint: how many more matching pods the node's domain may hold beside the incoming pod.

    headroom = maxSkew - selfMatchNum + minMatchNum of the other domains - matchNum; see `_headroom`.
    """

    has_key: BoolArray
    """[column, node]: True if the node has the constraint's topology key."""

    def fits(self, headroom: IntArray) -> BoolArray:
        fits: BoolArray = np.logical_and.reduce((headroom >= 0) & self.has_key, axis=0)
        return fits

    def codes(self, headroom: IntArray) -> CodeArray:
        """Return [node]: Code of the first column that rejects the node; eviction cannot resolve a missing label."""
        codes = np.full(headroom.shape[1], Code.SUCCESS, np.uint8)
        exceeds_skew = headroom < 0
        for column in reversed(range(len(headroom))):  # the first column is applied last and wins
            codes[exceeds_skew[column]] = Code.UNSCHEDULABLE
            codes[~self.has_key[column]] = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return codes

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        code = self.codes(headroom)[row]
        if code == Code.SUCCESS:
            return ()
        return (REASON_NO_LABEL,) if code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE else (REASON,)


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if a hard constraint does not parse, or if the pod has more than MAX_HARD_CONSTRAINTS."""
    try:
        constraints = _constraints(context, "DoNotSchedule")
    except SelectorError as error:
        return PreFilterResult.rejecting(NAME, f"obtaining pod's hard topology spread constraints: {error}")
    # An API server accepts only one per topology key, so pods never have that many.
    if len(_until_missing_key(context.snapshot, constraints)) > MAX_HARD_CONSTRAINTS:
        return PreFilterResult.rejecting(NAME, TOO_MANY_HARD_CONSTRAINTS)
    return PreFilterResult()


def filter(context: SchedulingContext) -> tuple[SpreadConstraint, ...]:
    """Return one constraint with a column per hard constraint, or none for a pod without hard constraints."""
    # 1. Nodes whose pods count.
    constraints, counting = hard_constraints(context)
    if not constraints:
        return ()
    snapshot, namespace = context.snapshot, context.pod.metadata.namespace
    # 2. The headroom of each constraint (calPreFilterState).
    headroom = [_headroom(context, one, nodes) for one, nodes in zip(constraints, counting, strict=True)]
    # 3. The demand of pods (updateWithPod). Quirk: unlike the headroom, it counts terminating pods, and all pods of
    #    the namespace for an empty selector.
    demand = []
    for constraint, nodes in zip(constraints, counting, strict=True):
        pods = _matching_pods(context, constraint)
        counted = nodes[pods.nodes]
        ones = np.ones(np.count_nonzero(counted), np.int64)
        demand.append(PodAmounts(pods.rows[counted], pods.nodes[counted], ones))

    def demand_of(pod: Pod, node: int) -> list[bool]:
        return [
            pod.metadata.namespace == namespace and bool(nodes[node]) and one.selector.matches(pod.metadata.labels)
            for one, nodes in zip(constraints, counting, strict=True)
        ]

    return (
        SpreadConstraint(
            NAME,
            np.stack(headroom),
            RankedDemand(context.layout, tuple(demand)),
            context.nominated_demand(len(constraints), demand_of),
            np.stack([snapshot.label(one.topology_key).present for one in constraints]),
        ),
    )


def hard_constraints(context: SchedulingContext) -> tuple[tuple[CompiledConstraint, ...], list[BoolArray]]:
    """Return the hard constraints, and [node] for each: whether the node's pods count.

    Such nodes have all topology keys, and the constraint's policies include them.
    """
    snapshot, constraints = context.snapshot, _constraints(context, "DoNotSchedule")
    with_keys = _nodes_with_all_keys(snapshot, constraints)
    constraints = _until_missing_key(snapshot, constraints)
    included = _included_nodes(context, constraints)
    return constraints, [with_keys & included[one.policies] for one in constraints]


def matches_per_domain(
    context: SchedulingContext, constraint: CompiledConstraint, counting: BoolArray
) -> tuple[IntArray, BoolArray]:
    """Return [domain]: matchNum, and whether the domain exists; `counting`: [node]: whether its pods count."""
    return _sums_per_domain(
        context.snapshot.label(constraint.topology_key), counting, _match_counts(context, constraint)
    )


def _headroom(context: SchedulingContext, constraint: CompiledConstraint, counting: BoolArray) -> IntArray:
    """Return [node]: how many more matching pods its domain may hold; `counting`: [node]: whether its pods count."""
    # Upstream rejects a node if
    #     matchNum + selfMatchNum - minMatchNum > maxSkew
    # matchNum: matching pods in the node's domain; selfMatchNum: 1 if the incoming pod matches the selector, else 0;
    # minMatchNum: minimum of matchNum over all domains, 0 if there are fewer domains than minDomains. So a node fits if
    #     headroom = (maxSkew - selfMatchNum) + minMatchNum - matchNum >= 0
    labels = context.snapshot.label(constraint.topology_key)
    match_counts, exists = matches_per_domain(context, constraint, counting)
    max_excess = constraint.max_skew - constraint.selector.matches(context.pod.metadata.labels)
    headroom = max_excess - match_counts
    if np.count_nonzero(exists) >= constraint.min_domains:
        # If the node's own domain has the minimum, it fits if selfMatchNum <= maxSkew, whatever matchNum is. So the
        # minimum of the *other* domains decides, unless maxSkew < selfMatchNum: then no existing domain ever fits.
        headroom += np.minimum(_min_of_others(match_counts, exists), MAX_AMOUNT)
        if max_excess < 0:
            headroom[exists] = -MAX_AMOUNT
    return headroom[labels.codes]


def _sums_per_domain(labels: LabelColumn, counting: BoolArray, per_node: IntArray) -> tuple[IntArray, BoolArray]:
    """Return [domain]: sum of `per_node` over the domain's counting nodes, and whether it has any."""
    rows = np.flatnonzero(counting)
    return labels.sums(rows, per_node[rows]), np.bincount(labels.codes[rows], minlength=len(labels.values)) > 0


def _min_of_others(match_counts: IntArray, exists: BoolArray) -> IntArray:
    """Return [domain]: minimum of matchNum over the other domains; NEVER if there are none."""
    # Like upstream's criticalPaths: the two smallest domains suffice.
    counts = np.where(exists, match_counts, NEVER)
    smallest = int(counts.argmin())
    minimum = np.full(len(counts), counts[smallest])
    minimum[smallest] = np.delete(counts, smallest).min(initial=NEVER)
    return minimum


# --- score ----------------------------------------------------------------------------------------------------------


def score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """Return [row]: 0-100, higher with fewer matching pods in the node's domains; None (Skip) without soft constraints.

    Soft constraints are those with whenUnsatisfiable: ScheduleAnyway.
    """
    try:
        constraints = _constraints(context, "ScheduleAnyway")
    except SelectorError:
        return None  # divergence: kube-scheduler fails such a pod in PreScore
    if not constraints:
        return None
    # 1. PreScore: the nodes to score. System default constraints do not require all topology keys, so nodes
    #    without a zone label are also scored.
    defaults = context.profile.default_spread_constraints
    with_keys = np.ones(len(context.snapshot.nodes), np.bool_)
    if context.pod.spec.topology_spread_constraints or defaults is not None:
        with_keys = _nodes_with_all_keys(context.snapshot, constraints)
    scored, included = rows[with_keys[rows]], _included_nodes(context, constraints)
    if not len(scored):
        return np.zeros(len(rows), np.int64)
    # 2. Score: Go's math.Round rounds non-negative values half up (numpy rounds half to even).
    raw = np.zeros(len(scored))
    for constraint in constraints:
        raw += _raw_score(context, constraint, with_keys & included[constraint.policies], scored)
    whole = np.trunc(raw)
    rounded = (whole + (raw - whole >= 0.5)).astype(np.int64)
    # 3. NormalizeScore: 100 * (max + min - raw) / max, 100 everywhere if max = 0. The lowest raw score scores highest.
    highest, lowest = int(rounded.max(initial=0)), int(rounded.min())
    scores = np.zeros(len(rows), np.int64)
    scores[with_keys[rows]] = MAX_NODE_SCORE * (highest + lowest - rounded) // highest if highest else MAX_NODE_SCORE
    return scores


def _raw_score(
    context: SchedulingContext, constraint: CompiledConstraint, counting: BoolArray, scored: NodeRows
) -> npt.NDArray[np.float64]:
    """Return [scored row]: raw score of one constraint, lower is better; 0 without the topology key.

    `counting`: [node]: whether its pods count; ignored for the key HOSTNAME.
    """
    # raw = matchNum * log(domains + 2) + (maxSkew - 1)
    # The logarithm (topologyNormalizingWeight) keeps a key with many domains, hence few pods in each, from being
    # outweighed by a key with few domains; maxSkew - 1 evens out constraints that tolerate a larger skew.
    labels, matches = context.snapshot.label(constraint.topology_key), _match_counts(context, constraint)
    if constraint.topology_key == HOSTNAME:
        matches = matches[scored]
        domains = int(np.count_nonzero(mask_of(scored, len(counting))))
    else:
        match_counts, _ = _sums_per_domain(labels, counting, matches)
        codes, empty, absent = labels.codes[scored], labels.code_of.get(""), labels.code_of.get(None)
        if empty is not None and absent is not None:
            # Quirk: upstream reads an absent label as "", so nodes with either form one domain.
            match_counts[empty] += match_counts[absent]
            codes = np.where(codes == absent, empty, codes)
        matches, domains = match_counts[codes], len(np.unique(codes))
    raw = matches * math.log(domains + 2) + (constraint.max_skew - 1)
    return np.where(labels.present[scored], raw, 0.0)
