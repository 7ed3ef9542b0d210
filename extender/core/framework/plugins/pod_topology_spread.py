"""PodTopologySpread: how unevenly the pods that a selector means may lie over zones, hosts or other domains.

Each hard constraint is a column: how many more matching pods a node's domain may hold. A dry run changes one domain
only, so that the fewest pods of the *other* domains, and with them the most that this one may hold, are known
beforehand.

Mirrors pkg/scheduler/framework/plugins/podtopologyspread (v1.36).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from extender.core.framework.constraint import CodeArray, ColumnwiseConstraint, NodeRows, SchedulingContext
from extender.core.framework.plugins.normalize import MAX_NODE_SCORE
from extender.core.framework.plugins.prefilter import PreFilterResult
from extender.core.framework.status import Code
from extender.core.snapshot.arrays import MAX_AMOUNT, NEVER, BoolArray, IntArray, LabelColumn, PodAmounts
from extender.core.snapshot.default_selector import default_selector
from extender.core.snapshot.node_layout import RankedDemand
from extender.core.snapshot.selector_index import MatchingPods, nodes_matching, pods_matching
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.affinity import PodSelector
from extender.k8s.labels import HOSTNAME, ZONE
from extender.k8s.objects import Pod, TopologySpreadConstraint
from extender.k8s.selectors import (
    NOTHING,
    LabelMatcher,
    SelectorError,
    compile_label_selector,
    find_untolerated,
    required_node_affinity,
)

NAME = "PodTopologySpread"
REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = REASON + " (missing required label)"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(3, HOSTNAME, "ScheduleAnyway"),
    TopologySpreadConstraint(5, ZONE, "ScheduleAnyway"),
)
"""For a pod without constraints of its own, if the profile names no others."""

_HARD = frozenset({"NoSchedule", "NoExecute"})


# --- constraints ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spread:
    """One constraint, compiled."""

    max_skew: int
    topology_key: str
    selector: LabelMatcher
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


def _compile(pod: Pod, constraints: Sequence[TopologySpreadConstraint], action: str) -> tuple[_Spread, ...]:
    return tuple(_compiled(pod, one) for one in constraints if one.when_unsatisfiable == action)


def _compiled(pod: Pod, constraint: TopologySpreadConstraint) -> _Spread:
    labels = pod.metadata.labels or {}
    own = {key: labels[key] for key in constraint.match_label_keys or () if key in labels}
    selector = compile_label_selector(constraint.label_selector)
    return _Spread(
        constraint.max_skew,
        constraint.topology_key,
        selector.with_labels(own) if own else selector,
        1 if constraint.min_domains is None else constraint.min_domains,
        constraint.node_affinity_policy in (None, "Honor"),
        constraint.node_taints_policy == "Honor",
    )


def _constraints(context: SchedulingContext, action: str) -> tuple[_Spread, ...]:
    """The pod's own, or the default ones for what Services and owner select; SelectorError if one does not parse."""
    pod, defaults = context.pod, context.profile.default_spread_constraints
    if pod.spec.topology_spread_constraints:
        return _compile(pod, pod.spec.topology_spread_constraints, action)
    found = _compile(pod, SYSTEM_DEFAULTS if defaults is None else defaults, action)
    if not found:
        return ()
    selector = default_selector(context.snapshot, pod)
    return () if selector.is_empty else tuple(replace(one, selector=selector) for one in found)


def uses_default_selector(context: SchedulingContext, action: str) -> bool:
    """Does it depend on the pod's Services and controller?"""
    defaults = context.profile.default_spread_constraints
    found = SYSTEM_DEFAULTS if defaults is None else defaults
    own = context.pod.spec.topology_spread_constraints
    return not own and any(one.when_unsatisfiable == action for one in found)


def _pods(context: SchedulingContext, constraint: _Spread) -> MatchingPods:
    """All pods of the namespace that the selector means, terminating ones too."""
    own_namespace = frozenset((context.pod.metadata.namespace,))
    return pods_matching(context.snapshot, PodSelector(own_namespace, NOTHING, constraint.selector))


def _counted(context: SchedulingContext, constraint: _Spread) -> IntArray:
    """[node]: pods that count, which terminating ones do not. Quirk: an empty selector counts nobody."""
    if constraint.selector.is_empty:
        return np.zeros(len(context.snapshot.nodes), np.int64)
    return _pods(context, constraint).non_terminating


