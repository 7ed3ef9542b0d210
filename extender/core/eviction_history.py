"""What a decision knows of time: when it is, and what was approved shortly before.

Rule: values only; whoever asks for a decision says when it is asked for.
"""

from dataclasses import dataclass
from functools import cached_property

from extender.k8s.time import SECOND, format_time
from extender.k8s.workloads import Workload


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that a preemption was allowed to evict."""

    ago: int
    """Nanoseconds."""
    workload: Workload

    @property
    def namespace(self) -> str:
        return self.workload[0]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A preemption that was allowed to evict somebody."""

    ago: int
    """Nanoseconds."""
    preemptor: str
    """UID."""


@dataclass(frozen=True)
class EvictionHistory:
    """When a decision is made. `EvictionHistory()` is good for profiles in which no policy looks at the time."""

    now: int = 0
    """Nanoseconds since 1970."""
    evictions: tuple[Eviction, ...] = ()
    """The latest first; as far back as the profile's limits look."""
    attempts: tuple[Attempt, ...] = ()
    """The same."""

    @cached_property
    def last_evicted(self) -> dict[Workload, int]:
        """Workload -> nanoseconds since its last eviction."""
        return {eviction.workload: eviction.ago for eviction in reversed(self.evictions)}

    def until(self, wait: int) -> str:
        """The time after so many nanoseconds, rounded up to a second, as reasons show it."""
        ends = -(-(self.now + wait) // SECOND) * SECOND
        return f"until {format_time(ends)}"


NO_HISTORY = EvictionHistory()
"""Of decisions that do not look at the time."""
