"""Index PodDisruptionBudgets: which running pods count against which budgets, and how many disruptions each one allows.

A pod counts against every budget that selects it. Here a budget allows its status.disruptionsAllowed, as in
kube-scheduler; `core.preemption.pdb.live` counts like the eviction API.

Rule: updated pod by pod and budget by budget; no decision evaluates a selector.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt

from extender.core.preemption.pdb.row_lists import RowLists
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.derived import NodeVersions
from extender.core.snapshot.pod_table import PodPart
from extender.core.snapshot.selector_index import LabelGroup, LabelGroups
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.kinds import Key
from extender.k8s.objects import Labels, Pod, PodDisruptionBudget
from extender.k8s.selectors import LabelMatcher, LabelPredicate, SelectorError, compile_label_selector

_MAX_CACHED_VALUES = 1 << 16
"""Maximum size per namespace of the cache of selecting budgets: its labels and budget rows, plus 16 per entry."""

_NONE: frozenset[int] = frozenset()

_RELEVANT_PARTS: frozenset[PodPart] = frozenset({"annotations", "spec", "status"})
"""Parts of a pod that can change its rank on the node, by any criteria of importance, or whether it counts against a
budget that selects it."""


def budget_matcher(budget: PodDisruptionBudget, empty_selects: str = "Nothing") -> LabelMatcher | None:
    """Compile the budget's selector; None if it selects no pod.

    An unset or invalid selector selects no pod. Up to v1.37 kube-scheduler also ignores budgets with an empty selector
    (filterPodsWithPDBViolation), although in policy/v1 such a budget covers its namespace. `empty_selects`: "Nothing"
    as in kube-scheduler, or "Everything".
    """
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return None
    selects_nothing = selector.is_nothing or (selector.is_empty and empty_selects == "Nothing")
    return None if selects_nothing else selector


@lru_cache(maxsize=1)
def difference(before: frozenset[int], after: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
    """Return (members of `before` only, members of `after` only)."""
    # Cached because pods of one template share their sets.
    return before - after, after - before


class NamespaceSelectors:
    """The selectors of all budgets of one namespace.

    Results are cached by the labels whose keys appear in a selector, until a selector changes.
    """

    def __init__(self, *, skips_unlabelled: bool) -> None:
        """`skips_unlabelled`: see `_pod_predicate`."""
        self._skips_unlabelled = skips_unlabelled
        self._by_row: dict[int, tuple[LabelMatcher, LabelPredicate]] = {}
        self._keys = Counter[str]()
        """Label key -> number of requirements on it."""
        self._known: dict[frozenset[tuple[str, str]] | None, frozenset[int]] = {}
        self._known_values = 0

    def __bool__(self) -> bool:
        return bool(self._by_row)

    def set(self, row: int, selector: LabelMatcher | None) -> LabelPredicate:
        """Set the selector of a budget row, or remove it if None; return its predicate on labels."""
        before, _ = self._by_row.pop(row, (None, None))
        for wanted in before.requirements if before is not None else ():
            self._keys[wanted.key] -= 1
            if not self._keys[wanted.key]:
                del self._keys[wanted.key]
        self._clear()
        if selector is None:
            return lambda _: False
        self._keys.update(wanted.key for wanted in selector.requirements)
        selects = _pod_predicate(selector, skips_unlabelled=self._skips_unlabelled)
        self._by_row[row] = selector, selects
        return selects

    def rows_selecting(self, labels: Labels) -> frozenset[int]:
        """Return the budget rows that select pods with these labels."""
        keys = self._keys
        seen = frozenset([one for one in labels.items() if one[0] in keys]) if labels else None
        known = self._known.get(seen)
        if known is None:
            known = frozenset([row for row, (_, selects) in self._by_row.items() if selects(labels)])
            self._known_values += len(seen or ()) + len(known) + 16
            if self._known_values > _MAX_CACHED_VALUES:
                self._clear()
            self._known[seen] = known
        return known

    def _clear(self) -> None:
        self._known.clear()
        self._known_values = 0


def _pod_predicate(selector: LabelMatcher, *, skips_unlabelled: bool) -> LabelPredicate:
    """Return the predicate on a pod's labels: whether the budget's selector selects the pod.

    `skips_unlabelled`: up to v1.37 kube-scheduler skips pods without labels, even for selectors such as `x notin (y)`
    (filterPodsWithPDBViolation).
    """
    if selector.is_empty:
        return lambda _: True
    matches = selector.predicate()
    if not skips_unlabelled:
        return matches
    return lambda labels: bool(labels) and matches(labels)


class BudgetIndex(Index):
    """Budgets that each running pod counts against.

    A budget keeps its budget row until it is deleted; then the row is reused.
    """

    reads = ("budgets",)
    pod_parts = _RELEVANT_PARTS | {"labels"}

    def __init__(self, snapshot: Snapshot, empty_selects: str = "Nothing") -> None:
        """`empty_selects`: see `PreemptionPolicy.empty_selector`; from v1.38 on always "Everything"."""
        super().__init__(snapshot)
        self._matches_all = snapshot.features.empty_selectors_match_all
        self._empty_selects = "Everything" if self._matches_all else empty_selects
        self._cache_key = type(self), empty_selects
        self._groups = snapshot.index(LabelGroups)
        self.allowed: list[int] = []
        """[budget]: number of its pods that may be disrupted; may be negative, which counts as 0."""
        self._allowances: IntArray | None = None
        self.node_versions = NodeVersions()
        """[node]: version of the parts of its pods, and of their budgets' allowances, that preemption reads."""
        self.pods_on_node: dict[int, Counter[int]] = defaultdict(Counter)
        """Budget row -> node row -> number of its pods that count against the budget, without zeros."""
        self._budgets_of: list[frozenset[int]] = []
        """[pod]: budget rows that it counts against; the list ends at the last pod that ever had any."""
        self._uses = RowLists()
        """[pod]: `_budgets_of`, as of the last call of `uses`."""
        self._changed_pods: set[int] = set()
        """Pod rows whose `_uses` are stale."""
        self._rows: dict[Key, int] = {}
        """Budget -> its row, in the order in which the budgets were listed or created."""
        self._names: dict[int, str] | None = None
        self._free_rows: list[int] = []
        self._selectors: dict[str, NamespaceSelectors] = {}
        """Namespace -> selectors of its budgets; absent if none can select a pod."""
        self._disrupted: dict[Key, frozenset[int]] = {}
        """Pod -> budget rows that list it in status.disruptedPods: the API server has already counted its eviction."""
        self._has_pods = False
        """Whether the index has received running pods; while it is built, budgets arrive before pods."""

    # --- pods ---

    def pod_added(self, row: int, pod: Pod) -> None:
        self._has_pods = True
        self.node_versions.changed(int(self.snapshot.pod_node[row]))
        self._count_pod(row, pod, self._rows_selecting(self._groups.of_pod[row]))

    def pods_added(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        self._has_pods = True
        self.node_versions.changed_together(self.snapshot.pod_node[rows])
        for row, pod in zip(rows, pods, strict=True):
            selected_by = self._rows_selecting(self._groups.of_pod[row])
            if selected_by:
                self._count_pod(row, pod, selected_by)
        self._settle_uses()

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        """Recount the pod, unless only its labels changed and the same budgets select it."""
        if parts.isdisjoint(_RELEVANT_PARTS):
            selectors = self._selectors.get(after.metadata.namespace)
            selected_before = selectors.rows_selecting(before.metadata.labels or {}) if selectors else _NONE
            if self._rows_selecting(self._groups.of_pod[row]) == selected_before:
                return
        super().pod_changed(row, before, after, parts)

    def pod_removed(self, row: int, _pod: Pod) -> None:
        self.node_versions.changed(int(self.snapshot.pod_node[row]))
        self._set_budgets(row, _NONE)

    def _count_pod(self, row: int, pod: Pod, selected_by: frozenset[int]) -> None:
        """Count a running pod against exactly the budgets that select it."""
        self._set_budgets(row, self._not_disrupted(pod, selected_by))

    def _not_disrupted(self, pod: Pod, budgets: frozenset[int]) -> frozenset[int]:
        """Return the budgets without those for which the API server has already counted the pod's eviction."""
        if not self._disrupted:
            return budgets
        disrupted = self._disrupted.get((pod.metadata.namespace, pod.metadata.name))
        return budgets - disrupted if disrupted else budgets

    def budgets_of(self, row: int) -> frozenset[int]:
        """Return the budget rows that a running pod counts against; pods of one template share the set."""
        return self._budgets_of[row] if row < len(self._budgets_of) else _NONE

    @property
    def allowances(self) -> IntArray:
        """[budget]: `allowed` as an array."""
        if self._allowances is None:
            self._allowances = np.array(self.allowed, np.int64)
        return self._allowances

    def uses(self, pods: npt.NDArray[np.integer]) -> tuple[IntArray, IntArray]:
        """Return (index into `pods`, budget row) for each budget that each pod counts against, as parallel arrays."""
        return self._settle_uses().of(pods)

    @property
    def listed(self) -> IntArray:
        """[budget]: its index in the order in which the budgets were listed or created."""
        turns: IntArray = np.zeros(len(self.allowed), np.int64)
        turns[list(self._rows.values())] = np.arange(len(self._rows))
        return turns

    @property
    def has_pods_of_several(self) -> bool:
        """Whether any pod counts against more than one budget."""
        return any(len(budgets) > 1 for budgets in self._budgets_of)

    def _settle_uses(self) -> RowLists:
        self._uses.reserve(len(self.snapshot.pods))
        if self._changed_pods:
            self._uses.replace({row: self.budgets_of(row) for row in self._changed_pods})
            self._changed_pods.clear()
        return self._uses

    @property
    def names(self) -> Mapping[int, str]:
        """Budget row -> `namespace/name`. Replaced, never changed in place, when a budget is added or removed."""
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
                selectors.rows_selecting(group.labels) if selectors else _NONE
            )
        return selected_by

    def _set_budgets(self, row: int, budgets: frozenset[int]) -> None:
        """Set the budget rows that a pod counts against."""
        before = self.budgets_of(row)
        if budgets != before:
            if row >= len(self._budgets_of):
                self._budgets_of += [_NONE] * (row + 1 - len(self._budgets_of))
            self._budgets_of[row] = budgets
            self._changed_pods.add(row)
            node = int(self.snapshot.pod_node[row])
            left, joined = difference(before, budgets) if before else (before, budgets)
            for budget in left:
                pods = self.pods_on_node[budget]
                pods[node] -= 1
                if not pods[node]:
                    del pods[node]
            for budget in joined:
                self.pods_on_node[budget][node] += 1

    # --- budgets ---

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
        self._toggle_disrupted(row, key[0], _disrupted_pods(before) ^ _disrupted_pods(after))
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
        """Set the allowance of a budget, and mark nodes on which this can change the split of the pods as changed."""
        # These nodes have more pods of the budget than the lower of the two allowances. On other nodes no pod violates
        # the budget, neither before nor after.
        lower = min(allowed, self.allowed[row])
        if allowed == self.allowed[row]:
            return
        self.allowed[row] = allowed
        self._allowances = None
        for node, pods in self.pods_on_node[row].items():
            if pods > lower:
                self.node_versions.changed(node)

    def _toggle_disrupted(self, row: int, namespace: str, names: Iterable[str]) -> None:
        """Toggle whether status.disruptedPods of a budget lists the pods with these names, and recount the pods."""
        for name in names:
            disrupted_by = self._disrupted.pop((namespace, name), _NONE) ^ {row}
            if disrupted_by:
                self._disrupted[namespace, name] = disrupted_by
            pod = self.snapshot.objects.pods.get((namespace, name))
            row_of_pod = None if pod is None else self.snapshot.running_row(pod)
            if row_of_pod is not None:
                self._recount_pod(row_of_pod)

    def _set_selector(self, row: int, namespace: str, selector: LabelMatcher | None) -> None:
        selectors = self._selectors.setdefault(namespace, NamespaceSelectors(skips_unlabelled=not self._matches_all))
        selects = selectors.set(row, selector)
        if not selectors:
            del self._selectors[namespace]
        toggled: dict[frozenset[int], frozenset[int]] = {}
        for group in self._groups.in_namespaces(frozenset((namespace,))):
            selected_by = group.selected_by.get(self._cache_key, _NONE)
            if selects(group.labels) != (row in selected_by):
                # Groups that shared the old set share the new set.
                if selected_by not in toggled:
                    toggled[selected_by] = selected_by ^ {row}
                group.selected_by[self._cache_key] = toggled[selected_by]
                for member in group.members:
                    self._recount_pod(member)

    def _recount_pod(self, row: int) -> None:
        if self._has_pods:
            self.pod_added(row, self.snapshot.pods[row])


def _disrupted_pods(budget: PodDisruptionBudget | None) -> frozenset[str]:
    return frozenset(budget.status.disrupted_pods or () if budget is not None else ())


def budgets_counting(snapshot: Snapshot, pod: Pod, empty_selector: str) -> list[str]:
    """Return the sorted `namespace/name` of all disruption budgets that a running pod's eviction counts against."""
    index, row = snapshot.index(BudgetIndex, empty_selector), snapshot.running_row(pod)
    return [] if row is None else sorted(index.names[budget] for budget in index.budgets_of(row))
