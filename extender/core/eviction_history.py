"""The time of a decision, the evictions approved before it, and recently deleted pods.

Cooldowns, rate limits and minimum runtimes depend on the time and the evictions. Deletions show where kube-scheduler's
cache may be stale.

Rule: plain values; the caller of a decision passes the time, and no decision reads a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from extender.k8s.time import SECOND, format_time
from extender.k8s.workloads import Workload


@dataclass(frozen=True, slots=True)
class Eviction:
    """An approved eviction."""

    ago: int
    """Age in nanoseconds."""
    workload: Workload

    @property
    def namespace(self) -> str:
        return self.workload[0]


@dataclass(frozen=True, slots=True)
class Attempt:
    """An approved preemption with at least one victim."""

    ago: int
    """Age in nanoseconds."""
    preemptor: str
    """UID of the preemptor."""


@dataclass(frozen=True)
class EvictionHistory:
    """Time of a decision and the evictions approved before it; `EvictionHistory()` suffices if no policy reads them."""

    now: int = 0
    """Time of the decision in nanoseconds since 1970."""
    evictions: tuple[Eviction, ...] = ()
    """Approved evictions, newest first, as far back as the profile's limits look."""
    attempts: tuple[Attempt, ...] = ()
    """Approved preemptions, newest first, as far back as the profile's limits look."""
    recent_deletions: Mapping[str, str] = field(default_factory=dict)
    """UID -> node of pods on the nodes of a /preempt request that were recently deleted, began to terminate or
    finished: kube-scheduler's cache may not show it yet."""
    trusts_fit: bool = False
    """Whether no eviction is needed if the pod fits on a sent node where a pod was recently deleted."""

    @cached_property
    def last_evicted(self) -> dict[Workload, int]:
        """Workload -> nanoseconds since its latest eviction."""
        return {eviction.workload: eviction.ago for eviction in reversed(self.evictions)}

    def until(self, wait: int) -> str:
        """Return `until <time>` for reasons: the end of a wait in nanoseconds, rounded up to a full second."""
        ends = -(-(self.now + wait) // SECOND) * SECOND
        return f"until {format_time(ends)}"


NO_HISTORY = EvictionHistory()
"""History for decisions that read no time."""
