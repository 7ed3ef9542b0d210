"""Recount the PodDisruptionBudget violations of victims, independently of the engine's code.

All potential victims of a node, including pods that stay, count against the budgets that select them, most important
first. A pod that counts against an exhausted budget is violating (defaultpreemption.filterPodsWithPDBViolation, v1.36);
since v1.37 it counts against no further budget. With `budgetAccounting: Live` allowances depend on the healthy pods in
the cluster cache, and pods count as in the eviction API (pkg/registry/core/pod/storage/eviction.go, v1.36).

Rule: plain Python, pod by pod, like upstream. It may be slower than the engine, but must not share code with it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from extender.core.profile import DEFAULT_IMPORTANCE, PreemptionPolicy
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.importance import annotated_cost, grace_period
from extender.core.snapshot.pod_table import identity, is_assumed_terminating
from extender.core.snapshot.selector_index import LabelGroups
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod, PodDisruptionBudget
from extender.k8s.selectors import LabelPredicate, SelectorError, compile_label_selector
from extender.k8s.time import parse_time
from extender.k8s.version.features import Features
from extender.k8s.well_known import DELETION_COST
from extender.k8s.workloads import QOS_CLASSES, qos_class

BudgetShare = tuple[str, int]
"""Part of a budget that a pod counts against: ("pods" or "unready", index of the budget), or MULTIPLE_BUDGETS."""

MULTIPLE_BUDGETS: BudgetShare = ("several", 0)
"""Share for pods that several budgets select: it allows no disruption, because the eviction API rejects such pods."""

_LATEST = 2**63 - 1
"""Start time in nanoseconds of a pod that has not started: later than every other start time."""


def started(pod: Pod) -> int:
    """Return the pod's start time in nanoseconds since 1970."""
    return parse_time(pod.status.start_time) if pod.status.start_time else _LATEST


def importance(pod: Pod) -> tuple[int, int]:
    """Return a key that sorts pods most important first: by priority, then by start time (util.MoreImportantPod)."""
    return -pod.priority, started(pod)


def importance_under_policy(policy: PreemptionPolicy, pod: Pod) -> tuple[int, ...]:
    """Return a key that sorts pods most important first, by the criteria in `preemption.importance`."""
    return tuple(_IMPORTANCE[name](policy, pod) for name in policy.importance)


_IMPORTANCE: Mapping[str, Callable[[PreemptionPolicy, Pod], int]] = {
    "Priority": lambda _, pod: -pod.priority,
    "StartTime": lambda _, pod: started(pod),
    "PodDeletionCost": lambda _, pod: -annotated_cost(pod, DELETION_COST),
    "EvictionCost": lambda policy, pod: -annotated_cost(pod, policy.eviction_cost_annotation),
    "QoSClass": lambda _, pod: -QOS_CLASSES.index(qos_class(pod)),
    "GracePeriod": lambda _, pod: -grace_period(pod),
}


