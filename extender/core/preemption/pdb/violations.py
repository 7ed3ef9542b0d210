"""Whose loss would break a disruption budget.

kube-scheduler's way (`violating`): of a node's evictable pods, most important first, each charges its budgets; one that
charges a budget with nothing left is violating. Every node is a world of its own with fresh budgets, and pods that
are put back later have charged all the same (defaultpreemption.filterPodsWithPDBViolation, v1.36).

What really breaks (`overdrawn`): a budget that more victims charge than it allows, whoever they are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from extender.core.preemption.pdb.index import Charging
from extender.core.preemption.pdb.live import LiveCharging
from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.arrays import BoolArray, IntArray, Taken, exceeding
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.snapshot import Snapshot


def charging_of(snapshot: Snapshot, policy: PreemptionPolicy) -> Charging:
    """The budgets, counted as the policy wants it."""
    kind = LiveCharging if policy.budget_accounting == "Live" else Charging
    return snapshot.index(kind, policy.empty_selector)


def violating(charging: Charging, layout: NodeLayout, evictable: BoolArray, *, other_order: bool = False) -> BoolArray:
    """[k, node] of evictable pods -> those whose loss would break a budget.

    `other_order`: the least important ones charge first.
    """
    charging.refresh()
    running, sign = charging.snapshot.pod_node, -1 if other_order else 1
    spent = np.append(charging.allowances <= 0, False)  # the last: what is no budget
    by_pod = np.zeros(len(running), np.bool_)
    charged = charging.charged[: len(by_pod)]
    by_pod[: len(charged)] = spent[charged].any(axis=1)
    result: BoolArray = by_pod[layout.pod] & evictable
    for allowed, groups in _tight(charging).items():
        pods = np.array([row for rows in groups for row in rows], np.int64)
        group = np.repeat(np.arange(len(groups)), np.fromiter(map(len, groups), np.int64, len(groups)))
        kept = evictable[layout.rank[pods], running[pods]]
        pods, group = pods[kept], group[kept]
        pods = pods[np.lexsort((sign * layout.rank[pods], group))]
        nth = np.arange(len(group)) - np.searchsorted(group, group)
        over = pods[nth >= allowed]
        result[layout.rank[over], running[over]] = True
    return result


def _tight(charging: Charging) -> dict[int, list[set[int]]]:
    """Allowance -> the pods that charge a budget with that allowance from one node, where they are more."""
    found: dict[int, list[set[int]]] = defaultdict(list)
    for budget, nodes in charging.together.items():
        allowed = charging.allowed[budget]
        if allowed > 0:
            found[allowed].extend(rows for rows in nodes.values() if len(rows) > allowed)
    return found


def violating_on(charging: Charging, evictable: Iterable[tuple[int, int]]) -> list[int]:
    """The ranks of the same on one node: its evictable pods as (rank, pod row), in the order in which they charge."""
    found, charges = [], Counter[int]()
    for k, row in evictable:
        budgets = charging.charged_by(row)
        charges.update(budgets)
        if any(charges[budget] > charging.allowed[budget] for budget in budgets):
            found.append(k)
    return found


def overdrawn(charging: Charging, taken: Taken) -> BoolArray:
    """[node]: do the victims charge a budget more than it allows?"""
    places, budgets = _charges(charging, taken)
    return exceeding(places, budgets, charging.allowances, taken.size)


def exceeded(charging: Charging, taken: Taken) -> tuple[IntArray, IntArray]:
    """Every budget that the victims of a node charge more than it allows: (place of the node, budget row)."""
    places, budgets = _charges(charging, taken)
    allowances = charging.allowances
    keys, counts = np.unique(places * len(allowances) + budgets, return_counts=True)
    places, budgets = np.divmod(keys, max(len(allowances), 1))
    over = counts > np.maximum(allowances[budgets], 0)
    return places[over], budgets[over]


def _charges(charging: Charging, taken: Taken) -> tuple[IntArray, IntArray]:
    """(place of the node, budget row) of everything that the victims charge."""
    charging.refresh()
    charged = charging.charged[taken.pods]
    nth = np.flatnonzero((charged >= 0).reshape(-1))
    return taken.places[nth // charged.shape[1]], charged.reshape(-1)[nth].astype(np.int64)
