"""Describe the pods that a scheduling cycle evicts."""

from extender.core.preemption.pdb.index import budgets_counting
from extender.core.scheduling_cycle.schedule_one import Cycle
from extender.core.snapshot.snapshot import Snapshot
from extender.report.simulation_schema import EvictedPod


def evicted_pods(snapshot: Snapshot, cycle: Cycle, empty_selector: str) -> list[EvictedPod]:
    """Describe the victims of a cycle, which are still there."""
    return [
        EvictedPod(
            pod=victim.key,
            uid=victim.metadata.uid,
            priority=victim.priority,
            node=cycle.node or "",
            budgets=budgets_counting(snapshot, victim, empty_selector),
            preemptor=cycle.pod.key,
            terminating=victim.metadata.deletion_timestamp is not None,
        )
        for victim in cycle.victims
    ]
