"""Disruption budgets: whose loss would break one.

Of a node's evictable pods, most important first, each charges every budget that selects it; a pod that charges a
budget with nothing left is violating. Every node is a world of its own with fresh budgets, and pods that are put
back later have charged all the same (defaultpreemption.filterPodsWithPDBViolation, v1.36).
"""

from dataclasses import dataclass

import numpy as np

from extender.core.snapshot import BoolArray, IntArray, PodGroupKey, Snapshot
from extender.k8s.objects import PodDisruptionBudget
from extender.k8s.selectors import LabelMatcher, SelectorError, compile_label_selector


@dataclass(frozen=True, slots=True)
class Charges:
    """Who charges which budget, as far as a budget can run out on a node."""

    exhausted: BoolArray
    """[k, node]: pods that a budget selects which has nothing left from the start."""
    position: IntArray
    """[charge] -> place of the pod in a flattened [k, node]; ordered by node, budget, rank; other budgets only."""
    priority: IntArray
    """[charge] of the pod."""
    allowed: IntArray
    """[charge]: what the budget allows."""
    first: IntArray
    """[group]: the first charge of each pair of node and budget."""
    size: IntArray
    """[group]."""


def matcher(budget: PodDisruptionBudget) -> LabelMatcher | None:
    """Whom the budget selects; None for nobody: a selector that is unset, empty or invalid (v1.36)."""
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return None
    return None if selector.is_empty else selector


def charges(snapshot: Snapshot) -> Charges:
    """All charges that can matter in any dry run on the snapshot."""
    pods, budgets = _selected(snapshot)
    allowed = np.array([budget.status.disruptions_allowed for budget in snapshot.budgets], np.int64)[budgets]
    empty = allowed <= 0
    exhausted = np.zeros(snapshot.layout.pod.shape, np.bool_)
    exhausted[snapshot.layout.rank[pods[empty]], snapshot.pod_node[pods[empty]]] = True
    return _counted(snapshot, exhausted, pods[~empty], budgets[~empty], allowed[~empty])


def _counted(snapshot: Snapshot, exhausted: BoolArray, pods: IntArray, budgets: IntArray, allowed: IntArray) -> Charges:
    """The charges in order, without those of budgets that allow as much as a node can charge."""
    node, k = snapshot.pod_node[pods], snapshot.layout.rank[pods].astype(np.int64)
    order = np.lexsort((k, budgets, node))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(node[order]) != 0) | (np.diff(budgets[order]) != 0)
    group = np.cumsum(fresh) - 1
    tight = np.bincount(group, minlength=1)[group] > allowed[order]
    order, group = order[tight], group[tight]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    size = np.diff(first, append=len(group))
    position = (k * len(snapshot.nodes) + node)[order]
    return Charges(exhausted, position, snapshot.priority[pods[order]], allowed[order], first, size)


def _selected(snapshot: Snapshot) -> tuple[IntArray, IntArray]:
    """(pod rows, budget rows): every pod with every budget that it would charge."""
    by_namespace: dict[str, list[tuple[int, LabelMatcher]]] = {}
    for row, budget in enumerate(snapshot.budgets):
        selector = matcher(budget)
        if selector is not None:
            by_namespace.setdefault(budget.metadata.namespace, []).append((row, selector))

    def budgets_of(pod: PodGroupKey) -> list[int]:
        if not pod.labels:  # quirk: a pod without labels is in no budget, whatever the selector
            return []
        return [row for row, selector in by_namespace.get(pod.namespace, ()) if selector.matches(pod.labels)]

    per_group = [budgets_of(group) for group in snapshot.pod_groups.values]
    widths = np.fromiter(map(len, per_group), np.int64, len(per_group))[snapshot.pod_groups.codes]
    pods = np.repeat(np.arange(len(snapshot.pods)), widths)
    firsts = np.concatenate(([0], np.cumsum([len(rows) for rows in per_group])))[:-1].astype(np.int64)
    flat = np.array([row for rows in per_group for row in rows], np.int64)
    within = np.arange(len(pods)) - np.repeat(np.cumsum(widths) - widths, widths)
    budgets = flat[firsts[snapshot.pod_groups.codes[pods]] + within] if len(pods) else flat
    counted = ~_already_disrupted(snapshot, pods, budgets)
    return pods[counted], budgets[counted]


def _already_disrupted(snapshot: Snapshot, pods: IntArray, budgets: IntArray) -> BoolArray:
    """[pair] where the API server has charged the budget for this pod already (status.disruptedPods)."""
    disrupted = np.zeros(len(pods), np.bool_)
    busy = np.array([bool(budget.status.disrupted_pods) for budget in snapshot.budgets], np.bool_)
    for pair in np.flatnonzero(busy[budgets]) if len(pods) else ():
        names = snapshot.budgets[budgets[pair]].status.disrupted_pods or {}
        disrupted[pair] = snapshot.pods[pods[pair]].metadata.name in names
    return disrupted


def violating(snapshot: Snapshot, evictable: BoolArray, priority: int) -> BoolArray:
    """[k, node] of the pods below `priority` -> those whose loss would break a budget."""
    found = snapshot.memo(charges)
    charging = found.priority < priority
    spent = np.cumsum(charging)
    before: IntArray = spent[found.first] - charging[found.first]
    broken = charging & (spent - found.allowed > np.repeat(before, found.size))
    result = found.exhausted & evictable
    result.ravel()[found.position[broken]] = True
    return result
