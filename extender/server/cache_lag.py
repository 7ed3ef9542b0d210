"""Wait for the watch where a decision contradicts kube-scheduler: it may have seen an event that is still on its way.

kube-scheduler offers only nodes that passed its own filters, and victims that its cache holds. A decision that says
otherwise is made again after changes of the cluster cache, within the limits of a `Wait`: a longer one where pods would
be evicted for nothing. Where the two schedulers differ for another reason, no event helps, and waiting would slow pods
down: after a wait that expired there is none of its kind for a while.

Rule: the last decision stands, whatever it says.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from extender.cluster.cache.cache import ClusterCache
from extender.errors import UnknownNode
from extender.server.observability.metrics import Metrics
from extender.utilities.lru import LRU


@dataclass(frozen=True, slots=True)
class Wait:
    """Limits of one kind of wait."""

    seconds: float
    """Longest wait of one call."""
    decisions: int
    """Decisions of one call, the first included."""
    interval: float
    """Seconds from an event to the decision that it causes, in which further events may arrive."""
    pause: float
    """Seconds after a wait that expired during which the pod's calls do not wait."""
    pause_of_all: float
    """Seconds after it during which the calls of no pod do."""


USUAL = Wait(seconds=0.05, decisions=4, interval=0.0, pause=1.0, pause_of_all=0.0)

BEFORE_PREEMPTION = Wait(seconds=0.5, decisions=26, interval=0.02, pause=30.0, pause_of_all=2.0)
"""Used when we reject every offered node: kube-scheduler would preempt next, so waiting longer is worth it."""

MAX_REMEMBERED_PODS = 1000
"""Bound on the pods that are remembered, for each reason; the oldest are forgotten first."""


class Decision(Protocol):
    """What a verb decided."""

    @property
    def contradicts_scheduler(self) -> bool:
        """Return whether kube-scheduler's cache must differ from ours."""

    @property
    def leads_to_preemption(self) -> bool:
        """Return whether kube-scheduler evicts pods next, because of the contradiction."""


DecisionT = TypeVar("DecisionT", bound=Decision)


class CacheLag:
    """Waits of the calls of one process. Used by the event loop's thread only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paused_until = {wait: LRU[str, float](MAX_REMEMBERED_PODS) for wait in (USUAL, BEFORE_PREEMPTION)}
        """UID of a pod -> time."""
        self._all_paused_until = {USUAL: 0.0, BEFORE_PREEMPTION: 0.0}
        self._fitted = LRU[str, None](MAX_REMEMBERED_PODS)
        """UIDs of the pods for which no eviction was needed because they fitted."""

    def trusts_fit(self, uid: str) -> bool:
        """Return whether a pod that fits on a sent node is left to kube-scheduler: once per pod.

        If kube-scheduler sends it again, it has a reason that is not known here.
        """
        return uid not in self._fitted

    def note_fit(self, uid: str) -> None:
        """Remember that the pod was left to kube-scheduler because it fits."""
        self._fitted.put(uid, None)

    async def decide(
        self, cache: ClusterCache, metrics: Metrics, uid: str, deadline: float, decide: Callable[[], DecisionT]
    ) -> DecisionT:
        """Return the decision for the pod `uid`, made again as long as it contradicts kube-scheduler.

        `deadline`: time by the clock at which the call's decision is late. Raises what the last decision raises.
        """
        started = self._clock()
        decision = _decision_or_none(decide)
        if decision is None or decision.contradicts_scheduler:
            wait = self._wait(uid, started, is_long=decision is not None and decision.leads_to_preemption)
            if wait is not None:
                ends = min(started + wait.seconds, deadline)
                decision = await self._decide_again(cache, metrics, uid, wait, ends, decide)
        return decide() if decision is None else decision

    def _wait(self, uid: str, now: float, *, is_long: bool) -> Wait | None:
        """Return the longest wait that is not paused; None if all are."""
        for wait in (BEFORE_PREEMPTION, USUAL) if is_long else (USUAL,):
            if now >= max(self._paused_until[wait].get(uid, 0.0), self._all_paused_until[wait]):
                return wait
        return None

    async def _decide_again(
        self, cache: ClusterCache, metrics: Metrics, uid: str, wait: Wait, ends: float, decide: Callable[[], DecisionT]
    ) -> DecisionT | None:
        """Decide after changes until the decision agrees with kube-scheduler, or leads to no preemption any more."""
        decision: DecisionT | None = None
        for _ in range(wait.decisions - 1):
            change = cache.next_change()
            left = ends - self._clock()
            if left > 0:
                await asyncio.wait([change], timeout=left)
            is_over = not change.done()
            if not is_over and wait.interval:
                await asyncio.sleep(min(wait.interval, max(0.0, ends - self._clock())))
            decision = _decision_or_none(decide)  # other calls may have assumed something, even without an event
            if decision is not None and not _is_waited_for(decision, wait):
                metrics.count_watch_wait("agreed")
                return decision
            if is_over:
                break
        metrics.count_watch_wait("expired")
        self._paused_until[wait].put(uid, self._clock() + wait.pause)
        self._all_paused_until[wait] = self._clock() + wait.pause_of_all
        return decision


def _is_waited_for(decision: Decision, wait: Wait) -> bool:
    """Return whether the decision has still what the wait is for."""
    return decision.leads_to_preemption if wait is BEFORE_PREEMPTION else decision.contradicts_scheduler


def _decision_or_none(decide: Callable[[], DecisionT]) -> DecisionT | None:
    """Return the decision; None if a node of the request is unknown, which an event may change."""
    try:
        return decide()
    except UnknownNode:
        return None
