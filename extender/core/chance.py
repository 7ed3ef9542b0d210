"""Find the reasons why kube-scheduler's choice of victims is up to chance: ours is then one of its possible answers.

- UnstableSort: Go's sort.Slice keeps equally important pods in order only if it sorts at most 12 pods.
- BudgetOrder: since v1.37 a pod counts against its budgets only up to the first budget that it exceeds, and upstream
  takes them in the order of a Go map (`pdb.violations`). If an exhausted budget comes first, the pod's other budgets
  keep more disruptions for less important pods.

Rule: only reports use these reasons; no decision depends on them.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.pdb.violations import budget_index
from extender.core.profile import DEFAULT_IMPORTANCE, PreemptionPolicy
from extender.core.snapshot.arrays import IntArray, select_columns
from extender.core.snapshot.pod_table import start_time
from extender.k8s.objects import Pod
from extender.k8s.version.features import Features

Chance = Literal["BudgetOrder", "UnstableSort"]

_STABLE_UP_TO: Final = 12
"""Number of pods up to which sort.Slice uses insertion sort, which keeps the order of equal pods."""


def chance_on_node(
    pods: Sequence[Pod],
    budgets: Sequence[frozenset[int]],
    allowed: Sequence[int] | IntArray,
    policy: PreemptionPolicy,
    features: Features,
) -> list[Chance]:
    """Return the reasons why kube-scheduler may choose other victims on a node.

    `pods`: the node's potential victims, most important first; `budgets`: [pod], the budget rows that the pod counts
    against; `allowed`: [budget], the disruptions that the budget allows.
    """
    found: list[Chance] = []
    if features.budget_count_ends_where_exceeded and _depends_on_budget_order(budgets, allowed):
        found.append("BudgetOrder")
    is_unstable = len(pods) > _STABLE_UP_TO and policy.importance == DEFAULT_IMPORTANCE
    if is_unstable and any(
        one.priority == other.priority
        and start_time(one) == start_time(other)
        and (one.status.start_time or not features.unstarted_pods_in_listing_order)
        for one, other in pairwise(pods)
    ):
        found.append("UnstableSort")
    return found


def _depends_on_budget_order(budgets: Sequence[frozenset[int]], allowed: Sequence[int] | IntArray) -> bool:
    """Return whether different pods may exceed a budget if the budgets are counted in a different order."""
    if max(map(len, budgets), default=0) < 2:
        return False
    most, least = Counter[int](), Counter[int]()
    for own in budgets:
        may_exceed = any(most[one] >= allowed[one] for one in own)
        if may_exceed and all(least[one] < allowed[one] for one in own):
            return True
        # If a pod exceeds a budget, it counts against at most all of its budgets, and possibly none if it has several.
        most.update(own)
        if len(own) == 1 or not may_exceed:
            least.update(own)
    return False


def chance_of(run: DryRun) -> dict[int, list[Chance]]:
    """Return candidate index -> reasons why kube-scheduler may choose other victims, for candidates with any."""
    policy, features = run.context.profile.preemption, run.context.features
    pdbs, places = budget_index(run.snapshot, policy), np.flatnonzero(run.candidate)
    evictable = select_columns(run.potential.evictable.mask, places)
    if not (features.budget_count_ends_where_exceeded and pdbs.has_pods_of_several):
        large = evictable.sum(axis=0) > _STABLE_UP_TO
        places, evictable = places[large], evictable[:, large]
    found: dict[int, list[Chance]] = {}
    for nth, place in enumerate(places.tolist()):
        rows = run.pods[evictable[:, nth], place].tolist()
        pods, budgets = [run.snapshot.pods[row] for row in rows], [pdbs.budgets_of(row) for row in rows]
        if chance := chance_on_node(pods, budgets, pdbs.allowed, policy, features):
            found[place] = chance
    return found
