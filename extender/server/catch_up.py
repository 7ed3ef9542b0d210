"""Wait for the watch where a decision contradicts kube-scheduler: it may have seen an event that is still on its way.

kube-scheduler offers only nodes that passed its own filters, and victims that its cache holds. A decision that says
otherwise is made again after changes of the cluster cache, at most MAX_DECISIONS times within MAX_WAIT_SECONDS. Where
the two schedulers differ for another reason, no event helps, and waiting would slow the pod down: after a wait that
expired, that pod waits for none for PAUSE_SECONDS.

Rule: the last decision stands, whatever it says.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from extender.cluster.cache.cache import ClusterCache
from extender.errors import UnknownNode
from extender.server.observability.metrics import Metrics

MAX_WAIT_SECONDS = 0.05
"""Longest wait of one call."""

MAX_DECISIONS = 4
"""Decisions of one call, the first included."""

PAUSE_SECONDS = 1.0
"""Time after a wait that expired during which the pod's calls do not wait."""

MAX_REMEMBERED_PODS = 1000
"""Bound on the pods that are remembered, for each reason; the oldest are forgotten first."""


class Decision(Protocol):
    """What a verb decided."""

    @property
    def contradicts_scheduler(self) -> bool:
        """Return whether kube-scheduler's cache must differ from ours."""


DecisionT = TypeVar("DecisionT", bound=Decision)
T = TypeVar("T")


class CatchUp:
    """Waits of the calls of one process. Used by the event loop's thread only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paused_until: dict[str, float] = {}
        """UID of a pod -> time."""
        self._fitted: dict[str, None] = {}
        """UIDs of the pods for which no eviction was needed because they fitted."""

    def trusts_fit(self, uid: str) -> bool:
        """Return whether a pod that fits on a sent node is left to kube-scheduler: once per pod.

        If kube-scheduler sends it again, it has a reason that is not known here.
        """
        return uid not in self._fitted

    def note_fit(self, uid: str) -> None:
        """Remember that the pod was left to kube-scheduler because it fits."""
        _remember(self._fitted, uid, None)

    async def decide(
        self, cache: ClusterCache, metrics: Metrics, uid: str, deadline: float, decide: Callable[[], DecisionT]
    ) -> DecisionT:
        """Return the decision for the pod `uid`, made again as long as it contradicts kube-scheduler.

        `deadline`: time by the clock at which the call's decision is late. Raises what the last decision raises.
        """
        started = self._clock()
        ends = min(started + MAX_WAIT_SECONDS, deadline)
        may_wait = started >= self._paused_until.get(uid, 0.0)
        decision = _decision_or_none(decide)
        if may_wait and (decision is None or decision.contradicts_scheduler):
            decision = await self._decide_again(cache, metrics, uid, ends, decide)
        return decide() if decision is None else decision

    async def _decide_again(
        self, cache: ClusterCache, metrics: Metrics, uid: str, ends: float, decide: Callable[[], DecisionT]
    ) -> DecisionT | None:
        """Decide after changes until the decision agrees with kube-scheduler or the time has passed."""
        decision: DecisionT | None = None
        for _ in range(MAX_DECISIONS - 1):
            change = cache.next_change()
            left = ends - self._clock()
            if left > 0:
                await asyncio.wait([change], timeout=left)
            is_over = not change.done()
            decision = _decision_or_none(decide)  # other calls may have assumed something, even without an event
            if decision is not None and not decision.contradicts_scheduler:
                metrics.count_watch_wait("agreed")
                return decision
            if is_over:
                break
        metrics.count_watch_wait("expired")
        _remember(self._paused_until, uid, self._clock() + PAUSE_SECONDS)
        return decision


def _remember(pods: dict[str, T], uid: str, value: T) -> None:
    """Store the value for a pod as the newest, within MAX_REMEMBERED_PODS."""
    pods.pop(uid, None)
    pods[uid] = value
    if len(pods) > MAX_REMEMBERED_PODS:
        del pods[next(iter(pods))]


def _decision_or_none(decide: Callable[[], DecisionT]) -> DecisionT | None:
    """Return the decision; None if a node of the request is unknown, which an event may change."""
    try:
        return decide()
    except UnknownNode:
        return None
