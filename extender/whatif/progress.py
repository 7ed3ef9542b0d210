"""How far a simulation has come, for those who wait for it in another process."""

from mmap import mmap

from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import ClusterObjects
from extender.whatif.scenario import Scenario
from extender.whatif.scheduler import Step


class SimulationProgress:
    """Number of the pods that were tried, and of all to try, in memory that forked children share.

    Of one simulation, or two that are compared: a child that is being killed may still count.
    """

    def __init__(self) -> None:
        self._counts = memoryview(mmap(-1, 16)).cast("Q")

    def begin(self, scenario: Scenario, cluster: ClusterObjects | Snapshot, runs: int) -> None:
        """Set the number of pods to try in all runs. How many copies fit until the cluster is full is not known."""
        pods = 0 if scenario.until_full else scenario.arriving_pods(cluster) + scenario.displaced_pods(cluster)
        self._counts[1] = pods * runs

    def count(self, step: Step) -> None:
        """Count a pod at its first attempt; a StepObserver."""
        self._counts[0] += step.attempt == 1

    @property
    def tried(self) -> int:
        """Number of pods that were tried at least once."""
        return self._counts[0]

    @property
    def pods(self) -> int:
        """Number of pods to try, which grows with the replacements of victims; 0 if it is not known."""
        return max(self._counts) if self._counts[1] else 0
