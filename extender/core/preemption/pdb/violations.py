"""Split pods by PodDisruptionBudget violation, and check victims against the budgets.

`pods_violating_pdbs` is defaultpreemption.filterPodsWithPDBViolation (v1.36). On each node separately, all evictable
pods count against their budgets, most important first; a pod violates if one of its budgets is used up. Upstream splits
before it knows which pods the reprieve puts back, so reprieved pods count as well. For example, if a budget allows one
disruption and selects two evictable pods of the node:

    pod           counted so far    allowed    split
    important           1              1       non-violating
    unimportant         2              1       violating, even if the important one is put back

Violating pods are reprieved first, so here the unimportant pod is tried before the important one: evicting a violating
pod is worse than evicting any other pod, so it gets the first chance to stay.

Since v1.37 a pod counts against its budgets only up to the first budget that it exceeds, so its other budgets keep more
for less important pods. Upstream takes the budgets in the order of a Go map, we in listing order (see `chance`).

`exceeds_budgets` checks the outcome instead: a budget is exceeded if it selects more of the actual victims than it
allows, whatever the split. Profiles with disruptionBudgets Strict reject such victims.

Rule: these are pure functions of the budget index and of masks of pods.
"""

import numpy as np
import numpy.typing as npt

from extender.core.preemption.pdb.index import BudgetIndex
from extender.core.preemption.pdb.live import LiveBudgetIndex
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import BoolArray, IntArray, VictimRows, over_limit
from extender.core.snapshot.snapshot import Snapshot


def budget_index(snapshot: Snapshot, policy: PreemptionPolicy) -> BudgetIndex:
    """Return the snapshot's budget index; with budgetAccounting Live, one that counts like the eviction API."""
    kind = LiveBudgetIndex if policy.budget_accounting == "Live" else BudgetIndex
    return snapshot.index(kind, policy.empty_selector)


def pods_violating_pdbs(pdbs: BudgetIndex, pods: npt.NDArray[np.int32], evictable: BoolArray) -> BoolArray:
    """Return [k, node]: the evictable pods whose eviction would violate a budget.

    Mirrors defaultpreemption.filterPodsWithPDBViolation, v1.36, and preemption.FilterVictimsWithPDBViolation, v1.37.
    `pods`: [k, node]: pod row, of all nodes or a subset.
    """
    # One entry for each (pod, budget that it counts against), in the order in which the pods of a node count.
    counted, allowances = np.flatnonzero(evictable), pdbs.allowances
    places, budget = pdbs.uses(pods.reshape(-1)[counted])
    pod = counted[places]
    violates = allowances[budget] <= 0
    # The nth pod of a budget on its node violates if the budget allows n or fewer.
    some = np.flatnonzero(~violates)
    group = pod[some] % pods.shape[1] * len(allowances) + budget[some]
    order = np.argsort(group, kind="stable")
    some, group = some[order], group[order]
    violates[some] = np.arange(len(group)) - np.searchsorted(group, group) >= allowances[budget[some]]
    result = np.zeros(evictable.shape, np.bool_)
    flat = result.reshape(-1)
    flat[pod[violates]] = True
    if pdbs.snapshot.features.budget_count_ends_where_exceeded:
        # Count again only where a pod with several budgets exceeds one: otherwise pods count against all their budgets.
        several = np.zeros(len(pod), np.bool_)
        several[1:] = pod[1:] == pod[:-1]
        exceed = several & flat[pod]
        if exceed.any():
            node = pod % pods.shape[1]
            again = np.flatnonzero(np.isin(node, node[exceed]))
            flat[pod[again]] = False
            flat[_exceeding_pods(pdbs, pod[again], budget[again], node[again])] = True
    return result


def _exceeding_pods(pdbs: BudgetIndex, pod: IntArray, budget: IntArray, node: IntArray) -> IntArray:
    """Return the pods that exceed a budget. A pod is charged to its budgets up to the first that it exceeds.

    Each (pod, budget) is one entry; the entries of a pod are adjacent, and pods of a node are in counting order.
    """
    turn = np.cumsum(np.diff(pod, prepend=pod[0]) != 0)
    order = np.lexsort((pdbs.listed[budget], turn, node))
    pod, budget, node = pod[order], budget[order], node[order]
    keys, shared = np.unique(node * len(pdbs.allowances) + budget, return_inverse=True)
    left = pdbs.allowances[keys % len(pdbs.allowances)]
    # Step n counts the nth entry of every node, so that the allowances that earlier entries left are known.
    step = np.arange(len(node)) - np.searchsorted(node, node)
    in_steps = np.argsort(step, kind="stable")
    exceeding = np.zeros(pod.max() + 1, np.bool_)
    for entries in np.split(in_steps, np.flatnonzero(np.diff(step[in_steps])) + 1):
        counting = entries[~exceeding[pod[entries]]]
        left[shared[counting]] -= 1
        exceeding[pod[counting[left[shared[counting]] < 0]]] = True
    return np.flatnonzero(exceeding)


def exceeds_budgets(pdbs: BudgetIndex, taken: VictimRows) -> BoolArray:
    """Return [candidate]: whether a budget selects more of the candidate's victims than it allows."""
    victims, budgets = pdbs.uses(taken.pods)
    return over_limit(taken.candidate_index[victims], budgets, pdbs.allowances, taken.size)


def exceeded_budgets(pdbs: BudgetIndex, taken: VictimRows) -> tuple[IntArray, IntArray]:
    """Return all exceeded budgets as two parallel arrays: candidate index, budget row."""
    (victims, budgets), allowances = pdbs.uses(taken.pods), pdbs.allowances
    keys, counts = np.unique(taken.candidate_index[victims] * len(allowances) + budgets, return_counts=True)
    places, budgets = np.divmod(keys, max(len(allowances), 1))
    over = counts > np.maximum(allowances[budgets], 0)
    return places[over], budgets[over]
