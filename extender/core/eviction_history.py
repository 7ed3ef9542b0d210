"""The time of a decision and the evictions approved shortly before, for cooldowns, rate limits and minimum runtimes.

Rule: values only; the caller of a decision passes its time, and no decision reads a clock.
"""

from dataclasses import dataclass
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
    """Time of a decision and the evictions approved before; `EvictionHistory()` suits policies that read no time."""

    now: int = 0
    """Time of the decision in nanoseconds since 1970."""
    evictions: tuple[Eviction, ...] = ()
    """Approved evictions, newest first, as far back as the profile's limits look."""
    attempts: tuple[Attempt, ...] = ()
    """Approved preemptions, newest first, as far back as the profile's limits look."""

    @cached_property
    def last_evicted(self) -> dict[Workload, int]:
        """Workload -> nanoseconds since its latest eviction."""
        return {eviction.workload: eviction.ago for eviction in reversed(self.evictions)}

    def until(self, wait: int) -> str:
        """Return `until <time>` for the end of a wait in nanoseconds, rounded up to a second, as reasons show it."""
        ends = -(-(self.now + wait) // SECOND) * SECOND
        return f"until {format_time(ends)}"


NO_HISTORY = EvictionHistory()
"""History for decisions that read no time."""
