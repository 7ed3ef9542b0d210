"""Simulate scheduling cycles one after another, each on the cluster state that the previous one left.

Pods that have not been tried come first, by priority and then by age. A pod that was not scheduled is requeued only
after an event that may help it, behind all pods that were tried less often (kube-scheduler's back-off). Evicted pods
disappear at once and are not recreated. The clock stands still.

The simulation terminates: a pod is requeued only after a pod was bound, evicted or lost its nomination. There are at
most as many bindings and evictions as pods, and a pod wins a nomination only by evicting others.

Rule: the snapshot belongs to the caller and is changed; between two cycles it is in the state that the next one reads.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from extender.core.eviction_history import NO_HISTORY, Attempt, Eviction, EvictionHistory
from extender.core.profile import DYNAMIC_RESOURCES, UPSTREAM, KubeScheduler
from extender.core.simulator import effects
from extender.core.simulator.arrivals import add_arrivals, add_claims, pending_pods
from extender.core.simulator.reserve import claim_keys
from extender.core.simulator.result import (
    ClusterSize,
    CycleReport,
    EvictedPod,
    NodeAmounts,
    NodeUsage,
    PendingPod,
    Simulation,
    SimulationSummary,
)
from extender.core.simulator.schedule_one import Cycle, Draw, schedule_one
from extender.core.snapshot.arrays import BASE_RESOURCES
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import ResourceClaim
from extender.k8s.kinds import Key, key_of
from extender.k8s.objects import Pod
from extender.k8s.workloads import workload_of

REQUEUED_BY_POD_ADD = frozenset({"InterPodAffinity", "PodTopologySpread"})
"""Plugins that requeue a pod when another one was bound (EventsToRegister: AssignedPodAdd)."""

MAX_BACKOFF_ATTEMPTS = 5
"""Number of attempts after which the back-off stops growing: 1 s, 2 s, 4 s, 8 s, then 10 s."""


@dataclass(frozen=True, slots=True)
class Step:
    """A cycle before its effects: `cycle.dry_run` and `cycle.decision` are valid only until the next step."""

    cycle: Cycle
    report: CycleReport


class SchedulingQueue:
    """The active queue and the unschedulable pods (backend/queue, v1.36, with a clock that stands still)."""

    def __init__(self) -> None:
        self._active: list[tuple[int, int, int, Key]] = []
        self._unschedulable: dict[Key, tuple[Pod, frozenset[str]]] = {}
        self._attempts: dict[Key, int] = {}
        self._arrivals = 0

    def add(self, pod: Pod) -> None:
        """Queue the pod behind those with fewer attempts, then higher priority, then earlier arrival."""
        key = key_of("Pod", pod)
        tried = min(self._attempts.setdefault(key, 0), MAX_BACKOFF_ATTEMPTS)
        self._arrivals += 1
        heapq.heappush(self._active, (tried, -pod.priority, self._arrivals, key))

    def pop(self) -> tuple[Key, int] | None:
        """Return the next pod and the number of its attempt; None: the active queue is empty."""
        if not self._active:
            return None
        key = heapq.heappop(self._active)[-1]
        self._attempts[key] += 1
        return key, self._attempts[key]

    def add_unschedulable(self, pod: Pod, plugins: frozenset[str]) -> None:
        """Hold back a pod that was not scheduled, with the plugins that rejected it, until an event requeues it."""
        self._unschedulable[key_of("Pod", pod)] = pod, plugins

    def move_to_active(self, is_helped: Callable[[Pod, frozenset[str]], bool]) -> None:
        """Requeue the unschedulable pods that an event may help (MoveAllToActiveOrBackoffQueue)."""
        for key, (pod, plugins) in list(self._unschedulable.items()):
            if is_helped(pod, plugins):
                del self._unschedulable[key]
                self.add(pod)


class Scheduler:
    """Run scheduling cycles until the active queue is empty; each iteration yields one `Step` before its effects."""

    def __init__(
        self,
        snapshot: Snapshot,
        scheduler: KubeScheduler,
        history: EvictionHistory = NO_HISTORY,
        draw: Draw | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.scheduler = scheduler
        self.history = history
        self._draw = draw
        self._queue = SchedulingQueue()
        self._arrived: dict[Key, Pod] = {}

    def add(self, pods: Sequence[Pod]) -> None:
        """Queue the pods, by priority and then in the given order.

        They are in the snapshot already, except for those that the cycle will skip.
        """
        for pod in sorted(pods, key=lambda pod: -pod.priority):
            self._arrived[key_of("Pod", pod)] = pod
            self._queue.add(pod)

    def __iter__(self) -> Iterator[Step]:
        while (turn := self._queue.pop()) is not None:
            key, attempt = turn
            pod = self.snapshot.objects.pods.get(key, self._arrived[key])
            cycle = schedule_one(self.snapshot, pod, self.scheduler, self.history, self._draw)
            yield Step(cycle, self._report(cycle, attempt))
            if cycle.outcome != "Skipped":
                self._apply(cycle)

    def _report(self, cycle: Cycle, attempt: int) -> CycleReport:
        empty_selector = self.scheduler.preemption.empty_selector
        victims = [
            EvictedPod(
                pod=victim.key,
                uid=victim.metadata.uid,
                priority=victim.priority,
                node=cycle.node or "",
                budgets=effects.budgets_counting(self.snapshot, victim, empty_selector),
                preemptor=cycle.pod.key,
                terminating=victim.metadata.deletion_timestamp is not None,
            )
            for victim in cycle.victims
        ]
        return CycleReport(
            pod=cycle.pod.key,
            uid=cycle.pod.metadata.uid,
            priority=cycle.pod.priority,
            attempt=attempt,
            outcome=cycle.outcome,
            node=cycle.node if cycle.outcome == "Scheduled" else None,
            feasible=cycle.feasible,
            score=cycle.score,
            message=cycle.message,
            post_filter=cycle.post_filter,
            nominated_node=cycle.nominated_node or None,
            victims=victims,
            num_pdb_violations=cycle.num_pdb_violations,
            vetoed=cycle.vetoed,
            claims=cycle.reservation.reports(),
            deallocated=None if cycle.deallocated is None else "/".join(cycle.deallocated),
            hint=cycle.hint,
            not_evaluated=list(cycle.not_evaluated),
        )

    def _apply(self, cycle: Cycle) -> None:
        """Bind the pod, or evict the victims and nominate it; requeue the unschedulable pods that this may help."""
        if cycle.outcome == "Scheduled":
            assert cycle.node is not None
            effects.bind(self.snapshot, cycle.pod, cycle.node, cycle.reservation)
            self._queue.move_to_active(lambda _, plugins: bool(plugins & REQUEUED_BY_POD_ADD))
            self._claims_changed(frozenset(key_of("ResourceClaim", one) for one in cycle.reservation.claims))
        else:
            self._queue.add_unschedulable(cycle.pod, cycle.unschedulable_plugins)
            if cycle.victims:
                self._evict(cycle)
            if cycle.deallocated is not None:
                effects.deallocate(self.snapshot, cycle.pod, cycle.deallocated)
                self._queue.move_to_active(lambda _, plugins: DYNAMIC_RESOURCES in plugins)
            effects.nominate(self.snapshot, cycle.pod, cycle.nominated_node)
            if cycle.victims:
                self._queue.move_to_active(lambda _pod, _by: True)
        # Pods that had to yield to a nomination that the pod has lost (hasNominatedNodeNameChanged).
        before, now = cycle.pod.status.nominated_node_name, cycle.nominated_node or cycle.node
        if before and before != now:
            highest, key = cycle.pod.priority, cycle.pod.key
            self._queue.move_to_active(lambda pod, _by: pod.priority <= highest and pod.key != key)

    def _claims_changed(self, keys: frozenset[Key]) -> None:
        """Requeue the pods that wait for one of the claims (isSchedulableAfterClaimChange)."""
        if keys:
            self._queue.move_to_active(lambda pod, by: DYNAMIC_RESOURCES in by and not keys.isdisjoint(claim_keys(pod)))

    def _evict(self, cycle: Cycle) -> None:
        """Evict the victims, clear nominations of lower priority, and add the evictions that rate limits read."""
        profile = self.scheduler.profile_of(cycle.pod)
        assert cycle.node is not None
        assert profile is not None
        effects.clear_nominations(self.snapshot, cycle.pod, cycle.node, profile.scheduler_names)
        effects.evict(self.snapshot, cycle.victims, self.scheduler.preemption.empty_selector)
        evicted = [workload_of(one) for one in cycle.victims if one.metadata.deletion_timestamp is None]
        if evicted:
            evictions = (*(Eviction(0, workload) for workload in evicted), *self.history.evictions)
            attempts = (Attempt(0, cycle.pod.metadata.uid), *self.history.attempts)
            self.history = replace(self.history, evictions=evictions, attempts=attempts)


# --- the whole simulation -------------------------------------------------------------------------------------------


def simulate(
    snapshot: Snapshot,
    scheduler: KubeScheduler,
    pods: Iterable[Pod] = (),
    *,
    include_pending: bool = False,
    claims: Iterable[ResourceClaim] = (),
    history: EvictionHistory = NO_HISTORY,
    draw: Draw | None = None,
    name: str = "",
    seed: int | None = None,
    on_step: Callable[[Step], object] | None = None,
) -> Simulation:
    """Simulate the arrival of `pods`, and with `include_pending` new attempts for the pending pods of the snapshot.

    The snapshot is modified; it was built for `scheduler.features`. `claims` arrive with the pods. `draw` chooses among
    equal nodes, as in `schedule_one`; `name` and `seed` only label the result. `on_step` is called with every step
    before its effects. Raises RequestError for a pod or a claim that is not admitted.
    """
    cluster = ClusterSize(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods))
    add_claims(snapshot, claims)
    arrived = add_arrivals(snapshot, list(pods))
    own = {pod.key for pod in arrived}
    before = [pod for pod in pending_pods(snapshot) if pod.key not in own] if include_pending else []
    runs = Scheduler(snapshot, scheduler, history, draw)
    runs.add([*before, *arrived])
    cycles: list[CycleReport] = []
    requests_before: dict[str, NodeAmounts] = {}
    for step in runs:
        if on_step is not None:
            on_step(step)
        cycles.append(step.report)
        changed = step.cycle.node
        if changed is not None and changed not in requests_before:
            requests_before[changed] = _requests_on(snapshot, changed)
    nodes = [_node_usage(snapshot, node, requests_before[node]) for node in sorted(requests_before)]
    return _result(cluster, scheduler, name, seed, cycles, nodes)


def left_out(scheduler: KubeScheduler) -> list[str]:
    """Return what the configuration says that a simulation leaves out: plugins, and that kube-scheduler samples."""
    notes = []
    for profile in scheduler.profiles:
        name = f"profile {profile.scheduler_name}"
        if profile.percentage_of_nodes_to_score not in (0, 100):
            share = f"{name}: percentageOfNodesToScore is {profile.percentage_of_nodes_to_score}"
            notes.append(f"{share}: kube-scheduler stops once it has found enough feasible nodes; here all are judged")
        asked = profile.min_candidate_nodes_percentage, profile.min_candidate_nodes_absolute
        if asked != (UPSTREAM.min_candidate_nodes_percentage, UPSTREAM.min_candidate_nodes_absolute):
            limits = f"minCandidateNodesPercentage is {asked[0]} and minCandidateNodesAbsolute {asked[1]}"
            notes.append(f"{name}: {limits}: kube-scheduler's dry run tries that many nodes; here all are tried")
        if profile.not_evaluated_plugins:
            notes.append(f"{name}: plugins that are not evaluated: {', '.join(profile.not_evaluated_plugins)}")
    return notes


def _result(
    cluster: ClusterSize,
    scheduler: KubeScheduler,
    name: str,
    seed: int | None,
    cycles: list[CycleReport],
    nodes: list[NodeUsage],
) -> Simulation:
    last = {one.pod: one for one in cycles}.values()
    evicted = [victim for one in cycles for victim in one.victims]
    evicted_keys = {victim.pod for victim in evicted}
    pending = [
        PendingPod(
            pod=one.pod,
            uid=one.uid,
            priority=one.priority,
            attempts=one.attempt,
            message=one.message,
            nominated_node=one.nominated_node,
            vetoed=one.vetoed,
        )
        for one in last
        if one.outcome in ("Unschedulable", "Nominated")
    ]
    summary = SimulationSummary(
        scheduled=sum(one.outcome == "Scheduled" and one.pod not in evicted_keys for one in last),
        pending=len(pending),
        skipped=sum(one.outcome == "Skipped" for one in last),
        evicted=len(evicted),
        pdb_violations=sum(one.num_pdb_violations for one in cycles),
        nodes=nodes,
    )
    return Simulation(
        cluster=cluster,
        policies=name,
        version=scheduler.version,
        version_source=scheduler.version_source,
        feature_gates=scheduler.changed_gates,
        notes=left_out(scheduler),
        seed=seed,
        cycles=cycles,
        pending=pending,
        evicted=evicted,
        summary=summary,
    )


def _requests_on(snapshot: Snapshot, node: str) -> NodeAmounts:
    """Return the sum of the requests of all pods on the node."""
    row, pod_table = snapshot.node_row[node], snapshot.pod_table
    amounts = dict(zip(BASE_RESOURCES, snapshot.used[:, row].tolist(), strict=True))
    for pod in pod_table.on_node[row].values():
        for resource, amount in pod_table.scalar_resources.get(pod, ()):
            amounts[resource] = amounts.get(resource, 0) + amount
    return amounts


def _node_usage(snapshot: Snapshot, node: str, before: NodeAmounts) -> NodeUsage:
    row, after = snapshot.node_row[node], _requests_on(snapshot, node)
    base = dict(zip(BASE_RESOURCES, snapshot.allocatable[:, row].tolist(), strict=True))
    resources = dict.fromkeys((*before, *after))
    return NodeUsage(
        name=node,
        before={one: before.get(one, 0) for one in resources},
        after={one: after.get(one, 0) for one in resources},
        allocatable={
            one: base[one] if one in base else int(snapshot.scalar_allocatable(one)[row]) for one in resources
        },
    )
