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
from extender.core.profile import Profile
from extender.core.simulator import effects
from extender.core.simulator.arrivals import add_arrivals, pending_pods
from extender.core.simulator.result import (
    ClusterSize,
    CyclePostFilter,
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
    attempt: int
    """1 for the first attempt to schedule the pod."""
    victims: tuple[EvictedPod, ...]


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
        self, snapshot: Snapshot, profile: Profile, history: EvictionHistory = NO_HISTORY, draw: Draw | None = None
    ) -> None:
        self.snapshot = snapshot
        self.profile = profile
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
            cycle = schedule_one(self.snapshot, pod, self.profile, self.history, self._draw)
            yield Step(cycle, attempt, tuple(self._evicted_pods(cycle)))
            self._apply(cycle)

    def _evicted_pods(self, cycle: Cycle) -> Iterator[EvictedPod]:
        for victim in cycle.victims:
            yield EvictedPod(
                pod=victim.key,
                uid=victim.metadata.uid,
                priority=victim.priority,
                node=cycle.node or "",
                budgets=list(effects.budgets_counting(self.snapshot, victim, self._empty_selector)),
                preemptor=cycle.pod.key,
                terminating=victim.metadata.deletion_timestamp is not None,
            )

    @property
    def _empty_selector(self) -> str:
        return self.profile.preemption.empty_selector

    # --- effects of a cycle -----------------------------------------------------------------------------------

    def _apply(self, cycle: Cycle) -> None:
        if cycle.outcome == "Skipped":
            return
        if cycle.outcome == "Scheduled":
            self._bind(cycle)
        else:
            self._queue.add_unschedulable(cycle.pod, cycle.unschedulable_plugins)
            self._preempt(cycle)
        self._requeue_after_lost_nomination(cycle)

    def _bind(self, cycle: Cycle) -> None:
        assert cycle.node is not None
        effects.bind(self.snapshot, cycle.pod, cycle.node)
        self._queue.move_to_active(lambda _, plugins: bool(plugins & REQUEUED_BY_POD_ADD))

    def _preempt(self, cycle: Cycle) -> None:
        """Evict the victims, clear nominations of lower priority to the node and requeue every unschedulable pod."""
        if cycle.victims:
            assert cycle.node is not None
            effects.clear_nominations(self.snapshot, cycle.pod, cycle.node, self.profile.scheduler_names)
            effects.evict(self.snapshot, cycle.victims, self._empty_selector)
            self._record_evictions(cycle)
        effects.nominate(self.snapshot, cycle.pod, cycle.nominated_node)
        if cycle.victims:
            self._queue.move_to_active(lambda _pod, _by: True)

    def _requeue_after_lost_nomination(self, cycle: Cycle) -> None:
        """Requeue pods that had to yield to a nomination that the pod has lost (hasNominatedNodeNameChanged)."""
        before, now = cycle.pod.status.nominated_node_name, cycle.nominated_node or cycle.node
        if before and before != now:
            highest, key = cycle.pod.priority, cycle.pod.key
            self._queue.move_to_active(lambda pod, _by: pod.priority <= highest and pod.key != key)

    def _record_evictions(self, cycle: Cycle) -> None:
        """Add the evictions to the history that rate limits read."""
        evicted = [workload_of(one) for one in cycle.victims if one.metadata.deletion_timestamp is None]
        if evicted:
            evictions = (*(Eviction(0, workload) for workload in evicted), *self.history.evictions)
            attempts = (Attempt(0, cycle.pod.metadata.uid), *self.history.attempts)
            self.history = replace(self.history, evictions=evictions, attempts=attempts)


# --- the whole simulation -------------------------------------------------------------------------------------------


def simulate(
    snapshot: Snapshot,
    profile: Profile,
    pods: Iterable[Pod] = (),
    *,
    include_pending: bool = False,
    history: EvictionHistory = NO_HISTORY,
    draw: Draw | None = None,
    name: str = "",
    seed: int | None = None,
    on_step: Callable[[Step], object] | None = None,
) -> Simulation:
    """Simulate the arrival of `pods`, and with `include_pending` new attempts for the pending pods of the snapshot.

    The snapshot is modified. `draw` chooses among equal nodes, as in `schedule_one`; `name` and `seed` only label the
    result. `on_step` is called with every step before its effects. Raises RequestError for a pod that is not admitted.
    """
    cluster = ClusterSize(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods))
    arrived = add_arrivals(snapshot, list(pods))
    own = {pod.key for pod in arrived}
    before = [pod for pod in pending_pods(snapshot) if pod.key not in own] if include_pending else []
    scheduler = Scheduler(snapshot, profile, history, draw)
    scheduler.add([*before, *arrived])
    report = _ReportBuilder(snapshot)
    for step in scheduler:
        if on_step is not None:
            on_step(step)
        report.add(step)
    return report.build(cluster, name, seed)


