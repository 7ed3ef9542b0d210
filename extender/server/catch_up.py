"""Wait for the watch where a decision contradicts kube-scheduler: it may have seen an event that is still on its way.

kube-scheduler offers only nodes that passed its own filters, and victims that its cache holds. A decision that says
otherwise is made again after each change of the cluster cache, for at most MAX_WAIT_SECONDS. Where the two schedulers
differ for another reason, waiting is in vain and would slow every call down: after a wait in vain there is none for
PAUSE_SECONDS.

Rule: the last decision stands, whatever it says; nothing is waited for without a live cluster.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from extender.cluster.cache.cache import ClusterCache
from extender.server.observability.metrics import Metrics

MAX_WAIT_SECONDS = 0.05
"""Longest wait of one call."""

PAUSE_SECONDS = 1.0
"""Time after a wait in vain during which no call waits."""

DecisionT = TypeVar("DecisionT")


class CatchUp:
    """Waits of the calls of one process. Used by the event loop's thread only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_wait = 0.0

    async def decide(
        self,
        cache: ClusterCache,
        metrics: Metrics,
        decide: Callable[[], DecisionT],
        contradicts: Callable[[DecisionT], bool],
    ) -> DecisionT:
        """Return the decision, made again after each change as long as it contradicts kube-scheduler."""
        decision, started = decide(), self._clock()
        if not contradicts(decision) or started < self._next_wait:
            return decision
        while contradicts(decision):
            left = started + MAX_WAIT_SECONDS - self._clock()
            changed = cache.next_change()
            if left > 0:
                await asyncio.wait([changed], timeout=left)
            if not changed.done():
                self._next_wait = self._clock() + PAUSE_SECONDS
                metrics.count_watch_wait("expired")
                return decide()  # other calls may have assumed something meanwhile
            decision = decide()
        metrics.count_watch_wait("agreed")
        return decision