def _included(context: SchedulingContext, constraint: _Spread) -> BoolArray:
    """[node]: do its pods count, by nodeAffinityPolicy and nodeTaintsPolicy?"""
    snapshot, included = context.snapshot, np.ones(len(context.snapshot.nodes), np.bool_)
    affinity = required_node_affinity(context.pod) if constraint.honors_affinity else None
    if affinity is not None:
        included &= nodes_matching(snapshot, affinity)
    if constraint.honors_taints:
        tolerations = context.pod.spec.tolerations
        included &= snapshot.taints.map_bool(lambda taints: find_untolerated(taints, tolerations, _HARD) is None)
    return included


def _with_all_keys(snapshot: Snapshot, constraints: Sequence[_Spread]) -> BoolArray:
    """[node]."""
    present = [snapshot.label(one.topology_key).present for one in constraints]
    return np.asarray(np.logical_and.reduce(present))


# --- filter ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpreadConstraint(ColumnwiseConstraint):
    """One column per hard constraint: how many more matching pods the node's domain may hold beside the incoming pod.

    The pod fits where its domain, with it, holds at most maxSkew pods more than the domain with the fewest. If that is
    its own, it fits whatever the others hold.
    """

    has_key: BoolArray
    """[column, node]."""

    def fits(self, headroom: IntArray) -> BoolArray:
        fits: BoolArray = np.logical_and.reduce((headroom >= 0) & self.has_key, axis=0)
        return fits

    def codes(self, headroom: IntArray) -> CodeArray:
        """The first column that says no decides: without the label no eviction helps."""
        codes = np.full(headroom.shape[1], Code.SUCCESS, np.uint8)
        short = headroom < 0
        for column in reversed(range(len(headroom))):
            codes[short[column]] = Code.UNSCHEDULABLE
            codes[~self.has_key[column]] = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return codes

    def reasons(self, headroom: IntArray, row: int) -> tuple[str, ...]:
        code = self.codes(headroom)[row]
        if code == Code.SUCCESS:
            return ()
        return (REASON_NO_LABEL,) if code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE else (REASON,)

    def at(self, rows: NodeRows) -> Self:
        return replace(super().at(rows), has_key=self.has_key[:, rows])


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """A rejection if a hard constraint does not parse: kube-scheduler fails such a pod there."""
    try:
        _constraints(context, "DoNotSchedule")
    except SelectorError as error:
        reason = f"obtaining pod's hard topology spread constraints: {error}"
        return PreFilterResult.rejecting(NAME, reason)
    return PreFilterResult()


def filter(context: SchedulingContext) -> tuple[SpreadConstraint, ...]:
    """One constraint with all columns, or none for a pod that need not spread."""
    constraints = _constraints(context, "DoNotSchedule")
    if not constraints:
        return ()
    snapshot = context.snapshot
    with_keys = _with_all_keys(snapshot, constraints)
    columns = [_column(context, one, with_keys & _included(context, one)) for one in constraints]
    return (
        SpreadConstraint(
            NAME,
            np.stack([column.headroom for column in columns]),
            RankedDemand(context.layout, tuple(column.by for column in columns)),
            _nominated(context, constraints, columns),
            np.stack([snapshot.label(one.topology_key).present for one in constraints]),
        ),
    )


def _limit(pod: Pod, constraint: _Spread) -> int:
    """How many pods more than the fewest the domain may hold beside the incoming pod, which may count too."""
    return constraint.max_skew - constraint.selector.matches(pod.metadata.labels)


@dataclass(frozen=True, slots=True)
class _Column:
    counting: BoolArray
    """[node]: has all keys, and its pods count."""
    headroom: IntArray
    """[node]: see SpreadColumns."""
    by: PodAmounts
    """Quirk: unlike `headroom`, this counts terminating pods, and all pods of the namespace for an empty selector."""


def _column(context: SchedulingContext, constraint: _Spread, counting: BoolArray) -> _Column:
    labels = context.snapshot.label(constraint.topology_key)
    totals, counted = _per_domain(labels, counting, _counted(context, constraint))
    headroom = _headroom(_limit(context.pod, constraint), constraint.min_domains, totals, counted)
    pods = _pods(context, constraint)
    kept = counting[pods.nodes]
    ones = np.ones(np.count_nonzero(kept), np.int64)
    return _Column(counting, headroom[labels.codes], PodAmounts(pods.rows[kept], pods.nodes[kept], ones))


