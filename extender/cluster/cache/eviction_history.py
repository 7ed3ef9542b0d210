"""What we let kube-scheduler evict lately, for the limits that look back.

Kept for as long as the profile's limits look back, and no longer. After a restart only those are known again that are
still on their way out; limits then count anew.

Rule: ages are measured by the monotonic clock: setting the clock of the machine changes no limit.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable

from extender.core.eviction_history import Attempt, Eviction, EvictionHistory
from extender.core.preemption.eligibility import is_terminating_by_preemption
from extender.core.profile import Limits
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.time import MINUTE
from extender.k8s.workloads import Workload, workload_of

MAX_REMEMBERED_EVICTIONS = 100_000
"""Evictions, and attempts, that are remembered at all."""


class EvictionLog:
    """Approved evictions and preemptions. Used by the thread that decides."""

    def __init__(
        self, clock: Callable[[], int] = time.monotonic_ns, wall_clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._evictions: deque[tuple[int, Workload]] = deque(maxlen=MAX_REMEMBERED_EVICTIONS)
        self._attempts: deque[tuple[int, str]] = deque(maxlen=MAX_REMEMBERED_EVICTIONS)
        self._begun = False

    def record(self, preemptor: Pod, victims: Iterable[Pod]) -> None:
        """kube-scheduler is told to evict these pods; who is leaving already is not evicted again."""
        now = self._clock()
        evicted = [workload_of(victim) for victim in victims if victim.metadata.deletion_timestamp is None]
        self._evictions.extend((now, workload) for workload in evicted)
        if evicted:
            self._attempts.append((now, preemptor.metadata.uid))

    def record_terminating(self, snapshot: Snapshot) -> None:
        """The first picture after the start: who is on the way out because of a preemption counts as evicted now."""
        if not self._begun:
            self._begun, now = True, self._clock()
            leaving = (pod for _, pod in snapshot.running_pods() if is_terminating_by_preemption(pod))
            self._evictions.extend((now, workload_of(pod)) for pod in leaving)

    def history(self, limits: Limits) -> EvictionHistory:
        """Now, and as much of the past as the limits look at."""
        now = self._clock()
        _forget(self._evictions, now - max(limits.workload_cooldown, MINUTE))
        _forget(self._attempts, now - limits.attempts_within)
        evictions, attempts = _looked_at(limits)
        return EvictionHistory(
            self._wall_clock(),
            tuple(Eviction(now - at, workload) for at, workload in reversed(self._evictions)) if evictions else (),
            tuple(Attempt(now - at, preemptor) for at, preemptor in reversed(self._attempts)) if attempts else (),
        )


def _looked_at(limits: Limits) -> tuple[bool, bool]:
    """Do they look at evictions; at attempts?"""
    per_minute = limits.evictions_per_minute is not None or limits.namespace_evictions_per_minute is not None
    return bool(limits.workload_cooldown) or per_minute, limits.max_attempts is not None


def _forget(entries: "deque[tuple[int, Workload]] | deque[tuple[int, str]]", before: int) -> None:
    while entries and entries[0][0] <= before:
        entries.popleft()
