"""Scheduling cycles one after another, with what becomes of each: what would happen if these pods arrived.

Pods that have not been tried come first, by priority and then by age. A pod that was not placed is tried again when
something has changed that may help it, after all that were tried less often (kube-scheduler's back-off), and never
otherwise. Evicted pods are gone at once and do not come back. Time stands still.

It ends: a pod is tried again only after a pod was bound or evicted or has lost its nomination; each happens no more
often than there are pods, and a nomination is only ever won by evicting somebody.

Rule: the snapshot is the caller's own to change; between two cycles it is as the next one will see it.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from extender.core.eviction_history import NO_HISTORY, Attempt, Eviction, EvictionHistory
from extender.core.profile import Profile
from extender.core.simulator import effects
from extender.core.simulator.arrivals import arrive, by_priority, pending
from extender.core.simulator.result import (
    Amounts,
    ClusterShown,
    CycleShown,
    NodeShown,
    PendingShown,
    PostFilterShown,
    ScoreShown,
    Simulation,
    SummaryShown,
    VictimShown,
)
from extender.core.simulator.schedule_one import Cycle, Draw, run_cycle
from extender.core.snapshot.arrays import BASE_RESOURCES
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import Key, key_of
from extender.k8s.objects import Pod
from extender.k8s.workloads import workload_of

WAIT_FOR_PODS = frozenset({"InterPodAffinity", "PodTopologySpread"})
"""Plugins to which one more running pod can matter (EventsToRegister: AssignedPodAdd)."""

LONGEST_BACK_OFF = 5
"""After so many attempts the back-off does not grow any more: 1 s, 2 s, 4 s, 8 s, 10 s."""


@dataclass(frozen=True, slots=True)
class Step:
    """A cycle, before anything has come of it: its `run` and `decision` are good while one looks at it."""

    cycle: Cycle
    attempt: int
    victims: tuple[VictimShown, ...]


class Queue:
    """Who is tried next (backend/queue, v1.36, with a clock that stands still)."""

    def __init__(self) -> None:
        self._ready: list[tuple[int, int, int, Key]] = []
        self._waiting: dict[Key, tuple[Pod, frozenset[str]]] = {}
        self._attempts: dict[Key, int] = {}
        self._came = 0

    def add(self, pod: Pod) -> None:
        """Behind those that were tried less often, are more important, or came before."""
        key = key_of("Pod", pod)
        tried = min(self._attempts.setdefault(key, 0), LONGEST_BACK_OFF)
        self._came += 1
        heapq.heappush(self._ready, (tried, -pod.priority, self._came, key))

    def pop(self) -> tuple[Key, int] | None:
        """The next pod, and which attempt it is; None: nobody is left to be tried."""
        if not self._ready:
            return None
        key = heapq.heappop(self._ready)[-1]
        self._attempts[key] += 1
        return key, self._attempts[key]

    def wait(self, pod: Pod, rejected_by: frozenset[str]) -> None:
        """Not placed: until something happens."""
        self._waiting[key_of("Pod", pod)] = pod, rejected_by

    def move(self, helps: Callable[[Pod, frozenset[str]], bool]) -> None:
        """Something happened that may help some of those that wait."""
        for key, (pod, rejected_by) in list(self._waiting.items()):
            if helps(pod, rejected_by):
                del self._waiting[key]
                self.add(pod)


class Scheduler:
    """Runs the cycles; an iteration is one `Step`."""

    def __init__(
        self, snapshot: Snapshot, profile: Profile, moment: EvictionHistory = NO_HISTORY, draw: Draw | None = None
    ) -> None:
        self.snapshot = snapshot
        self.profile = profile
        self.moment = moment
        self._draw = draw
        self._queue = Queue()
        self._arrived: dict[Key, Pod] = {}

    def add(self, pods: Sequence[Pod]) -> None:
        """Pods to be placed; they are in the snapshot already, unless they are to be skipped."""
        for pod in by_priority(pods):
            self._arrived[key_of("Pod", pod)] = pod
            self._queue.add(pod)

    def __iter__(self) -> Iterator[Step]:
        while (turn := self._queue.pop()) is not None:
            key, attempt = turn
            pod = self.snapshot.objects.pods.get(key, self._arrived[key])
            cycle = run_cycle(self.snapshot, pod, self.profile, self.moment, self._draw)
            yield Step(cycle, attempt, tuple(self._shown_victims(cycle)))
            self._follow(cycle)

    def _shown_victims(self, cycle: Cycle) -> Iterator[VictimShown]:
        for victim in cycle.victims:
            yield VictimShown(
                pod=victim.key,
                uid=victim.metadata.uid,
                priority=victim.priority,
                node=cycle.node or "",
                budgets=list(effects.budgets_of(self.snapshot, victim, self._empty_selects)),
                preemptor=cycle.pod.key,
                leaving=victim.metadata.deletion_timestamp is not None,
            )

    @property
    def _empty_selects(self) -> str:
        return self.profile.preemption.empty_selector

    # --- what becomes of a cycle ------------------------------------------------------------------------------

    def _follow(self, cycle: Cycle) -> None:
        if cycle.outcome == "Skipped":
            return
        if cycle.outcome == "Scheduled":
            self._bind(cycle)
        else:
            self._queue.wait(cycle.pod, cycle.rejected_by)
            self._preempt(cycle)
        self._lose_nomination(cycle)

    def _bind(self, cycle: Cycle) -> None:
        assert cycle.node is not None
        effects.bind(self.snapshot, cycle.pod, cycle.node)
        self._queue.move(lambda _, rejected_by: bool(rejected_by & WAIT_FOR_PODS))

    def _preempt(self, cycle: Cycle) -> None:
        """The victims go, whoever waits for their room loses it, and everybody is tried again."""
        if cycle.victims:
            assert cycle.node is not None
            effects.clear_nominations(self.snapshot, cycle.pod, cycle.node, self.profile.scheduler_names)
            effects.evict(self.snapshot, cycle.victims, self._empty_selects)
            self._remember(cycle)
        effects.nominate(self.snapshot, cycle.pod, cycle.nominated_node)
        if cycle.victims:
            self._queue.move(lambda _pod, _by: True)

    def _lose_nomination(self, cycle: Cycle) -> None:
        """Room that is reserved no more is room for pods that had to yield to it (hasNominatedNodeNameChanged)."""
        before, now = cycle.pod.status.nominated_node_name, cycle.nominated_node or cycle.node
        if before and before != now:
            highest, key = cycle.pod.priority, cycle.pod.key
            self._queue.move(lambda pod, _by: pod.priority <= highest and pod.key != key)

    def _remember(self, cycle: Cycle) -> None:
        """For limits that look back."""
        evicted = [workload_of(one) for one in cycle.victims if one.metadata.deletion_timestamp is None]
        if evicted:
            evictions = (*(Eviction(0, workload) for workload in evicted), *self.moment.evictions)
            attempts = (Attempt(0, cycle.pod.metadata.uid), *self.moment.attempts)
            self.moment = replace(self.moment, evictions=evictions, attempts=attempts)


# --- all of it ------------------------------------------------------------------------------------------------------


def simulate(
    snapshot: Snapshot,
    profile: Profile,
    pods: Iterable[Pod] = (),
    *,
    waiting: bool = False,
    moment: EvictionHistory = NO_HISTORY,
    draw: Draw | None = None,
    name: str = "",
    seed: int | None = None,
    watch: Callable[[Step], object] | None = None,
) -> Simulation:
    """What would happen if `pods` arrived, or if those that wait (`waiting`) were tried. The snapshot changes.

    `name` and `seed` are for the result only; `draw`: see `Cycle`. `watch` is shown every step before anything has come
    of it. RequestError for pods that cannot arrive.
    """
    cluster = ClusterShown(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods))
    arrived = arrive(snapshot, list(pods))
    own = {pod.key for pod in arrived}
    before = [pod for pod in pending(snapshot) if pod.key not in own] if waiting else []
    scheduler = Scheduler(snapshot, profile, moment, draw)
    scheduler.add([*before, *arrived])
    record = _Record(snapshot)
    for step in scheduler:
        if watch is not None:
            watch(step)
        record.note(step)
    return record.simulation(cluster, name, seed)


class _Record:
    """What is kept of every step."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._cycles: list[CycleShown] = []
        self._last: dict[str, CycleShown] = {}
        self._evicted: list[VictimShown] = []
        self._before: dict[str, Amounts] = {}

    def note(self, step: Step) -> None:
        shown = _shown(step)
        self._cycles.append(shown)
        self._last[shown.pod] = shown
        self._evicted += shown.victims
        changed = step.cycle.node
        if changed is not None and changed not in self._before:
            self._before[changed] = _requested(self._snapshot, changed)

    def simulation(self, cluster: ClusterShown, name: str, seed: int | None) -> Simulation:
        pending = [_pending(one) for one in self._last.values() if one.outcome in ("Unschedulable", "Nominated")]
        gone = {one.pod for one in self._evicted}
        scheduled = [one for one in self._last.values() if one.outcome == "Scheduled" and one.pod not in gone]
        summary = SummaryShown(
            scheduled=len(scheduled),
            pending=len(pending),
            skipped=sum(one.outcome == "Skipped" for one in self._last.values()),
            evicted=len(self._evicted),
            pdb_violations=sum(one.num_pdb_violations for one in self._cycles),
            nodes=[self._node(one) for one in sorted(self._before)],
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

    def _node(self, name: str) -> NodeShown:
        before, after = self._before[name], _requested(self._snapshot, name)
        resources = list(dict.fromkeys((*before, *after)))
        return NodeShown(
            name=name,
            before={resource: before.get(resource, 0) for resource in resources},
            after={resource: after.get(resource, 0) for resource in resources},
            allocatable=_allocatable(self._snapshot, name, resources),
        )


def _shown(step: Step) -> CycleShown:
    cycle = step.cycle
    return CycleShown(
        pod=cycle.pod.key,
        uid=cycle.pod.metadata.uid,
        priority=cycle.pod.priority,
        attempt=step.attempt,
        outcome=cycle.outcome,
        node=cycle.node if cycle.outcome == "Scheduled" else None,
        feasible=cycle.feasible,
        score=_score(cycle),
        message=cycle.message,
        post_filter=_post_filter(cycle),
        nominated_node=cycle.nominated_node or None,
        victims=list(step.victims),
        num_pdb_violations=cycle.num_pdb_violations,
        vetoed=cycle.vetoed,
        not_evaluated=list(cycle.not_evaluated),
    )


def _score(cycle: Cycle) -> ScoreShown | None:
    score = cycle.score
    if score is None:
        return None
    return ScoreShown(total=score.total, plugins=score.plugins, tied=score.tied, ties=list(score.ties))


def _post_filter(cycle: Cycle) -> PostFilterShown | None:
    said = cycle.post_filter
    return None if said is None else PostFilterShown(code=said.code, reasons=list(said.reasons))


def _pending(last: CycleShown) -> PendingShown:
    return PendingShown(
        pod=last.pod,
        uid=last.uid,
        priority=last.priority,
        attempts=last.attempt,
        message=last.message,
        nominated_node=last.nominated_node,
        vetoed=last.vetoed,
    )


def _requested(snapshot: Snapshot, node: str) -> Amounts:
    """What the node's pods request together."""
    row, running = snapshot.node_row[node], snapshot.running
    amounts = dict(zip(BASE_RESOURCES, snapshot.used[:, row].tolist(), strict=True))
    for pod in running.on_node[row].values():
        for resource, amount in running.loads[pod].others:
            amounts[resource] = amounts.get(resource, 0) + amount
    return amounts


def _allocatable(snapshot: Snapshot, node: str, resources: Iterable[str]) -> Amounts:
    row = snapshot.node_row[node]
    base = dict(zip(BASE_RESOURCES, snapshot.allocatable[:, row].tolist(), strict=True))
    return {one: base[one] if one in base else int(snapshot.scalar_allocatable(one)[row]) for one in resources}
