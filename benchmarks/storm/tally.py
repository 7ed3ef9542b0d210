"""Counters of a storm.

A violation is an eviction of a ready pod that leaves fewer healthy pods than its budget requires, or of an unready
pod while too many are missing already (unless the budget has AlwaysAllow): in the actual state at that instant, once
for each budget. A repeated eviction is one of a workload that lost a pod to an earlier preemption within five minutes.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.storm.truth import Life
from extender.k8s.workloads import Workload

REPEAT_WINDOW_SECONDS = 300.0
"""Seconds after which an eviction of the same workload is not counted as repeated."""


@dataclass(slots=True)
class Tally:
    """Counts of one storm under one policy, so far."""

    violations: int = 0
    announced: int = 0
    """Violations announced in the extender's responses (NumPDBViolations)."""
    evictions: int = 0
    repeated: int = 0
    daemons: int = 0
    """Evictions of DaemonSet pods."""
    attempts: int = 0
    """Number of scheduling attempts of preemptors, whether they fit or not."""
    calls: int = 0
    """Number of calls to /preempt."""
    vetoed: int = 0
    """Number of responses without a candidate."""
    failed: int = 0
    """Number of responses that kube-scheduler rejected because of an unknown victim."""
    bound: dict[str, float] = field(default_factory=dict)
    """Name of a bound preemptor -> seconds from its arrival until it was bound."""
    of_workload: Counter[Workload] = field(default_factory=Counter)
    """Number of evictions by workload."""
    _latest: dict[Workload, float] = field(default_factory=dict)

    def evicted(self, victims: Iterable[Life], now: float) -> None:
        """Count the victims of one preemption."""
        workloads = [victim.template.workload for victim in victims]
        self.evictions += len(workloads)
        self.daemons += sum(kind == "DaemonSet" for _, kind, _ in workloads)
        self.repeated += sum(workload in self.resting(now) for workload in workloads)
        self.of_workload.update(workloads)
        self._latest.update(dict.fromkeys(workloads, now))

    def resting(self, now: float) -> frozenset[Workload]:
        """Return the workloads that lost a pod within the last five minutes."""
        return frozenset(workload for workload, at in self._latest.items() if now - at < REPEAT_WINDOW_SECONDS)
