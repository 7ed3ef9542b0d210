"""Cordon, drain, remove and add nodes of a snapshot.

A drain does what `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` does: all nodes are cordoned first,
then their pods are evicted node by node, each as soon as the eviction API allows it. Removing a node deletes its
pods regardless of disruption budgets.

Rule: this module changes nodes and evicts pods; controllers recreate the pods, and scheduling cycles bind them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from extender.core.framework.plugins.node_unschedulable import CORDON_TAINT
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.kinds import Key, key_of
from extender.k8s.objects import LabelsKey, Node, Pod, PodDisruptionBudget, labels_key
from extender.k8s.selectors import LabelMatcher, SelectorError, compile_label_selector
from extender.k8s.well_known import HOSTNAME
from extender.k8s.workloads import is_mirror, is_recreated
from extender.report.simulation_schema import BlockedEviction, DrainedNode, EvictionRefusal, RemovedNode
from extender.whatif.controllers import Controllers, is_of_daemon_set

EMPTY_SELECTS_ALL = "Everything"
"""For the eviction API, a budget with an empty selector selects all pods of its namespace."""

MORE_THAN_ONE_BUDGET = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)


# --- nodes ------------------------------------------------------------------------------------------------------------


def add_nodes(snapshot: Snapshot, added: Iterable[tuple[Node, int]]) -> list[str]:
    """Add so many copies of each node and return their names; RequestError for an invalid node."""
    names = []
    for template, number in added:
        for name in _free_names(snapshot, template.metadata.name, number):
            labels = {**(template.metadata.labels or {}), HOSTNAME: name}  # as the kubelet does
            node = replace(template, metadata=replace(template.metadata, name=name, uid="", labels=labels))
            try:
                snapshot.put("Node", node)
            except ValueError as error:
                raise RequestError(f"node {name!r}: {error}") from error
            names.append(name)
    snapshot.refresh_layout()
    return names


def _free_names(snapshot: Snapshot, base: str, left: int) -> Iterator[str]:
    """Yield the name itself if one is needed and it is free, otherwise `name-1`, `name-2` and so on."""
    if left == 1 and base not in snapshot.node_row:
        yield base
        return
    number = 0
    while left:
        number += 1
        name = f"{base}-{number}"
        if name not in snapshot.node_row:
            left -= 1
            yield name


def cordon(snapshot: Snapshot, names: Sequence[str]) -> None:
    """Make the nodes unschedulable."""
    for name in names:
        node = snapshot.objects.nodes["", name]
        taints = node.spec.taints or []
        if all((one.key, one.effect) != (CORDON_TAINT.key, CORDON_TAINT.effect) for one in taints):
            taints = [*taints, CORDON_TAINT]
        snapshot.put("Node", replace(node, spec=replace(node.spec, unschedulable=True, taints=taints)))
    snapshot.refresh_layout()


def remove_nodes(
    snapshot: Snapshot, names: Sequence[str], controllers: Controllers
) -> tuple[list[RemovedNode], list[Pod]]:
    """Delete the nodes and their pods; return the removed nodes and the pods that controllers create instead."""
    removed, created = [], list[Pod]()
    for name in names:
        pods = _pods_by_name(snapshot, name)
        created += controllers.evict(pods, "NodeRemoved", EMPTY_SELECTS_ALL)
        lost = (one for one in pods if not is_recreated(one) or is_of_daemon_set(one))
        deleted = [one.key for one in pods]
        removed.append(RemovedNode(node=name, deleted=deleted, lost=[one.key for one in lost]))
    for name in names:
        snapshot.remove("Node", ("", name))
    snapshot.refresh_layout()
    return removed, created


def _pods_by_name(snapshot: Snapshot, node: str) -> list[Pod]:
    """Return the running pods of a node, sorted by namespace and name as the API server lists them."""
    return sorted(snapshot.pods_on(node), key=lambda pod: (pod.metadata.namespace, pod.metadata.name))


# --- disruption budgets ---------------------------------------------------------------------------------------------


class EvictionAPI:
    """The eviction subresource (pkg/registry/core/pod/storage/eviction.go, v1.36).

    Each answer follows the current budget statuses of the snapshot.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._matchers: dict[str, list[tuple[Key, LabelMatcher]]] = {}
        for key, budget in snapshot.objects.budgets.items():
            try:
                matcher = compile_label_selector(budget.spec.selector)
            except SelectorError:
                continue  # as upstream, which skips a budget whose selector is invalid
            self._matchers.setdefault(budget.metadata.namespace, []).append((key, matcher))
        self._known: dict[tuple[str, LabelsKey], list[Key]] = {}

    def refusal(self, pod: Pod) -> BlockedEviction | None:
        """Return the blocked eviction and its reason; None if the pod can be evicted now."""
        # The eviction API evicts pending and terminating pods without checking budgets.
        if pod.status.phase == "Pending" or pod.metadata.deletion_timestamp is not None:
            return None
        keys = self._budgets_of(pod)
        if len(keys) > 1:
            return _blocked(pod, keys, "SeveralBudgets", MORE_THAN_ONE_BUDGET)
        for key in keys:
            budget = self._snapshot.objects.budgets[key]
            # An unready pod is evicted without counting if enough pods are healthy, or if the policy is AlwaysAllow.
            is_healthy = budget.status.current_healthy >= budget.status.desired_healthy > 0
            evicts_unready = is_healthy or budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
            if pod.is_ready or not evicts_unready:
                refusal = _too_many_requests(budget)
                return None if refusal is None else _blocked(pod, keys, *refusal)
        return None

    def _budgets_of(self, pod: Pod) -> list[Key]:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels or {}
        key = namespace, labels_key(labels)
        # Pods of one workload have the same labels, so most lookups of a drain hit this cache.
        if key not in self._known:
            self._known[key] = [key for key, matcher in self._matchers.get(namespace, ()) if matcher.matches(labels)]
        return self._known[key]


