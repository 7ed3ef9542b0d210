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
    """Which pod charges which budget, ordered by node, budget, rank; only where a budget can run out on a node."""

    position: IntArray
    """[charge] -> place of the pod in a flattened [k, node]."""
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
    layout, allowed = snapshot.layout, np.array([b.status.disruptions_allowed for b in snapshot.budgets], np.int64)
    node, k = snapshot.pod_node[pods], layout.rank[pods]
    order = np.lexsort((k, budgets, node))
    node, k, budgets = node[order], k[order], budgets[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (node[1:] != node[:-1]) | (budgets[1:] != budgets[:-1])
    group = np.cumsum(fresh) - 1
    tight = np.bincount(group)[group] > allowed[budgets] if len(order) else fresh
    k, node, budgets, group = k[tight], node[tight], budgets[tight], group[tight]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    size = np.diff(first, append=len(group))
    position = k.astype(np.int64) * len(snapshot.nodes) + node
    return Charges(position, snapshot.priority[pods[order][tight]], allowed[budgets], first, size)


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
    before = spent[found.first] - charging[found.first]
    broken = charging & (spent - found.allowed > np.repeat(before, found.size))
    result = np.zeros_like(evictable)
    result.ravel()[found.position[broken]] = True
    return result
