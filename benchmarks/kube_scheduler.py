"""Figures of kube-scheduler's own Go code, with the calibration loop's time in the same minutes on the same machine.

Kubernetes 1.36.2 built with Go 1.27.3, on one core, medians of CPU time; `upstream/` says how to measure them again.
All but one were measured on the cluster that the benchmarks generate.

Rule: measured figures, no estimates; among several of the same work, the least favourable one for this project.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A piece of work on 5,000 nodes with 300 budgets."""

    work: str
    milliseconds: float
    calibration: float
    """Milliseconds of `benchmarks.calibration` on that machine."""

    def here(self, calibration: float) -> float:
        """Return the milliseconds scaled to this machine, whose calibration loop takes `calibration` milliseconds."""
        return self.milliseconds * calibration / self.calibration


NODES = 5000
"""Size of the clusters that the figures were measured on."""

EXHAUSTIVE = Figure("all nodes and choice", 2850, 1.543)
EXHAUSTIVE_MIXED = Figure("all nodes and choice", 3278, 1.398)
EXHAUSTIVE_DENSE = Figure("all nodes and choice", 11_353, 1.428)
"""110 pods on a node."""

AS_CONFIGURED = Figure("as configured by default, 10 % of the nodes", 181, 1.514)
ANOTHER_CLUSTER = Figure("all nodes, another cluster of this size", 9010, 1.7)
"""A slower cluster: the time depends mostly on the number of budgets in a pod's namespace."""
