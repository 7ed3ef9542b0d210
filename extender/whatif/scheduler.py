"""Run scheduling cycles one after another, each on the cluster state that the previous one left.

Pods that have not been tried come first, by priority and then by age. A pod that was not scheduled is requeued only
after an event that may help it, behind all pods that were tried less often (kube-scheduler's back-off). Evicted pods
disappear at once; `Controllers` recreates some of them. The clock stands still.

The queue always empties: a pod is requeued only after a pod was bound, evicted or lost its nomination, and these events
are finite. Controllers recreate a pod MAX_RECREATIONS times at most, and a pod is nominated only by evicting others.

Rule: the caller's snapshot is modified; after each cycle it holds the state that the next cycle reads.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from extender.core.eviction_history import NO_HISTORY, Attempt, Eviction, EvictionHistory
from extender.core.profile import DYNAMIC_RESOURCES, KubeScheduler
from extender.core.scheduling_cycle.reserve import claim_keys
from extender.core.scheduling_cycle.schedule_one import Cycle, Draw, schedule_one
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import Key, key_of
from extender.k8s.objects import Pod
from extender.k8s.workloads import workload_of
from extender.whatif import effects
from extender.whatif.controllers import Controllers

REQUEUED_BY_POD_ADD = frozenset({"InterPodAffinity", "PodTopologySpread"})
"""Plugins that requeue a pod when another pod is bound (EventsToRegister: AssignedPodAdd)."""

MAX_BACKOFF_ATTEMPTS = 5
"""Number of attempts after which the back-off stops growing: 1 s, 2 s, 4 s, 8 s, then 10 s."""


@dataclass(frozen=True, slots=True)
class Step:
    """A scheduling cycle, before its effects."""

    cycle: Cycle
    attempt: int
    """1 at the first attempt to schedule the pod."""


class SchedulingQueue:
    """The active queue and the unschedulable pods (backend/queue, v1.36, with a clock that stands still)."""

    def __init__(self) -> None:
        self._active: list[tuple[int, int, int, Key]] = []
        self._unschedulable: dict[Key, tuple[Pod, frozenset[str]]] = {}
        self._attempts: dict[Key, int] = {}
        self._arrivals = 0

    def add(self, pod: Pod) -> None:
        """Queue the pod behind pods with fewer attempts, then higher priority, then earlier arrival."""
        key = key_of("Pod", pod)
        # Fewer attempts mean a shorter back-off, which ends earlier.
        tried = min(self._attempts.setdefault(key, 0), MAX_BACKOFF_ATTEMPTS)
        self._arrivals += 1
        heapq.heappush(self._active, (tried, -pod.priority, self._arrivals, key))

    def pop(self) -> tuple[Key, int] | None:
        """Return the key of the next pod and the count of its attempts; None if the active queue is empty."""
        if not self._active:
            return None
        key = heapq.heappop(self._active)[-1]
        self._attempts[key] += 1
        return key, self._attempts[key]

    def forget(self, pod: Pod) -> None:
        """Reset the attempt count that an earlier pod of the same name left."""
        self._attempts.pop(key_of("Pod", pod), None)

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
        controllers: Controllers | None = None,
    ) -> None:
        """`controllers`: by default, evicted pods are not recreated."""
        self.snapshot = snapshot
        self.scheduler = scheduler
        self.history = history
        self.draw = draw
        self.controllers = controllers or Controllers(snapshot, recreate=False)
        self._queue = SchedulingQueue()
        self._arrived: dict[Key, Pod] = {}

    def add(self, pods: Sequence[Pod]) -> None:
        """Queue the pods, by priority and then in the given order.

        The pods must already be in the snapshot, except those that the cycle will skip.
        """
        for pod in sorted(pods, key=lambda pod: -pod.priority):
            self._arrived[key_of("Pod", pod)] = pod
            self._queue.add(pod)

    def recreate(self, pods: Sequence[Pod]) -> None:
        """Queue pods that controllers created for evicted pods, as pods that were never tried."""
        for pod in pods:
            self._queue.forget(pod)
        self.add(pods)

    def cluster_changed(self) -> None:
        """Requeue all unschedulable pods: nodes were added, or pods were evicted."""
        self._queue.move_to_active(lambda _pod, _by: True)

    def __iter__(self) -> Iterator[Step]:
        while (turn := self._queue.pop()) is not None:
            key, attempt = turn
            # A queued pod's nomination may have changed. A pod that will be skipped is not in the snapshot.
            pod = self.snapshot.objects.pods.get(key, self._arrived[key])
            cycle = schedule_one(self.snapshot, pod, self.scheduler, self.history, self.draw)
            yield Step(cycle, attempt)
            if cycle.outcome != "Skipped":
                self._apply(cycle)

    def _apply(self, cycle: Cycle) -> None:
        """Bind the pod, or evict the victims and nominate the pod; requeue unschedulable pods that this may help."""
        # 1. The effects, each with the event that requeues pods.
        if cycle.outcome == "Scheduled":
            assert cycle.node is not None
            effects.bind(self.snapshot, cycle.pod, cycle.node, cycle.reservation)
            self.add(self.controllers.bound(cycle.pod))
            self._queue.move_to_active(lambda _, plugins: bool(plugins & REQUEUED_BY_POD_ADD))
            if claims := frozenset(key_of("ResourceClaim", one) for one in cycle.reservation.claims):
                # Pods that share one of the claims (isSchedulableAfterClaimChange).
                self._queue.move_to_active(
                    lambda pod, by: DYNAMIC_RESOURCES in by and not claims.isdisjoint(claim_keys(pod))
                )
        else:
            self._queue.add_unschedulable(cycle.pod, cycle.unschedulable_plugins)
            if cycle.victims:
                self._evict(cycle)
            # DynamicResources' PostFilter deallocates a claim in the same cycle in which pods may be evicted.
            if cycle.deallocated is not None:
                effects.deallocate(self.snapshot, cycle.pod, cycle.deallocated)
                self._queue.move_to_active(lambda _, plugins: DYNAMIC_RESOURCES in plugins)
            effects.nominate(self.snapshot, cycle.pod, cycle.nominated_node)
            if cycle.victims:
                self._queue.move_to_active(lambda _pod, _by: True)
        # 2. The pod may have lost its nomination, to which other pods had to yield (hasNominatedNodeNameChanged).
        before, now = cycle.pod.status.nominated_node_name, cycle.nominated_node or cycle.node
        if before and before != now:
            highest, key = cycle.pod.priority, cycle.pod.key
            self._queue.move_to_active(lambda pod, _by: pod.priority <= highest and pod.key != key)

    def _evict(self, cycle: Cycle) -> None:
        """Evict the victims, clear lower-priority nominations, and record the evictions for rate limits."""
        profile = self.scheduler.profile_of(cycle.pod)
        assert cycle.node is not None
        assert profile is not None
        effects.clear_nominations(self.snapshot, cycle.pod, cycle.node, profile.scheduler_names)
        self.recreate(self.controllers.evict(cycle.victims, "Preempted", self.scheduler.preemption.empty_selector))
        evicted = [workload_of(one) for one in cycle.victims if one.metadata.deletion_timestamp is None]
        if evicted:
            # The clock stands still: all evictions of a simulation happened just now, at age 0.
            evictions = (*(Eviction(0, workload) for workload in evicted), *self.history.evictions)
            attempts = (Attempt(0, cycle.pod.metadata.uid), *self.history.attempts)
            self.history = replace(self.history, evictions=evictions, attempts=attempts)