class PDBRecount:
    """Recount of the violations of one snapshot's budgets. Obtain it with `recount_budgets`."""

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._is_live = policy.budget_accounting == "Live"
        self._budgets = tuple(snapshot.objects.budgets.values())
        self._selects = [label_predicate(budget, snapshot.features, policy.empty_selector) for budget in self._budgets]
        self._disrupted = [budget.status.disrupted_pods or {} for budget in self._budgets]
        """[budget]: names of the pods whose eviction the API server has already counted."""
        self._by_namespace: dict[str, list[int]] = {}
        for index, budget in enumerate(self._budgets):
            self._by_namespace.setdefault(budget.metadata.namespace, []).append(index)
        self._selecting_by_labels: dict[tuple[str, frozenset[tuple[str, str]]], tuple[int, ...]] = {}

    def violations(self, evictable: Iterable[Pod], victims: frozenset[str]) -> int:
        """Return the number of `victims` (UIDs) that violate a budget; `evictable`: all potential victims of the node.

        With Strict, return the number of disruptions that the victims cause beyond the budgets' allowances.
        """
        if self._policy.disruption_budgets == "Strict":
            lost = [pod for pod in evictable if pod.metadata.uid in victims]
            causes = Counter(share for pod in lost for share in self._used_shares(pod))
            return sum(max(count - max(self._allowed(share), 0), 0) for share, count in causes.items())
        # Count pods that stay as well: upstream counts before the reprieve.
        counted_pods = [(pod, shares) for pod in evictable if (shares := self._used_shares(pod))]
        allowed = {share: self._allowed(share) for share in {one for _, shares in counted_pods for one in shares}}
        used, violating = Counter[BudgetShare](), 0
        for pod, shares in sorted(counted_pods, key=lambda one: self._order(one[0])):
            exceeded = False
            for share in shares:
                used[share] += 1
                exceeded |= used[share] > allowed[share]
                if exceeded and self._snapshot.features.budget_count_ends_where_exceeded:
                    break
            violating += exceeded and pod.metadata.uid in victims
        return violating

    def _order(self, pod: Pod) -> tuple[int, ...]:
        """Return the sort key for counting pods: importance, then listing order.

        In kube-scheduler's default order up to v1.36, the listing order of pods without a start time is inverted
        (PodTable.importance).
        """
        pod_table = self._snapshot.pod_table
        listed = int(pod_table.order[pod_table.row_of[identity(pod)]])
        is_inverted = (
            not self._snapshot.features.unstarted_pods_in_listing_order
            and self._policy.importance == DEFAULT_IMPORTANCE
            and not pod.status.start_time
        )
        return *importance_under_policy(self._policy, pod), -listed if is_inverted else listed

    def _used_shares(self, pod: Pod) -> list[BudgetShare]:
        """Return the budget shares that evicting the pod uses up, unless the API server has already counted that."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels or {}
        rows = self._by_namespace.get(namespace)
        if rows is None:
            return []
        key = namespace, frozenset(labels.items())
        if key not in self._selecting_by_labels:
            self._selecting_by_labels[key] = tuple(index for index in rows if self._selects[index](labels))
        selecting = self._selecting_by_labels[key]
        if not self._is_live:
            return [("pods", index) for index in selecting if pod.metadata.name not in self._disrupted[index]]
        if not selecting or pod.metadata.deletion_timestamp is not None or pod.status.phase == "Pending":
            return []
        if len(selecting) > 1:  # the eviction API rejects such a pod
            return [MULTIPLE_BUDGETS]
        (index,) = selecting
        if pod.metadata.name in self._disrupted[index]:
            return []
        # With desiredHealthy 0, unready pods count like ready pods, unless the policy is AlwaysAllow.
        status, spec = self._budgets[index].status, self._budgets[index].spec
        counts_unready = status.desired_healthy == 0 and spec.unhealthy_pod_eviction_policy != "AlwaysAllow"
        return [("pods" if pod.is_ready or counts_unready else "unready", index)]

    def _allowed(self, share: BudgetShare) -> int:
        kind, index = share
        if share == MULTIPLE_BUDGETS:
            return 0
        budget, status = self._budgets[index], self._budgets[index].status
        if not self._is_live:
            return status.disruptions_allowed
        healthy, approved = self._live_counts(index)
        allowed = min(status.disruptions_allowed - approved, healthy - status.desired_healthy)
        if status.observed_generation < budget.metadata.generation:  # the status is stale
            allowed = 0
        if kind == "pods":
            return allowed
        is_healthy = status.desired_healthy > 0 and min(healthy, status.current_healthy) >= status.desired_healthy
        is_allowed = is_healthy or budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
        return sys.maxsize if is_allowed else 0

    def _live_counts(self, index: int) -> tuple[int, int]:
        """Return (number of healthy pods, number of pods assumed to be terminating) of a budget."""
        namespace, select = self._budgets[index].metadata.namespace, self._selects[index]
        groups = self._snapshot.index(LabelGroups).in_namespaces(frozenset((namespace,)))
        selected = [self._snapshot.pods[row] for group in groups if select(group.labels) for row in group.members]
        pods = [pod for pod in selected if pod.is_ready and pod.metadata.name not in self._disrupted[index]]
        terminating = [pod for pod in pods if pod.metadata.deletion_timestamp is not None]
        return len(pods) - len(terminating), sum(map(is_assumed_terminating, terminating))


def label_predicate(budget: PodDisruptionBudget, features: Features, empty_selector: str) -> LabelPredicate:
    """Return the predicate on a pod's labels: whether the budget selects the pod.

    An unset or invalid selector selects no pod. Up to v1.37 no selector selects a pod without labels, except an empty
    selector, which selects no pod or, with `empty_selector` "Everything" (policy/v1), all pods.
    """
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return lambda _: False
    if selector.is_empty:
        return lambda _: features.empty_selectors_match_all or empty_selector == "Everything"
    matches = selector.predicate()
    if features.empty_selectors_match_all:
        return matches
    return lambda labels: bool(labels) and matches(labels)


@derived_by("budgets", max_entries=4)
def recount_budgets(snapshot: Snapshot, policy: PreemptionPolicy) -> PDBRecount:
    """Return the cached PDBRecount for the snapshot's current budgets under a policy."""
    return PDBRecount(snapshot, policy)
