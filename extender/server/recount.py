"""Count the violations of disruption budgets once more, with nothing of the engine's own code.

All lower-priority pods of a node charge the budgets that select them, the most important first, also those that stay; a
pod that charges a budget with nothing left is violating (defaultpreemption.filterPodsWithPDBViolation, v1.36).

Rule: plain Python, pod by pod, as upstream does it. Being slower than the engine is fine; being the same is not.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from extender.core.snapshot import Snapshot, derived
from extender.k8s.objects import Pod, PodDisruptionBudget
from extender.k8s.selectors import SelectorError, compile_label_selector

Selects = Callable[[Mapping[str, str]], bool]

_LATEST = datetime.max.replace(tzinfo=UTC)


def importance(pod: Pod) -> tuple[int, datetime]:
    """Sorts the most important first: higher priority, then earlier start, no start last (util.MoreImportantPod)."""
    started = pod.status.start_time
    return -pod.priority, datetime.fromisoformat(started) if started else _LATEST


class Recount:
    """The budgets of one snapshot, ready to be charged. Obtain it with `recount`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._budgets = snapshot.budgets
        self._by_namespace: dict[str, list[tuple[int, Selects]]] = {}
        for index, budget in enumerate(snapshot.budgets):
            self._by_namespace.setdefault(budget.metadata.namespace, []).append((index, selector_of(budget)))
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], tuple[int, ...]] = {}

    def violations(self, preemptor: Pod, present: Iterable[Pod], victims: frozenset[str]) -> int:
        """How many of the victims (UIDs) among the `present` pods of a node break a budget."""
        charging = [pod for pod in present if pod.priority < preemptor.priority and self._charged(pod)]
        charges: Counter[int] = Counter()
        found = 0
        for pod in sorted(charging, key=importance):
            charged = self._charged(pod)
            charges.update(charged)
            broken = any(charges[index] > self._budgets[index].status.disruptions_allowed for index in charged)
            found += broken and pod.metadata.uid in victims
        return found

    def _charged(self, pod: Pod) -> list[int]:
        """The budgets that losing the pod would charge, unless the API server has charged them for it already."""
        name = pod.metadata.name
        selecting = self._selecting(pod.metadata.namespace, pod.metadata.labels or {})
        return [index for index in selecting if name not in (self._budgets[index].status.disrupted_pods or {})]

    def _selecting(self, namespace: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        """The budgets whose selector matches; none for a pod without labels."""
        here = self._by_namespace.get(namespace)
        if not labels or not here:
            return ()
        key = namespace, frozenset(labels.items())
        if key not in self._known:
            self._known[key] = tuple(index for index, selects in here if selects(labels))
        return self._known[key]


def selector_of(budget: PodDisruptionBudget) -> Selects:
    """Whether labels are selected; an unset, empty or invalid selector selects nobody (v1.36)."""
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return lambda _: False
    return (lambda _: False) if selector.is_empty or selector.is_nothing else selector.matches


@derived("budgets")
def recount(snapshot: Snapshot) -> Recount:
    """Of the snapshot's budgets as they are now."""
    return Recount(snapshot)
