"""kube-scheduler in the storm: its scheduling queue, the candidates it sends, and its use of the extender's response.

A preemptor that fits is bound. One that does not fit waits while its victims are terminating; otherwise the dry run's
candidates are sent, from a random node on until there are a hundred (defaultpreemption, v1.36). After a failure it
waits for a cluster event, with a back-off of 1 s up to 10 s (as in the scheduling queue). One pod is tried at a time.

Rule: it decides on its own cache with the default profile, whatever the extender's profile is.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from benchmarks.renamed import SentCandidate
from benchmarks.storm.clock import Clock
from benchmarks.storm.truth import MIB, Life
from extender.cluster.cache.cache import ClusterCache
from extender.core.engine import Candidate
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.status import Code
from extender.core.profile import Profile
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.requests import incoming_requests
from extender.k8s.version.features import DEFAULT_FEATURES
from tests.builders import candidates_sent_by_kube_scheduler

SCHEDULING_SECONDS = 0.005
"""Duration of one scheduling attempt."""
INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 10.0
MAX_UNSCHEDULABLE_SECONDS = 60.0
"""Maximum wait before a pod is tried again without a cluster event (as podMaxInUnschedulablePodsDuration)."""

MIN_CANDIDATES = 100
MIN_CANDIDATES_SHARE = 0.1

FITTING = Profile()


class Actions(Protocol):
    """Effects of a scheduling attempt on the cluster, and the call to the extender."""

    def tried(self, life: Life, fits: bool) -> None: ...

    def ask(self, pod: Pod, sent: dict[str, SentCandidate]) -> Candidate | None: ...

    def bind(self, life: Life, node: str) -> None: ...

    def preempt(self, life: Life, candidate: Candidate) -> None: ...

    def fail(self) -> None: ...


@dataclass(slots=True)
class Waiting:
    """A pod between two attempts."""

    life: Life
    not_before: float


@dataclass(slots=True)
class KubeScheduler:
    """The scheduling queue and the scheduling cycle."""

    clock: Clock
    cache: ClusterCache
    actions: Actions
    chance: random.Random
    is_leaving_for: Callable[[Life], bool]
    """Whether a victim is still terminating on the node that the pod is nominated to."""
    _ready: list[tuple[int, int, Life]] = field(default_factory=list)
    _tries: dict[str, int] = field(default_factory=dict)
    _waiting: dict[str, Waiting] = field(default_factory=dict)
    _count: int = 0
    _is_busy: bool = False

    # --- the queue --------------------------------------------------------------------------------------------

    def add(self, life: Life) -> None:
        """Queue the pod for an attempt: higher priority first, then first come, first served."""
        self._count += 1
        heapq.heappush(self._ready, (-life.template.priority, self._count, life))
        if not self._is_busy:
            self._is_busy = True
            self.clock.after(0, self._next)

    def something_changed(self) -> None:
        """Requeue all waiting pods, each once its back-off is over."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for one in waiting:
            self._again(one.life, one.not_before - self.clock.now)

    def _again(self, life: Life, seconds: float) -> None:
        self.clock.after(max(0.0, seconds), lambda: self.add(life))

    def _wait(self, life: Life) -> None:
        tries = self._tries[life.uid]
        waiting = Waiting(life, self.clock.now + min(MAX_BACKOFF_SECONDS, INITIAL_BACKOFF_SECONDS * 2 ** (tries - 1)))
        self._waiting[life.uid] = waiting

        def at_last() -> None:
            if self._waiting.get(life.uid) is waiting:
                del self._waiting[life.uid]
                self.add(life)

        self.clock.after(MAX_UNSCHEDULABLE_SECONDS, at_last)

    def _next(self) -> None:
        _, _, life = heapq.heappop(self._ready)
        self._tries[life.uid] = self._tries.get(life.uid, 0) + 1
        self._try(life)
        self._is_busy = bool(self._ready)
        if self._ready:
            self.clock.after(SCHEDULING_SECONDS, self._next)

    # --- a cycle ----------------------------------------------------------------------------------------------

    def _try(self, life: Life) -> None:
        snapshot = self.cache.snapshot()
        filter_run = run_filter_plugins(scheduling_context(snapshot, life.pod, FITTING))
        fitting = filter_run.rows(Code.SUCCESS)
        if len(fitting):
            self.actions.tried(life, fits=True)
            self._bind(life, best_fitting(snapshot, life.pod, fitting))
            return
        if not self.is_leaving_for(life):
            self.actions.tried(life, fits=False)
            self._preempt(snapshot, life, filter_run.rows(Code.UNSCHEDULABLE))
        self._wait(life)

    def _bind(self, life: Life, node: str) -> None:
        self.cache.assumed.assume_bound(life.pod.metadata.namespace, life.name, life.uid, node)
        self.actions.bind(life, node)

    def _preempt(self, snapshot: Snapshot, life: Life, potential: IntArray) -> None:
        sent = self._sample(snapshot, life.pod, potential)
        candidate = self.actions.ask(life.pod, sent) if sent else None
        if candidate is None:
            return
        if not _are_known(snapshot, candidate):
            self.actions.fail()
            return
        self.cache.assumed.assume_preempted(life.pod, candidate.node, ())
        self.actions.preempt(life, candidate)

    def _sample(self, snapshot: Snapshot, pod: Pod, potential: IntArray) -> dict[str, SentCandidate]:
        """Take candidates from a random node on, until there are enough and one breaks no budget (DryRunPreemption)."""
        names = [snapshot.node_names[row] for row in potential.tolist()]
        of_node = candidates_sent_by_kube_scheduler(snapshot, pod, set(names))
        begin = self.chance.randrange(len(names)) if names else 0
        enough = max(MIN_CANDIDATES, int(MIN_CANDIDATES_SHARE * len(names)))
        sent: dict[str, SentCandidate] = {}
        harmless = False
        for name in (*names[begin:], *names[:begin]):
            if len(sent) >= enough and harmless:
                break
            if name in of_node:
                sent[name] = of_node[name]
                harmless |= sent[name].num_pdb_violations == 0
        return sent

    # --- pods that were evicted -------------------------------------------------------------------------------

    def place(self, waiting: list[Life]) -> list[Life]:
        """Bind the pods that fit beside all nominated pods, most important first; return those that still wait."""
        if not waiting:
            return []
        snapshot = self.cache.snapshot()
        room = _room(snapshot)
        left = []
        for life in sorted(waiting, key=lambda one: -one.template.priority):
            wanted = np.array([life.template.cpu, life.template.memory * MIB])
            fits: BoolArray = np.asarray((room >= wanted[:, None]).all(axis=0))
            if life.only_node:
                fits &= np.arange(room.shape[1]) == snapshot.node_row[life.only_node]
            row = int(np.where(fits, room[0], -1).argmax())
            if fits[row]:
                room[:, row] -= wanted
                self._bind(life, snapshot.node_names[row])
            else:
                left.append(life)
        return left


