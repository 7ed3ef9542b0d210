"""The numbers of a storm; times in seconds of simulated time."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Storm:
    """Size of the cluster, number of arrivals, and the delays of watches and budget statuses."""

    seed: int
    nodes: int = 200
    pods: int = 4000
    """Pods running before the storm, including a DaemonSet pod on every node."""
    workloads: int = 400
    budgets: int = 60
    preemptors: int = 500
    arriving: float = 120.0
    """Time until which preemptors arrive in bursts."""
    lasting: float = 600.0
    status_lag: float = 2.0
    """Delay from a change until the updated budget status is observed."""
    watch_lag: float = 0.1
    """Delay from a change of a pod until it is observed."""

    def chance(self, what: str, number: int = 0) -> random.Random:
        """Return a random generator for one purpose, seeded by the plan and the purpose."""
        return random.Random(f"{self.seed} storm {what} {number}")
