"""Count once more what disruption budgets say of some victims, with nothing of the engine's own code.

All pods of a node that may be evicted charge the budgets that select them, the most important first, also those that
stay; a pod that charges a budget with nothing left is violating (defaultpreemption.filterPodsWithPDBViolation, v1.36).
With live accounting a budget allows what the healthy pods that we see leave over, and a pod charges what the eviction
API would charge for it (pkg/registry/core/pod/storage/eviction.go, v1.36).

Rule: plain Python, pod by pod, as upstream does it. Being slower than the engine is fine; being the same is not.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.pod_costs import cost, grace_period
from extender.core.snapshot.pod_table import identity, is_assumed_leaving
from extender.core.snapshot.selector_index import PodGroups
from extender.core.snapshot.snapshot import Snapshot, derived_by
from extender.k8s.annotations import DELETION_COST
from extender.k8s.objects import Pod, PodDisruptionBudget
from extender.k8s.selectors import SelectorError, compile_label_selector
from extender.k8s.time import parse_time
from extender.k8s.workloads import QOS_CLASSES, qos_class

Selects = Callable[[Mapping[str, str]], bool]

Charge = tuple[str, int]
"""What a pod is charged to: a budget's "pods" or its "unready" pods, or "several", which allows nothing."""

SEVERAL: Charge = ("several", 0)

_LATEST = 2**63 - 1


def started(pod: Pod) -> int:
    return parse_time(pod.status.start_time) if pod.status.start_time else _LATEST


def importance(pod: Pod) -> tuple[int, int]:
    """Sorts the most important first: higher priority, then earlier start, no start last (util.MoreImportantPod)."""
    return -pod.priority, started(pod)


def importance_by(policy: PreemptionPolicy, pod: Pod) -> tuple[int, ...]:
    """The same by the criteria that the policy names."""
    return tuple(_IMPORTANCE[name](policy, pod) for name in policy.importance)


_IMPORTANCE: Mapping[str, Callable[[PreemptionPolicy, Pod], int]] = {
    "Priority": lambda _, pod: -pod.priority,
    "StartTime": lambda _, pod: started(pod),
    "PodDeletionCost": lambda _, pod: -cost(pod, DELETION_COST),
    "EvictionCost": lambda policy, pod: -cost(pod, policy.eviction_cost_annotation),
    "QoSClass": lambda _, pod: -QOS_CLASSES.index(qos_class(pod)),
    "GracePeriod": lambda _, pod: -grace_period(pod),
}