def best_fitting(snapshot: Snapshot, pod: Pod, fitting: IntArray) -> str:
    """Return the pod's nominated node if it fits there, otherwise the node with the most free CPU."""
    nominated = snapshot.node_row.get(pod.status.nominated_node_name)
    if nominated is not None and nominated in fitting:
        return snapshot.node_names[nominated]
    free = (snapshot.allocatable - snapshot.used)[0, fitting]
    return snapshot.node_names[int(fitting[free.argmax()])]


def _room(snapshot: Snapshot) -> IntArray:
    """Return free CPU and memory [resource, node] beside running and nominated pods."""
    room: IntArray = (snapshot.allocatable - snapshot.used)[:2].copy()
    for nominee in snapshot.nominees:
        row = snapshot.node_row[nominee.status.nominated_node_name]
        wanted = incoming_requests(nominee, DEFAULT_FEATURES)
        room[:, row] -= (wanted["cpu"], wanted["memory"])
    return room


def _are_known(snapshot: Snapshot, candidate: Candidate) -> bool:
    """Return whether kube-scheduler knows every victim on the node; if not, it rejects the whole response (v1.36)."""
    on_node = {pod.metadata.uid for pod in snapshot.pods_on(candidate.node)}
    return all(victim.metadata.uid in on_node for victim in candidate.victims)
