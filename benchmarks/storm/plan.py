"""The numbers of a storm; times in seconds of simulated time."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Storm:
    """Which cluster, who arrives, and how late everybody hears of everything."""

    seed: int
    nodes: int = 200
    pods: int = 4000
    """Running before the storm, a DaemonSet's pod on every node among them."""
    workloads: int = 400
    budgets: int = 60
    preemptors: int = 500
    arriving: float = 120.0
    """They arrive in bursts until then."""
    lasting: float = 600.0
    status_lag: float = 2.0
    """From a change to when a budget's status is seen that knows of it."""
    watch_lag: float = 0.1
    """Random stream for pods."""

    def chance(self, what: str, number: int = 0) -> random.Random:
        """A source of chance of its own for one thing."""
        return random.Random(f"{self.seed} storm {what} {number}")