def _headroom(limit: int, min_domains: int, totals: IntArray, counted: BoolArray) -> IntArray:
    """[domain]: see SpreadColumns. A domain that counts may be the emptiest itself, unless they are too few."""
    if np.count_nonzero(counted) < min_domains:
        return limit - totals
    headroom = np.minimum(_fewest_of_others(totals, counted), MAX_AMOUNT) + limit - totals
    return np.where(counted, -MAX_AMOUNT, headroom) if limit < 0 else headroom


def _per_domain(labels: LabelColumn, counting: BoolArray, per_node: IntArray) -> tuple[IntArray, BoolArray]:
    """[domain]: pods on the counting nodes, and whether it has such a node."""
    rows = np.flatnonzero(counting)
    return labels.sums(rows, per_node[rows]), np.bincount(labels.codes[rows], minlength=len(labels.values)) > 0


def _fewest_of_others(totals: IntArray, counted: BoolArray) -> IntArray:
    """[domain]: the fewest pods that any other domain holds, NEVER if there is no other."""
    held = np.where(counted, totals, NEVER)
    emptiest = int(held.argmin())
    fewest = np.full(len(held), held[emptiest])
    fewest[emptiest] = np.delete(held, emptiest).min(initial=NEVER)
    return fewest


def _nominated(
    context: SchedulingContext, constraints: Sequence[_Spread], columns: Sequence[_Column]
) -> IntArray | None:
    def demand_of(pod: Pod, node: int) -> list[bool]:
        if pod.metadata.namespace != context.pod.metadata.namespace:
            return [False] * len(columns)
        return [
            bool(column.counting[node]) and constraint.selector.matches(pod.metadata.labels)
            for constraint, column in zip(constraints, columns, strict=True)
        ]

    return context.nominated_demand(len(columns), demand_of)


# --- score ----------------------------------------------------------------------------------------------------------


def score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """[row] 0-100, the fewer matching pods around the better; None (skipped) for a pod without soft constraints."""
    try:
        constraints = _constraints(context, "ScheduleAnyway")
    except SelectorError:
        return None  # kube-scheduler fails such a pod in PreScore; we leave the plugin out
    if not constraints:
        return None
    # The system's defaults are content with some of their keys: hosts without a zone are still spread over.
    own = context.pod.spec.topology_spread_constraints or context.profile.default_spread_constraints is not None
    everywhere = np.ones(len(context.snapshot.nodes), np.bool_)
    with_keys = _with_all_keys(context.snapshot, constraints) if own else everywhere
    scored = rows[with_keys[rows]]
    raw = np.zeros(len(scored))
    for constraint in constraints:
        raw += _raw_score(context, constraint, with_keys, scored)
    scores = np.zeros(len(rows), np.int64)
    scores[with_keys[rows]] = _from_most_to_fewest(_rounded(raw))
    return scores


def _raw_score(
    context: SchedulingContext, constraint: _Spread, with_keys: BoolArray, scored: NodeRows
) -> npt.NDArray[np.float64]:
    """[scored row]: the matching pods around, weighted so that a key with many values counts as one with few."""
    labels = context.snapshot.label(constraint.topology_key)
    if constraint.topology_key == HOSTNAME:
        around, domains = _counted(context, constraint)[scored], len(scored)
    else:
        counting = with_keys & _included(context, constraint)
        totals, _ = _per_domain(labels, counting, _counted(context, constraint))
        around, domains = totals[labels.codes[scored]], len(np.unique(labels.codes[scored]))
    points = around * math.log(domains + 2) + (constraint.max_skew - 1)
    return np.where(labels.present[scored], points, 0.0)


def _rounded(raw: npt.NDArray[np.float64]) -> IntArray:
    """As Go's math.Round does it, for what is not negative."""
    whole = np.trunc(raw)
    return (whole + (raw - whole >= 0.5)).astype(np.int64)


def _from_most_to_fewest(raw: IntArray) -> IntArray:
    most, fewest = int(raw.max(initial=0)), int(raw.min(initial=NEVER))
    if not most:
        return np.full(len(raw), MAX_NODE_SCORE, np.int64)
    return MAX_NODE_SCORE * (most + fewest - raw) // most
