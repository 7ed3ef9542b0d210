"""Index PodDisruptionBudgets: which running pods count against which budgets, and how much each budget allows.

A pod counts against every budget that selects it. Here a budget allows what its status.disruptionsAllowed reports, as
in kube-scheduler; `core.preemption.pdb.live` counts as the eviction API does.

Rule: updated pod by pod and budget by budget; no decision evaluates a selector.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import cast

import numpy as np
import numpy.typing as npt

from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.derived import NodeVersions
from extender.core.snapshot.pod_table import PodPart
from extender.core.snapshot.selector_index import LabelGroup, LabelGroups
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.kinds import Key
from extender.k8s.objects import Labels, Pod, PodDisruptionBudget
from extender.k8s.selectors import LabelMatcher, SelectorError, compile_label_selector

_NO_BUDGET_ROW = -1
"""Value of the unused slots of `budget_rows`."""

_MAX_CACHED_LABEL_VALUES = 1 << 16
"""Label values per namespace for which the selecting budgets are cached; a label set counts one value per key that some
selector reads, and at least 16."""

_RELEVANT_PARTS: frozenset[PodPart] = frozenset({"annotations", "spec", "status"})
"""Parts of a pod that can change its rank on the node, in any order of importance, or whether it counts against a
budget that selects it."""


def budget_matcher(budget: PodDisruptionBudget, empty_selects: str = "Nothing") -> LabelMatcher | None:
    """Compile the budget's selector; None if it selects no pod.

    It selects none if it is unset, invalid, or empty: kube-scheduler ignores budgets with an empty selector
    (filterPodsWithPDBViolation, v1.36), although in policy/v1 such a budget covers its namespace. `empty_selects`:
    "Nothing" as in kube-scheduler, or "Everything".
    """
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return None
    selects_nothing = selector.is_nothing or (selector.is_empty and empty_selects == "Nothing")
    return None if selects_nothing else selector


class NamespaceSelectors:
    """The selectors of all budgets of one namespace.

    Results are cached by the values of those label keys that any of the selectors reads, until a selector changes.
    """

    def __init__(self) -> None:
        self.by_row: dict[int, LabelMatcher] = {}
        self._keys: tuple[str, ...] | None = None
        self._known: dict[tuple[str | None, ...], frozenset[int]] = {}

    def set(self, row: int, selector: LabelMatcher | None) -> None:
        """Set the selector of a budget row; None removes it."""
        self.by_row.pop(row, None)
        if selector is not None:
            self.by_row[row] = selector
        self._keys = None
        self._known.clear()

    def rows_selecting(self, labels: Labels) -> frozenset[int]:
        """Return the budget rows that select pods with these labels."""
        if self._keys is None:
            keys = {wanted.key for selector in self.by_row.values() for wanted in selector.requirements}
            self._keys = tuple(sorted(keys))
        seen = (*map(labels.get, self._keys), None if labels else "")
        known = self._known.get(seen)
        if known is None:
            if len(self._known) * max(len(self._keys), 16) >= _MAX_CACHED_LABEL_VALUES:
                self._known.clear()
            found = (row for row, selector in self.by_row.items() if _is_selected(selector, labels))
            known = self._known[seen] = frozenset(found)
        return known


def _is_selected(selector: LabelMatcher, labels: Labels) -> bool:
    # Upstream quirk: filterPodsWithPDBViolation skips pods without labels, even for selectors such as `x notin (y)`.
    return (bool(labels) or selector.is_empty) and selector.matches(labels)


class BudgetIndex(Index):
    """Budgets that every running pod counts against.

    A budget has a budget row from its creation to its deletion; then the row is used for another one.
    """

    reads = ("budgets",)
    pod_parts = _RELEVANT_PARTS | {"labels"}

    def __init__(self, snapshot: Snapshot, empty_selects: str = "Nothing") -> None:
        """`empty_selects`: see `PreemptionPolicy.empty_selector`."""
        super().__init__(snapshot)
        self._empty_selects = empty_selects
        self._cache_key = type(self), empty_selects
        self._groups = snapshot.index(LabelGroups)
        self.allowed: list[int] = []
        """[budget]: number of its pods that may be disrupted, 0 or less: none."""
        self._allowances: IntArray | None = None
        self.node_versions = NodeVersions()
        """[node]: version of its pods and of what their budgets allow, as far as preemption reads them."""
        self.budget_rows: npt.NDArray[np.int32] = np.full((64, 1), _NO_BUDGET_ROW, np.int32)
        """[pod, slot]: budget row that the pod counts against; _NO_BUDGET_ROW in unused slots."""
        self.several_on_node: dict[int, dict[int, set[int]]] = defaultdict(dict)
        """Budget row -> node row -> pod rows that count against it there, on nodes with more than one such pod."""
        self._single_on_node: dict[int, dict[int, int]] = defaultdict(dict)
        """Budget row -> node row -> pod row, on nodes with one such pod: the common case, cheaper than a set."""
        self._budgets_of: dict[int, tuple[int, ...]] = {}
        self._rows: dict[Key, int] = {}
        self._names: dict[int, str] | None = None
        self._free_rows: list[int] = []
        self._selectors: dict[str, NamespaceSelectors] = {}
        """Namespace -> selectors; absent where no budget selects a pod."""
        self._disrupted: dict[int, frozenset[str]] = {}
        self._has_pods = False
        """True once the index has received running pods; while it is built, all other objects come first."""

    # --- pods ---

    def pod_added(self, row: int, pod: Pod) -> None:
        self._has_pods = True
        self._reserve(row, 1)
        self.node_versions.changed(int(self.snapshot.pod_node[row]))
        selected_by = self._rows_selecting(self._groups.of_pod[row])
        if selected_by:
            self._count_pod(row, pod, tuple(sorted(selected_by)))

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        """Recount the pod, except after a change of labels that leaves its budgets as they are."""
        if parts.isdisjoint(_RELEVANT_PARTS):
            selectors = self._selectors.get(after.metadata.namespace)
            selected_before = selectors.rows_selecting(before.metadata.labels or {}) if selectors else frozenset()
            if self._rows_selecting(self._groups.of_pod[row]) == selected_before:
                return
        super().pod_changed(row, before, after, parts)

    def pod_removed(self, row: int, _pod: Pod) -> None:
        self.node_versions.changed(int(self.snapshot.pod_node[row]))
        self._uncount_pod(row)

    def _count_pod(self, row: int, pod: Pod, selected_by: tuple[int, ...]) -> None:
        """Count a running pod against the budgets that select it."""
        self._set_budgets(row, tuple(budget for budget in selected_by if not self._is_disrupted(budget, pod)))

    def _is_disrupted(self, budget: int, pod: Pod) -> bool:
        """Return whether the API server already counted the pod's eviction (status.disruptedPods of the budget)."""
        return pod.metadata.name in self._disrupted.get(budget, ())

    def budgets_of(self, row: int) -> tuple[int, ...]:
        """Return the budget rows that a running pod counts against."""
        return self._budgets_of.get(row, ())

    @property
    def names(self) -> Mapping[int, str]:
        """Budget row -> `namespace/name`. Never changed in place: replaced after a budget is added or removed."""
        if self._names is None:
            self._names = self._name_rows()
        return self._names

    def _name_rows(self) -> dict[int, str]:
        return {row: "/".join(key) for key, row in self._rows.items()}

    def _rows_selecting(self, group: LabelGroup) -> frozenset[int]:
        """Return the budget rows that select the pods of the group."""
        selected_by = group.selected_by.get(self._cache_key)
        if selected_by is None:
            selectors = self._selectors.get(group.namespace)
            selected_by = group.selected_by[self._cache_key] = (
                selectors.rows_selecting(group.labels) if selectors else frozenset()
            )
        return selected_by

    def _set_budgets(self, row: int, budgets: tuple[int, ...]) -> None:
        if not budgets:
            return
        self._budgets_of[row] = budgets
        self._reserve(row, len(budgets))
        self.budget_rows[row, : len(budgets)] = budgets
        node = int(self.snapshot.pod_node[row])
        for budget in budgets:
            several, single = self.several_on_node[budget], self._single_on_node[budget]
            if node in several:
                several[node].add(row)
            elif node in single:
                several[node] = {single.pop(node), row}
            else:
                single[node] = row

    def _uncount_pod(self, row: int) -> None:
        budgets = self._budgets_of.pop(row, ())
        if not budgets:
            return
        self.budget_rows[row] = _NO_BUDGET_ROW
        node = int(self.snapshot.pod_node[row])
        for budget in budgets:
            several, single = self.several_on_node[budget], self._single_on_node[budget]
            if single.pop(node, None) is None:
                several[node].discard(row)
                if len(several[node]) == 1:
                    (single[node],) = several.pop(node)

    def _reserve(self, row: int, width: int) -> None:
        """Grow `budget_rows` to hold this pod row, and `width` budgets of one pod."""
        pods, slots = self.budget_rows.shape
        if row >= pods or width > slots:
            shape = (max(pods, 2 * (row + 1)) if row >= pods else pods, max(slots, width))
            grown = np.full(shape, _NO_BUDGET_ROW, np.int32)
            grown[:pods, :slots] = self.budget_rows
            self.budget_rows = grown

    # --- budgets ---

    @property
    def allowances(self) -> IntArray:
        """[budget]: `allowed` as an array."""
        if self._allowances is None:
            self._allowances = np.array(self.allowed, np.int64)
        return self._allowances

    def object_changed(
        self, _field: str, before: PodDisruptionBudget | None, after: PodDisruptionBudget | None
    ) -> None:
        metadata = cast(PodDisruptionBudget, after or before).metadata
        key = metadata.namespace, metadata.name
        if before is None:
            self._rows[key] = self._new_row()
        row = self._rows[key]
        if after is not None:
            self._read_status(row, after)
        self._set_disrupted_pods(row, key[0], frozenset(after.status.disrupted_pods or () if after else ()))
        if before is None or after is None or before.spec != after.spec:
            self._names = None
            self._set_selector(row, key[0], budget_matcher(after, self._empty_selects) if after else None)
        if after is None:
            self._free_row(self._rows.pop(key))

    def _read_status(self, row: int, budget: PodDisruptionBudget) -> None:
        self._set_allowed(row, budget.status.disruptions_allowed)

    def _free_row(self, row: int) -> None:
        self._free_rows.append(row)

    def _new_row(self) -> int:
        if self._free_rows:
            return self._free_rows.pop()
        self.allowed.append(0)
        self._allowances = None
        return len(self.allowed) - 1

    def _set_allowed(self, row: int, allowed: int) -> None:
        """Set what a budget allows; the nodes where that can change the split of the pods have changed.

        Those have more pods of the budget than the lower of the old and the new allowance; elsewhere no pod violates
        the budget, neither before nor after.
        """
        lower = min(allowed, self.allowed[row])
        if allowed == self.allowed[row]:
            return
        self.allowed[row] = allowed
        self._allowances = None
        changed = [node for node, pods in self.several_on_node.get(row, {}).items() if len(pods) > lower]
        if lower <= 0:
            changed += self._single_on_node.get(row, ())
        for node in changed:
            self.node_versions.changed(node)

    def _set_disrupted_pods(self, row: int, namespace: str, names: frozenset[str]) -> None:
        """Set the pods whose eviction the API server already counted (status.disruptedPods), and recount those."""
        before = self._disrupted.pop(row, frozenset())
        if names:
            self._disrupted[row] = names
        for name in before ^ names:
            pod = self.snapshot.objects.pods.get((namespace, name))
            row_of_pod = None if pod is None else self.snapshot.running_row(pod)
            if row_of_pod is not None:
                self._recount_pod(row_of_pod)

    def _set_selector(self, row: int, namespace: str, selector: LabelMatcher | None) -> None:
        selectors = self._selectors.setdefault(namespace, NamespaceSelectors())
        selectors.set(row, selector)
        if not selectors.by_row:
            del self._selectors[namespace]
        for group in self._groups.in_namespaces(frozenset((namespace,))):
            selected_by = group.selected_by.get(self._cache_key, frozenset())
            is_selected = selector is not None and _is_selected(selector, group.labels)
            if is_selected != (row in selected_by):
                group.selected_by[self._cache_key] = selected_by ^ {row}
                for member in group.members:
                    self._recount_pod(member)

    def _recount_pod(self, row: int) -> None:
        if self._has_pods:
            self._uncount_pod(row)
            self.pod_added(row, self.snapshot.pods[row])