def _too_many_requests(budget: PodDisruptionBudget) -> tuple[EvictionRefusal, str] | None:
    """Return why a budget allows no eviction, and the message (checkAndDecrement); None if it allows one."""
    name, status = budget.metadata.name, budget.status
    if status.observed_generation < budget.metadata.generation:
        return "NotProcessed", f"The disruption budget {name} is still being processed by the server."
    if status.disruptions_allowed > 0:
        return None
    if status.current_healthy <= status.desired_healthy:
        return "NotAllowed", (
            f"The disruption budget {name} needs {status.desired_healthy} healthy pods "
            f"and has {status.current_healthy} currently"
        )
    return "NotAllowed", f"The disruption budget {name} does not allow evicting pods currently"


def _blocked(pod: Pod, budgets: Sequence[Key], cause: EvictionRefusal, message: str) -> BlockedEviction:
    names = sorted("/".join(key) for key in budgets)
    return BlockedEviction(pod=pod.key, budgets=names, cause=cause, message=message)


# --- drains ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Drain:
    """A running drain of one node. Pods that arrive on the node later stay, as with kubectl."""

    node: str
    ignored: list[str]
    left: list[Pod]
    """Pods that are not evicted yet."""
    evicted: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    blocked: list[BlockedEviction] = field(default_factory=list)

    @classmethod
    def of(cls, snapshot: Snapshot, node: str) -> "Drain":
        pods = _pods_by_name(snapshot, node)
        ignored = [is_of_daemon_set(pod) or is_mirror(pod) for pod in pods]
        return cls(
            node,
            [pod.key for pod, is_ignored in zip(pods, ignored, strict=True) if is_ignored],
            [pod for pod, is_ignored in zip(pods, ignored, strict=True) if not is_ignored],
        )

    def evict(self, snapshot: Snapshot, api: EvictionAPI, controllers: Controllers) -> list[Pod] | None:
        """Evict the pods that may be evicted now; return the pods that controllers create, None without evictions."""
        created, left, has_evicted = list[Pod](), list[Pod](), False
        self.blocked.clear()
        for given in self.left:
            pod = _same_pod(snapshot, given)
            if pod is None:
                continue  # preempted meanwhile
            refusal = api.refusal(pod)
            if refusal is not None:
                self.blocked.append(refusal)
                left.append(pod)
                continue
            has_evicted = True
            created += controllers.evict([pod], "Drained", EMPTY_SELECTS_ALL)
            self.evicted.append(pod.key)
            if not is_recreated(pod):
                self.lost.append(pod.key)
        self.left = left
        return created if has_evicted else None

    def report(self, snapshot: Snapshot) -> DrainedNode:
        """Report the pods by outcome; a blocked pod that was preempted later no longer counts as blocked."""
        there = (one for pod, one in zip(self.left, self.blocked, strict=True) if _same_pod(snapshot, pod) is not None)
        return DrainedNode(
            node=self.node, evicted=self.evicted, ignored=self.ignored, blocked=list(there), lost=self.lost
        )


def _same_pod(snapshot: Snapshot, given: Pod) -> Pod | None:
    """Return the current object of the pod; None if it was evicted, even if another pod has its name now."""
    pod = snapshot.objects.pods.get(key_of("Pod", given))
    return pod if pod is not None and pod.metadata.uid == given.metadata.uid else None
