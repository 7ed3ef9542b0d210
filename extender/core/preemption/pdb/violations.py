"""Split pods by PodDisruptionBudget violation, and check victims against the budgets.

`pods_violating_pdbs` is defaultpreemption.filterPodsWithPDBViolation (v1.36). On each node, with fresh budgets, all
evictable pods count against their budgets, most important first; a pod violates if one of its budgets is used up.
Upstream splits before it knows which pods the reprieve puts back, so reprieved pods have counted as well. For example,
a budget allows one disruption and selects two evictable pods of the node:

    pod           counted so far    allowed    split
    important           1              1       non-violating
    unimportant         2              1       violating, even if the important one is put back

Violating pods are reprieved first, although the unimportant one is tried before the important one then: evicting it is
worse than evicting any pod that violates no budget, so it gets the first chance to stay.

`exceeds_budgets` checks the outcome instead: a budget is exceeded if it selects more of the actual victims than it
allows, whatever the split says. Profiles with disruptionBudgets Strict reject such victims.

Rule: pure functions of the budget index and of masks of pods.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from extender.core.preemption.pdb.index import BudgetIndex
from extender.core.preemption.pdb.live import LiveBudgetIndex
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import BoolArray, IntArray, VictimRows, over_limit
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.snapshot import Snapshot


def budget_index(snapshot: Snapshot, policy: PreemptionPolicy) -> BudgetIndex:
    """Return the snapshot's budget index: as budgets report, or as the eviction API counts (budgetAccounting Live)."""
    kind = LiveBudgetIndex if policy.budget_accounting == "Live" else BudgetIndex
    return snapshot.index(kind, policy.empty_selector)


def pods_violating_pdbs(
    pdbs: BudgetIndex, layout: NodeLayout, evictable: BoolArray, *, least_important_first: bool = False
) -> BoolArray:
    """Return [k, node]: the evictable pods whose eviction would violate a budget.

    Mirrors defaultpreemption.filterPodsWithPDBViolation, v1.36. `least_important_first`: count the pods from the least
    important one on, which upstream does not do.
    """
    pod_node, sign = pdbs.snapshot.pod_node, -1 if least_important_first else 1
    # A budget that allows nothing: all of its pods violate, in any order.
    spent = np.append(pdbs.allowances <= 0, False)  # the last entry is what _NO_BUDGET_ROW (-1) picks
    by_pod = np.zeros(len(pod_node), np.bool_)
    budget_rows = pdbs.budget_rows[: len(by_pod)]
    by_pod[: len(budget_rows)] = spent[budget_rows].any(axis=1)
    result: BoolArray = by_pod[layout.pod] & evictable
    # The others: on each node, sort the pods of a budget by rank; from the nth = allowed on they violate.
    for allowed, groups in _scarce_budgets(pdbs).items():
        pods = np.array([row for rows in groups for row in rows], np.int64)
        group = np.repeat(np.arange(len(groups)), np.fromiter(map(len, groups), np.int64, len(groups)))
        kept = evictable[layout.rank[pods], pod_node[pods]]
        pods, group = pods[kept], group[kept]
        pods = pods[np.lexsort((sign * layout.rank[pods], group))]
        nth = np.arange(len(group)) - np.searchsorted(group, group)
        over = pods[nth >= allowed]
        result[layout.rank[over], pod_node[over]] = True
    return result


def _scarce_budgets(pdbs: BudgetIndex) -> dict[int, list[set[int]]]:
    """Return allowance -> sets of pod rows: the pods of one budget on one node, where they outnumber the allowance.

    Only budgets that allow something; on all other nodes no order of the pods can exhaust them.
    """
    found: dict[int, list[set[int]]] = defaultdict(list)
    for budget, nodes in pdbs.several_on_node.items():
        allowed = pdbs.allowed[budget]
        if allowed > 0:
            found[allowed].extend(rows for rows in nodes.values() if len(rows) > allowed)
    return found


def pods_violating_pdbs_on_node(pdbs: BudgetIndex, evictable: Iterable[tuple[int, int]]) -> list[int]:
    """Return the ranks of the violating pods of one node, as `pods_violating_pdbs` finds them.

    `evictable`: the evictable pods of the node as (rank, pod row), in the order in which they count.
    """
    violating, counts = [], Counter[int]()
    for k, row in evictable:
        budgets = pdbs.budgets_of(row)
        counts.update(budgets)
        if any(counts[budget] > pdbs.allowed[budget] for budget in budgets):
            violating.append(k)
    return violating


def exceeds_budgets(pdbs: BudgetIndex, taken: VictimRows) -> BoolArray:
    """Return [node]: whether some budget selects more of the node's victims than it allows."""
    places, budgets = _counted_uses(pdbs, taken)
    return over_limit(places, budgets, pdbs.allowances, taken.size)


def exceeded_budgets(pdbs: BudgetIndex, taken: VictimRows) -> tuple[IntArray, IntArray]:
    """Return all exceeded budgets as two parallel arrays: place of the node, budget row."""
    places, budgets = _counted_uses(pdbs, taken)
    allowances = pdbs.allowances
    keys, counts = np.unique(places * len(allowances) + budgets, return_counts=True)
    places, budgets = np.divmod(keys, max(len(allowances), 1))
    over = counts > np.maximum(allowances[budgets], 0)
    return places[over], budgets[over]


def _counted_uses(pdbs: BudgetIndex, taken: VictimRows) -> tuple[IntArray, IntArray]:
    """Return one (place of the node, budget row) per victim and budget that it counts against, as parallel arrays."""
    budget_rows = pdbs.budget_rows[taken.pods]
    nth = np.flatnonzero((budget_rows >= 0).reshape(-1))
    return taken.places[nth // budget_rows.shape[1]], budget_rows.reshape(-1)[nth].astype(np.int64)
