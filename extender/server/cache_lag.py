"""Wait for the watch when a decision contradicts kube-scheduler, which may have seen an event that we have not.

kube-scheduler sends only nodes that passed its own filters, and victims that its cache holds. A decision that
contradicts this is repeated after changes of the cluster cache, within the limits of a `Wait`, which are wider where
pods would be evicted for nothing. If the two schedulers differ for another reason, no event helps, and waiting would
only slow pods down: so an expired wait is followed by a pause without waits of its kind.

Rule: the last decision stands, even if it still contradicts kube-scheduler.
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
    """Maximum number of decisions of one call, including the first."""
    interval: float
    """Seconds between an event and the decision that it triggers, so that a burst of events triggers only one."""
    pause: float
    """Seconds after an expired wait during which the same pod gets no wait of this kind."""
    pause_of_all: float
    """Seconds after an expired wait during which no pod gets a wait of this kind."""


USUAL = Wait(seconds=0.05, decisions=4, interval=0.0, pause=1.0, pause_of_all=0.0)

BEFORE_PREEMPTION = Wait(seconds=0.5, decisions=26, interval=0.02, pause=30.0, pause_of_all=2.0)
"""Used when we reject every offered node: kube-scheduler would preempt next, so waiting longer is worth it."""

MAX_REMEMBERED_PODS = 1000
"""Maximum number of pods in each LRU of a CacheLag; the oldest are forgotten first."""


class Decision(Protocol):
    """The decision of a verb."""

    @property
    def contradicts_scheduler(self) -> bool:
        """Return whether kube-scheduler's cache must differ from ours."""

    @property
    def leads_to_preemption(self) -> bool:
        """Return whether the contradiction makes kube-scheduler evict pods next."""


DecisionT = TypeVar("DecisionT", bound=Decision)


class CacheLag:
    """Waits for the watch of all calls of this process. Not thread-safe: used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paused_until = {wait: LRU[str, float](MAX_REMEMBERED_PODS) for wait in (USUAL, BEFORE_PREEMPTION)}
        """Kind of wait -> UID of a pod -> time by the clock."""
        self._all_paused_until = {USUAL: 0.0, BEFORE_PREEMPTION: 0.0}
        self._fitted = LRU[str, None](MAX_REMEMBERED_PODS)
        """UIDs of the pods that were left to kube-scheduler because they fit without an eviction."""

    def trusts_fit(self, uid: str) -> bool:
        """Return whether to leave a pod that fits on a sent node to kube-scheduler: once per pod."""
        # If kube-scheduler sends the pod again, it has a reason that we do not know.
        return uid not in self._fitted

    def note_fit(self, uid: str) -> None:
        """Record that the pod was left to kube-scheduler because it fits."""
        self._fitted.put(uid, None)

    async def decide(
        self, cache: ClusterCache, metrics: Metrics, uid: str, deadline: float, decide: Callable[[], DecisionT]
    ) -> DecisionT:
        """Return the decision for the pod `uid`; repeat it after changes while it contradicts kube-scheduler.

        `deadline`: time by the clock after which the call's decision is too late. Raises what the last decision raises.
        """
        # 1. Nearly every call ends with its first decision.
        started, decision = self._clock(), _decision_or_none(decide)
        if decision is None or decision.contradicts_scheduler:
            # 2. Take the longest kind of wait that is not paused for this pod or for all.
            is_long = decision is not None and decision.leads_to_preemption
            for wait in (BEFORE_PREEMPTION, USUAL) if is_long else (USUAL,):
                if started >= max(self._paused_until[wait].get(uid, 0.0), self._all_paused_until[wait]):
                    ends = min(started + wait.seconds, deadline)
                    decision = await self._decide_again(cache, metrics, uid, wait, ends, decide)
                    break
        # 3. An unknown node raises its error now, as no event has made it known.
        return decide() if decision is None else decision

    async def _decide_again(
        self, cache: ClusterCache, metrics: Metrics, uid: str, wait: Wait, ends: float, decide: Callable[[], DecisionT]
    ) -> DecisionT | None:
        """Decide after each change until the decision no longer needs the wait; None if a node is still unknown."""
        decision: DecisionT | None = None
        for _ in range(wait.decisions - 1):
            change = cache.next_change()
            left = ends - self._clock()
            if left > 0:
                await asyncio.wait([change], timeout=left)
            is_over = not change.done()
            if not is_over and wait.interval:
                await asyncio.sleep(min(wait.interval, max(0.0, ends - self._clock())))
            decision = _decision_or_none(decide)  # even without an event: other calls may have assumed pods
            if decision is not None and not (
                decision.leads_to_preemption if wait is BEFORE_PREEMPTION else decision.contradicts_scheduler
            ):
                metrics.count("watch_waits", "agreed")
                return decision
            if is_over:
                break
        metrics.count("watch_waits", "expired")
        self._paused_until[wait].put(uid, self._clock() + wait.pause)
        self._all_paused_until[wait] = self._clock() + wait.pause_of_all
        return decision


def _decision_or_none(decide: Callable[[], DecisionT]) -> DecisionT | None:
    """Return the decision; None if the request names an unknown node, which an event may be about to add."""
    try:
        return decide()
    except UnknownNode:
        return None
