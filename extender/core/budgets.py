"""Disruption budgets: whose loss would break one.

Of a node's evictable pods, most important first, each charges every budget that selects it; a pod that charges a
budget with nothing left is violating. Every node is a world of its own with fresh budgets, and pods that are put
back later have charged all the same (defaultpreemption.filterPodsWithPDBViolation, v1.36).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from extender.core.columns import BoolArray
from extender.core.matching import PodGroup, PodGroups
from extender.core.snapshot import Index, Snapshot
from extender.k8s.kinds import Key
from extender.k8s.objects import ObjectMeta, Pod, PodDisruptionBudget
from extender.k8s.selectors import LabelMatcher, SelectorError, compile_label_selector

_NOTHING_SELECTED = -1

_LONGEST_JOURNAL = 50_000


def matcher(budget: PodDisruptionBudget) -> LabelMatcher | None:
    """Whom the budget selects; None for nobody: a selector that is unset, empty or invalid (v1.36)."""
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return None
    return None if selector.is_empty else selector


class Charging(Index):
    """Which budgets every running pod charges. A budget has a row for as long as it is there."""

    reads = ("budgets",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._groups = snapshot.index(PodGroups)
        self.allowed: list[int] = []
        """[budget]: what it allows."""
        self.journal: list[int] = []
        """Rows of nodes on which the pods, or what budgets say of them, changed, in this order."""
        self.erased = 0
        """How often the journal was begun anew, being too long."""
        self.charged: npt.NDArray[np.int32] = np.full((64, 1), _NOTHING_SELECTED, np.int32)
        """[pod, place] -> budget row, _NOTHING_SELECTED in places that are empty."""
        self.together: dict[int, dict[int, set[int]]] = defaultdict(dict)
        """Budget row -> node row -> the pod rows that charge it there, where they are several."""
        self._alone: dict[int, dict[int, int]] = defaultdict(dict)
        self._budgets_of: dict[int, tuple[int, ...]] = {}
        self._rows: dict[Key, int] = {}
        self._free: list[int] = []
        self._selecting: dict[str, dict[int, LabelMatcher]] = defaultdict(dict)
        self._disrupted: dict[int, frozenset[str]] = {}

    # --- pods ---

    def pod_added(self, row: int, pod: Pod) -> None:
        self._note(int(self.snapshot.pod_node[row]))
        group = self._groups.of_pod[row]
        if group.selected_by is None:
            group.selected_by = frozenset(self._selecting_rows(group))
        budgets = group.selected_by
        if budgets:
            name = pod.metadata.name
            self._charge(row, tuple(one for one in sorted(budgets) if name not in self._disrupted.get(one, ())))

    def pod_removed(self, row: int, _pod: Pod) -> None:
        self._note(int(self.snapshot.pod_node[row]))
        self._uncharge(row)

    def _note(self, node: int) -> None:
        if len(self.journal) >= _LONGEST_JOURNAL:
            self.journal.clear()
            self.erased += 1
        self.journal.append(node)

    def charged_by(self, row: int) -> tuple[int, ...]:
        """The budgets that a running pod charges."""
        return self._budgets_of.get(row, ())

    def _selecting_rows(self, group: PodGroup) -> Iterator[int]:
        if group.labels:  # quirk: a pod without labels is in no budget, whatever the selector
            for row, selector in self._selecting[group.namespace].items():
                if selector.matches(group.labels):
                    yield row

    def _charge(self, row: int, budgets: tuple[int, ...]) -> None:
        if not budgets:
            return
        self._budgets_of[row] = budgets
        self._reserve(row, len(budgets))
        self.charged[row, : len(budgets)] = budgets
        node = int(self.snapshot.pod_node[row])
        for budget in budgets:
            together, alone = self.together[budget], self._alone[budget]
            if node in together:
                together[node].add(row)
            elif node in alone:
                together[node] = {alone.pop(node), row}
            else:
                alone[node] = row

    def _uncharge(self, row: int) -> None:
        budgets = self._budgets_of.pop(row, ())
        if not budgets:
            return
        self.charged[row] = _NOTHING_SELECTED
        node = int(self.snapshot.pod_node[row])
        for budget in budgets:
            together, alone = self.together[budget], self._alone[budget]
            if alone.pop(node, None) is None:
                together[node].discard(row)
                if len(together[node]) == 1:
                    (alone[node],) = together.pop(node)

    def _reserve(self, row: int, width: int) -> None:
        """Room for the pod row and so many budgets of one pod."""
        held = self.charged.shape
        if row >= held[0] or width > held[1]:
            shape = (max(held[0], 2 * (row + 1)) if row >= held[0] else held[0], max(held[1], width))
            charged = np.full(shape, _NOTHING_SELECTED, np.int32)
            charged[: held[0], : held[1]] = self.charged
            self.charged = charged

    # --- budgets ---

    def object_changed(
        self, _field: str, before: PodDisruptionBudget | None, after: PodDisruptionBudget | None
    ) -> None:
        metadata = (after or before or _NO_BUDGET).metadata
        key = metadata.namespace, metadata.name
        if after is not None and before is None:
            self._rows[key] = self._new_row()
        row = self._rows[key]
        if after is not None:
            self._allow(row, after.status.disruptions_allowed)
        self._disrupt(row, key[0], frozenset(after.status.disrupted_pods or () if after else ()))
        if before is None or after is None or before.spec != after.spec:
            self._select(row, key[0], matcher(after) if after else None)
        if after is None:
            self._free.append(self._rows.pop(key))

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        self.allowed.append(0)
        return len(self.allowed) - 1

    def _allow(self, row: int, allowed: int) -> None:
        """It matters to the nodes that have more of its pods than the lower of both allowances."""
        lower = min(allowed, self.allowed[row])
        if allowed != self.allowed[row]:
            self.allowed[row] = allowed
            for node, pods in self.together.get(row, {}).items():
                if len(pods) > lower:
                    self._note(node)
            if lower <= 0:
                for node in self._alone.get(row, ()):
                    self._note(node)

    def _disrupt(self, row: int, namespace: str, names: frozenset[str]) -> None:
        """Those whom the API server has charged the budget for already (status.disruptedPods)."""
        before = self._disrupted.pop(row, frozenset())
        if names:
            self._disrupted[row] = names
        for name in before ^ names:
            pod = self.snapshot.objects.pods.get((namespace, name))
            if pod is not None:
                self._look_again(self.snapshot.running_row(pod), pod)

    def _select(self, row: int, namespace: str, selector: LabelMatcher | None) -> None:
        self._selecting[namespace].pop(row, None)
        if selector is not None:
            self._selecting[namespace][row] = selector
        for group in self._groups.in_namespaces(frozenset((namespace,))):
            selected = group.selected_by or frozenset()
            is_selected = selector is not None and bool(group.labels) and selector.matches(group.labels)
            if is_selected != (row in selected):
                group.selected_by = selected ^ {row}
                for member in group.members:
                    self._look_again(member, self.snapshot.pods[member])

    def _look_again(self, row: int | None, pod: Pod) -> None:
        if row is not None and row in self._groups.of_pod:
            self._uncharge(row)
            self.pod_added(row, pod)


_NO_BUDGET = PodDisruptionBudget(ObjectMeta())


# --- whose loss would break a budget ----------------------------------------------------------------------------------


def violating(snapshot: Snapshot, evictable: BoolArray, priority: int) -> BoolArray:
    """[k, node] of the pods below `priority` -> those whose loss would break a budget."""
    charging, layout = snapshot.index(Charging), snapshot.layout
    spent = np.array([*(allowed <= 0 for allowed in charging.allowed), False])  # the last: _NOTHING_SELECTED
    by_pod = np.zeros(len(snapshot.pod_node), np.bool_)
    charged = charging.charged[: len(by_pod)]
    by_pod[: len(charged)] = spent[charged].any(axis=1)
    result: BoolArray = by_pod[layout.pod] & evictable
    for allowed, groups in _tight(charging).items():
        pods = np.array([row for rows in groups for row in rows], np.int64)
        group = np.repeat(np.arange(len(groups)), np.fromiter(map(len, groups), np.int64, len(groups)))
        kept = snapshot.running.priority[pods] < priority
        pods, group = pods[kept], group[kept]
        pods = pods[np.lexsort((layout.rank[pods], group))]
        nth = np.arange(len(group)) - np.searchsorted(group, group)
        over = pods[nth >= allowed]
        result[layout.rank[over], snapshot.pod_node[over]] = True
    return result


def _tight(charging: Charging) -> dict[int, list[set[int]]]:
    """Allowance -> the pods that charge a budget with that allowance from one node, where they are more."""
    found: dict[int, list[set[int]]] = defaultdict(list)
    for budget, nodes in charging.together.items():
        allowed = charging.allowed[budget]
        if allowed > 0:
            found[allowed].extend(rows for rows in nodes.values() if len(rows) > allowed)
    return found


def violating_on(snapshot: Snapshot, node: int, priority: int) -> list[int]:
    """The ranks of the same on one node."""
    charging, found, charges = snapshot.index(Charging), [], Counter[int]()
    for k, row in enumerate(snapshot.layout.pod[:, node].tolist()):
        if row < 0:
            break
        if snapshot.running.priority[row] < priority:
            budgets = charging.charged_by(row)
            charges.update(budgets)
            if any(charges[budget] > charging.allowed[budget] for budget in budgets):
                found.append(k)
    return found