class _ReportBuilder:
    """Collect the steps of a simulation and build its result."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._cycles: list[CycleReport] = []
        self._last: dict[str, CycleReport] = {}
        self._evicted: list[EvictedPod] = []
        self._before: dict[str, NodeAmounts] = {}

    def add(self, step: Step) -> None:
        """Add a step before its effects: the requests on its node are those before the first change."""
        report = _cycle_report(step)
        self._cycles.append(report)
        self._last[report.pod] = report
        self._evicted += report.victims
        changed = step.cycle.node
        if changed is not None and changed not in self._before:
            self._before[changed] = _requests_on(self._snapshot, changed)

    def build(self, cluster: ClusterSize, name: str, seed: int | None) -> Simulation:
        pending = [_pending(one) for one in self._last.values() if one.outcome in ("Unschedulable", "Nominated")]
        evicted = {one.pod for one in self._evicted}
        scheduled = [one for one in self._last.values() if one.outcome == "Scheduled" and one.pod not in evicted]
        summary = SimulationSummary(
            scheduled=len(scheduled),
            pending=len(pending),
            skipped=sum(one.outcome == "Skipped" for one in self._last.values()),
            evicted=len(self._evicted),
            pdb_violations=sum(one.num_pdb_violations for one in self._cycles),
            nodes=[self._node_usage(one) for one in sorted(self._before)],
        )
        return Simulation(
            cluster=cluster,
            profile=name,
            seed=seed,
            cycles=self._cycles,
            pending=pending,
            evicted=self._evicted,
            summary=summary,
        )

    def _node_usage(self, name: str) -> NodeUsage:
        before, after = self._before[name], _requests_on(self._snapshot, name)
        resources = list(dict.fromkeys((*before, *after)))
        return NodeUsage(
            name=name,
            before={resource: before.get(resource, 0) for resource in resources},
            after={resource: after.get(resource, 0) for resource in resources},
            allocatable=_allocatable(self._snapshot, name, resources),
        )


def _cycle_report(step: Step) -> CycleReport:
    cycle, result = step.cycle, step.cycle.post_filter
    return CycleReport(
        pod=cycle.pod.key,
        uid=cycle.pod.metadata.uid,
        priority=cycle.pod.priority,
        attempt=step.attempt,
        outcome=cycle.outcome,
        node=cycle.node if cycle.outcome == "Scheduled" else None,
        feasible=cycle.feasible,
        score=cycle.score,
        message=cycle.message,
        post_filter=None if result is None else CyclePostFilter(code=result.code, reasons=list(result.reasons)),
        nominated_node=cycle.nominated_node or None,
        victims=list(step.victims),
        num_pdb_violations=cycle.num_pdb_violations,
        vetoed=cycle.vetoed,
        not_evaluated=list(cycle.not_evaluated),
    )


def _pending(last: CycleReport) -> PendingPod:
    return PendingPod(
        pod=last.pod,
        uid=last.uid,
        priority=last.priority,
        attempts=last.attempt,
        message=last.message,
        nominated_node=last.nominated_node,
        vetoed=last.vetoed,
    )


def _requests_on(snapshot: Snapshot, node: str) -> NodeAmounts:
    """Return the sum of the requests of all pods on the node."""
    row, pod_table = snapshot.node_row[node], snapshot.pod_table
    amounts = dict(zip(BASE_RESOURCES, snapshot.used[:, row].tolist(), strict=True))
    for pod in pod_table.on_node[row].values():
        for resource, amount in pod_table.resources[pod].scalar_resources:
            amounts[resource] = amounts.get(resource, 0) + amount
    return amounts


def _allocatable(snapshot: Snapshot, node: str, resources: Iterable[str]) -> NodeAmounts:
    row = snapshot.node_row[node]
    base = dict(zip(BASE_RESOURCES, snapshot.allocatable[:, row].tolist(), strict=True))
    return {one: base[one] if one in base else int(snapshot.scalar_allocatable(one)[row]) for one in resources}
