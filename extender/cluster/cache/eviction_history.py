"""Remember recently approved evictions and preemptions, for rate limits, cooldowns and attempt limits.

Entries are kept in memory, for the longest window of the profile's limits. After a restart the log is seeded with the
pods that are still terminating because of a preemption; everything else starts from zero.

Rule: ages are measured with the monotonic clock, so that setting the machine's clock changes no limit.
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

MAX_REMEMBERED_EVICTIONS = 100_000  # Maximum number of evictions and, separately, of attempts


class EvictionLog:
    """Approved evictions and preemption attempts. Used by the event loop's thread only; times in nanoseconds."""

    def __init__(
        self, clock: Callable[[], int] = time.monotonic_ns, wall_clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._evictions: deque[tuple[int, Workload]] = deque(maxlen=MAX_REMEMBERED_EVICTIONS)
        self._attempts: deque[tuple[int, str]] = deque(maxlen=MAX_REMEMBERED_EVICTIONS)
        self._is_seeded = False

    def record(self, preemptor: Pod, victims: Iterable[Pod]) -> None:
        """Record the victims of an approved preemption; pods that are already terminating do not count."""
        now = self._clock()
        evicted = [workload_of(victim) for victim in victims if victim.metadata.deletion_timestamp is None]
        self._evictions.extend((now, workload) for workload in evicted)
        if evicted:
            self._attempts.append((now, preemptor.metadata.uid))

    def record_terminating(self, snapshot: Snapshot) -> None:
        """Seed the log once: pods that are terminating because of a preemption count as evicted now."""
        if not self._is_seeded:
            self._is_seeded, now = True, self._clock()
            terminating = (pod for _, pod in snapshot.running_pods() if is_terminating_by_preemption(pod))
            self._evictions.extend((now, workload_of(pod)) for pod in terminating)

    def history(self, limits: Limits) -> EvictionHistory:
        """Return the wall-clock time and the evictions and attempts that the limits need."""
        now = self._clock()
        _forget(self._evictions, now - max(limits.workload_cooldown, MINUTE))
        _forget(self._attempts, now - limits.attempts_within)
        rates = limits.evictions_per_minute, limits.namespace_evictions_per_minute
        evictions = self._evictions if limits.workload_cooldown or rates != (None, None) else ()
        attempts = self._attempts if limits.max_attempts is not None else ()
        return EvictionHistory(
            self._wall_clock(),
            tuple(Eviction(now - at, workload) for at, workload in reversed(evictions)),
            tuple(Attempt(now - at, preemptor) for at, preemptor in reversed(attempts)),
        )


def _forget(entries: "deque[tuple[int, Workload]] | deque[tuple[int, str]]", before: int) -> None:
    while entries and entries[0][0] <= before:
        entries.popleft()
