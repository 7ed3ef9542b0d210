"""Disruption budgets: which running pods charge which of them, and what each allows.

A pod charges every budget that selects it. What a budget allows is what its status reports; `core.preemption.pdb.live`
counts otherwise.

Rule: kept up to date pod by pod and budget by budget; a decision looks nothing up by selector.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.pod_table import PodPart
from extender.core.snapshot.selector_index import PodGroup, PodGroups
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.kinds import Key
from extender.k8s.objects import Labels, ObjectMeta, Pod, PodDisruptionBudget
from extender.k8s.selectors import LabelMatcher, SelectorError, compile_label_selector

_NOTHING_SELECTED = -1

_LONGEST_JOURNAL = 50_000

_MOST_KNOWN = 4096
"""Label sets of a namespace of which it is remembered whom they belong to."""

_ITS_PLACE: frozenset[PodPart] = frozenset({"annotations", "spec", "status"})
"""Parts of a pod that its place on its node, in any order of importance, depends on, or whether it charges a budget
that selects it."""


def matcher(budget: PodDisruptionBudget, empty_selects: str = "Nothing") -> LabelMatcher | None:
    """Whom the budget selects; None for nobody: a selector that is unset or invalid, or empty as in v1.36."""
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return None
    is_nobody = selector.is_nothing or (selector.is_empty and empty_selects == "Nothing")
    return None if is_nobody else selector


class Selectors:
    """The selectors of one namespace's budgets, by budget row.

    Whom they select is remembered by the labels that any of them looks at, until one comes, changes or goes.
    """

    def __init__(self) -> None:
        self.of_row: dict[int, LabelMatcher] = {}
        self._keys: tuple[str, ...] | None = None
        self._known: dict[tuple[str | None, ...], frozenset[int]] = {}

    def set(self, row: int, selector: LabelMatcher | None) -> None:
        """`selector`: None if it selects nobody."""
        self.of_row.pop(row, None)
        if selector is not None:
            self.of_row[row] = selector
        self._keys = None
        self._known.clear()

    def selecting(self, labels: Labels) -> frozenset[int]:
        """The budgets that select pods with these labels."""
        if self._keys is None:
            keys = {wanted.key for selector in self.of_row.values() for wanted in selector.requirements}
            self._keys = tuple(sorted(keys))
        seen = (*map(labels.get, self._keys), None if labels else "")
        known = self._known.get(seen)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = (row for row, selector in self.of_row.items() if _selects(selector, labels))
            known = self._known[seen] = frozenset(found)
        return known


def _selects(selector: LabelMatcher, labels: Labels) -> bool:
    # quirk: a pod without labels is in no budget, whatever the selector (but an empty one where that means all)
    return (bool(labels) or selector.is_empty) and selector.matches(labels)


class Charging(Index):
    """Which budgets every running pod charges. A budget has a row for as long as it is there."""

    reads = ("budgets",)
    looks_at = _ITS_PLACE | {"labels"}

    def __init__(self, snapshot: Snapshot, empty_selects: str = "Nothing") -> None:
        """`empty_selects`: see PreemptionPolicy.empty_selector."""
        super().__init__(snapshot)
        self._empty_selects = empty_selects
        self._way = type(self), empty_selects
        self._groups = snapshot.index(PodGroups)
        self.allowed: list[int] = []
        """[budget]: what it allows."""
        self._allowances: IntArray | None = None
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
        self._names: dict[int, str] | None = None
        self._free: list[int] = []
        self._selectors: dict[str, Selectors] = {}
        """By namespace; none where no budget selects anybody."""
        self._disrupted: dict[int, frozenset[str]] = {}
        self._has_pods = False
        """An index is built of all objects first, and only then of the pods that run already."""

    # --- pods ---

    def pod_added(self, row: int, pod: Pod) -> None:
        self._has_pods = True
        self._reserve(row, 1)
        self._note(int(self.snapshot.pod_node[row]))
        selected_by = self._selecting(self._groups.of_pod[row])
        if selected_by:
            self._enter(row, pod, tuple(sorted(selected_by)))

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        """Other labels alone make a difference only if other budgets select them."""
        if parts.isdisjoint(_ITS_PLACE):
            selectors = self._selectors.get(after.metadata.namespace)
            selected_before = selectors.selecting(before.metadata.labels or {}) if selectors else frozenset()
            if self._selecting(self._groups.of_pod[row]) == selected_before:
                return
        super().pod_changed(row, before, after, parts)

    def pod_removed(self, row: int, _pod: Pod) -> None:
        self._note(int(self.snapshot.pod_node[row]))
        self._leave(row)

    def _enter(self, row: int, pod: Pod, selected_by: tuple[int, ...]) -> None:
        """A pod that some budgets select runs."""
        self._charge(row, tuple(one for one in selected_by if not self._is_disrupted(one, pod)))

    def _leave(self, row: int) -> None:
        self._uncharge(row)

    def _is_disrupted(self, budget: int, pod: Pod) -> bool:
        """Has the API server charged the budget for this pod already (status.disruptedPods)?"""
        return pod.metadata.name in self._disrupted.get(budget, ())

    def refresh(self) -> None:
        """Let `allowed` and `journal` be true; to be called before they are read."""

    def _note(self, node: int) -> None:
        if len(self.journal) >= _LONGEST_JOURNAL:
            self.journal.clear()
            self.erased += 1
        self.journal.append(node)

    def charged_by(self, row: int) -> tuple[int, ...]:
        """The budgets that a running pod charges."""
        return self._budgets_of.get(row, ())

    @property
    def names(self) -> Mapping[int, str]:
        """Budget row -> `namespace/name`; another mapping after a budget has come or gone."""
        if self._names is None:
            self._names = self._name_rows()
        return self._names

    def _name_rows(self) -> dict[int, str]:
        return {row: "/".join(key) for key, row in self._rows.items()}

    def _selecting(self, group: PodGroup) -> frozenset[int]:
        """The budgets that select these pods."""
        selected_by = group.selected_by.get(self._way)
        if selected_by is None:
            selectors = self._selectors.get(group.namespace)
            selected_by = group.selected_by[self._way] = selectors.selecting(group.labels) if selectors else frozenset()
        return selected_by

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

    @property
    def allowances(self) -> IntArray:
        """`allowed` as an array."""
        if self._allowances is None:
            self._allowances = np.array(self.allowed, np.int64)
        return self._allowances

    def object_changed(
        self, _field: str, before: PodDisruptionBudget | None, after: PodDisruptionBudget | None
    ) -> None:
        metadata = (after or before or _NO_BUDGET).metadata
        key = metadata.namespace, metadata.name
        if after is None or before is None:
            self._names = None
        if after is not None and before is None:
            self._rows[key] = self._new_row()
        row = self._rows[key]
        if after is not None:
            self._report(row, after)
        self._disrupt(row, key[0], frozenset(after.status.disrupted_pods or () if after else ()))
        if before is None or after is None or before.spec != after.spec:
            self._select(row, key[0], matcher(after, self._empty_selects) if after else None)
        if after is None:
            self._forget(self._rows.pop(key))

    def _report(self, row: int, budget: PodDisruptionBudget) -> None:
        self._allow(row, budget.status.disruptions_allowed)

    def _forget(self, row: int) -> None:
        self._free.append(row)

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        self.allowed.append(0)
        self._allowances = None
        return len(self.allowed) - 1

    def _allow(self, row: int, allowed: int) -> None:
        """It matters to the nodes that have more of its pods than the lower of both allowances."""
        lower = min(allowed, self.allowed[row])
        if allowed != self.allowed[row]:
            self.allowed[row] = allowed
            self._allowances = None
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
        here = self._selectors.setdefault(namespace, Selectors())
        here.set(row, selector)
        if not here.of_row:
            del self._selectors[namespace]
        for group in self._groups.in_namespaces(frozenset((namespace,))):
            selected_by = group.selected_by.get(self._way, frozenset())
            is_selected = selector is not None and _selects(selector, group.labels)
            if is_selected != (row in selected_by):
                group.selected_by[self._way] = selected_by ^ {row}
                for member in group.members:
                    self._look_again(member, self.snapshot.pods[member])

    def _look_again(self, row: int | None, pod: Pod) -> None:
        if row is not None and self._has_pods:
            self._leave(row)
            self.pod_added(row, pod)


_NO_BUDGET = PodDisruptionBudget(ObjectMeta())
