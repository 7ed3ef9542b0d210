"""Compare the exhaustive dry run with preemption policies against the one without.

Both end with the victims of every node and the best candidate, as `/preempt` does. The cluster is the same, but its
pods are ready and have owners, and its budgets have matching statuses. Indexes that the service maintains between
requests are built beforehand.
"""

from collections.abc import Iterator
from zlib import crc32

import numpy as np
from msgspec.structs import replace

from benchmarks.measure import Limit, Row, Run, Work, in_turns
from benchmarks.world import World, change_a_pod
from extender.core.engine import prepare
from extender.core.eviction_history import Eviction, EvictionHistory
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.status import Code
from extender.core.preemption.candidates import apply_policies
from extender.core.preemption.criteria import best_candidates
from extender.core.preemption.dry_run import dry_run_preemption
from extender.core.preemption.pdb.index import budget_matcher
from extender.core.profile import (
    DEFAULT_IMPORTANCE,
    DEFAULT_RANKING,
    EXTRA_RANKING,
    UPSTREAM,
    KubeScheduler,
    Limits,
    PreemptionPolicy,
    Profile,
    Protection,
)
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.selector_index import LabelGroups
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Condition, OwnerReference, Pod, PodDisruptionBudget, PodDisruptionBudgetStatus
from extender.k8s.time import MINUTE, SECOND

GROUP = "policies"
ROUNDS = 101
TIMES_PLAIN = Limit("≤", 2)

NOW = 1_766_000_000 * SECOND
DAY = 24 * 60 * MINUTE

RULES = (
    Protection("daemonSets", owner_kinds=frozenset({"DaemonSet"})),
    Protection("mirrorPods", annotations=(("kubernetes.io/config.mirror", None),)),
    Protection("systemPods", namespaces=frozenset({"kube-system"})),
    Protection("team-03", namespaces=frozenset({"team-03"}), unless_priority_at_least=2_000_000_000),
    Protection("young", min_runtime=30 * DAY),
)
BUDGETS = PreemptionPolicy(disruption_budgets="Strict", budget_accounting="Live")
ALL = PreemptionPolicy(
    disruption_budgets="Strict",
    budget_accounting="Live",
    empty_selector="Everything",
    candidates="AllNodes",
    importance=(*DEFAULT_IMPORTANCE, "PodDeletionCost", "QoSClass"),
    ranking=(*DEFAULT_RANKING, *EXTRA_RANKING),
    protections=RULES,
    preemption_toleration=True,
    tenant_label="tenant",
    limits=Limits(5, 600, 60, 5 * MINUTE, 3),
)


def rows(world: World) -> Iterator[Row]:
    snapshot = with_live_status(world)
    evictions = tuple(Eviction(n * SECOND, ("team-01", "Deployment", f"app-{n}")) for n in range(40))
    history = EvictionHistory(NOW, evictions)
    plain = Work(decide(snapshot, world.pod, UPSTREAM, history))
    for name, policy in (("budgets Strict and Live", BUDGETS), ("all policies", ALL)):
        work = Work(
            decide(
                prepare(snapshot, KubeScheduler((Profile(preemption=policy),))),
                world.pod,
                Profile(preemption=policy),
                history,
            )
        )
        own, others = in_turns([work, plain], ROUNDS)
        limit = TIMES_PLAIN if policy is ALL else None
        yield Row(GROUP, f"dry run and best node, {name} (warm)", own, "no policies", others, limit)
        changed = Work(work.run, prepare=lambda: change_a_pod(snapshot))
        own, others = in_turns([changed, Work(plain.run, prepare=lambda: change_a_pod(snapshot))], ROUNDS)
        yield Row(GROUP, f"dry run and best node, {name}, after a pod changed", own, "no policies", others, limit)


def decide(snapshot: Snapshot, pod: Pod, profile: Profile, history: EvictionHistory) -> Run:
    """Return the dry run on all nodes, and the choice of the best one."""
    filter_run = run_filter_plugins(scheduling_context(snapshot, pod, profile, history))
    tried = filter_run.rows(Code.UNSCHEDULABLE)
    scheduler_victims = (
        np.zeros(len(snapshot.pod_node), np.bool_) if profile.preemption.candidates == "AllNodes" else None
    )

    def run() -> IntArray:
        context = scheduling_context(snapshot, pod, profile, history)
        run = apply_policies(dry_run_preemption(context, run_filter_plugins(context).checks, tried, scheduler_victims))
        return best_candidates(run, 1)

    return run


def with_live_status(world: World) -> Snapshot:
    """Return the cluster with ready pods (but one in fifty), ReplicaSet owners and current budget statuses."""
    snapshot = Snapshot.build(replace(world.objects, pods=tuple(map(_with_live_status, world.objects.pods))))
    for budget in snapshot.objects.budgets.values():
        healthy, allowed = _healthy(snapshot, budget), budget.status.disruptions_allowed
        status = PodDisruptionBudgetStatus(allowed, healthy, healthy - allowed, healthy)
        snapshot.put("PodDisruptionBudget", replace(budget, status=status))
    snapshot.refresh_layout()
    return snapshot


def _healthy(snapshot: Snapshot, budget: PodDisruptionBudget) -> int:
    selector = budget_matcher(budget)
    groups = snapshot.index(LabelGroups).in_namespaces(frozenset({budget.metadata.namespace}))
    selected = (group.members for group in groups if selector is not None and selector.matches(group.labels))
    return sum(snapshot.pods[row].is_ready for rows in selected for row in rows)


def _with_live_status(pod: Pod) -> Pod:
    labels = pod.metadata.labels or {}
    name = f"{labels.get('app', 'bare')}-{labels.get('pod-template-hash', '0')}"
    owner = OwnerReference("apps/v1", "ReplicaSet", name, controller=True)
    ready = Condition("Ready", "False" if crc32(pod.metadata.name.encode()) % 50 == 0 else "True")
    return replace(
        pod,
        metadata=replace(pod.metadata, owner_references=[owner]),
        status=replace(pod.status, conditions=[ready]),
    )
