"""What is counted of a storm.

A violation is an eviction of a ready pod that leaves fewer healthy pods than its budget wants, or of one that is not
ready while too many are missing already (unless the budget says AlwaysAllow): by the truth at that instant, once for
each budget. A repeated eviction is one of a workload that an earlier preemption took a pod of within five minutes.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.storm.truth import Life
from extender.k8s.workloads import Workload

SOON = 300.0
"""Seconds after which an eviction of the same workload is not counted as repeated."""


@dataclass(slots=True)
class Tally:
    """Counts of one storm under one policy, so far."""

    violations: int = 0
    announced: int = 0
    """Violations that the extender's answers spoke of."""
    evictions: int = 0
    repeated: int = 0
    daemons: int = 0
    """Evictions of DaemonSets' pods."""
    attempts: int = 0
    """Number of preemptors, whether they fit or not."""
    asked: int = 0
    """How often the extender was asked whom to evict."""
    refused: int = 0
    """How often it named nobody."""
    failed: int = 0
    """How often kube-scheduler could not do what it said."""
    bound: dict[str, float] = field(default_factory=dict)
    """Name of a preemptor that runs -> seconds from its arrival until then."""
    of_workload: Counter[Workload] = field(default_factory=Counter)
    """Evictions."""
    _latest: dict[Workload, float] = field(default_factory=dict)

    def evicted(self, victims: Iterable[Life], now: float) -> None:
        """By one preemption."""
        workloads = [victim.template.workload for victim in victims]
        self.evictions += len(workloads)
        self.daemons += sum(kind == "DaemonSet" for _, kind, _ in workloads)
        self.repeated += sum(workload in self.resting(now) for workload in workloads)
        self.of_workload.update(workloads)
        self._latest.update(dict.fromkeys(workloads, now))

    def resting(self, now: float) -> frozenset[Workload]:
        """Who lost a pod within the last five minutes."""
        return frozenset(workload for workload, at in self._latest.items() if now - at < SOON)