class Recount:
    """The budgets of one snapshot, ready to be charged. Obtain it with `recount`."""

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._is_live = policy.budget_accounting == "Live"
        self._budgets = snapshot.budgets
        self._selects = [selector_of(budget, policy.empty_selector) for budget in snapshot.budgets]
        self._by_namespace: dict[str, list[int]] = {}
        for index, budget in enumerate(snapshot.budgets):
            self._by_namespace.setdefault(budget.metadata.namespace, []).append(index)
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], tuple[int, ...]] = {}

    def violations(self, evictable: Iterable[Pod], victims: frozenset[str]) -> int:
        """How many of the victims (UIDs) among the pods of a node that may be evicted break a budget."""
        if self._policy.disruption_budgets == "Strict":
            return self._overdrawn(pod for pod in evictable if pod.metadata.uid in victims)
        charging = [(pod, charged) for pod in evictable if (charged := self._charged(pod))]
        allowed = {charge: self._allowed(charge) for charge in {one for _, charged in charging for one in charged}}
        charges, found = Counter[Charge](), 0
        for pod, charged in sorted(charging, key=lambda one: self._order(one[0])):
            charges.update(charged)
            found += any(charges[one] > allowed[one] for one in charged) and pod.metadata.uid in victims
        return found

    def _overdrawn(self, victims: Iterable[Pod]) -> int:
        """How many charges of the victims the budgets do not allow."""
        charges = Counter(charge for pod in victims for charge in self._charged(pod))
        return sum(max(count - max(self._allowed(charge), 0), 0) for charge, count in charges.items())

    def _order(self, pod: Pod) -> tuple[int, ...]:
        """By importance; of pods that are equally important the first one listed."""
        running = self._snapshot.running
        return *importance_by(self._policy, pod), int(running.order[running.row_of[identity(pod)]])

    # --- what a pod charges -----------------------------------------------------------------------------------

    def _charged(self, pod: Pod) -> list[Charge]:
        """What losing the pod would charge, unless the API server has charged it already."""
        selecting = self._selecting(pod.metadata.namespace, pod.metadata.labels or {})
        if not self._is_live:
            return [("pods", index) for index in selecting if not self._is_disrupted(index, pod)]
        if not selecting or pod.metadata.deletion_timestamp is not None or pod.status.phase == "Pending":
            return []
        if len(selecting) > 1:
            return [SEVERAL]
        (index,) = selecting
        if self._is_disrupted(index, pod):
            return []
        return [("pods" if pod.is_ready or self._shares(index) else "unready", index)]

    def _shares(self, index: int) -> bool:
        """Do unready pods take from what the budget allows? They do where no pod has to be healthy."""
        budget = self._budgets[index]
        return budget.status.desired_healthy == 0 and budget.spec.unhealthy_pod_eviction_policy != "AlwaysAllow"

    def _is_disrupted(self, index: int, pod: Pod) -> bool:
        return pod.metadata.name in (self._budgets[index].status.disrupted_pods or {})

    def _selecting(self, namespace: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        """The budgets whose selector matches."""
        here = self._by_namespace.get(namespace)
        if not here:
            return ()
        key = namespace, frozenset(labels.items())
        if key not in self._known:
            self._known[key] = tuple(index for index in here if self._selects[index](labels))
        return self._known[key]

    # --- what a budget allows ---------------------------------------------------------------------------------

    def _allowed(self, charge: Charge) -> int:
        what, index = charge
        if charge == SEVERAL:
            return 0
        budget, status = self._budgets[index], self._budgets[index].status
        if not self._is_live:
            return status.disruptions_allowed
        healthy, approved = self._seen(index)
        allowed = min(status.disruptions_allowed - approved, healthy - status.desired_healthy)
        if status.observed_generation < budget.metadata.generation:
            allowed = 0
        if what == "pods":
            return allowed
        is_healthy = status.desired_healthy > 0 and min(healthy, status.current_healthy) >= status.desired_healthy
        may_go = is_healthy or budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
        return sys.maxsize if may_go else 0

    def _seen(self, index: int) -> tuple[int, int]:
        """(healthy pods, pods that are assumed to be leaving) of a budget."""
        pods = [pod for pod in self._selected_by(index) if pod.is_ready and not self._is_disrupted(index, pod)]
        leaving = [pod for pod in pods if pod.metadata.deletion_timestamp is not None]
        return len(pods) - len(leaving), sum(map(is_assumed_leaving, leaving))

    def _selected_by(self, index: int) -> Iterator[Pod]:
        namespace = self._budgets[index].metadata.namespace
        for group in self._snapshot.index(PodGroups).in_namespaces(frozenset((namespace,))):
            if self._selects[index](group.labels):
                yield from (self._snapshot.pods[row] for row in group.members)


def selector_of(budget: PodDisruptionBudget, empty_selector: str) -> Selects:
    """Whether labels are selected; nobody is by a selector that is unset or invalid, nor a pod without labels.

    An empty selector means nobody either (v1.36), or everybody with or without labels (policy/v1).
    """
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return lambda _: False
    if selector.is_empty:
        return lambda _: empty_selector == "Everything"
    return lambda labels: bool(labels) and selector.matches(labels)


@derived_by("budgets", at_most=4)
def recount(snapshot: Snapshot, policy: PreemptionPolicy) -> Recount:
    """Of the snapshot's budgets as they are now."""
    return Recount(snapshot, policy)
